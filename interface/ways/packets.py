"""The packet whose way is asked for: what a host's ping or UDP would send, or any bytes."""

import ipaddress
from dataclasses import dataclass
from typing import Any

from weft.base.errors import InputError
from weft.interface.frames import frame_bytes
from weft.topo.addresses import Interface, format_mac
from weft.topo.network import Host, Topology

MOST_BYTES = 9216

USAGE = (
    "ping, udp [PORT [SOURCE_PORT]], tcp [PORT [SOURCE_PORT]], or a frame's bytes in hexadecimal"
)

WAY_USAGE = "trace HOST HOST [PACKET] [--all] [--json] [--html FILE], as trace h0 h1 ping --all"

PORT, SOURCE_PORT = 5001, 40000
"""What is taken where none is said."""


@dataclass(frozen=True)
class WayAsked:
    """What a command asks for: the way to a host of the packet that words describe."""

    target: str
    packet: list[str]
    every: bool = False
    as_json: bool = False
    page: str | None = None


def way_asked(words: list[str]) -> WayAsked | None:
    """Return what the words of a command ask for, behind the host that sends; None where it is
    not written so."""
    rest = list(words)
    page = None
    if "--html" in rest:
        at = rest.index("--html")
        if at + 1 >= len(rest) or rest[at + 1].startswith("--"):
            return None
        page = rest[at + 1]
        del rest[at : at + 2]
    options = {word for word in rest if word.startswith("--")}
    target, *packet = [word for word in rest if word not in options] or [""]
    if options - {"--all", "--json"} or not target:
        return None
    return WayAsked(target, packet, "--all" in options, "--json" in options, page)


def frame_of(topology: Topology, source: Host, target: Host, words: list[str]) -> bytes:
    """Return the frame that words of a command ask for. Raises InputError."""
    kind, *numbers = words or ["ping"]
    if kind == "ping" and not numbers:
        from scapy.layers.inet import ICMP
        from scapy.layers.inet6 import ICMPv6EchoRequest

        return to_host(topology, source, target, ICMP(id=1, seq=1), ICMPv6EchoRequest(id=1, seq=1))
    if kind in ("udp", "tcp"):
        from scapy.layers.inet import TCP, UDP

        given = [PORT, SOURCE_PORT]
        if len(numbers) > 2 or not all(_is_port(each) for each in numbers):
            raise InputError(f"{' '.join(words)}: it is {USAGE}; ports are 0 to 65535")
        given[: len(numbers)] = map(int, numbers)
        make = {"udp": UDP, "tcp": TCP}[kind]
        layer = make(dport=given[0], sport=given[1])
        return to_host(topology, source, target, layer, layer)
    try:
        return frame_bytes(bytes.fromhex("".join(words)), MOST_BYTES)
    except ValueError:
        raise InputError(f"packet {' '.join(words)!r}: it is {USAGE}") from None


def _is_port(text: str) -> bool:
    return text.isdecimal() and int(text) < 1 << 16


def to_host(topology: Topology, source: Host, target: Host, layer: Any, layer6: Any) -> bytes:
    """Return a frame as the kernel of a host makes it for another host, around a layer for IPv4,
    or for IPv6 where only that is there."""
    from scapy.layers.inet import IP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether

    for mine in source.interfaces:
        for theirs in target.interfaces:
            if mine.ip and theirs.ip:
                inner: Any = IP(src=mine.ip, dst=theirs.ip, id=1) / layer
            elif mine.ip6 and theirs.ip6:
                inner = IPv6(src=mine.ip6, dst=theirs.ip6) / layer6
            else:
                continue
            mac = format_mac(next_mac(topology, source, mine, theirs))
            return bytes(Ether(src=format_mac(mine.mac), dst=mac) / inner / bytes(range(56)))
    raise InputError(f"{source.name} and {target.name} have no addresses of one kind")


def next_mac(topology: Topology, source: Host, mine: Interface, theirs: Interface) -> int:
    """Return the MAC address to which a host sends what is for an interface."""
    address = ipaddress.ip_address(theirs.ip or theirs.ip6)
    near = any(address in one.network for one in mine.with_subnets)
    if mine.on_link and near:
        return theirs.mac
    return topology.far_mac(source.name, mine)
