"""What the network is, as pure data: hosts, switches and links with names and addresses.

Nothing here opens a socket or knows which world will bring the network up. A link is named by its
two ends, the one nearer to the hosts first (``h0-leaf0``, ``leaf0-spine1``); one direction of it by
where it goes (``leaf0>spine1``). Where two nodes have several links, ports are part of the names:
``s1:1-s2:1`` and ``s1:2-s2:2``, ``s1:2>s2:2``. Every link may be called so. Ports of a switch count
from 1, those of a host likewise, one for each of its interfaces.

A network is a Clos of one of Weft's own shapes (`weft.topo.clos`), or any graph
(`weft.topo.own`). In a Clos nodes are named by tier and index (``h3``, ``leaf0``, ``spine1``,
``agg2``, ``core0``), and the ports of a switch are what hangs below it first, then its uplinks.

Addresses, where none are given: interface j of the switch i that hosts are linked to is
``10.(i div 256).(i mod 256).(j + 1)`` in that switch's /24, whose gateway is ``.254``. MAC
addresses: ``02:00`` and the IPv4 address for a host, ``06:00:00:00`` and the device id for a
switch.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

from weft.base.errors import InputError
from weft.switch.priority_queues import QueueChange
from weft.topo.addresses import Interface, Subnet, subnets_of

Tier = Literal["leaf", "spine", "agg", "core", "own"]
"""A leaf has hosts; a spine tops two tiers; aggregation and core top three. Switches
of a network that is no Clos are ``own``."""

LinkTier = Literal["host_up", "host_down", "fabric_up", "fabric_down"]
"""Where in the network one direction of a link lies."""

LINK_TIERS: tuple[LinkTier, ...] = get_args(LinkTier)
FABRIC_TIERS: tuple[LinkTier, ...] = ("fabric_up", "fabric_down")
"""The directions of links between switches."""

LEVELS: dict[Tier, int] = {"leaf": 1, "spine": 2, "agg": 2, "core": 3}
"""How far above the hosts (level 0) a switch of a Clos stands."""

MAX_HOSTS_PER_LEAF = 253
"""A leaf's /24 without its network, gateway (.254) and broadcast addresses."""

MAX_DELAY_NS = 10**9
"""The longest delay of a link."""
MAX_PORTS = 509
"""v1model's port numbers have 9 bits; 0 is unused, 510 is the CPU port, 511 means drop."""
CPU_PORT = 510
"""The port to the controller, if a network names no other."""
DROP_PORT = 511

MAX_SWITCHES = 65535
"""A switch's MAC address holds its device id in 16 bits."""

DEFAULT_RATE_BPS = 100_000_000
DEFAULT_DELAY_NS = 0
DEFAULT_QUEUE_BYTES = 512 * 1024
"""Bound of a port's queue. Room for bursts of all roots of a paced multicast Allgather that meet at
one host."""

HOST_PORT = 1


@dataclass(frozen=True)
class Host:
    """An end host, which has one rank, and one network interface or several; it is known
    by the address of the first, over which its rank sends."""

    name: str
    rank: int
    interfaces: tuple[Interface, ...]
    level: int = 0
    commands: tuple[str, ...] = ()
    """Commands that its shell runs once the network is up."""

    @property
    def address(self) -> int:
        """Return the IPv4 address of the first interface, as an integer; 0 if it has none."""
        return self.interfaces[0].address

    @property
    def mac(self) -> int:
        """Return the MAC address of the first interface, as an integer."""
        return self.interfaces[0].mac

    @property
    def leaf(self) -> str:
        """Return the name of the switch that the first interface is linked to; nothing if that is
        another host."""
        return self.interfaces[0].switch

    @property
    def gateway(self) -> int | None:
        """Return the gateway's IPv4 address of the first interface, as an integer."""
        return self.interfaces[0].gateway

    @property
    def ip(self) -> str:
        """Return the IPv4 address of the first interface as dotted text, or nothing."""
        return self.interfaces[0].ip


@dataclass(frozen=True)
class Switch:
    """A P4 switch.

    ``index`` counts within its tier; ``device_id`` counts from 1 over all switches, if the network
    does not say otherwise.
    """

    name: str
    tier: Tier
    index: int
    device_id: int
    level: int
    """How many links it is away from the nearest host: 1 for a leaf, 2 for a spine or an
    aggregation switch, 3 for a core switch."""
    pod: int | None = None
    """The pod of a leaf or aggregation switch of three tiers."""
    program: str = ""
    """The path of a P4 program of its own; empty if it runs the fabric's."""
    entries: tuple[str, ...] = ()
    """The paths of files with what goes into it once the network is up."""

    @property
    def mac(self) -> int:
        """Return the MAC address of all its ports, as an integer."""
        return 0x0600_0000_0000 | self.device_id


