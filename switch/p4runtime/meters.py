"""Meters, indirect and direct (specification section "MeterEntry & DirectMeterEntry").

The engine's meters are two-rate three-colour (RFC 2698). A single-rate three-colour meter (RFC
2697) is one with both rates alike and a peak burst of both its bursts: its peak bucket always holds
what the two buckets of RFC 2697 hold together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.switch.engine.control import CounterCell, MeterConfig, MeterCounts
from weft.switch.messages import p4info_pb2, p4runtime_pb2
from weft.switch.p4runtime.arrays import cells_of, encode_cell, write_cells
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info_objects import Meter
from weft.switch.p4runtime.refusals import invalid

_TWO_COLOUR = p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR
_THREE_COLOUR = p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR
"""Both of a single rate."""

UNUSED: MeterCounts = (CounterCell(0, 0), CounterCell(0, 0), CounterCell(0, 0))

_COLOURS = ("green", "yellow", "red")


def check_reset(meter: Meter, message: Any, field: str) -> bool:
    """Whether a write sets the counters of each colour back to 0, all that it can set them to.

    ``field`` is the name of its ``MeterCounterData``. Raises Refusal (INVALID_ARGUMENT).
    """
    if not message.HasField(field):
        return False
    for colour in _COLOURS:
        data = getattr(getattr(message, field), colour)
        if data.packet_count or data.byte_count:
            raise invalid(f"{meter.label}: the {colour} counter of {field} can be set to 0 only")
    return True


def encode_counts(counts: MeterCounts) -> Any:
    """A ``MeterCounterData``."""
    cells = map(encode_cell, counts)
    return p4runtime_pb2.MeterCounterData(**dict(zip(_COLOURS, cells, strict=True)))


def decode_config(meter: Meter, message: Any, field: str) -> MeterConfig | None:
    """The ``MeterConfig`` in a field of a message, checked against the type of the meter, None if
    it is not set; INVALID_ARGUMENT."""
    if not message.HasField(field):
        return None
    given = getattr(message, field)
    figures = (given.cir, given.cburst, given.pir, given.pburst, given.eburst)
    if min(figures) < 0:
        raise invalid(f"{meter.label}: a negative rate or burst")
    if given.eburst and meter.type != _THREE_COLOUR:
        raise invalid(
            f"{meter.label}: eburst {given.eburst}; only a single-rate three-colour meter has one"
        )
    single = meter.type in (_TWO_COLOUR, _THREE_COLOUR)
    if single and (given.pir, given.pburst) != (given.cir, given.cburst):
        raise invalid(
            f"{meter.label} has a single rate: pir and pburst must be {given.cir} and "
            f"{given.cburst}, as cir and cburst are"
        )
    if given.pir < given.cir:
        raise invalid(f"{meter.label}: pir {given.pir} is less than cir {given.cir}")
    return MeterConfig(given.cir, given.cburst, given.pir, given.pburst + given.eburst)


def encode_config(meter: Meter, config: MeterConfig | None) -> Any:
    """A ``MeterConfig`` message as the client wrote it, None for none."""
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
    """Set the rates of one cell, or of all; without config always green. Only MODIFY."""
    meter = device.info.meters.find(message.meter_id)
    config = decode_config(meter, message, "config")
    reset = check_reset(meter, message, "counter_data")
    control = device.control

    def write(index: int) -> None:
        control.write_meter(meter.name, index, config)
        if reset:
            control.write_meter_counts(meter.name, index, UNUSED)

    write_cells(device, kind, meter, message, write)


def read_meters(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a meter (no index), or all of all meters (meter id 0)."""
    control = device.control
    one, several = control.read_meter, control.read_meters
    counted = query.HasField("counter_data")
    for meter in device.info.meters.chosen(query.meter_id):
        for index, config in cells_of(meter, query.meter_id, query, one, several):
            counts = control.read_meter_counts(meter.name, index.index) if counted else None
            yield p4runtime_pb2.MeterEntry(
                meter_id=meter.id,
                index=index,
                config=encode_config(meter, config),
                counter_data=None if counts is None else encode_counts(counts),
            )
