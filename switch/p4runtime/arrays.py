"""Indirect counters, registers and meters, and the figures of direct counters and meters.

P4Runtime specification, sections "CounterEntry", "RegisterEntry", "MeterEntry & DirectMeterEntry".
The engine's meters are two-rate three-colour (RFC 2698). A single-rate three-colour meter (RFC
2697) is one with both rates alike and a peak burst of both its bursts: its peak bucket always holds
what the two buckets of RFC 2697 hold together.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from weft.base.errors import refuse
from weft.switch.engine.control.entities import CounterCell, MeterConfig, MeterCounts
from weft.switch.messages import MODIFY, p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime.data_values import decode_data, encode_data, widths, words_of
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info_objects import ArrayInfo, MeterInfo
from weft.switch.p4runtime.refusals import Refusal, exhausted, invalid, out_of_range

Cell = TypeVar("Cell")

MOST_COUNT = (1 << 63) - 1

MOST_CELLS = 1 << 20
"""The most cells that are read or written at once: an array may have 2^28, for whose messages no
memory is large enough."""
_TWO_COLOUR = p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR
_THREE_COLOUR = p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR
"""The two types of meters that have a single rate."""
_COLOURS = ("green", "yellow", "red")


def indices(array: ArrayInfo, message: Any) -> range:
    """Return the cells that a message means: the one with its index, or all if it has no index.

    Raises Refusal: INVALID_ARGUMENT below 0, OUT_OF_RANGE above the last, RESOURCE_EXHAUSTED for
    all of too many.
    """
    if not message.HasField("index"):
        return all_cells(array)
    index = message.index.index
    if index < 0:
        raise invalid(f"{array.label}: index {index} is below 0")
    if index >= array.size:
        raise out_of_range(f"{array.label}: index {index}; the last one is {array.size - 1}")
    return range(index, index + 1)


def all_cells(array: ArrayInfo) -> range:
    """Return all cells of an array; raise RESOURCE_EXHAUSTED if they are too many to be meant
    together."""
    refuse(
        array.size > MOST_CELLS,
        f"{array.label} has {array.size} cells: with more than {MOST_CELLS} give an index",
        exhausted,
    )
    return range(array.size)


def decode_cell(what: str, message: Any, field: str) -> CounterCell | None:
    """Return the ``CounterData`` in a field of a message, None if it is not set.

    Raises Refusal (INVALID_ARGUMENT) if a count is below 0.
    """
    data = getattr(message, field)
    refuse(
        data.packet_count < 0 or data.byte_count < 0,
        f"{what}: a counter cannot be set below 0",
        invalid,
    )
    return CounterCell(data.packet_count, data.byte_count) if message.HasField(field) else None


def encode_cell(cell: CounterCell) -> Any:
    """Return a ``CounterData``, whose numbers end at 2^63 - 1."""
    return p4runtime_pb2.CounterData(
        packet_count=min(cell.packets, MOST_COUNT), byte_count=min(cell.bytes, MOST_COUNT)
    )


def write_cells(
    device: Device, kind: int, array: ArrayInfo, message: Any, write: Callable[[int], None]
) -> None:
    """Write the cells that a message means, which is only allowed to MODIFY. Raises Refusal."""
    refuse(
        kind != MODIFY,
        f"a {array.kind} can only be modified, neither inserted nor deleted",
        invalid,
    )
    cells = indices(array, message)

    def write_all() -> None:
        for index in cells:
            write(index)

    device.live(write_all)


def cells_of(
    array: ArrayInfo,
    array_id: int,
    query: Any,
    read_one: Callable[[str, int], Cell],
    read_all: Callable[[str], list[Cell]],
) -> Iterator[tuple[Any, Cell]]:
    """Yield the cells that a query means, each with its ``Index``.

    These are one cell, or all if the query has no index or names no array.
    """
    found: Iterator[tuple[int, Cell]]
    if array_id and query.HasField("index"):
        (index,) = indices(array, query)
        found = iter([(index, read_one(array.name, index))])
    else:
        all_cells(array)
        found = enumerate(read_all(array.name))
    for index, cell in found:
        yield p4runtime_pb2.Index(index=index), cell


def write_counter(device: Device, kind: int, message: Any) -> None:
    """Set one cell of a counter, or all, which is only allowed to MODIFY."""
    counter = device.info.counters.find(message.counter_id)
    control = device.control
    cell = decode_cell(counter.label, message, "data")

    def write(index: int) -> None:
        if cell is not None:
            control.values.write_counter(counter.name, index, cell)

    write_cells(device, kind, counter, message, write)


def read_counters(device: Device, query: Any) -> Iterator[Any]:
    """Yield one cell, all of a counter (no index), or all of all counters (counter id 0)."""
    one, several = device.control.values.read_counter, device.control.values.read_counters
    for counter in device.info.counters.chosen(query.counter_id):
        for index, cell in cells_of(counter, query.counter_id, query, one, several):
            yield p4runtime_pb2.CounterEntry(
                counter_id=counter.id, index=index, data=encode_cell(cell)
            )


def counted(device: Device, cells: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the packets and bytes of cells, each given by a counter's id and an index, as
    `read_counters` tells them. Raises Refusal."""
    values, counters = device.control.values, device.info.counters
    known = {number: counters.find(number) for number in {counter_id for counter_id, _ in cells}}
    found = []
    for counter_id, index in cells:
        counter = known[counter_id]
        if index < 0:
            raise invalid(f"{counter.label}: index {index} is below 0")
        if index >= counter.size:
            last = counter.size - 1
            raise out_of_range(f"{counter.label}: index {index}; the last one is {last}")
        cell = values.read_counter(counter.name, index)
        found.append((min(cell.packets, MOST_COUNT), min(cell.bytes, MOST_COUNT)))
    return found


