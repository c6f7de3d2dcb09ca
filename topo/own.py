"""Networks of one's own: any graph of hosts and switches, from Python, networkx or a TOML file.

::

    lab = Network("lab", rate="100Mbit")
    for name in ("a", "b", "c"):
        lab.host(name)
    lab.switch("left")
    lab.switch("right")
    lab.link("a", "left")
    lab.link("b", "left", ip="192.168.7.2/24")
    lab.link("c", "right", rate="10Mbit", delay="2ms")
    lab.link("left", "right", rate="20Mbit", delay="5ms")
    topology = lab.topology()

A TOML file says the same (`read_network`), with the keys ``name``, ``hosts``, ``switches``,
``programs``, ``defaults`` and ``links``. Whatever a network is made from becomes a
`NetworkDocument`, and that a `Topology`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

import msgspec

from weft.base import documents
from weft.base.arguments import path as path_of
from weft.base.arguments import text, whole
from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import parse_duration, parse_rate, parse_size, shown
from weft.topo.network import (
    CPU_PORT,
    DEFAULT_DELAY_NS,
    DEFAULT_QUEUE_BYTES,
    DEFAULT_RATE_BPS,
    MAX_HOSTS_PER_LEAF,
    MAX_PORTS,
    MAX_SWITCHES,
    Host,
    Interface,
    Link,
    Port,
    Switch,
    Topology,
    check_link_figures,
    format_mac,
    host_address,
    with_cpu_port,
)

PAIR_BITS = 31
"""The prefix length of a subnet of two addresses, each of which a host may have (RFC 3021)."""
MOST_BYTES = 16 << 20
"""The largest network file that is read."""
PROMPT_WORDS = (
    "EOF", "counters", "dpctl", "dump", "exit", "gterm", "help", "intfs", "iperf", "iperfudp",
    "link", "links", "load", "loads", "net", "nodes", "noecho", "pingall", "pingallfull",
    "pingpair", "pingpairfull", "ports", "px", "py", "quit", "report", "sh", "source", "switch",
    "switches", "tables", "time", "trace", "wait", "x", "xterm",
)  # fmt: skip
"""The words of the prompt of ``weft up``: what is meant for a host called ``sh`` would run on the
machine itself."""
RESERVED_NAMES = PROMPT_WORDS
"""Names that no node may have. The emulated world itself needs ``switches``, too."""
SWITCH_ADDRESSES = IPv4Interface("10.254.0.0/16").network
"""The addresses of switches that send packets of their own (`weft.controller`)."""

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]{0,30}[A-Za-z0-9_])?")
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
Figure = str | int
"""A number with its unit, as text, or a number of bit/s, ns or bytes."""


class Figures(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Hold the rate, the delay and the queue of links."""

    rate: Figure | None = None
    delay: Figure | None = None
    queue: Figure | None = None


class LinkDocument(Figures, forbid_unknown_fields=True, omit_defaults=True):
    """Describe a link; ``ip``, ``mac`` and ``gateway`` are those of its host's interface."""

    ends: tuple[str, str] = ("", "")
    ports: dict[str, int] = {}
    """The port numbers that it has at its switches, by their names; by default the next free
    ones."""
    ip: str | None = None
    mac: str | None = None
    gateway: str | None = None


