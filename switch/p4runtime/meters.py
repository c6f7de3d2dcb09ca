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
from weft.switch.p4runtime.arrays import cells_of, fill_cell, write_cells
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.p4info_objects import Meter
from weft.switch.p4runtime.refusals import invalid

MODIFY = p4runtime_pb2.Update.MODIFY

_SINGLE_RATE = {
    p4info_pb2.MeterSpec.SINGLE_RATE_TWO_COLOR,
    p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR,
}


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
            raise invalid(
                f"meter {meter.name}: the {colour} counter of {field} can be set to 0 only"
            )
    return True


def fill_counts(data: Any, counts: MeterCounts) -> None:
    """Fill a ``MeterCounterData``."""
    for colour, cell in zip(_COLOURS, counts, strict=True):
        fill_cell(getattr(data, colour), cell)


def decode_config(meter: Meter, message: Any) -> MeterConfig:
    """A ``MeterConfig`` message, checked against the type of the meter; INVALID_ARGUMENT."""
    what = f"meter {meter.name}"
    figures = (message.cir, message.cburst, message.pir, message.pburst, message.eburst)
    if min(figures) < 0:
        raise invalid(f"{what}: a negative rate or burst")
    three_colour = meter.type == p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR
    if message.eburst and not three_colour:
        raise invalid(
            f"{what}: eburst {message.eburst}; only a single-rate three-colour meter has one"
        )
    if meter.type in _SINGLE_RATE and (
        message.pir != message.cir or message.pburst != message.cburst
    ):
        raise invalid(
            f"{what} has a single rate: pir and pburst must be {message.cir} and {message.cburst}, "
            "as cir and cburst are"
        )
    if message.pir < message.cir:
        raise invalid(f"{what}: pir {message.pir} is less than cir {message.cir}")
    return MeterConfig(message.cir, message.cburst, message.pir, message.pburst + message.eburst)


def encode_config(meter: Meter, config: MeterConfig, message: Any) -> None:
    """Fill a ``MeterConfig`` message as the client wrote it."""
    message.SetInParent()
    message.cir = config.cir_per_s
    message.cburst = config.burst
    message.pir = config.pir_per_s
    message.pburst = config.peak_burst
    if meter.type == p4info_pb2.MeterSpec.SINGLE_RATE_THREE_COLOR:
        message.pburst = config.burst
        message.eburst = config.peak_burst - config.burst


def write_meter(device: Device, kind: int, message: Any) -> None:
    """Set the rates of one cell, or of all; without config always green. Only MODIFY."""
    meter = device.info.meter(message.meter_id)
    config = decode_config(meter, message.config) if message.HasField("config") else None
    reset = check_reset(meter, message, "counter_data")
    control = device.control

    def write(index: int) -> None:
        control.write_meter(meter.name, index, config)
        if reset:
            control.write_meter_counts(meter.name, index, UNUSED)

    write_cells(device, "meter", kind, meter, message, write)


def read_meters(device: Device, query: Any) -> Iterator[Any]:
    """One cell, all of a meter (no index), or all of all meters (meter id 0)."""
    info = device.info
    control = device.control
    meters = [info.meter(query.meter_id)] if query.meter_id else info.meters.values()
    for meter in meters:
        for index, config in cells_of(
            "meter", meter, query.meter_id, query, control.read_meter, control.read_meters
        ):
            entity = p4runtime_pb2.Entity()
            message = entity.meter_entry
            message.meter_id = meter.id
            message.index.SetInParent()
            message.index.index = index
            if config is not None:
                encode_config(meter, config, message.config)
            if query.HasField("counter_data"):
                fill_counts(message.counter_data, control.read_meter_counts(meter.name, index))
            yield entity