@dataclass(frozen=True)
class Port:
    """A port, by its node and its number."""

    node: str
    number: int

    def __str__(self) -> str:
        return f"{self.node}:{self.number}"

    def is_called(self, name: str) -> bool:
        """Return whether a text names it: its node, or node and number, as ``s1:2``."""
        return name == self.node or name == str(self)


@dataclass(frozen=True)
class Link:
    """A full-duplex link.

    ``a`` is the end nearer to the hosts. Rate, delay and queue hold in either direction.
    """

    a: Port
    b: Port
    rate_bps: int
    delay_ns: int
    queue_bytes: int
    parallel: bool = False
    """Whether its nodes have other links with each other, so that it is named by its ports."""
    loss: float = 0.0
    """The probability by which it loses a packet, in either direction."""
    jitter_ns: int = 0
    """By how much at most the delay of a packet is greater or less, at random; packets stay in
    order."""

    @property
    def ends(self) -> tuple[str, str]:
        """Return the names of its ends: nodes, or ports if it is parallel to others."""
        return self.name_of(self.a), self.name_of(self.b)

    def name_of(self, end: Port) -> str:
        """Return the name of one of its ends."""
        return str(end) if self.parallel else end.node

    @property
    def nodes(self) -> tuple[str, str]:
        """Return its two nodes."""
        return self.a.node, self.b.node

    @property
    def name(self) -> str:
        """Return the name of the link, for example ``leaf0-spine1``."""
        return "-".join(self.ends)


@dataclass(frozen=True)
class Direction:
    """One direction of a link, in which packets leave ``source`` and arrive at
    ``destination``."""

    link: Link
    source: Port
    destination: Port
    tier: LinkTier

    @property
    def name(self) -> str:
        """Return the name of the direction, for example ``leaf0>spine1``."""
        return ">".join(self.ends)

    @property
    def ends(self) -> tuple[str, str]:
        """Return the names of its ends, (from, to), which are the key of figures by direction:
        nodes, or ports of links that are parallel to others."""
        return self.link.name_of(self.source), self.link.name_of(self.destination)

    @property
    def nodes(self) -> tuple[str, str]:
        """Return its nodes, (from, to)."""
        return self.source.node, self.destination.node

    @property
    def upward(self) -> bool:
        """Return whether it leads away from the hosts."""
        return self.tier in ("host_up", "fabric_up")


Node = Host | Switch


