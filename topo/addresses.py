"""Addresses of hosts' interfaces, and the subnets that they lie in."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv6Address, IPv6Interface

SUBNET_BITS = 24
"""Prefix length of a leaf's subnet."""


def format_ipv4(address: int) -> str:
    """Return an IPv4 address, given as an integer, as dotted text."""
    return ".".join(str(byte) for byte in address.to_bytes(4, "big"))


def format_ipv6(address: int) -> str:
    """Return an IPv6 address, given as an integer, as text."""
    return str(IPv6Address(address))


def format_mac(mac: int) -> str:
    """Return a MAC address, given as an integer, as colon-separated text."""
    return mac.to_bytes(6, "big").hex(":")


@dataclass(frozen=True)
class Ipv6:
    """An IPv6 address as an integer, and by which address packets for others go, if there is
    one."""

    address: int
    prefix_bits: int
    gateway: int | None = None

    def __str__(self) -> str:
        return format_ipv6(self.address)


@dataclass(frozen=True)
class Interface:
    """One network interface of a host; ``number`` is its port, from 1."""

    number: int
    address: int
    """IPv4 address as an integer, most significant byte first on the wire; 0 if it has none."""
    mac: int
    switch: str
    """The switch that it is linked to; empty if that is another host."""
    gateway: int | None
    """The address by which packets for others go; its MAC address is the switch's. None: there is
    no such address, and the host reaches its own subnet alone."""
    prefix_bits: int = SUBNET_BITS
    """The prefix length of its subnet."""
    on_link: bool = False
    """Whether the host finds the others of its subnet by ARP, as the hosts of a switch with a
    program of its own do. Otherwise every packet goes to the gateway, and nothing is left to
    ARP."""
    ipv6: Ipv6 | None = None
    name: str = ""
    """What the host calls it; empty: after the host and its number, as ``h0-eth0``."""

    @property
    def ip(self) -> str:
        """Return the IPv4 address as dotted text, or nothing if it has none."""
        return format_ipv4(self.address) if self.address else ""

    @property
    def ip6(self) -> str:
        """Return the IPv6 address as text, or nothing if it has none."""
        return str(self.ipv6) if self.ipv6 else ""

    @property
    def with_subnets(self) -> list[IPv4Interface | IPv6Interface]:
        """Return its addresses with their subnets."""
        found: list[IPv4Interface | IPv6Interface] = []
        if self.address:
            found.append(IPv4Interface((self.address, self.prefix_bits)))
        if self.ipv6:
            found.append(IPv6Interface((self.ipv6.address, self.ipv6.prefix_bits)))
        return found

    @property
    def addresses(self) -> str:
        """Return all its addresses, for people."""
        return ", ".join(filter(None, (self.ip, self.ip6))) or "no address"


@dataclass(frozen=True)
class Subnet:
    """A range of addresses that all lie at one switch, and the interfaces that have them."""

    address: int
    bits: int
    """The prefix length."""
    members: tuple[tuple[int, int], ...]
    """(number among `Topology.stations`, address) of each interface."""


def subnets_of(
    switches: Sequence[str], interfaces: Sequence[Interface]
) -> dict[str, tuple[Subnet, ...]]:
    """Return, by name of a switch, the subnets by which others reach its interfaces; see
    `weft.topo.network.Topology.subnets`.

    Args:
        interfaces: those of all hosts, in the order of `Topology.stations`.
    """
    reached = [
        (number, each) for number, each in enumerate(interfaces) if each.address and each.switch
    ]
    shared: dict[tuple[int, int], set[str]] = {}
    for _, each in reached:
        shared.setdefault(_network_of(each), set()).add(each.switch)
    whole = {
        network
        for network, at in shared.items()
        if len(at) == 1
        and not any(other != network and _overlap(other, network) for other in shared)
    }
    found: dict[str, dict[tuple[int, int], list[tuple[int, int]]]] = {}
    for number, each in reached:
        network = _network_of(each)
        key = network if network in whole else (each.address, 32)
        found.setdefault(each.switch, {}).setdefault(key, []).append((number, each.address))
    return {
        switch: tuple(
            Subnet(address, bits, tuple(members))
            for (address, bits), members in found.get(switch, {}).items()
        )
        for switch in switches
    }


def _network_of(interface: Interface) -> tuple[int, int]:
    bits = interface.prefix_bits
    return interface.address >> (32 - bits) << (32 - bits), bits


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    bits = min(one[1], other[1])
    return one[0] >> (32 - bits) == other[0] >> (32 - bits)


def host_address(leaf: int, position: int) -> int:
    """Return the IPv4 address of host number ``position`` of leaf number ``leaf``, both from 0."""
    return 10 << 24 | leaf << 8 | position + 1
