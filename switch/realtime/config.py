"""The configuration of the real-time switch process, read from JSON and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switch.errors import InputError

MOST_PORT = 510
"""BMv2's ports have 9 bits, and 511 means drop."""


@dataclass(frozen=True)
class PortConfig:
    """A port: the interface it is, and the link behind it (rate 0 = no limit of its own)."""

    number: int
    interface: str
    rate_bps: int
    delay_ns: int
    queue_bytes: int
    queue_packets: int


@dataclass(frozen=True)
class SwitchConfig:
    """A switch and where its P4Runtime server listens."""

    name: str
    device_id: int
    address: str
    seed: int
    ports: tuple[PortConfig, ...]


@dataclass(frozen=True)
class Config:
    """All switches of the process.

    ``coalesce_ns``: timers closer together fire as one. ``captured``: the frames that the switches
    send are to be seen by captures at their interfaces, which costs a little of every one.
    """

    switches: tuple[SwitchConfig, ...]
    stats_socket: str | None
    frame_bytes: int
    buffers: int
    coalesce_ns: int
    captured: bool = False


def read_config(path: Path) -> Config:
    """Read a configuration file; raises ``InputError``."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    try:
        return _config(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{path} is no configuration of switches: {error!r}") from error


def _config(document: Any) -> Config:
    drop_port = document.get("drop_port", 511)
    if drop_port != 511:
        raise InputError(f"drop_port {drop_port}: only 511, BMv2's default, is supported")
    switches = tuple(_switch(item) for item in document["switches"])
    names = [switch.name for switch in switches]
    interfaces = [port.interface for switch in switches for port in switch.ports]
    for what, values in (("switch name", names), ("interface", interfaces)):
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise InputError(f"{what} given twice: {', '.join(sorted(twice))}")
    return Config(
        switches,
        document.get("stats_socket"),
        int(document.get("frame_bytes", 9216)),
        int(document.get("buffers", 8192)),
        int(document.get("coalesce_ns", 50_000)),
        bool(document.get("captured", False)),
    )


def _switch(item: Any) -> SwitchConfig:
    ports = tuple(
        PortConfig(
            int(port["port"]),
            str(port["interface"]),
            int(port.get("rate_bps") or 0),
            int(port.get("delay_ns") or 0),
            int(port.get("queue_bytes") or 1 << 30),
            int(port.get("queue_packets") or 1 << 20),
        )
        for port in item["ports"]
    )
    numbers = [port.number for port in ports]
    for number in numbers:
        if not 0 <= number <= MOST_PORT or numbers.count(number) > 1:
            raise InputError(
                f"switch {item['name']!r}, port {number}: ports are 0 to {MOST_PORT}, each once"
            )
    for port in ports:
        if min(port.rate_bps, port.delay_ns, port.queue_bytes, port.queue_packets) < 0:
            raise InputError(f"switch {item['name']!r}, port {port.number}: a negative figure")
    return SwitchConfig(
        str(item["name"]),
        int(item["device_id"]),
        str(item["address"]),
        int(item.get("seed", 0)),
        ports,
    )