def write_register(device: Device, kind: int, message: Any) -> None:
    """Set one cell of a register, or all, which is only allowed to MODIFY."""
    types = device.info.message.type_info
    register = device.info.registers.find(message.register_id)
    value = decode_data(register.type_spec, types, message.data, register.label)
    control = device.control
    write_cells(
        device, kind, register, message,
        lambda index: control.values.write_register(register.name, index, value),
    )  # fmt: skip


def read_registers(device: Device, query: Any) -> Iterator[Any]:
    """Yield one cell, all of a register (no index), or all of all registers (register id 0)."""
    types = device.info.message.type_info
    one = device.control.values.read_register

    def several(name: str) -> list[int]:
        return [one(name, index) for index in range(device.info.registers.by_name[name].size)]

    for register in device.info.registers.chosen(query.register_id):
        try:
            widths(register.type_spec, types)
        except Refusal:
            if query.register_id:
                raise
            continue
        for index, cell in cells_of(register, query.register_id, query, one, several):
            entry = p4runtime_pb2.RegisterEntry(register_id=register.id, index=index)
            words = words_of(cell, register.type_spec, types)
            encode_data(register.type_spec, types, words, entry.data)
            yield entry


# -- meters


UNUSED: MeterCounts = (CounterCell(0, 0), CounterCell(0, 0), CounterCell(0, 0))


def check_reset(meter: MeterInfo, message: Any, field: str) -> bool:
    """Return whether a write sets the counters of each colour back to 0; it can set them to nothing
    else.

    ``field`` is the name of its ``MeterCounterData``. Raises Refusal (INVALID_ARGUMENT).
    """
    if not message.HasField(field):
        return False
    for colour in _COLOURS:
        data = getattr(getattr(message, field), colour)
        refuse(
            data.packet_count or data.byte_count,
            f"{meter.label}: the {colour} counter of {field} can be set to 0 only",
            invalid,
        )
    return True


def encode_counts(counts: MeterCounts | None) -> Any:
    """Return a ``MeterCounterData``; None for None."""
    if counts is None:
        return None
    return p4runtime_pb2.MeterCounterData(
        **dict(zip(_COLOURS, map(encode_cell, counts), strict=True))
    )


def decode_config(meter: MeterInfo, message: Any, field: str) -> MeterConfig | None:
    """Return the ``MeterConfig`` in a field of a message, None if it is not set.

    Raises Refusal (INVALID_ARGUMENT) if it does not suit the type of the meter.
    """
    if not message.HasField(field):
        return None
    given = getattr(message, field)
    figures = (given.cir, given.cburst, given.pir, given.pburst, given.eburst)
    refuse(min(figures) < 0, f"{meter.label}: a negative rate or burst", invalid)
    refuse(
        given.eburst and meter.type != _THREE_COLOUR,
        f"{meter.label}: eburst {given.eburst}; only a single-rate three-colour meter has one",
        invalid,
    )
    single = meter.type in (_TWO_COLOUR, _THREE_COLOUR)
    refuse(
        single and (given.pir, given.pburst) != (given.cir, given.cburst),
        f"{meter.label} has a single rate: pir and pburst must be {given.cir} and "
        f"{given.cburst}, as cir and cburst are",
        invalid,
    )
    refuse(
        given.pir < given.cir,
        f"{meter.label}: pir {given.pir} is less than cir {given.cir}",
        invalid,
    )
    return MeterConfig(given.cir, given.cburst, given.pir, given.pburst + given.eburst)


def encode_config(meter: MeterInfo, config: MeterConfig | None) -> Any:
    """Return a ``MeterConfig`` message as the client wrote it; None for None."""
    if config is None:
        return None
    extra = config.peak_burst - config.burst if meter.type == _THREE_COLOUR else 0
    return p4runtime_pb2.MeterConfig(
        cir=config.cir_per_s,
        cburst=config.burst,
        pir=config.pir_per_s,
        pburst=config.peak_burst - extra,
        eburst=extra,
    )


def write_meter(device: Device, kind: int, message: Any) -> None:
    """Set the rates of one cell, or of all, which is only allowed to MODIFY.

    Without a config every packet is green.
    """
    meter = device.info.meters.find(message.meter_id)
    config = decode_config(meter, message, "config")
    reset = check_reset(meter, message, "counter_data")
    control = device.control

    def write(index: int) -> None:
        control.values.write_meter(meter.name, index, config)
        if reset:
            control.values.write_meter_counts(meter.name, index, UNUSED)

    write_cells(device, kind, meter, message, write)


def read_meters(device: Device, query: Any) -> Iterator[Any]:
    """Yield one cell, all of a meter (no index), or all of all meters (meter id 0)."""
    control = device.control
    one, several = control.values.read_meter, control.values.read_meters
    counted = query.HasField("counter_data")
    for meter in device.info.meters.chosen(query.meter_id):
        for index, config in cells_of(meter, query.meter_id, query, one, several):
            counts = control.values.read_meter_counts(meter.name, index.index) if counted else None
            yield p4runtime_pb2.MeterEntry(
                meter_id=meter.id,
                index=index,
                config=encode_config(meter, config),
                counter_data=None if counts is None else encode_counts(counts),
            )
