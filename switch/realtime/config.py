"""The configuration of the real-time switch process, read from JSON and checked."""

from pathlib import Path
from typing import Any

import msgspec

from weft.base import documents
from weft.base.errors import InputError, refuse
from weft.switch.priority_queues import QueueChange

MOST_PORT = 510
"""The greatest port: ports have 9 bits in BMv2, and 511 means drop."""

DROP_PORT = 511

MOST_BYTES = 64 << 20
"""The most bytes of a configuration file."""


class PortConfig(msgspec.Struct, frozen=True, rename={"number": "port"}):
    """A port: its interface, and the link behind it, which has no limit with rate 0.

    A port at a patch link has no interface: ``patch`` names the switch and the port of this
    process that the link leads to. ``ingress_delay_ns`` is the delay of a link from whoever cannot
    delay what they send: so long after a frame has come to the interface it is in the switch.
    ``loss`` is the probability by which the link loses a frame that the port has sent,
    ``ingress_loss`` by which it loses one that comes to the interface.
    By ``jitter_ns`` and ``ingress_jitter_ns`` the delays are greater or less at most, at random.
    ``pcap_in``, ``pcap_out``: files that hold what comes in and
    what goes out; they may be one file.
    """

    number: int
    interface: str = ""
    rate_bps: int = 0
    delay_ns: int = 0
    ingress_delay_ns: int = 0
    loss: float = 0.0
    ingress_loss: float = 0.0
    jitter_ns: int = 0
    ingress_jitter_ns: int = 0
    queue_bytes: int = 1 << 30
    queue_packets: int = 1 << 20
    patch: tuple[str, int] | None = None
    pcap_in: str | None = None
    pcap_out: str | None = None


class SwitchConfig(msgspec.Struct, frozen=True):
    """A switch, where its P4Runtime server listens, and the port that leads to its
    controller, if it has one."""

    name: str
    device_id: int
    address: str
    ports: tuple[PortConfig, ...]
    seed: int = 0
    cpu_port: int | None = None


class ProcessConfig(msgspec.Struct, frozen=True):
    """All switches of the process.

    Timers that are closer together than ``coalesce_ns`` fire as one. With ``bypass_qdisc`` the
    frames that the switches send pass by the queueing disciplines of their interfaces. That costs a
    little less for every frame, but tc has no effect on what they send, and no capture at these
    interfaces sees it. Each port has ``priority_queues`` queues, of priorities from 0 on; for each
    of these may hold what ``classes`` say. Programs that are yet to be compiled forward packets
    ``at_once``, in the plain form, or they wait.
    """

    switches: tuple[SwitchConfig, ...]
    stats_socket: str | None = None
    frame_bytes: int = 9216
    buffers: int = 8192
    coalesce_ns: int = 200_000
    bypass_qdisc: bool = True
    drop_port: int = DROP_PORT
    priority_queues: int = 1
    classes: tuple[QueueChange, ...] = ()
    at_once: bool = False


def read_config(path: Path) -> ProcessConfig:
    """Read a configuration from a file; raises ``InputError``."""
    return config_of(documents.opened(path, MOST_BYTES, str(path)), str(path))


def config_of(document: Any, source: str) -> ProcessConfig:
    """Return the configuration in a JSON document; ``source`` says in errors where it is from.

    Raises ``InputError``.
    """
    config = documents.typed(ProcessConfig, document, f"{source} is no configuration of switches")
    for switch in config.switches:
        _check_ports(switch)
    _check_patches(config.switches)
    names = [switch.name for switch in config.switches]
    interfaces = [
        port.interface for switch in config.switches for port in switch.ports if port.patch is None
    ]
    for what, values in (("switch name", names), ("interface", interfaces)):
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise InputError(f"{what} given twice: {', '.join(sorted(twice))}")
    _check_special_ports(config)
    return config


def _check_special_ports(config: ProcessConfig) -> None:
    """Raise ``InputError`` if the drop port or a CPU port has the number of another port."""
    if not 0 <= config.drop_port <= DROP_PORT:
        raise InputError(f"drop_port {config.drop_port}: ports have 9 bits, 0 to {DROP_PORT}")
    for switch in config.switches:
        what = f"switch {switch.name!r}, cpu_port {switch.cpu_port}"
        refuse(
            switch.cpu_port is not None and not 0 < switch.cpu_port <= MOST_PORT,
            f"{what}: 1 to {MOST_PORT}, or null for none",
        )
        refuse(switch.cpu_port == config.drop_port, f"{what} means drop")
        special = {config.drop_port: "the drop port", switch.cpu_port: "the CPU port"}
        for port in switch.ports:
            if port.number in special:
                raise InputError(
                    f"switch {switch.name!r}: port {port.number} is {special.get(port.number)}"
                )


def _check_ports(switch: SwitchConfig) -> None:
    """Raise ``InputError`` for numbers of ports, or figures of links, that cannot be."""
    numbers = [port.number for port in switch.ports]
    for port in switch.ports:
        where = f"switch {switch.name!r}, port {port.number}"
        refuse(
            not 0 <= port.number <= MOST_PORT or numbers.count(port.number) > 1,
            f"{where}: ports are 0 to {MOST_PORT}, each once",
        )
        refuse(port.patch is None and not port.interface, f"{where}: it has no interface")
        refuse(
            port.patch is not None and (port.ingress_delay_ns or port.ingress_loss),
            f"{where}: an ingress delay, and loss, is for an interface; a patch link delays and "
            "loses at both ends",
        )
        for loss in (port.loss, port.ingress_loss):
            if not 0 <= loss <= 1:
                raise InputError(f"{where}: loss {loss} is no probability, 0 to 1")
        figures = (
            port.rate_bps, port.delay_ns, port.ingress_delay_ns, port.queue_bytes,
            port.queue_packets, port.jitter_ns, port.ingress_jitter_ns,
        )  # fmt: skip
        refuse(min(figures) < 0, f"{where}: a negative figure")


def _check_patches(switches: tuple[SwitchConfig, ...]) -> None:
    """Raise ``InputError`` unless each end of a patch link names the other end."""
    leads = {
        (switch.name, port.number): port.patch
        for switch in switches
        for port in switch.ports
        if port.patch is not None
    }
    for (name, number), far in leads.items():
        refuse(
            leads.get(far) != (name, number) or far == (name, number),
            f"switch {name!r}, port {number} is patched to port {far[1]} of {far[0]!r}, which "
            "is not patched to it: each end of a patch link names the other",
        )
