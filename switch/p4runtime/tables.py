"""Table entries with their direct counters and meters.

P4Runtime specification, sections "TableEntry", "DirectCounterEntry" and "DirectMeterEntry".
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from weft.base.errors import refuse
from weft.switch.engine.control.entities import (
    ActionCall,
    CounterCell,
    GroupTarget,
    Key,
    MemberTarget,
    MeterConfig,
    OneShot,
    TableEntry,
    Target,
)
from weft.switch.engine.control.errors import NotFound
from weft.switch.messages import DELETE, INSERT, MODIFY, p4runtime_pb2
from weft.switch.p4runtime.arrays import (
    UNUSED,
    check_reset,
    decode_cell,
    decode_config,
    encode_cell,
    encode_config,
    encode_counts,
)
from weft.switch.p4runtime.device import Device, EntryId, Notes, Opaque
from weft.switch.p4runtime.groups import check_one_shot, copy_watch, decode_watch, refuse_mixing
from weft.switch.p4runtime.keys import (
    check_scope,
    decode_action,
    decode_keys,
    encode_action,
    encode_keys,
)
from weft.switch.p4runtime.p4info_objects import ProfileInfo, TableInfo
from weft.switch.p4runtime.reconcile import restored
from weft.switch.p4runtime.refusals import denied, invalid

EntryIdentity = tuple[str, tuple[Key, ...], int]
"""The table, key and priority of an entry other than the default entry."""


def write_table_entry(device: Device, kind: int, message: Any) -> None:
    """Insert, modify or delete an entry, or modify the default entry."""
    table = device.info.tables.find(message.table_id)
    if message.is_const:
        raise invalid(f"{table.label}: is_const is the server's to set, not the client's")
    if kind != DELETE:
        check_resources(table, message)
    if message.is_default_action:
        _write_default(device, table, kind, message)
        return
    check_insertable(table, message, kind)
    entry_id = identity_of(table, message)
    if kind == DELETE:
        if device.atomic:
            device.control.find_entry(*entry_id)
            device.on_failure(restored(device.control, table, entry_id))
        device.control.delete_entry(*entry_id)
        device.forget(entry_id)
    else:
        _put(device, table, kind, entry_id, message)


def check_insertable(table: TableInfo, message: Any, kind: int) -> None:
    """Raise Refusal for a table whose entries are not a client's."""
    if table.is_const and (kind != MODIFY or message.HasField("action")):
        raise denied(f"{table.label} has const entries")
    if not table.fields:
        raise invalid(f"{table.label} has no key: it has a default entry only")


def _put(
    device: Device, table: TableInfo, kind: int, entry_id: EntryIdentity, message: Any
) -> None:
    """Insert or modify an entry with all that comes with it; a wrong message changes nothing."""
    control = device.control
    name, keys, priority = entry_id
    resources = _resources(table, message)
    idle_ns = message.idle_timeout_ns
    if message.HasField("action"):
        target = decode_target(device, table, message.action)
        entry = TableEntry(name, keys, target, priority, idle_ns)
        (control.insert_entry if kind == INSERT else control.modify_entry)(entry)
        device.forget(entry_id)
        if isinstance(target, OneShot):
            one_shots = device.notes.one_shots.setdefault(_profile_name(device, table), {})
            one_shots[entry_id] = deepcopy(message.action.action_profile_action_set)
    elif kind == INSERT:
        raise invalid(f"{table.label}: an entry to insert needs an action")
    elif idle_ns and control.is_const(*entry_id):
        raise invalid(f"{table.label}: a const entry has no idle timeout")
    else:
        entry = control.find_entry(*entry_id)
        if entry.idle_timeout_ns != idle_ns:
            control.modify_entry(replace(entry, idle_timeout_ns=idle_ns))
    _note_opaque(device, entry_id, message)
    _write_resources(device, table, entry_id, resources, fresh=kind == INSERT)


def _note_opaque(device: Device, entry_id: EntryId, message: Any) -> None:
    """Keep what a client attaches to an entry, in place of what was attached to it before."""
    device.notes.entries.pop(entry_id, None)
    if message.controller_metadata or message.metadata:
        device.notes.entries[entry_id] = Opaque(message.controller_metadata, message.metadata)


def _profile_name(device: Device, table: TableInfo) -> str:
    return device.info.profiles.find(table.profile_id).name


def identity_of(table: TableInfo, message: Any) -> EntryIdentity:
    """Return the table, key and priority of the entry that a message means; raises Refusal."""
    keys = decode_keys(table, message.match)
    if table.by_priority and message.priority <= 0:
        raise invalid(
            f"{table.label}: priority {message.priority}; a table with ternary, range or "
            "optional fields needs priorities above 0"
        )
    if not table.by_priority and message.priority:
        raise invalid(
            f"{table.label}: priority {message.priority}; only tables with ternary, range or "
            "optional fields have priorities"
        )
    return table.name, keys, message.priority


