"""Table entries and direct counters (specification sections "TableEntry", "DirectCounterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from switch.engine.control import (
    ActionCall,
    CounterCell,
    Group,
    Key,
    Member,
    NotFound,
    OneShot,
    TableEntry,
    Target,
)
from switch.p4runtime.device import Device, EntryId, Opaque
from switch.p4runtime.keys import (
    check_scope,
    decode_action,
    decode_keys,
    encode_action,
    encode_keys,
)
from switch.p4runtime.p4info import Table
from switch.p4runtime.profiles import check_weights
from switch.p4runtime.refusals import denied, invalid, unimplemented

INSERT = p4runtime_pb2.Update.INSERT
MODIFY = p4runtime_pb2.Update.MODIFY
DELETE = p4runtime_pb2.Update.DELETE


def write_table_entry(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete an entry, or modify the default entry."""
    table = device.info.table(message.table_id)
    if message.is_const:
        raise invalid(f"table {table.name}: is_const is the server's to set, not the client's")
    if kind != DELETE:
        _check_resources(table, message)
    if message.is_default_action:
        _write_default(device, table, kind, message)
        return
    if table.is_const and (kind != MODIFY or message.HasField("action")):
        raise denied(f"table {table.name} has const entries")
    if not table.fields:
        raise invalid(f"table {table.name} has no key: it has a default entry only")
    keys, priority = _identity(table, message)
    entry_id = (table.name, keys, priority)
    if kind == DELETE:
        device.control.delete_entry(*entry_id)
        _forget(device, entry_id)
        return
    if message.HasField("action"):
        target = _decode_target(device, table, message.action)
        entry = TableEntry(table.name, keys, target, priority)
        if kind == INSERT:
            device.control.insert_entry(entry)
        else:
            device.control.modify_entry(entry)
        _forget(device, entry_id)
        if isinstance(target, OneShot):
            profile = device.info.profile(table.profile_id)
            device.notes.one_shots.setdefault(profile.name, set()).add(entry_id)
    elif kind == INSERT:
        raise invalid(f"table {table.name}: an entry to insert needs an action")
    else:
        device.control.find_entry(*entry_id)
    if message.controller_metadata or message.metadata:
        opaque = Opaque(message.controller_metadata, message.metadata)
        device.notes.entries[entry_id] = opaque
    else:
        device.notes.entries.pop(entry_id, None)
    if message.HasField("counter_data"):
        device.control.write_direct_counter(*entry_id, _cell(message.counter_data))


def _forget(device: Device, entry_id: EntryId) -> None:
    device.notes.entries.pop(entry_id, None)
    for one_shots in device.notes.one_shots.values():
        one_shots.discard(entry_id)


def _identity(table: Table, message: Any) -> tuple[tuple[Key, ...], int]:
    keys = decode_keys(table, message.match)
    if table.by_priority and message.priority <= 0:
        raise invalid(
            f"table {table.name}: priority {message.priority}; a table with ternary, range or "
            "optional fields needs priorities above 0"
        )
    if not table.by_priority and message.priority:
        raise invalid(
            f"table {table.name}: priority {message.priority}; only tables with ternary, range or "
            "optional fields have priorities"
        )
    return keys, message.priority


def _check_resources(table: Table, message: Any) -> None:
    if message.HasField("counter_data") and not table.direct_counter_id:
        raise invalid(f"table {table.name} has no direct counter")
    for field in ("meter_config", "meter_counter_data"):
        if message.HasField(field):
            if not table.direct_meter:
                raise invalid(f"table {table.name} has no direct meter")
            raise unimplemented(f"table {table.name}: direct meters are not supported")
    if message.idle_timeout_ns:
        if not table.ages:
            raise invalid(f"table {table.name} was not declared with support_timeout")
        raise unimplemented(f"table {table.name}: idle timeouts are not supported")


