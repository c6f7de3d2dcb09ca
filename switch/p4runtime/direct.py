"""Direct counters and meters as entities of their own (specification sections
"DirectCounterEntry" and "DirectMeterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.switch.engine.control import NotFound
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.arrays import decode_cell, fill_cell
from weft.switch.p4runtime.device import Device, EntryId
from weft.switch.p4runtime.meters import (
    UNUSED,
    check_reset,
    decode_config,
    encode_config,
    fill_counts,
)
from weft.switch.p4runtime.p4info_objects import Meter, Table
from weft.switch.p4runtime.refusals import invalid
from weft.switch.p4runtime.tables import (
    check_default,
    fill_identity,
    identity,
    read_cell,
    select,
    write_cell,
)

MODIFY = p4runtime_pb2.Update.MODIFY


def write_direct_counter(device: Device, kind: int, message: Any) -> None:
    """Set the counter of one entry; only MODIFY."""
    if kind != MODIFY:
        raise invalid("a direct counter can only be modified: it comes and goes with its entry")
    table = _counted(device.info.table(message.table_entry.table_id))
    entry_id = _existing(device, table, message.table_entry)
    if message.HasField("data"):
        write_cell(device, entry_id, decode_cell(f"table {table.name}", message.data))


def read_direct_counters(device: Device, query: Any) -> Iterator[Any]:
    """Counters of one entry, of a table's entries, or of all entries of all tables."""
    tables = device.info.tables.values()
    if query.table_entry.table_id:
        chosen = [_counted(device.info.table(query.table_entry.table_id))]
    else:
        chosen = [table for table in tables if table.direct_counter_id]
    for table in chosen:
        for entry_id in _chosen(device, table, query.table_entry):
            entity = p4runtime_pb2.Entity()
            message = entity.direct_counter_entry
            fill_identity(table, entry_id[1], entry_id[2], message.table_entry)
            fill_cell(message.data, read_cell(device, entry_id))
            yield entity


def write_direct_meter(device: Device, kind: int, message: Any) -> None:
    """Set the rates of one entry's meter; without config always green. Only MODIFY."""
    if kind != MODIFY:
        raise invalid("a direct meter can only be modified: it comes and goes with its entry")
    table = device.info.table(message.table_entry.table_id)
    meter = _metered(table)
    reset = check_reset(meter, message, "counter_data")
    entry_id = _existing(device, table, message.table_entry)
    config = decode_config(meter, message.config) if message.HasField("config") else None
    control = device.control

    def write() -> None:
        control.write_direct_meter(*entry_id, config)
        if reset:
            control.write_direct_meter_counts(*entry_id, UNUSED)

    device.live(write)


def read_direct_meters(device: Device, query: Any) -> Iterator[Any]:
    """Meters of one entry, of a table's entries, or of all entries of all tables."""
    if query.table_entry.table_id:
        chosen = [device.info.table(query.table_entry.table_id)]
    else:
        chosen = [table for table in device.info.tables.values() if table.direct_meter]
    for table in chosen:
        meter = _metered(table)
        for entry_id in _chosen(device, table, query.table_entry):
            entity = p4runtime_pb2.Entity()
            message = entity.direct_meter_entry
            fill_identity(table, entry_id[1], entry_id[2], message.table_entry)
            config = device.control.read_direct_meter(*entry_id)
            if config is not None:
                encode_config(meter, config, message.config)
            if query.HasField("counter_data"):
                counts = device.control.read_direct_meter_counts(*entry_id)
                fill_counts(message.counter_data, counts)
            yield entity


def _counted(table: Table) -> Table:
    if not table.direct_counter_id:
        raise invalid(f"table {table.name} has no direct counter")
    return table


def _metered(table: Table) -> Meter:
    if table.direct_meter is None:
        raise invalid(f"table {table.name} has no direct meter")
    return table.direct_meter


def _existing(device: Device, table: Table, message: Any) -> EntryId:
    """The entry that a write means; NOT_FOUND if there is none."""
    if message.is_default_action:
        check_default(table, message)
        return table.name, None, 0
    keys, priority = identity(table, message)
    device.control.find_entry(table.name, keys, priority)
    return table.name, keys, priority


def _chosen(device: Device, table: Table, message: Any) -> list[EntryId]:
    """The entries that a query means; NOT_FOUND if it has a match and there is none."""
    if message.is_default_action:
        check_default(table, message)
        return [(table.name, None, 0)]
    found = select(device, table, message)
    if message.match and not found:
        raise NotFound(f"table {table.name} has no entry with this match and priority")
    return [(table.name, entry.keys, entry.priority) for entry in found]