def check_resources(table: TableInfo, message: Any) -> None:
    """Raise Refusal for what a message says of counters, meters or times that the table has not."""
    if message.HasField("counter_data"):
        table.check_has("counter")
    if message.HasField("meter_config") or message.HasField("meter_counter_data"):
        table.check_has("meter")
    if message.HasField("time_since_last_hit"):
        raise invalid(f"{table.label}: time_since_last_hit can be read, not written")
    if message.idle_timeout_ns:
        if not table.ages:
            raise invalid(f"{table.label} was not declared with support_timeout")
        if message.idle_timeout_ns < 0:
            raise invalid(f"{table.label}: idle_timeout_ns {message.idle_timeout_ns}")
        if message.is_default_action or table.is_const:
            what = "the default entry" if message.is_default_action else "a const entry"
            raise invalid(f"{table.label}: {what} has no idle timeout")


ResourceValues = tuple[CounterCell | None, MeterConfig | None, bool]


def _resources(table: TableInfo, message: Any) -> ResourceValues:
    """Return what a message sets an entry's direct counter and meter to, and whether it sets the
    meter's counters back to 0."""
    cell = decode_cell(table.label, message, "counter_data")
    meter = table.direct_meter
    if meter is None:
        return cell, None, False
    reset = check_reset(meter, message, "meter_counter_data")
    return cell, decode_config(meter, message, "meter_config"), reset


def _write_resources(
    device: Device, table: TableInfo, entry_id: EntryId, resources: ResourceValues, *, fresh: bool
) -> None:
    cell, config, reset = resources
    if cell is not None:
        device.live(partial(device.control.values.write_direct_counter, *entry_id, cell))
    if table.direct_meter is not None and not (fresh and config is None):
        _write_meter(device, entry_id, config, reset=reset and not fresh)


def _write_meter(
    device: Device, entry_id: EntryId, config: MeterConfig | None, *, reset: bool
) -> None:
    """Set the direct meter of an entry, and with ``reset`` set its counters back to 0."""
    control = device.control
    device.live(partial(control.values.write_direct_meter, *entry_id, config))
    if reset:
        device.live(partial(control.values.write_direct_meter_counts, *entry_id, UNUSED))


def _write_default(device: Device, table: TableInfo, kind: int, message: Any) -> None:
    refuse(kind != MODIFY, f"{table.label}: the default entry can only be modified", invalid)
    entry_id = _default_id(table, message)
    refuse(table.const_default, f"{table.label} has a const default action", denied)
    refuse(
        table.profile_id,
        f"{table.label}: the default entry of a table with an action profile is the program's",
        denied,
    )
    if not message.HasField("action"):
        device.control.reset_default(table.name)
        device.notes.entries.pop(entry_id, None)
        cell = CounterCell(0, 0) if table.direct_counter else None
        _write_resources(device, table, entry_id, (cell, None, True), fresh=False)
        return
    refuse(
        message.action.WhichOneof("type") != "action",
        f"{table.label}: the default entry takes an action, nothing else",
        invalid,
    )
    check_scope(table, device.info, message.action.action.action_id, default=True)
    resources = _resources(table, message)
    device.control.set_default(table.name, decode_action(device.info, message.action.action))
    _note_opaque(device, entry_id, message)
    _write_resources(device, table, entry_id, resources, fresh=False)


def _default_id(table: TableInfo, message: Any) -> EntryId:
    """Return what identifies the default entry, which a message means.

    Raises INVALID_ARGUMENT if the message has a key all the same.
    """
    refuse(
        message.match or message.priority,
        f"{table.label}: the default entry has neither match nor priority",
        invalid,
    )
    return table.name, None, 0


def decode_target(device: Device, table: TableInfo, message: Any) -> Target:
    """Return what a ``TableAction`` leads to; raises Refusal."""
    info = device.info
    kind = message.WhichOneof("type")
    if not table.profile_id:
        if kind != "action":
            raise invalid(f"{table.label} has no action profile: it takes actions")
        check_scope(table, info, message.action.action_id, default=False)
        return decode_action(info, message.action)
    profile = info.profiles.find(table.profile_id)
    target: Target
    match kind:
        case "action_profile_member_id":
            target = MemberTarget(message.action_profile_member_id)
        case "action_profile_group_id" if profile.selector:
            target = GroupTarget(message.action_profile_group_id)
        case "action_profile_action_set" if profile.selector:
            return _decode_one_shot(device, table, profile, message.action_profile_action_set)
        case _:
            allowed = "a member, a group or an action set" if profile.selector else "a member"
            raise invalid(f"{table.label} of action profile {profile.name} takes {allowed}")
    refuse_mixing(device, profile, f"{table.label}: ")
    return target


