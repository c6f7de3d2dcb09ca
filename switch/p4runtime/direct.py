"""Direct counters and meters as entities of their own (specification sections
"DirectCounterEntry" and "DirectMeterEntry")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from weft.switch.engine.control import NotFound
from weft.switch.messages import MODIFY, p4runtime_pb2
from weft.switch.p4runtime.arrays import decode_cell, encode_cell
from weft.switch.p4runtime.device import Device, EntryId
from weft.switch.p4runtime.meters import check_reset, decode_config
from weft.switch.p4runtime.p4info_objects import Table
from weft.switch.p4runtime.refusals import invalid
from weft.switch.p4runtime.tables import (
    check_default,
    encode_identity,
    identity,
    read_cell,
    read_config,
    read_counts,
    select,
    write_cell,
    write_meter,
)

Resource = Literal["counter", "meter"]


def write_direct_counter(device: Device, kind: int, message: Any) -> None:
    """Set the counter of one entry; only MODIFY."""
    table, entry_id = _existing(device, "counter", kind, message.table_entry)
    cell = decode_cell(table.label, message, "data")
    if cell is not None:
        write_cell(device, entry_id, cell)


def read_direct_counters(device: Device, query: Any) -> Iterator[Any]:
    """Counters of one entry, of a table's entries, or of all entries of all tables."""
    for table, entry_id in _chosen(device, "counter", query.table_entry):
        yield p4runtime_pb2.DirectCounterEntry(
            table_entry=encode_identity(table, entry_id),
            data=encode_cell(read_cell(device, entry_id)),
        )


def write_direct_meter(device: Device, kind: int, message: Any) -> None:
    """Set the rates of one entry's meter; without config always green. Only MODIFY."""
    table, entry_id = _existing(device, "meter", kind, message.table_entry)
    assert table.direct_meter is not None
    reset = check_reset(table.direct_meter, message, "counter_data")
    config = decode_config(table.direct_meter, message, "config")
    write_meter(device, entry_id, config, reset=reset)


def read_direct_meters(device: Device, query: Any) -> Iterator[Any]:
    """Meters of one entry, of a table's entries, or of all entries of all tables."""
    for table, entry_id in _chosen(device, "meter", query.table_entry):
        counted = query.HasField("counter_data")
        yield p4runtime_pb2.DirectMeterEntry(
            table_entry=encode_identity(table, entry_id),
            config=read_config(device, table, entry_id),
            counter_data=read_counts(device, entry_id) if counted else None,
        )


def _existing(device: Device, what: Resource, kind: int, message: Any) -> tuple[Table, EntryId]:
    """The table and the entry that a write means; NOT_FOUND if there is no such entry."""
    if kind != MODIFY:
        raise invalid(f"a direct {what} can only be modified: it comes and goes with its entry")
    table = device.info.tables.find(message.table_id)
    table.check_has(what)
    if message.is_default_action:
        check_default(table, message)
        return table, (table.name, None, 0)
    entry_id = identity(table, message)
    device.control.find_entry(*entry_id)
    return table, entry_id


def _chosen(device: Device, what: Resource, message: Any) -> Iterator[tuple[Table, EntryId]]:
    """The entries that a query means; NOT_FOUND if it has a match and there is none."""
    for table in device.info.tables.chosen(message.table_id):
        if message.table_id:
            table.check_has(what)
        if message.is_default_action and table.has(what):
            check_default(table, message)
            yield table, (table.name, None, 0)
        elif table.has(what):
            found = select(device, table, message)
            if message.match and not found:
                raise NotFound(f"{table.label} has no entry with this match and priority")
            for entry in found:
                yield table, (table.name, entry.keys, entry.priority)