def _write_default(device: Device, table: Table, kind: int, message: Any) -> None:
    if kind != MODIFY:
        raise invalid(f"table {table.name}: the default entry can only be modified")
    if message.match or message.priority:
        raise invalid(f"table {table.name}: the default entry has neither match nor priority")
    if table.const_default:
        raise denied(f"table {table.name} has a const default action")
    if table.profile_id:
        raise denied(f"table {table.name}: the default of a table with action profile is NoAction")
    if message.HasField("counter_data"):
        raise unimplemented(f"table {table.name}: the default entry's counter cannot be written")
    entry_id: EntryId = (table.name, None, 0)
    device.notes.entries.pop(entry_id, None)
    if not message.HasField("action"):
        device.control.reset_default(table.name)
        return
    if message.action.WhichOneof("type") != "action":
        raise invalid(f"table {table.name}: the default entry takes an action, nothing else")
    check_scope(table, device.info, message.action.action.action_id, default=True)
    device.control.set_default(table.name, decode_action(device.info, message.action.action))
    if message.controller_metadata or message.metadata:
        device.notes.entries[entry_id] = Opaque(message.controller_metadata, message.metadata)


def _decode_target(device: Device, table: Table, message: Any) -> Target:
    info = device.info
    kind = message.WhichOneof("type")
    if not table.profile_id:
        if kind != "action":
            raise invalid(f"table {table.name} has no action profile: it takes actions")
        check_scope(table, info, message.action.action_id, default=False)
        return decode_action(info, message.action)
    profile = info.profile(table.profile_id)
    if kind == "action_profile_member_id":
        target: Target = Member(message.action_profile_member_id)
    elif kind == "action_profile_group_id" and profile.selector:
        target = Group(message.action_profile_group_id)
    elif kind == "action_profile_action_set" and profile.selector:
        return _decode_one_shot(device, table, message.action_profile_action_set)
    else:
        allowed = "a member, a group or an action set" if profile.selector else "a member"
        raise invalid(f"table {table.name} of action profile {profile.name} takes {allowed}")
    if device.notes.one_shots.get(profile.name):
        raise invalid(
            f"table {table.name}: action selector {profile.name} is programmed with one-shot "
            "action sets; members and groups cannot be mixed with them"
        )
    return target


def _decode_one_shot(device: Device, table: Table, message: Any) -> OneShot:
    info = device.info
    profile = info.profile(table.profile_id)
    if device.control.members(profile.name):
        raise invalid(
            f"table {table.name}: action selector {profile.name} is programmed with members and "
            "groups; one-shot action sets cannot be mixed with them"
        )
    calls = []
    for one in message.action_profile_actions:
        check_scope(table, info, one.action.action_id, default=False)
        calls.append((decode_action(info, one.action), one.weight))
    what = f"table {table.name}, one-shot action set"
    check_weights(what, message.action_profile_actions, profile.max_group_size)
    return OneShot(tuple(calls))


# -- reading -------------------------------------------------------------------------------------


def read_table_entries(device: Device, query: Any) -> Iterator[Any]:
    """Entities that a ``TableEntry`` query selects; a default-valued field selects everything."""
    tables = [device.info.table(query.table_id)] if query.table_id else device.info.tables.values()
    for table in tables:
        found: list[tuple[tuple[Key, ...] | None, int, Target | None]]
        if query.is_default_action:
            found = [(None, 0, device.control.default(table.name))]
        else:
            found = [(e.keys, e.priority, e.target) for e in select(device, table, query)]
        for keys, priority, target in found:
            opaque = device.notes.entries.get((table.name, keys, priority), Opaque())
            if query.controller_metadata not in (0, opaque.controller_metadata):
                continue
            if query.metadata not in (b"", opaque.metadata):
                continue
            entity = p4runtime_pb2.Entity()
            message = entity.table_entry
            message.table_id = table.id
            _encode_target(device, target, message)
            if not _has_action(query, message):
                continue
            if keys is None:
                message.is_default_action = True
                message.is_const = table.const_default
            else:
                encode_keys(table, keys, message.match)
                message.priority = priority
                message.is_const = table.is_const
            message.controller_metadata = opaque.controller_metadata
            message.metadata = opaque.metadata
            if query.HasField("counter_data") and table.direct_counter_id:
                _fill(message.counter_data, _read_cell(device, table, keys, priority))
            yield entity