class NetworkDocument(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Describe a network."""

    name: str = "network"
    hosts: list[str] = []
    switches: list[str] = []
    programs: dict[str, str] = {}
    """The paths of the P4 programs of switches that do not run the fabric's."""
    cpu_port: int = msgspec.field(default=CPU_PORT, name="cpu-port")
    """The number that switches have for the port to the controller."""
    defaults: Figures = msgspec.field(default_factory=Figures)
    links: list[LinkDocument] = []


class Network:
    """Put a network together from Python, node by node and link by link.

    Args:
        name: what it is called.
        rate: of links that say nothing else: ``"100Mbit"``, or bit/s.
        delay: likewise: ``"1ms"``, or ns.
        queue: bound of a port's queue: ``"512KiB"``, or bytes.
        cpu_port: the number that switches have for the port to the controller.
    """

    def __init__(
        self,
        name: str = "network",
        *,
        rate: Figure | None = None,
        delay: Figure | None = None,
        queue: Figure | None = None,
        cpu_port: int = CPU_PORT,
    ) -> None:
        what = f"network {shown(name)}"
        figures = {"rate": rate, "delay": delay, "queue": queue}
        self._document = NetworkDocument(
            text("network", name, "'lab'"),
            cpu_port=whole(f"{what}: cpu_port", cpu_port, "255"),
            defaults=documents.typed(Figures, figures, what),
        )

    def host(self, name: str) -> str:
        """Add a host, and return its name. Hosts are ranks in the order in which they are added;
        a host has an interface for each of its links."""
        self._document.hosts.append(text("host", name, "'h0'"))
        return name

    def switch(self, name: str, program: "str | Path | None" = None) -> str:
        """Add a switch, and return its name.

        Args:
            program: the path of a P4 program of its own. Such a switch has no entries but those
                that are written to it, and its hosts find each other by ARP. Without one it runs
                the fabric's program.
        """
        text("switch", name, "'left'")
        if program is not None:
            own = path_of(f"switch {name!r}: program", program, "'mine.p4'")
            self._document.programs[name] = str(Path(own).absolute())
        self._document.switches.append(name)
        return name

    def link(
        self,
        one: str,
        other: str,
        *,
        rate: Figure | None = None,
        delay: Figure | None = None,
        queue: Figure | None = None,
        ports: Mapping[str, int] | None = None,
        ip: str | None = None,
        mac: str | None = None,
        gateway: str | None = None,
    ) -> None:
        """Link two nodes: two switches, or a host and a switch.

        Args:
            rate, delay, queue: those of the link in each direction.
            ports: the numbers of its ports at switches, by their names; by default the next free
                ones.
            ip: the address and prefix length of the host's interface, like ``10.0.1.7/24``; by
                default one in a /24 of the switch.
            mac: the MAC address of the host's interface.
            gateway: the address by which the host sends to others.
        """
        given: dict[str, object] = {
            "ends": [one, other], "rate": rate, "delay": delay, "queue": queue, "ip": ip,
            "mac": mac, "gateway": gateway,
        }  # fmt: skip
        if ports is not None:
            given["ports"] = dict(ports) if isinstance(ports, Mapping) else ports
        what = f"network {self._document.name!r}: link {shown(one)}-{shown(other)}"
        self._document.links.append(documents.typed(LinkDocument, given, what))

    def topology(self) -> Topology:
        """Return the network. Raises InputError, which names what is wrong, and where."""
        return topology_of(self._document, f"network {self._document.name!r}")


def read_network(path: str | Path) -> Topology:
    """Return the network of a TOML file. Raises InputError, which names the file and the place."""
    file = Path(path_of("network file", path, "'lab.toml'"))
    what = f"network file {str(path)!r}"
    found = documents.opened(file, MOST_BYTES, what, "TOML")
    document = documents.typed(NetworkDocument, found, what)
    folder = file.absolute().parent
    document.programs = {
        switch: program and str(folder / program) for switch, program in document.programs.items()
    }
    if "name" not in found:
        document.name = file.stem
    return topology_of(document, what)


def from_networkx(graph: Any, name: str = "network", **defaults: Figure) -> Topology:
    """Return the network that a graph of networkx describes.

    A node's attribute ``kind`` says ``host`` or ``switch``; a node without one is a host if it has
    one link, and a switch else. A switch may have a ``program``. Attributes of edges are those of
    `Network.link`. A node that is a number n is called ``h<n>`` or ``s<n>``.

    Args:
        graph: an undirected graph without parallel edges (``networkx.Graph``).
        defaults: ``rate``, ``delay`` and ``queue`` of links that say nothing else.

    Raises:
        InputError: it is no such graph, or no network.
    """
    lacking = [each for each in ("nodes", "edges", "degree") if not hasattr(graph, each)]
    if lacking:
        raise InputError(f"graph {shown(graph)}: give a networkx.Graph")
    refuse(
        graph.is_directed() or graph.is_multigraph(),
        f"graph {graph}: links have both directions, and two nodes have one at most: give a "
        "networkx.Graph, not a directed or a multiple one",
    )
    figures: dict[str, Any] = dict(defaults)
    network = Network(name, **figures)
    names: dict[Any, str] = {}
    for node, attributes in graph.nodes(data=True):
        kind = attributes.get("kind", "host" if graph.degree[node] == 1 else "switch")
        if kind not in ("host", "switch"):
            raise InputError(f"node {node!r}: kind {shown(kind)} is neither host nor switch")
        names[node] = f"{kind[0]}{node}" if isinstance(node, int) else str(node)
        if kind == "host":
            network.host(names[node])
        else:
            network.switch(names[node], attributes.get("program"))
    known = [name for name in LinkDocument.__struct_fields__ if name != "ends"]
    for one, other, attributes in graph.edges(data=True):
        given = {name: value for name, value in attributes.items() if name in known}
        network.link(names[one], names[other], **given)
    return network.topology()


@lru_cache(maxsize=64)
def topology_from(text: str) -> Topology:
    """Return the network that `Topology.document` describes. Raises InputError."""
    return topology_of(documents.decoded(NetworkDocument, text, "network"), "network")


def topology_of(document: NetworkDocument, what: str) -> Topology:
    """Return the network that a document describes.

    Raises InputError, which begins with ``what`` and names the place.
    """
    try:
        return _Build(document).topology()
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


def with_programs(topology: Topology, programs: Mapping[str, str]) -> Topology:
    """Return a network some of whose switches run other programs, given by their paths.

    Hosts of such switches find each other by ARP, in every network. In a Clos of several leaves
    they reach the subnets of other leaves by a gateway, as all hosts there do. Raises InputError
    for an unknown switch.
    """
    for name in programs:
        topology.switch(name)
    if topology.document:
        document = documents.decoded(NetworkDocument, topology.document, "network")
        document.programs |= programs
        return topology_of(document, f"network {topology.name!r}")
    switches = tuple(
        replace(each, program=programs.get(each.name, each.program)) for each in topology.switches
    )
    hosts = tuple(
        replace(
            host,
            interfaces=tuple(
                _on_link(each, len(topology.edge) > 1) if each.switch in programs else each
                for each in host.interfaces
            ),
        )
        for host in topology.hosts
    )
    return replace(topology, switches=switches, hosts=hosts)


def with_ordinary_hosts(topology: Topology) -> Topology:
    """Return a network whose hosts are as with programs of their own at all switches, which is what
    somebody else may bring."""
    bare = [switch.name for switch in topology.switches if not switch.program]
    found = with_programs(topology, dict.fromkeys(bare, "a client's"))
    return replace(found, switches=topology.switches, document=topology.document)


def _on_link(interface: Interface, gateway: bool) -> Interface:
    """Return an interface whose host finds its subnet by ARP, with its gateway or without."""
    return replace(interface, on_link=True, gateway=interface.gateway if gateway else None)


@dataclass(frozen=True)
class _Joint:
    """Hold what is known of a link before levels are: its ends, and the place in the document."""

    place: str
    ends: tuple[str, str]
    document: LinkDocument
    rate_bps: int
    delay_ns: int
    queue_bytes: int


class _Build:
    """Make a topology of a document, and check everything on the way."""

    def __init__(self, document: NetworkDocument) -> None:
        self._document = document
        self._switches = {name: index for index, name in enumerate(document.switches)}
        self._hosts = {name: rank for rank, name in enumerate(document.hosts)}
        self._nodes = {**self._hosts, **self._switches}
        self._interfaces: dict[str, list[Interface]] = {name: [] for name in document.hosts}
        self._ports: dict[str, dict[int, str]] = {name: {} for name in document.switches}
        """By switch: which link has each of its ports."""
        self._positions = dict.fromkeys(document.switches, 0)

    def topology(self) -> Topology:
        """Return the topology."""
        document = self._document
        self._check_names()
        joints = [self._joint(index, each) for index, each in enumerate(document.links)]
        self._check_pairs(joints)
        self._number_ports(joints)
        self._address(joints)
        levels = self._levels(joints)
        interfaces = dict.fromkeys(document.hosts, 0)
        links = []
        for each in joints:
            ends = self._ordered(each.ends, levels)
            ports = []
            for name in ends:
                if name in interfaces:
                    interfaces[name] += 1
                    ports.append(Port(name, interfaces[name]))
                else:
                    ports.append(Port(name, self._port_of(name, each)))
            a, b = ports
            links.append(Link(a, b, each.rate_bps, each.delay_ns, each.queue_bytes))
        found = Topology(
            document.name,
            tuple(
                Host(name, rank, tuple(self._interfaces[name]))
                for name, rank in self._hosts.items()
            ),
            tuple(
                Switch(
                    name, "own", index, index + 1, levels[name],
                    program=document.programs.get(name, ""),
                )
                for name, index in self._switches.items()
            ),
            tuple(links),
            document=msgspec.json.encode(document).decode(),
        )  # fmt: skip
        return with_cpu_port(found, document.cpu_port)

    def _check_names(self) -> None:
        document = self._document
        names = [*document.hosts, *document.switches]
        for kind, some in (("hosts", document.hosts), ("switches", document.switches)):
            refuse(not some, f"{kind} are missing: a network has at least one host and one switch")
            for name in some:
                if not _NAME.fullmatch(name):
                    raise InputError(
                        f"{kind}: {shown(name)} is no name: write a letter, and then letters, "
                        "digits, underscores, and dots and hyphens inside, 32 at most"
                    )
                if name in RESERVED_NAMES:
                    raise InputError(
                        f"{kind}: {name!r} is taken: the prompt of weft up, or the network itself, "
                        f"needs the word; call it {name}0 or otherwise"
                    )
        name, times = Counter(names).most_common(1)[0]
        refuse(times > 1, f"{name!r} is there {times} times: every node has a name of its own")
        refuse(
            len(document.switches) > MAX_SWITCHES,
            f"{len(document.switches)} switches: at most {MAX_SWITCHES} can be told apart",
        )
        if not document.name or not document.name.isprintable():
            raise InputError(f"name {shown(document.name)} is no name")
        for name, program in document.programs.items():
            self._check_node("programs", name, self._switches, "switch")
            refuse(not program, f"programs.{name} is empty: name a P4 file, or leave it out")

    def _check_node(self, place: str, name: str, known: Mapping[str, int], kind: str) -> None:
        if name not in known:
            raise InputError(f"{place}: there is no {kind} {name!r}{did_you_mean(name, known)}")

    def _joint(self, index: int, link: LinkDocument) -> _Joint:
        place = f"links[{index}]"
        one, other = link.ends
        for name in link.ends:
            self._check_node(f"{place}.ends", name, self._nodes, "node")
        refuse(one == other, f"{place}.ends: {one!r} is linked to itself")
        hosts = [name for name in link.ends if name in self._hosts]
        refuse(
            len(hosts) > 1,
            f"{place}.ends: {one!r} and {other!r} are both hosts: put a switch between them",
        )
        place = f"{place} ({one}-{other})"
        for name in ("ip", "mac", "gateway"):
            if not hosts and getattr(link, name) is not None:
                raise InputError(
                    f"{place}.{name} {shown(getattr(link, name))}: it is for the link of a host"
                )
        rate_bps = self._figure(link, place, "rate", DEFAULT_RATE_BPS)
        delay_ns = self._figure(link, place, "delay", DEFAULT_DELAY_NS)
        queue_bytes = self._figure(link, place, "queue", DEFAULT_QUEUE_BYTES)
        try:
            check_link_figures(rate_bps, delay_ns, queue_bytes)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        return _Joint(place, (one, other), link, rate_bps, delay_ns, queue_bytes)

    def _figure(self, link: LinkDocument, place: str, name: str, otherwise: int) -> int:
        parse = {"rate": parse_rate, "delay": parse_duration, "queue": parse_size}[name]
        for value, where in (
            (getattr(link, name), f"{place}.{name}"),
            (getattr(self._document.defaults, name), f"defaults.{name}"),
        ):
            if value is not None:
                return parse(value, where)
        return otherwise

    def _check_pairs(self, joints: Iterable[_Joint]) -> None:
        known: dict[frozenset[str], str] = {}
        for each in joints:
            pair = frozenset(each.ends)
            if pair in known:
                raise InputError(
                    f"{each.place}: its ends are linked by {known.get(pair)} already: two nodes "
                    "have one link; raise its rate, or put a switch between"
                )
            known[pair] = each.place
        named: dict[str, str] = {}
        for each in joints:
            one, other = each.ends
            for name in (f"{one}-{other}", f"{other}-{one}"):
                taken = named.setdefault(name, each.place)
                refuse(
                    taken != each.place,
                    f"{each.place}: {taken} is called {name}, too: give one of the nodes another "
                    "name",
                )
        linked = {name for pair in known for name in pair}
        for name in self._hosts:
            refuse(name not in linked, f"host {name!r} has no link: link it to a switch")

    def _number_ports(self, joints: Iterable[_Joint]) -> None:
        """Give every link its ports: first those that are asked for, then the next free ones."""
        for each in joints:
            for name, port in each.document.ports.items():
                refuse(
                    name not in each.ends or name not in self._switches,
                    f"{each.place}.ports: {name!r} is no switch of this link",
                )
                own = bool(self._document.programs.get(name))
                refuse(
                    port == 0 and not own,
                    f"{each.place}.ports.{name} 0: the fabric's program has no port 0, which "
                    "switches with a program of their own may have",
                )
                refuse(
                    not 0 <= port <= MAX_PORTS,
                    f"{each.place}.ports.{name} {port}: a port is 1 to {MAX_PORTS}, or 0 of a "
                    "switch with a program of its own",
                )
                taken = self._ports[name].setdefault(port, each.place)
                refuse(
                    taken != each.place,
                    f"{each.place}.ports.{name} {port}: {taken} has that port already",
                )
        for each in joints:
            for name in each.ends:
                if name in self._switches and name not in each.document.ports:
                    used = self._ports[name]
                    port = next(one for one in range(1, len(used) + 2) if one not in used)
                    refuse(
                        port > MAX_PORTS,
                        f"{each.place}: {name} has {MAX_PORTS} links, which is all that v1model "
                        "has port numbers for",
                    )
                    used[port] = each.place

    def _port_of(self, switch: str, joint: _Joint) -> int:
        return next(port for port, place in self._ports[switch].items() if place == joint.place)

    def _levels(self, joints: Iterable[_Joint]) -> dict[str, int]:
        """Return how many links every switch is away from the nearest host."""
        neighbours: dict[str, list[str]] = {name: [] for name in self._switches}
        waiting: list[str] = []
        for each in joints:
            hosts = [name for name in each.ends if name in self._hosts]
            for name, other in (each.ends, each.ends[::-1]):
                if hosts and name in self._switches:
                    waiting.append(name)
                elif not hosts:
                    neighbours[name].append(other)
        levels = dict.fromkeys(waiting, 1)
        for name in (queue := list(levels)):
            for other in neighbours[name]:
                if other not in levels:
                    levels[other] = levels[name] + 1
                    queue.append(other)
        most = max(levels.values(), default=0)
        return {name: levels.get(name, most + 1) for name in self._switches}

    def _ordered(self, ends: tuple[str, str], levels: Mapping[str, int]) -> tuple[str, str]:
        """Return the ends of a link, the one nearer to the hosts first."""
        one, other = (levels.get(name, 0) for name in ends)
        return ends if one <= other else (ends[1], ends[0])

    # -- addresses

    def _address(self, joints: Iterable[_Joint]) -> None:
        """Give every interface of a host its addresses: those that are asked for, or free ones."""
        of_hosts: list[tuple[_Joint, str, str]] = []
        for each in joints:
            one, other = each.ends
            if one in self._hosts:
                of_hosts.append((each, one, other))
            elif other in self._hosts:
                of_hosts.append((each, other, one))
        given: dict[int, str] = {}
        asked: dict[str, IPv4Interface] = {}
        for each, _, _ in of_hosts:
            if each.document.ip is not None:
                asked[each.place] = interface = _interface_address(each)
                other = given.setdefault(int(interface.ip), each.place)
                refuse(
                    other != each.place,
                    f"{each.place}.ip {interface.ip}: {other} has that address already",
                )
        macs: dict[int, str] = {}
        for each, host, switch in of_hosts:
            own = asked.get(each.place) or self._free_address(each, switch, given)
            program = switch in self._document.programs
            mac = _mac(each) if each.document.mac is not None else 0x0200 << 32 | int(own.ip)
            other = macs.setdefault(mac, each.place)
            if other != each.place:
                raise InputError(
                    f"{each.place}.mac {format_mac(mac)}: {other} has that address already"
                )
            self._interfaces[host].append(
                Interface(
                    len(self._interfaces[host]) + 1,
                    int(own.ip),
                    mac,
                    switch,
                    self._gateway(each, own, given, program),
                    own.network.prefixlen,
                    on_link=program,
                )
            )

    def _free_address(self, joint: _Joint, switch: str, given: dict[int, str]) -> IPv4Interface:
        """Return the next address of a switch's /24 that no interface has."""
        while True:
            position = self._positions[switch]
            self._positions[switch] += 1
            refuse(
                position >= MAX_HOSTS_PER_LEAF,
                f"{joint.place}: {switch} has {MAX_HOSTS_PER_LEAF} interfaces, and its /24 no more "
                "addresses: give others by ip",
            )
            address = host_address(self._switches[switch], position)
            refuse(
                IPv4Address(address) in SWITCH_ADDRESSES,
                f"{joint.place}: {switch} has no /24 of its own among so many switches: give ip",
            )
            if given.setdefault(address, joint.place) == joint.place:
                return IPv4Interface((address, 24))

    def _gateway(
        self, joint: _Joint, own: IPv4Interface, given: Mapping[int, str], program: bool
    ) -> int | None:
        """Return the address by which an interface sends to others: the one that is asked for, or
        the last of its subnet that no interface has; none if others are found by ARP."""
        asked = joint.document.gateway
        if asked is not None:
            place = f"{joint.place}.gateway {shown(asked)}"
            try:
                gateway = IPv4Address(asked)
            except AddressValueError:
                raise InputError(f"{place} is no IPv4 address, like 10.0.1.254") from None
            if not program and int(gateway) in given:
                raise InputError(f"{place}: {given.get(int(gateway))} has that address")
            refuse(
                program and gateway not in own.network,
                f"{place} is not in the subnet {own.network}, so it cannot be found by ARP",
            )
            return int(gateway)
        if program:
            return None
        network, pair = own.network, own.network.prefixlen == PAIR_BITS
        last = int(network.broadcast_address) - (not pair)
        for address in range(last, int(network.network_address) - pair, -1):
            if address not in given:
                return address
        raise InputError(f"{joint.place}: its subnet {network} has no free address for a gateway")


def _interface_address(joint: _Joint) -> IPv4Interface:
    text = joint.document.ip or ""
    place = f"{joint.place}.ip {shown(text)}"
    try:
        found = IPv4Interface(text)
    except ValueError as error:
        raise InputError(f"{place} is no IPv4 address and prefix length: {error}") from None
    refuse("/" not in text, f"{place} has no prefix length: write it like 10.0.1.7/24")
    refuse(
        not 8 <= found.network.prefixlen <= PAIR_BITS,
        f"{place}: a prefix length is 8 to {PAIR_BITS}, so that there is room for a gateway",
    )
    refuse(
        found.ip.is_multicast
        or found.ip.is_loopback
        or found.ip.is_reserved
        or found.ip.is_unspecified
        or int(found.ip) >> 24 == 0,
        f"{place} is no address of a host",
    )
    refuse(
        found.network.prefixlen < PAIR_BITS
        and found.ip in (found.network.network_address, found.network.broadcast_address),
        f"{place} is the address of a whole subnet, {found.network}, or its broadcast address",
    )
    refuse(
        found.ip in SWITCH_ADDRESSES,
        f"{place}: {SWITCH_ADDRESSES} is for packets that switches send",
    )
    return found


def _mac(joint: _Joint) -> int:
    text = joint.document.mac or ""
    if not _MAC.fullmatch(text):
        raise InputError(
            f"{joint.place}.mac {shown(text)} is no MAC address, like 02:00:00:00:00:07"
        )
    mac = int(text.replace(":", ""), 16)
    refuse(
        mac >> 40 & 1 or mac == 0 or mac >> 16 == 0x0600_0000,
        f"{joint.place}.mac {text}: a host's is no group address, not zero, and none that begins "
        "with 06:00:00:00, as those of switches do",
    )
    return mac
