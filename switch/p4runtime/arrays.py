"""Indirect counters and registers (specification sections "CounterEntry", "RegisterEntry")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.rpc import code_pb2

from weft.switch.engine.control import CounterCell
from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.data_values import decode_data, encode_data, is_scalar
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info_objects import Array, Register
from weft.switch.p4runtime.refusals import Refusal, invalid, unimplemented

Cell = TypeVar("Cell")

MODIFY = p4runtime_pb2.Update.MODIFY

MOST_COUNT = (1 << 63) - 1

MOST_CELLS = 1 << 20
"""Read or written at once: an array may have 2^28, which as messages no memory holds."""


def indices(kind: str, array: Array, message: Any) -> range:
    """The cells that a message means: the one of its index, or all where it has none.

    Raises Refusal: INVALID_ARGUMENT below 0, OUT_OF_RANGE above the last, RESOURCE_EXHAUSTED for
    all of too many.
    """
    if not message.HasField("index"):
        return all_cells(kind, array)
    index = message.index.index
    if index < 0:
        raise invalid(f"{kind} {array.name}: index {index} is below 0")
    if index >= array.size:
        raise Refusal(
            code_pb2.OUT_OF_RANGE,
            f"{kind} {array.name}: index {index}; the last one is {array.size - 1}",
        )
    return range(index, index + 1)


def all_cells(kind: str, array: Array) -> range:
    """All cells of an array; RESOURCE_EXHAUSTED if they are too many to be named together."""
    if array.size > MOST_CELLS:
        raise Refusal(
            code_pb2.RESOURCE_EXHAUSTED,
            f"{kind} {array.name} has {array.size} cells: with more than {MOST_CELLS} give an "
            "index",
        )
    return range(array.size)


def decode_cell(what: str, data: Any) -> CounterCell:
    """A ``CounterData``; INVALID_ARGUMENT below 0."""
    if data.packet_count < 0 or data.byte_count < 0:
        raise invalid(f"{what}: a counter cannot be set below 0")
    return CounterCell(data.packet_count, data.byte_count)


def fill_cell(data: Any, cell: CounterCell) -> None:
    """Fill a ``CounterData``, whose numbers end at 2^63 - 1."""
    data.SetInParent()
    data.packet_count = min(cell.packets, MOST_COUNT)
    data.byte_count = min(cell.bytes, MOST_COUNT)


def write_cells(
    device: Device,
    kind_name: str,
    kind: int,
    array: Array,
    message: Any,
    write: Callable[[int], None],
) -> None:
    """Write the cells that a message means, which is only allowed to MODIFY. Raises Refusal."""
    if kind != MODIFY:
        raise invalid(f"a {kind_name} can only be modified, neither inserted nor deleted")
    cells = indices(kind_name, array, message)

    def write_all() -> None:
        for index in cells:
            write(index)

    device.live(write_all)


def cells_of(
    kind_name: str,
    array: Array,
    array_id: int,
    query: Any,
    read_one: Callable[[str, int], Cell],
    read_all: Callable[[str], list[Cell]],
) -> list[tuple[int, Cell]]:
    """The cells that a query means, each with its index: one, or all without index or array."""
    if array_id and query.HasField("index"):
        index = indices(kind_name, array, query).start
        return [(index, read_one(array.name, index))]
    all_cells(kind_name, array)
    return list(enumerate(read_all(array.name)))


def write_counter(device: Device, kind: int, message: Any) -> None:
    """Set one cell, or all of a counter; only MODIFY."""
    counter = device.info.counter(message.counter_id)
    control = device.control
    given = message.HasField("data")
    cell = decode_cell(f"counter {counter.name}", message.data)

    def write(index: int) -> None:
        if given:
            control.write_counter(counter.name, index, cell)

    write_cells(device, "counter", kind, counter, message, write)


def read_counters(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a counter (no index), or all of all counters (counter id 0)."""
    info = device.info
    control = device.control
    counters = [info.counter(query.counter_id)] if query.counter_id else info.counters.values()
    for counter in counters:
        for index, cell in cells_of(
            "counter", counter, query.counter_id, query, control.read_counter, control.read_counters
        ):
            entity = p4runtime_pb2.Entity()
            message = entity.counter_entry
            message.counter_id = counter.id
            message.index.SetInParent()
            message.index.index = index
            fill_cell(message.data, cell)
            yield entity


def write_register(device: Device, kind: int, message: Any) -> None:
    """Set one cell, or all of a register; only MODIFY."""
    info = device.info
    register = _scalar(device, info.register(message.register_id))
    what = f"register {register.name}"
    value = decode_data(register.type_spec, info.message.type_info, message.data, what)
    control = device.control

    def write(index: int) -> None:
        control.write_register(register.name, index, value)

    write_cells(device, "register", kind, register, message, write)


def read_registers(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a register (no index), or all of all registers (register id 0)."""
    info = device.info
    types = info.message.type_info
    if query.register_id:
        registers = [_scalar(device, info.register(query.register_id))]
        cells = indices("register", registers[0], query)
    else:
        registers = [one for one in info.registers.values() if is_scalar(one.type_spec, types)]
        cells = range(0)
    for register in registers:
        for index in cells if query.register_id else all_cells("register", register):
            entity = p4runtime_pb2.Entity()
            message = entity.register_entry
            message.register_id = register.id
            message.index.SetInParent()
            message.index.index = index
            word = device.control.read_register(register.name, index)
            encode_data(register.type_spec, types, iter([word]), message.data)
            yield entity


def _scalar(device: Device, register: Register) -> Register:
    if not is_scalar(register.type_spec, device.info.message.type_info):
        raise unimplemented(f"register {register.name}: cells that are not one number")
    return register