def _decode_one_shot(
    device: Device, table: TableInfo, profile: ProfileInfo, message: Any
) -> OneShot:
    info = device.info
    refuse(
        device.control.members(profile.name),
        f"{table.label}: action selector {profile.name} is programmed with members and "
        "groups; one-shot action sets cannot be mixed with them",
        invalid,
    )
    what = f"{table.label}, one-shot action set"
    calls = []
    for one in message.action_profile_actions:
        check_scope(table, info, one.action.action_id, default=False)
        calls.append((decode_action(info, one.action), one.weight))
    check_one_shot(what, message.action_profile_actions, profile)
    return OneShot(tuple(calls), decode_watch(device, what, message.action_profile_actions))


# -- reading -------------------------------------------------------------------------------------


_FILTERS = ("match", "priority", "controller_metadata", "metadata")


def read_table_entries(device: Device, query: Any) -> Iterator[Any]:
    """Yield the entries that a ``TableEntry`` query selects; a field with its default selects
    all."""
    used = [name for name in _FILTERS if getattr(query, name)] + (
        ["action"] if query.HasField("action") else []
    )
    if not query.table_id and used:
        raise invalid(f"a query of all tables (table_id 0) has no {' or '.join(used)}")
    for table in device.info.tables.chosen(query.table_id):
        _check_query(table, query)
        if query.is_default_action:
            entry_id = _default_id(table, query)
            found = iter([(entry_id, _default_entry(device, table, entry_id))])
        else:
            found = (_entry(device, table, entry, query) for entry in _select(device, table, query))
        for entry_id, message in found:
            fill_opaque(device.notes, entry_id, message)
            _fill_resources(device, table, entry_id, query, message)
            if _selected(query, message):
                yield message


def _check_query(table: TableInfo, query: Any) -> None:
    if query.HasField("time_since_last_hit"):
        refuse(query.is_default_action, f"{table.label}: the default entry does not age", invalid)
        refuse(
            query.table_id and not table.ages,
            f"{table.label} was not declared with support_timeout",
            invalid,
        )


def _default_entry(device: Device, table: TableInfo, entry_id: EntryId) -> Any:
    message = encode_identity(table, entry_id)
    message.is_const = table.const_default
    call = device.control.default(table.name) or ActionCall("NoAction")
    if call.action in device.info.actions.by_name:
        encode_action(device.info, call, message.action.action)
    return message


def _entry(device: Device, table: TableInfo, entry: TableEntry, query: Any) -> tuple[EntryId, Any]:
    entry_id = (table.name, entry.keys, entry.priority)
    message = encode_identity(table, entry_id)
    _encode_target(device, table, entry_id, entry.target, message.action)
    message.is_const = device.control.is_const(*entry_id)
    message.idle_timeout_ns = entry.idle_timeout_ns
    if query.HasField("time_since_last_hit") and table.ages:
        message.time_since_last_hit.SetInParent()
        message.time_since_last_hit.elapsed_ns = max(device.control.values.idle_ns(*entry_id), 0)
    return entry_id, message


def encode_identity(table: TableInfo, entry_id: EntryId) -> Any:
    """Return a ``TableEntry`` with what tells an entry from others: its table, match and priority,
    or that it is the default entry."""
    _, keys, priority = entry_id
    if keys is None:
        return p4runtime_pb2.TableEntry(table_id=table.id, is_default_action=True)
    return p4runtime_pb2.TableEntry(
        table_id=table.id, match=encode_keys(table, keys), priority=priority
    )


def _fill_resources(
    device: Device, table: TableInfo, entry_id: EntryId, query: Any, message: Any
) -> None:
    """Fill in those of an entry's direct resources that a query asks for."""
    control = device.control
    if query.HasField("counter_data") and table.direct_counter:
        message.counter_data.CopyFrom(encode_cell(control.values.read_direct_counter(*entry_id)))
    if query.HasField("meter_config") and table.direct_meter is not None:
        config = control.values.read_direct_meter(*entry_id)
        if config is not None:
            message.meter_config.CopyFrom(encode_config(table.direct_meter, config))
    if query.HasField("meter_counter_data") and table.direct_meter is not None:
        message.meter_counter_data.CopyFrom(
            encode_counts(control.values.read_direct_meter_counts(*entry_id))
        )


def fill_opaque(notes: Notes, entry_id: EntryId, message: Any) -> None:
    """Fill in the metadata that a client attached to an entry."""
    opaque = notes.entries.get(entry_id, Opaque())
    message.controller_metadata = opaque.controller_metadata
    message.metadata = opaque.metadata