def _has_action(query: Any, message: Any) -> bool:
    wanted = query.action.action.action_id
    return not wanted or bool(message.action.action.action_id == wanted)


def select(device: Device, table: Table, query: Any) -> list[TableEntry]:
    """The entries of a table that match a query's key and priority, where it has them."""
    if query.match and (query.priority or not table.by_priority):
        keys, priority = _identity(table, query)
        try:
            return [device.control.find_entry(table.name, keys, priority)]
        except NotFound:
            return []
    wanted = decode_keys(table, query.match) if query.match else None
    return [
        entry
        for entry in device.control.entries(table.name)
        if wanted in (None, entry.keys) and query.priority in (0, entry.priority)
    ]


def _encode_target(device: Device, target: Target | None, message: Any) -> None:
    actions = device.info.actions_by_name
    if target is None:
        target = ActionCall("NoAction")
    if isinstance(target, ActionCall):
        if target.action in actions:
            encode_action(actions, target, message.action.action)
    elif isinstance(target, Member):
        message.action.action_profile_member_id = target.member_id
    elif isinstance(target, Group):
        message.action.action_profile_group_id = target.group_id
    else:
        for call, weight in target.actions:
            one = message.action.action_profile_action_set.action_profile_actions.add()
            encode_action(actions, call, one.action)
            one.weight = weight


# -- direct counters -----------------------------------------------------------------------------


def write_direct_counter(device: Device, kind: int, message: Any) -> None:
    """Set the counter of one entry; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a direct counter can only be modified: it comes and goes with its entry")
    table = _counted_table(device, message.table_entry)
    if message.table_entry.is_default_action:
        raise unimplemented(f"table {table.name}: the default entry's counter cannot be written")
    keys, priority = _identity(table, message.table_entry)
    device.control.find_entry(table.name, keys, priority)
    if message.HasField("data"):
        device.control.write_direct_counter(table.name, keys, priority, _cell(message.data))


def read_direct_counters(device: Device, query: Any) -> Iterator[Any]:
    """Counters of one entry, of a table's entries, or of all entries of all tables."""
    entry = query.table_entry
    if not entry.table_id:
        counted = [table for table in device.info.tables.values() if table.direct_counter_id]
    else:
        counted = [_counted_table(device, entry)]
    for table in counted:
        if entry.is_default_action:
            identities: list[tuple[tuple[Key, ...] | None, int]] = [(None, 0)]
        else:
            found = select(device, table, entry)
            if entry.match and not found:
                raise NotFound(f"table {table.name} has no entry with this match and priority")
            identities = [(one.keys, one.priority) for one in found]
        for keys, priority in identities:
            entity = p4runtime_pb2.Entity()
            message = entity.direct_counter_entry
            message.table_entry.table_id = table.id
            message.table_entry.priority = priority
            if keys is None:
                message.table_entry.is_default_action = True
            else:
                encode_keys(table, keys, message.table_entry.match)
            _fill(message.data, _read_cell(device, table, keys, priority))
            yield entity


def _counted_table(device: Device, entry: Any) -> Table:
    table = device.info.table(entry.table_id)
    if not table.direct_counter_id:
        raise invalid(f"table {table.name} has no direct counter")
    return table


def _read_cell(
    device: Device, table: Table, keys: tuple[Key, ...] | None, priority: int
) -> CounterCell:
    if keys is None:
        return device.control.read_default_counter(table.name)
    return device.control.read_direct_counter(table.name, keys, priority)


def _cell(data: Any) -> CounterCell:
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid("a counter cannot be set below 0")
    return CounterCell(data.packet_count, data.byte_count)


def _fill(data: Any, cell: CounterCell) -> None:
    data.SetInParent()
    data.packet_count = cell.packets
    data.byte_count = cell.bytes