@dataclass(frozen=True)
class Topology:
    """A network by its nodes in order (hosts by rank, switches by device id) and its
    links."""

    name: str
    """That of the shape (``leaf-spine``, ``single``, ``fat-tree``, ``pods``), or of one's own."""
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    clos: bool = False
    """Whether it is one of Weft's own shapes, whose tiers and counts say all about it."""
    document: str = ""
    """What a network of one's own was made from, as JSON (`weft.topo.own.NetworkDocument`)."""
    cpu_port: int = CPU_PORT
    """The number that switches have for the port to the controller."""
    priority_queues: int = 1
    """The queues of each port of a switch, of priorities from 0 on."""
    queue_changes: tuple[QueueChange, ...] = ()
    """What holds for each of them, if not the same for all."""
    left_out: tuple[str, ...] = ()
    """What its file asks beside, and nothing does."""

    @cached_property
    def nodes(self) -> dict[str, Node]:
        """Return every host and switch by name."""
        nodes: tuple[Node, ...] = (*self.hosts, *self.switches)
        return {node.name: node for node in nodes}

    @cached_property
    def directions(self) -> tuple[Direction, ...]:
        """Return both directions of every link: upward, then downward, in the order of the
        links."""
        directions: list[Direction] = []
        for link in self.links:
            host = self.nodes[link.a.node].level == 0
            down: LinkTier = "host_down" if host else "fabric_down"
            if self.between_hosts(link):
                down = "host_up"  # a host sends
            directions += (
                Direction(link, link.a, link.b, "host_up" if host else "fabric_up"),
                Direction(link, link.b, link.a, down),
            )
        return tuple(directions)

    @cached_property
    def _outward(self) -> dict[str, tuple[Direction, ...]]:
        outward: dict[str, list[Direction]] = {name: [] for name in self.nodes}
        for direction in self.directions:
            outward[direction.source.node].append(direction)
        return {
            name: tuple(sorted(found, key=lambda direction: direction.source.number))
            for name, found in outward.items()
        }

    @cached_property
    def _links_by_name(self) -> dict[str, Link]:
        return {link.name: link for link in self.links}

    @cached_property
    def _links_turned(self) -> dict[str, Link]:
        return {"-".join(link.ends[::-1]): link for link in self.links}

    @cached_property
    def _directions_by_ends(self) -> dict[tuple[str, str], Direction]:
        return {direction.ends: direction for direction in self.directions}

    def node(self, name: str) -> Node:
        """Return the host or switch of that name; raise InputError if there is none."""
        try:
            return self.nodes[name]
        except KeyError:
            raise InputError(_unknown("node", name, self.nodes)) from None

    def host(self, key: int | str) -> Host:
        """Return the host of that rank or name; raise InputError if there is none."""
        if isinstance(key, int):
            if not 0 <= key < len(self.hosts):
                raise InputError(f"no rank {key}: the ranks are 0 to {len(self.hosts) - 1}")
            return self.hosts[key]
        node = self.nodes.get(key) if isinstance(key, str) else None
        if not isinstance(node, Host):
            raise InputError(_unknown("host", key, [host.name for host in self.hosts]))
        return node

    def switch(self, name: str) -> Switch:
        """Return the switch of that name; raise InputError if there is none."""
        node = self.nodes.get(name) if isinstance(name, str) else None
        if not isinstance(node, Switch):
            raise InputError(_unknown("switch", name, [switch.name for switch in self.switches]))
        return node

    def switches_of(self, tier: Tier) -> tuple[Switch, ...]:
        """Return the switches of a tier, by index."""
        return tuple(switch for switch in self.switches if switch.tier == tier)

    def hosts_of(self, leaf: str) -> tuple[Host, ...]:
        """Return the hosts below a leaf, by port; empty for the other switches."""
        self.switch(leaf)
        below = (self.nodes[name] for name in self.neighbours(leaf))
        return tuple(node for node in below if isinstance(node, Host))

    def leaf_of(self, host: int | str) -> Switch:
        """Return the switch that a host's first interface is linked to."""
        return self.switch(self.host(host).leaf)

    @cached_property
    def unmanaged(self) -> frozenset[str]:
        """Return the names of the switches that run a program of their own."""
        return frozenset(switch.name for switch in self.switches if switch.program)

    @cached_property
    def edge(self) -> tuple[Switch, ...]:
        """Return the switches that hosts are linked to, by device id: the leaves of a Clos."""
        names = {each.switch for _, each in self.stations}
        return tuple(switch for switch in self.switches if switch.name in names)

    @cached_property
    def stations(self) -> tuple[tuple[Host, Interface], ...]:
        """Return all interfaces of hosts: the first one of each by rank, and then all others."""
        first = [(host, host.interfaces[0]) for host in self.hosts]
        more = [(host, each) for host in self.hosts for each in host.interfaces[1:]]
        return (*first, *more)

    def interface_at(self, port: Port) -> Interface | None:
        """Return the interface at a port; None if it is a switch's."""
        node = self.nodes[port.node]
        return node.interfaces[port.number - 1] if isinstance(node, Host) else None

    @cached_property
    def station_of(self) -> dict[tuple[str, int], int]:
        """Return the places of interfaces among `stations`, by host and port number."""
        return {
            (host.name, each.number): number for number, (host, each) in enumerate(self.stations)
        }

    def between_hosts(self, link: Link) -> bool:
        """Return whether a link joins two hosts, without a switch."""
        return self.nodes[link.b.node].level == 0

    def far_mac(self, host: str, interface: Interface) -> int:
        """Return the MAC address of what a host's interface is linked to, as an integer."""
        far = self.outward(host)[interface.number - 1].destination
        found = self.interface_at(far)
        return self.switch(far.node).mac if found is None else found.mac

    @cached_property
    def subnets(self) -> dict[str, tuple[Subnet, ...]]:
        """Return, by name of an edge switch, the subnets by which others reach its interfaces.

        A subnet that other switches' interfaces share is told apart by single addresses. These are
        subnets of IPv4; interfaces without such an address are in none.
        """
        return subnets_of([each.name for each in self.edge], [each for _, each in self.stations])

    def outward(self, node: str) -> tuple[Direction, ...]:
        """Return the directions that leave a node, one for each port, by port number."""
        self.node(node)
        return self._outward[node]

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Return the names of a node's neighbours, each once, by port number."""
        found = (direction.destination.node for direction in self.outward(node))
        return tuple(dict.fromkeys(found))

    def _called(self, source: str, destination: str) -> tuple[Direction, ...]:
        """Return the directions that may be meant by the names of two ends."""
        exact = self._directions_by_ends.get((source, destination))
        if exact is not None:
            return (exact,)
        return tuple(
            each
            for each in self._outward.get(_without_port(source), ())
            if each.source.is_called(source) and each.destination.is_called(destination)
        )

    def direction(self, source: str, destination: str) -> Direction:
        """Return the direction from a node to its neighbour, each of which may be given with its
        port (``s1:2``); raise InputError if they are not neighbours, or have several links."""
        found = self._called(source, destination)
        if not found:
            for name in (destination, source):
                self.node(_without_port(name))
            raise InputError(
                f"no link from {source} to {destination}: {source} is linked to "
                f"{_some(self._linked_to(source))}"
            )
        if len(found) > 1:
            raise _several(f"from {source} to {destination}", found)
        return found[0]

    def _linked_to(self, name: str) -> list[str]:
        outward = self.outward(_without_port(name))
        return [each.ends[1] for each in outward if each.source.is_called(name)] or [
            each.ends[1] for each in outward
        ]

    def link(self, name: str) -> Link:
        """Return the link of that name (``leaf0-spine1``, ends in either order, each of which may
        have its port: ``s1:2-s2:2``); raise InputError if there is none, or if several have it."""
        found = self._links_by_name.get(name) or self._links_turned.get(name)
        if found is not None:
            return found
        dashes = [place for place, letter in enumerate(name) if letter == "-"]
        called = [
            each for place in dashes for each in self._called(name[:place], name[place + 1 :])
        ]
        if not called:
            raise InputError(_unknown("link", name, self._links_by_name))
        if len(called) > 1:
            raise _several(f"called {name}", called)
        return called[0].link

    def select(self, text: str) -> tuple[Direction, ...]:
        """Return the directions that a text names: both of a link for ``leaf0-spine1``, or one for
        ``leaf0>spine1``; raise InputError as `link` and `direction` do."""
        source, arrow, destination = (part.strip() for part in text.partition(">"))
        if not arrow:
            ends = self.link(text).ends
            return self._directions_by_ends[ends], self._directions_by_ends[ends[::-1]]
        found = self._called(source, destination)
        if not found:
            names = [direction.name for direction in self.directions]
            raise InputError(_unknown("direction of a link", text, names))
        if len(found) > 1:
            raise _several(f"called {text}", found)
        return found

    def directions_of(self, tier: LinkTier) -> tuple[Direction, ...]:
        """Return all directions of a tier of links."""
        return tuple(direction for direction in self.directions if direction.tier == tier)

    def describe(self) -> str:
        """Return one line that tells the shape and its counts."""
        numbers = Counter(switch.tier for switch in self.switches)
        counts = [
            f"{numbers[tier]} {tier} switch{'es' if numbers[tier] > 1 else ''}"
            for tier in ("leaf", "agg", "spine", "core")
            if numbers[tier]
        ]
        if numbers["own"]:
            counts.append(f"{numbers['own']} switch{'es' if numbers['own'] > 1 else ''}")
        told = ", ".join([f"{len(self.hosts)} hosts", *counts])
        return f"{self.name}: {told}, {len(self.links)} links"


def slowest_bps(topology: Topology) -> int:
    """Return the rate, in bit/s, by which the time limits of operations go: that of host links in a
    Clos, and that of the slowest link in any other network."""
    some = topology.directions_of("host_up") if topology.clos else topology.directions
    return min(direction.link.rate_bps for direction in some)


def _without_port(name: str) -> str:
    """Return the node in the name of an end, as in ``s1:2``; what is no name at all stays."""
    return name.partition(":")[0] if isinstance(name, str) else name


def _some(names: Iterable[str], limit: int = 8) -> str:
    known = list(names)
    more = f" and {len(known) - limit} more" if len(known) > limit else ""
    return ", ".join(known[:limit]) + more


def _several(what: str, found: Sequence[Direction]) -> InputError:
    return InputError(
        f"{len(found)} links {what}: {_some(each.link.name for each in found)}; name one by its "
        f"ports, like {found[0].ends[0]} and {found[0].ends[1]}"
    )


def _unknown(kind: str, name: object, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(str(name), names, n=4, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {_some(names)}"
    return f"no {kind} {name!r} in this topology; {hint}"