def _selected(query: Any, message: Any) -> bool:
    """Return whether an entry passes the filters of a query that are no part of its key."""
    action_id = query.action.action.action_id
    return (
        query.controller_metadata in (0, message.controller_metadata)
        and query.metadata in (b"", message.metadata)
        and action_id in (0, message.action.action.action_id)
    )


def _select(device: Device, table: TableInfo, query: Any) -> list[TableEntry]:
    """Return the entries of a table that match a query's key and priority, where it has them."""
    if query.match and (query.priority or not table.by_priority):
        try:
            return [device.control.find_entry(*identity_of(table, query))]
        except NotFound:
            return []
    wanted = decode_keys(table, query.match) if query.match else None
    return [
        entry
        for entry in device.control.entries(table.name)
        if wanted in (None, entry.keys) and query.priority in (0, entry.priority)
    ]


def _encode_target(
    device: Device, table: TableInfo, entry_id: EntryId, target: Target, message: Any
) -> None:
    match target:
        case ActionCall():
            if target.action in device.info.actions.by_name:
                encode_action(device.info, target, message.action)
        case MemberTarget():
            message.action_profile_member_id = target.member_id
        case GroupTarget():
            message.action_profile_group_id = target.group_id
        case OneShot():
            written = device.notes.one_shots.get(_profile_name(device, table), {}).get(entry_id)
            actions = message.action_profile_action_set.action_profile_actions
            message.action_profile_action_set.SetInParent()
            for call, weight in target.actions:
                encode_action(device.info, call, actions.add(weight=weight).action)
            if written is not None:
                copy_watch(written.action_profile_actions, actions)


# -- direct counters and meters as entities of their own -------------------------------------------

DirectResource = Literal["counter", "meter"]


def write_direct_counter(device: Device, kind: int, message: Any) -> None:
    """Set the counter of one entry, which is only allowed to MODIFY."""
    table, entry_id = _existing(device, "counter", kind, message.table_entry)
    if (cell := decode_cell(table.label, message, "data")) is not None:
        device.live(partial(device.control.values.write_direct_counter, *entry_id, cell))


def read_direct_counters(device: Device, query: Any) -> Iterator[Any]:
    """Yield the counters of one entry, of a table's entries, or of all entries of all tables."""
    for table, entry_id in _chosen(device, "counter", query.table_entry):
        yield p4runtime_pb2.DirectCounterEntry(
            table_entry=encode_identity(table, entry_id),
            data=encode_cell(device.control.values.read_direct_counter(*entry_id)),
        )


def write_direct_meter(device: Device, kind: int, message: Any) -> None:
    """Set the rates of one entry's meter, which is only allowed to MODIFY.

    Without a config every packet is green.
    """
    table, entry_id = _existing(device, "meter", kind, message.table_entry)
    assert table.direct_meter is not None
    reset = check_reset(table.direct_meter, message, "counter_data")
    _write_meter(
        device, entry_id, decode_config(table.direct_meter, message, "config"), reset=reset
    )


def read_direct_meters(device: Device, query: Any) -> Iterator[Any]:
    """Yield the meters of one entry, of a table's entries, or of all entries of all tables."""
    control = device.control
    for table, entry_id in _chosen(device, "meter", query.table_entry):
        assert table.direct_meter is not None
        counted = query.HasField("counter_data")
        counts = control.values.read_direct_meter_counts(*entry_id) if counted else None
        yield p4runtime_pb2.DirectMeterEntry(
            table_entry=encode_identity(table, entry_id),
            config=encode_config(table.direct_meter, control.values.read_direct_meter(*entry_id)),
            counter_data=encode_counts(counts),
        )


def _existing(
    device: Device, what: DirectResource, kind: int, message: Any
) -> tuple[TableInfo, EntryId]:
    """Return the table and the entry that a write means; raise NOT_FOUND if there is no such
    entry."""
    refuse(
        kind != MODIFY,
        f"a direct {what} can only be modified: it comes and goes with its entry",
        invalid,
    )
    table = device.info.tables.find(message.table_id)
    table.check_has(what)
    if message.is_default_action:
        return table, _default_id(table, message)
    entry_id = identity_of(table, message)
    device.control.find_entry(*entry_id)
    return table, entry_id


def _chosen(
    device: Device, what: DirectResource, message: Any
) -> Iterator[tuple[TableInfo, EntryId]]:
    """Yield the entries that a query means; raise NOT_FOUND if it has a match that no entry has."""
    for table in device.info.tables.chosen(message.table_id):
        if message.table_id:
            table.check_has(what)
        if not table.has(what):
            continue
        if message.is_default_action:
            yield table, _default_id(table, message)
        else:
            found = _select(device, table, message)
            refuse(
                message.match and not found,
                f"{table.label} has no entry with this match and priority",
                NotFound,
            )
            for entry in found:
                yield table, (table.name, entry.keys, entry.priority)
