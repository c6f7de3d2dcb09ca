"""Table entries (specification section "TableEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from weft.switch.engine.control import (
    ActionCall,
    CounterCell,
    Group,
    Key,
    Member,
    MeterConfig,
    NotFound,
    OneShot,
    TableEntry,
    Target,
)
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.arrays import decode_cell, fill_cell
from weft.switch.p4runtime.device import Device, EntryId, Notes, Opaque
from weft.switch.p4runtime.keys import (
    check_scope,
    decode_action,
    decode_keys,
    encode_action,
    encode_keys,
)
from weft.switch.p4runtime.meters import (
    UNUSED,
    check_reset,
    decode_config,
    encode_config,
    fill_counts,
)
from weft.switch.p4runtime.p4info_objects import Table
from weft.switch.p4runtime.profiles import check_one_shot, decode_watch
from weft.switch.p4runtime.refusals import denied, invalid

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
    keys, priority = identity(table, message)
    entry_id = (table.name, keys, priority)
    if kind == DELETE:
        if device.atomic:
            _keep_resources(device, table, entry_id)
        device.control.delete_entry(*entry_id)
        _forget(device, entry_id)
    else:
        _put(device, table, kind, entry_id, message)


def _put(device: Device, table: Table, kind: int, entry_id: EntryId, message: Any) -> None:
    """Insert or modify an entry with all that comes with it; what is wrong changes nothing."""
    name, keys, priority = entry_id
    assert keys is not None
    resources = _resources(table, message)
    idle_ns = message.idle_timeout_ns
    if message.HasField("action"):
        target = _decode_target(device, table, message.action)
        entry = TableEntry(name, keys, target, priority, idle_ns)
        if kind == INSERT:
            device.control.insert_entry(entry)
        else:
            device.control.modify_entry(entry)
        _forget(device, entry_id)
        if isinstance(target, OneShot):
            one_shots = device.notes.one_shots.setdefault(_profile_name(device, table), {})
            one_shots[entry_id] = message.action.action_profile_action_set
    elif kind == INSERT:
        raise invalid(f"table {table.name}: an entry to insert needs an action")
    elif idle_ns and device.control.is_const(name, keys, priority):
        raise invalid(f"table {table.name}: a const entry has no idle timeout")
    else:
        entry = device.control.find_entry(name, keys, priority)
        if entry.idle_timeout_ns != idle_ns:
            device.control.modify_entry(replace(entry, idle_timeout_ns=idle_ns))
    if message.controller_metadata or message.metadata:
        opaque = Opaque(message.controller_metadata, message.metadata)
        device.notes.entries[entry_id] = opaque
    else:
        device.notes.entries.pop(entry_id, None)
    _write_resources(device, table, entry_id, resources, fresh=kind == INSERT)


def _forget(device: Device, entry_id: EntryId) -> None:
    device.notes.entries.pop(entry_id, None)
    for one_shots in device.notes.one_shots.values():
        one_shots.pop(entry_id, None)


def _profile_name(device: Device, table: Table) -> str:
    return device.info.profile(table.profile_id).name


def identity(table: Table, message: Any) -> tuple[tuple[Key, ...], int]:
    """Key and priority of an entry; raises Refusal."""
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
        if message.HasField(field) and table.direct_meter is None:
            raise invalid(f"table {table.name} has no direct meter")
    if message.HasField("time_since_last_hit"):
        raise invalid(f"table {table.name}: time_since_last_hit can be read, not written")
    if message.idle_timeout_ns:
        if not table.ages:
            raise invalid(f"table {table.name} was not declared with support_timeout")
        if message.idle_timeout_ns < 0:
            raise invalid(f"table {table.name}: idle_timeout_ns {message.idle_timeout_ns}")
        if message.is_default_action or table.is_const:
            what = "the default entry" if message.is_default_action else "a const entry"
            raise invalid(f"table {table.name}: {what} has no idle timeout")


Resources = tuple[CounterCell | None, MeterConfig | None, bool]


def _resources(table: Table, message: Any) -> Resources:
    """What a message sets an entry's direct counter and meter to, and whether it sets the meter's
    counters back to 0."""
    cell = None
    if message.HasField("counter_data"):
        cell = decode_cell(f"table {table.name}", message.counter_data)
    config, reset = None, False
    if table.direct_meter is not None:
        reset = check_reset(table.direct_meter, message, "meter_counter_data")
        if message.HasField("meter_config"):
            config = decode_config(table.direct_meter, message.meter_config)
    return cell, config, reset


def _write_resources(
    device: Device, table: Table, entry_id: EntryId, resources: Resources, *, fresh: bool
) -> None:
    cell, config, reset = resources
    if cell is not None:
        write_cell(device, entry_id, cell)
    if table.direct_meter is None:
        return
    control = device.control
    if not (fresh and config is None):
        device.live(lambda: control.write_direct_meter(*entry_id, config))
    if reset and not fresh:
        device.live(lambda: control.write_direct_meter_counts(*entry_id, UNUSED))


def _keep_resources(device: Device, table: Table, entry_id: EntryId) -> None:
    """See to it that an entry has its counter and meter again if its batch is undone."""
    control = device.control
    name, keys, priority = entry_id
    assert keys is not None
    found = keys
    control.find_entry(name, found, priority)
    if table.direct_counter_id:
        cell = control.read_direct_counter(name, found, priority)
        device.on_failure(lambda: control.write_direct_counter(name, found, priority, cell))
    if table.direct_meter is not None:
        config = control.read_direct_meter(name, found, priority)
        counts = control.read_direct_meter_counts(name, found, priority)
        device.on_failure(lambda: control.write_direct_meter(name, found, priority, config))
        device.on_failure(lambda: control.write_direct_meter_counts(name, found, priority, counts))


def write_cell(device: Device, entry_id: EntryId, cell: CounterCell) -> None:
    """Set the direct counter of an entry or of the default entry."""
    name, keys, priority = entry_id
    control = device.control
    if keys is None:
        device.live(lambda: control.write_default_counter(name, cell))
    else:
        found = keys
        device.live(lambda: control.write_direct_counter(name, found, priority, cell))


def read_cell(device: Device, entry_id: EntryId) -> CounterCell:
    """The direct counter of an entry or of the default entry."""
    name, keys, priority = entry_id
    if keys is None:
        return device.control.read_default_counter(name)
    return device.control.read_direct_counter(name, keys, priority)


def _write_default(device: Device, table: Table, kind: int, message: Any) -> None:
    if kind != MODIFY:
        raise invalid(f"table {table.name}: the default entry can only be modified")
    check_default(table, message)
    if table.const_default:
        raise denied(f"table {table.name} has a const default action")
    if table.profile_id:
        raise denied(f"table {table.name}: the default of a table with action profile is NoAction")
    entry_id: EntryId = (table.name, None, 0)
    if not message.HasField("action"):
        device.control.reset_default(table.name)
        device.notes.entries.pop(entry_id, None)
        cell = CounterCell(0, 0) if table.direct_counter_id else None
        _write_resources(device, table, entry_id, (cell, None, True), fresh=False)
        return
    if message.action.WhichOneof("type") != "action":
        raise invalid(f"table {table.name}: the default entry takes an action, nothing else")
    check_scope(table, device.info, message.action.action.action_id, default=True)
    resources = _resources(table, message)
    device.control.set_default(table.name, decode_action(device.info, message.action.action))
    device.notes.entries.pop(entry_id, None)
    if message.controller_metadata or message.metadata:
        device.notes.entries[entry_id] = Opaque(message.controller_metadata, message.metadata)
    _write_resources(device, table, entry_id, resources, fresh=False)


def check_default(table: Table, message: Any) -> None:
    """Raise INVALID_ARGUMENT if something that means the default entry has a key."""
    if message.match or message.priority:
        raise invalid(f"table {table.name}: the default entry has neither match nor priority")


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
    what = f"table {table.name}, one-shot action set"
    calls = []
    for one in message.action_profile_actions:
        check_scope(table, info, one.action.action_id, default=False)
        calls.append((decode_action(info, one.action), one.weight))
    check_one_shot(what, message.action_profile_actions, profile)
    return OneShot(tuple(calls), decode_watch(device, what, message.action_profile_actions))


# -- reading -------------------------------------------------------------------------------------


def read_table_entries(device: Device, query: Any) -> Iterator[Any]:
    """Entities that a ``TableEntry`` query selects; a default-valued field selects everything."""
    if not query.table_id and query.match:
        raise invalid("a query of all tables (table_id 0) has no match")
    tables = [device.info.table(query.table_id)] if query.table_id else device.info.tables.values()
    for table in tables:
        _check_query(table, query)
        if query.is_default_action:
            check_default(table, query)
            entity = _default_entity(device, table, query)
            if _selected(query, entity.table_entry):
                yield entity
            continue
        for entry in select(device, table, query):
            entity = _entity(device, table, entry, query)
            if _selected(query, entity.table_entry):
                yield entity


def _check_query(table: Table, query: Any) -> None:
    if query.HasField("time_since_last_hit"):
        if query.is_default_action:
            raise invalid(f"table {table.name}: the default entry does not age")
        if query.table_id and not table.ages:
            raise invalid(f"table {table.name} was not declared with support_timeout")


def _default_entity(device: Device, table: Table, query: Any) -> Any:
    entity = p4runtime_pb2.Entity()
    message = entity.table_entry
    message.table_id = table.id
    message.is_default_action = True
    message.is_const = table.const_default
    call = device.control.default(table.name) or ActionCall("NoAction")
    if call.action in device.info.actions_by_name:
        encode_action(device.info.actions_by_name, call, message.action.action)
    _attach(device, table, (table.name, None, 0), query, message)
    return entity


def _entity(device: Device, table: Table, entry: TableEntry, query: Any) -> Any:
    entity = p4runtime_pb2.Entity()
    message = entity.table_entry
    entry_id: EntryId = (table.name, entry.keys, entry.priority)
    fill_identity(table, entry.keys, entry.priority, message)
    _encode_target(device, table, entry_id, entry.target, message.action)
    message.is_const = device.control.is_const(table.name, entry.keys, entry.priority)
    message.idle_timeout_ns = entry.idle_timeout_ns
    if query.HasField("time_since_last_hit") and table.ages:
        message.time_since_last_hit.SetInParent()
        idle_ns = device.control.idle_ns(table.name, entry.keys, entry.priority)
        message.time_since_last_hit.elapsed_ns = max(idle_ns, 0)
    _attach(device, table, entry_id, query, message)
    return entity


def fill_identity(table: Table, keys: tuple[Key, ...] | None, priority: int, message: Any) -> None:
    """Set what tells an entry from others: table, match and priority, or that it is the default."""
    message.table_id = table.id
    if keys is None:
        message.is_default_action = True
    else:
        encode_keys(table, keys, message.match)
        message.priority = priority


def _attach(device: Device, table: Table, entry_id: EntryId, query: Any, message: Any) -> None:
    """Metadata, and of the direct resources what a query asks for."""
    fill_opaque(device.notes, entry_id, message)
    if query.HasField("counter_data") and table.direct_counter_id:
        fill_cell(message.counter_data, read_cell(device, entry_id))
    if query.HasField("meter_config") and table.direct_meter is not None:
        config = device.control.read_direct_meter(*entry_id)
        if config is not None:
            encode_config(table.direct_meter, config, message.meter_config)
    if query.HasField("meter_counter_data") and table.direct_meter is not None:
        counts = device.control.read_direct_meter_counts(*entry_id)
        fill_counts(message.meter_counter_data, counts)


def fill_opaque(notes: Notes, entry_id: EntryId, message: Any) -> None:
    """Set the metadata that a client attached to an entry."""
    opaque = notes.entries.get(entry_id, Opaque())
    message.controller_metadata = opaque.controller_metadata
    message.metadata = opaque.metadata


def _selected(query: Any, message: Any) -> bool:
    """Whether an entry passes the filters that are no part of its key."""
    action_id = query.action.action.action_id
    return (
        query.controller_metadata in (0, message.controller_metadata)
        and query.metadata in (b"", message.metadata)
        and action_id in (0, message.action.action.action_id)
    )


def select(device: Device, table: Table, query: Any) -> list[TableEntry]:
    """The entries of a table that match a query's key and priority, where it has them."""
    if query.match and (query.priority or not table.by_priority):
        keys, priority = identity(table, query)
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


def _encode_target(
    device: Device, table: Table, entry_id: EntryId, target: Target, message: Any
) -> None:
    actions = device.info.actions_by_name
    if isinstance(target, ActionCall):
        if target.action in actions:
            encode_action(actions, target, message.action)
    elif isinstance(target, Member):
        message.action_profile_member_id = target.member_id
    elif isinstance(target, Group):
        message.action_profile_group_id = target.group_id
    else:
        written = device.notes.one_shots.get(_profile_name(device, table), {}).get(entry_id)
        message.action_profile_action_set.SetInParent()
        for position, (call, weight) in enumerate(target.actions):
            one = message.action_profile_action_set.action_profile_actions.add()
            encode_action(actions, call, one.action)
            one.weight = weight
            if written is not None:
                original = written.action_profile_actions[position]
                kind = original.WhichOneof("watch_kind")
                if kind is not None:
                    setattr(one, kind, getattr(original, kind))
