"""What Weft's switch offers to its clients beside P4Runtime: calls with texts of JSON.

A request is ``{"call": NAME, "arguments": {...}}``, and the answer is what the call returns. As in
BMv2's own interface, nobody needs to own the switch for them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from weft.base import documents
from weft.base.errors import refuse
from weft.switch.engine.switches import Queue
from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.refusals import exhausted, invalid, not_found, unimplemented

MOST_BYTES = 1 << 20
MOST_RATE = 10**9
"""The most packets a second, and in a queue."""


def asked(name: str, arguments: Mapping[str, Any]) -> bytes:
    """Return a request for a call."""
    return json.dumps({"call": name, "arguments": dict(arguments)}).encode()


def told(answer: bytes) -> Any:
    """Return what the answer to a request says."""
    return json.loads(answer)


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
    packets: int | None = None,
    rate_pps: int | None = None,
) -> None:
    """Bound the queues of a port, or of all ports, by packets, and how many packets a second leave
    it (0: as many as its link takes)."""
    switch = device.switch
    for what, number in (("packets", packets), ("rate_pps", rate_pps)):
        if number is not None and not (isinstance(number, int) and 0 <= number <= MOST_RATE):
            raise invalid(f"{what}: {number!r} is no whole number from 0 to {MOST_RATE}")
    if port is not None and port not in switch.ports:
        ports = ", ".join(map(str, switch.ports)) or "none"
        raise not_found(f"there is no port {port}; ports are {ports}")
    rows = [
        switch.host.port(switch.switch, each) for each in (switch.ports if port is None else [port])
    ]

    def change() -> None:
        for row in rows:
            if packets is not None:
                row.limit_packets, row.limit_bytes = packets, Queue.limit_bytes
            if rate_pps is not None:
                row.packet_ns = 1_000_000_000 // rate_pps if rate_pps else 0

    switch.host.at_once(change)


_CALLS: dict[str, Callable[..., Any]] = {
    "memo": _memo,
    "keep_memo": _keep_memo,
    "program": _program,
    "clock": _clock,
    "ports": _ports,
    "set_queue": _set_queue,
}
