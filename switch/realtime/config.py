"""The configuration of the real-time switch process, read from JSON and checked."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.base.errors import InputError
from weft.base.files import read_text

MOST_PORT = 510
"""The greatest port: ports have 9 bits in BMv2, and 511 means drop."""

DROP_PORT = 511

MOST_BYTES = 64 << 20
"""The most bytes of a configuration file."""


@dataclass(frozen=True)
class PortConfig:
    """A port: its interface, and the link behind it, which with rate 0 has no limit of its own.

    A port at a patch link has no interface: ``patch`` names the switch and the port of this
    process that the link leads to. ``pcap_in``, ``pcap_out``: files that hold what comes in and
    what goes out; they may be one file.
    """

    number: int
    interface: str
    rate_bps: int
    delay_ns: int
    queue_bytes: int
    queue_packets: int
    patch: tuple[str, int] | None = None
    pcap_in: str | None = None
    pcap_out: str | None = None


@dataclass(frozen=True)
class SwitchConfig:
    """A switch, where its P4Runtime server listens, and the port that leads to its controller."""

    name: str
    device_id: int
    address: str
    seed: int
    ports: tuple[PortConfig, ...]
    cpu_port: int | None = None


@dataclass(frozen=True)
class Config:
    """All switches of the process.

    Timers that are closer together than ``coalesce_ns`` fire as one. With ``captured``, captures at
    the interfaces are to see the frames that the switches send, which costs a little for every
    frame.

    ``coalesce_ns``: timers closer together fire as one. ``captured``: the frames that the switches
    send are to be seen by captures at their interfaces, which costs a little of every one.
    """

    switches: tuple[SwitchConfig, ...]
    stats_socket: str | None
    frame_bytes: int
    buffers: int
    coalesce_ns: int
    captured: bool = False
    drop_port: int = DROP_PORT


def read_config(path: Path) -> Config:
    """Read a configuration from a file; raises ``InputError``."""
    try:
        document = json.loads(read_text(path, MOST_BYTES))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    return config_of(document, str(path))


def config_of(document: Any, source: str) -> Config:
    """Return the configuration in a JSON document; ``source`` says in errors where it is from.

    Raises ``InputError``.
    """
    try:
        return _config(document)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"{source} is no configuration of switches: {error!r}") from error


def _config(document: Any) -> Config:
    drop_port = int(document.get("drop_port", DROP_PORT))
    switches = tuple(
        _switch({"cpu_port": document.get("cpu_port"), **item}) for item in document["switches"]
    )
    names = [switch.name for switch in switches]
    interfaces = [
        port.interface for switch in switches for port in switch.ports if port.patch is None
    ]
    _check_patches(switches)
    for what, values in (("switch name", names), ("interface", interfaces)):
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise InputError(f"{what} given twice: {', '.join(sorted(twice))}")
    config = Config(
        switches,
        document.get("stats_socket"),
        int(document.get("frame_bytes", 9216)),
        int(document.get("buffers", 8192)),
        int(document.get("coalesce_ns", 50_000)),
        bool(document.get("captured", False)),
        drop_port,
    )
    _check_special_ports(config)
    return config


def _check_special_ports(config: Config) -> None:
    """Raise ``InputError`` if the drop port or a CPU port has the number of another port."""
    if not 0 <= config.drop_port <= DROP_PORT:
        raise InputError(f"drop_port {config.drop_port}: ports have 9 bits, 0 to {DROP_PORT}")
    for switch in config.switches:
        what = f"switch {switch.name!r}, cpu_port {switch.cpu_port}"
        if switch.cpu_port is not None and not 0 < switch.cpu_port <= MOST_PORT:
            raise InputError(f"{what}: 1 to {MOST_PORT}, or 0 for none")
        if switch.cpu_port == config.drop_port:
            raise InputError(f"{what} means drop")
        special = {config.drop_port: "the drop port", switch.cpu_port: "the CPU port"}
        for port in switch.ports:
            if port.number in special:
                raise InputError(
                    f"switch {switch.name!r}: port {port.number} is {special[port.number]}"
                )


def _switch(item: Any) -> SwitchConfig:
    ports = tuple(
        PortConfig(
            int(port["port"]),
            str(port.get("interface", "")) if "patch" in port else str(port["interface"]),
            int(port.get("rate_bps") or 0),
            int(port.get("delay_ns") or 0),
            int(port.get("queue_bytes") or 1 << 30),
            int(port.get("queue_packets") or 1 << 20),
            _end(port["patch"]) if "patch" in port else None,
            port.get("pcap_in"),
            port.get("pcap_out"),
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
        int(item.get("cpu_port") or 0) or None,
    )


def _end(item: Any) -> tuple[str, int]:
    name, port = item
    return str(name), int(port)


def _check_patches(switches: tuple[SwitchConfig, ...]) -> None:
    """Raise ``InputError`` unless each end of a patch link names the other end."""
    leads = {
        (switch.name, port.number): port.patch
        for switch in switches
        for port in switch.ports
        if port.patch is not None
    }
    for (name, number), far in leads.items():
        if leads.get(far) != (name, number) or far == (name, number):
            raise InputError(
                f"switch {name!r}, port {number} is patched to port {far[1]} of {far[0]!r}, which "
                "is not patched to it: each end of a patch link names the other"
            )
