"""What Weft's switch offers to its clients beside P4Runtime: calls with texts of JSON.

A request is ``{"call": NAME, "arguments": {...}}``, and the answer is what the call returns. As in
BMv2's own interface, nobody needs to own the switch for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from weft.base import documents
from weft.base.errors import refuse
from weft.switch.engine.control.port_queues import change_queues, queue_figures
from weft.switch.engine.dataplane.layout import NEVER_NS, QueueRecord
from weft.switch.engine.program.algorithms import CrcParameters
from weft.switch.engine.switches import Queue
from weft.switch.engine.trace.entries import no_queue
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import exhausted, invalid, not_found, unimplemented
from weft.switch.priority_queues import MOST_RATE, MOST_WEIGHT, QueueChange

MOST_BYTES = 1 << 20
MOST_PAUSE_US = 10**12


def answer(device: Device, request: bytes) -> bytes:
    """Carry a request out and return the answer; raises Refusal."""
    refuse(len(request) > MOST_BYTES, f"a call has at most {MOST_BYTES} bytes", exhausted)
    document = documents.parsed(request, "a call is JSON", error=invalid)
    match document:
        case {"call": str(name), "arguments": dict(arguments)}:
            pass
        case _:
            raise invalid('a call is {"call": NAME, "arguments": {...}}')
    if name not in _CALLS:
        raise unimplemented(f"there is no call {name!r}; calls are {', '.join(_CALLS)}")
    with device.lock:
        try:
            return json.dumps(_CALLS[name](device, **arguments)).encode()
        except TypeError as error:
            raise invalid(f"{name}: {error}") from None


def _memo(device: Device) -> str:
    """Return the text that clients keep here."""
    return device.notes.memo


def _keep_memo(device: Device, text: str) -> None:
    """Keep a text until another program is loaded."""
    if not isinstance(text, str):
        raise TypeError("text is a text")
    device.notes.memo = text


def _program(device: Device) -> int:
    """Return a number that is another one for each program that is loaded."""
    return device.config.number


def _clock(device: Device) -> dict[str, int]:
    """Return the time of the switch in us: since its timestamps began, and since the epoch."""
    return {
        "elapsed_us": device.switch.values.elapsed_us(),
        "since_epoch_us": time.time_ns() // 1000,
    }


def _ports(device: Device) -> list[dict[str, Any]]:
    """Return the switch's ports: their numbers, their interfaces, and whether they are up."""
    switch = device.switch
    return [
        {"port": port, "interface": switch.interfaces.get(port, ""), "up": switch.is_port_up(port)}
        for port in switch.ports
    ]


def _set_queue(
    device: Device,
    port: int | None = None,
    priority: int | None = None,
    packets: int | None = None,
    rate_pps: int | None = None,
    weight: int | None = None,
) -> None:
    """Let figures hold for the queue of a priority, or all queues, of a port, or of all ports: how
    many packets it holds, how many packets a second leave it (0: as many as the link takes), and
    its weight among queues that have one (0: it has none)."""
    switch = device.switch
    for what, number, most in (
        ("packets", packets, MOST_RATE), ("rate_pps", rate_pps, MOST_RATE),
        ("weight", weight, MOST_WEIGHT),
    ):  # fmt: skip
        if number is not None and not (isinstance(number, int) and 0 <= number <= most):
            raise invalid(f"{what}: {number!r} is no whole number from 0 to {most}")
    change = QueueChange(packets, None if packets is None else Queue.limit_bytes, rate_pps, weight)
    places = [
        (_queues_of(device, each, priority), switch.host.port(switch.switch, each))
        for each in (switch.ports if port is None else [port])
    ]

    def carry_out() -> None:
        for queues, row in places:
            change_queues(row, queues, change)

    switch.host.at_once(carry_out)


def _set_crc(
    device: Device,
    calculation: str,
    width: int,
    polynomial: int,
    initial: int,
    final: int,
    reflects_data: bool,
    reflects_result: bool,
) -> None:
    """Set the parameters of a calculation by ``crc16_custom`` or ``crc32_custom``."""
    values = width, polynomial, initial, final
    if not (isinstance(calculation, str) and all(isinstance(value, int) for value in values)):
        raise invalid("calculation is a text; width, polynomial, initial and final are numbers")
    parameters = CrcParameters(
        polynomial, initial, final, bool(reflects_data), bool(reflects_result)
    )
    device.control.values.set_crc(calculation, width, parameters)


def _crcs(device: Device) -> dict[str, dict[str, Any]]:
    """Return what has been set of custom CRCs, by the names of their calculations."""
    return {name: asdict(one) for name, one in device.control.values.state.crcs.items()}


def _queues_of(device: Device, port: int, priority: int | None) -> list[QueueRecord]:
    """Return the queues of a port, or the one of a priority; raises Refusal."""
    switch = device.switch
    if port not in switch.ports:
        ports = ", ".join(map(str, switch.ports)) or "none"
        raise not_found(f"there is no port {port}; ports are {ports}")
    queues = switch.host.queues_of(switch.switch, port)
    if priority is None:
        return queues
    if not (isinstance(priority, int) and priority >= 0):
        raise invalid(f"priority: {priority!r} is no whole number from 0 on")
    if priority >= len(queues):
        raise not_found(f"there is no queue: {no_queue(priority, len(queues))}")
    return [queues[priority]]


def _pause_queue(device: Device, port: int, priority: int, time_us: int | None = None) -> None:
    """Let the link of a port take nothing from the queue of a priority, for a time, 0 to end a
    pause, or until then."""
    host, number = device.switch.host, device.switch.switch
    if priority is None:
        raise invalid("priority is missing: a pause is of one queue")
    _queues_of(device, port, priority)
    if time_us is not None and not (isinstance(time_us, int) and 0 <= time_us <= MOST_PAUSE_US):
        raise invalid(f"time_us: {time_us!r} is no whole number from 0 to {MOST_PAUSE_US}")

    def carry_out() -> None:
        until_ns = NEVER_NS if time_us is None else host.clock_ns() + 1000 * time_us
        host.hold(number, port, priority, until_ns)

    host.at_once(carry_out)


def _queues(device: Device, port: int, priority: int | None = None) -> list[dict[str, Any]]:
    """Return what holds for the queues of a port, or the one of a priority, what waits there and
    what they have counted."""
    _queues_of(device, port, priority)
    found = queue_figures(_queues_of(device, port, None))
    return found if priority is None else [found[priority]]


_CALLS: dict[str, Callable[..., Any]] = {
    "memo": _memo,
    "keep_memo": _keep_memo,
    "program": _program,
    "clock": _clock,
    "ports": _ports,
    "set_queue": _set_queue,
    "pause_queue": _pause_queue,
    "queues": _queues,
    "set_crc": _set_crc,
    "crcs": _crcs,
}
