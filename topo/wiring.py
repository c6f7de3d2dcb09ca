"""The topology that the document of a network describes: everything is checked on the way."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from weft.base.errors import InputError, did_you_mean, refuse
from weft.base.units import (
    parse_duration,
    parse_probability,
    parse_rate,
    parse_size,
    shown,
)
from weft.topo.addresses import Interface
from weft.topo.figures import check_link_figures, with_cpu_port, with_priority_queues
from weft.topo.host_addresses import Attachment, HostAddresses, check_hosts_named
from weft.topo.network import (
    DEFAULT_DELAY_NS,
    DEFAULT_QUEUE_BYTES,
    DEFAULT_RATE_BPS,
    MAX_PORTS,
    MAX_SWITCHES,
    Host,
    Link,
    Port,
    Switch,
    Topology,
)
from weft.topo.network_document import (
    NODE_NAME,
    RESERVED_NAMES,
    LinkDocument,
    NetworkDocument,
    texts_of,
)


def topology_of(document: NetworkDocument, what: str) -> Topology:
    """Return the network that a document describes.

    Raises InputError, which begins with ``what`` and names the place.
    """
    try:
        return _Build(document).topology()
    except InputError as error:
        raise InputError(f"{what}: {error}") from None


_PARSERS: dict[str, Callable[[str | int, str], int]] = {
    "rate": parse_rate,
    "delay": parse_duration,
    "jitter": parse_duration,
    "queue": parse_size,
}


@dataclass(frozen=True)
class _Joint:
    """What is known of a link before levels are: its ends, and the place in the document."""

    place: str
    ends: tuple[str, str]
    document: LinkDocument
    rate_bps: int
    delay_ns: int
    queue_bytes: int
    loss: float
    jitter_ns: int
    hosts: tuple[str, ...]
    """Its ends that are hosts."""


class _Build:
    """The making of a topology of a document, which checks everything on the way."""

    def __init__(self, document: NetworkDocument) -> None:
        self._document = document
        self._switches = {name: index for index, name in enumerate(document.switches)}
        self._hosts = {name: rank for rank, name in enumerate(document.hosts)}
        self._nodes = {**self._hosts, **self._switches}
        self._interfaces: dict[str, list[Interface]] = {name: [] for name in document.hosts}
        self._ports: dict[str, dict[int, str]] = {name: {} for name in document.switches}
        """By switch: which link has each of its ports."""

    def topology(self) -> Topology:
        """Return the topology."""
        document = self._document
        self._check_names()
        joints = [self._joint(index, each) for index, each in enumerate(document.links)]
        pairs = Counter(frozenset(each.ends) for each in joints)
        self._check_links(joints, pairs)
        self._number_ports(joints)
        addresses = HostAddresses(self._switches, self._attachments(joints))
        for host, interface in addresses.interfaces():
            self._interfaces[host].append(interface)
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
            parallel = pairs[frozenset(each.ends)] > 1
            figures = each.rate_bps, each.delay_ns, each.queue_bytes
            links.append(Link(a, b, *figures, parallel, each.loss, each.jitter_ns))
        found = Topology(
            document.name,
            tuple(
                Host(
                    name, rank, tuple(self._interfaces[name]),
                    commands=tuple(document.commands.get(name, ())),
                )
                for name, rank in self._hosts.items()
            ),
            tuple(
                Switch(
                    name, "own", index, index + document.first_device_id, levels[name],
                    program=document.programs.get(name, ""),
                    entries=texts_of(document.entries.get(name, [])),
                )
                for name, index in self._switches.items()
            ),
            tuple(links),
            document=msgspec.json.encode(document).decode(),
            left_out=tuple(document.left_out),
        )  # fmt: skip
        found = with_cpu_port(found, document.cpu_port)
        return with_priority_queues(
            found, document.priority_queues, document.queue_weights, document.queue_rates,
            [parse_size(each, "queue-depths") for each in document.queue_depths],
        )  # fmt: skip

    def _check_names(self) -> None:
        document = self._document
        names = [*document.hosts, *document.switches]
        for kind, some in (("hosts", document.hosts), ("switches", document.switches)):
            if not some:
                raise InputError(
                    f"{kind} are missing: a network has at least one host and one switch"
                )
            for name in some:
                if not NODE_NAME.fullmatch(name):
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
            if not program:
                raise InputError(f"programs.{name} is empty: name a P4 file, or leave it out")
        for name in document.entries:
            self._check_node("entries", name, self._switches, "switch")
            if not all(texts_of(document.entries[name])):
                raise InputError(f"entries.{name} is empty: name a file, or leave it out")
        for name in document.commands:
            self._check_node("commands", name, self._hosts, "host")
        last = document.first_device_id + len(document.switches) - 1
        if document.first_device_id < 0 or last > MAX_SWITCHES:
            raise InputError(
                f"first-device-id {document.first_device_id}: device ids are 0 to {MAX_SWITCHES}"
            )

    def _check_node(self, place: str, name: str, known: Mapping[str, int], kind: str) -> None:
        if name not in known:
            raise InputError(f"{place}: there is no {kind} {name!r}{did_you_mean(name, known)}")

    def _joint(self, index: int, link: LinkDocument) -> _Joint:
        place = f"links[{index}]"
        one, other = link.ends
        for name in link.ends:
            self._check_node(f"{place}.ends", name, self._nodes, "node")
        refuse(one == other, f"{place}.ends: {one!r} is linked to itself")
        hosts = tuple(name for name in link.ends if name in self._hosts)
        place = f"{place} ({one}-{other})"
        check_hosts_named(place, link, hosts)
        rate_bps = self._figure(link, place, "rate", DEFAULT_RATE_BPS)
        delay_ns = self._figure(link, place, "delay", DEFAULT_DELAY_NS)
        queue_bytes = self._figure(link, place, "queue", DEFAULT_QUEUE_BYTES)
        jitter_ns = self._figure(link, place, "jitter", 0)
        try:
            check_link_figures(rate_bps, delay_ns, queue_bytes, jitter_ns)
        except InputError as error:
            raise InputError(f"{place}: {error}") from None
        figures = rate_bps, delay_ns, queue_bytes, self._loss(link, place), jitter_ns
        return _Joint(place, (one, other), link, *figures, hosts)

    def _loss(self, link: LinkDocument, place: str) -> float:
        for value, where in ((link.loss, place), (self._document.defaults.loss, "defaults")):
            if value is not None:
                return parse_probability(value, f"{where}.loss")
        return 0.0

    def _figure(self, link: LinkDocument, place: str, name: str, otherwise: int) -> int:
        parse = _PARSERS[name]
        for value, where in (
            (getattr(link, name), f"{place}.{name}"),
            (getattr(self._document.defaults, name), f"defaults.{name}"),
        ):
            if value is not None:
                return parse(value, where)
        return otherwise

    def _check_links(self, joints: Iterable[_Joint], pairs: Mapping[frozenset[str], int]) -> None:
        named: dict[str, str] = {}
        for each in joints:
            one, other = each.ends
            for name in (f"{one}-{other}", f"{other}-{one}"):
                if pairs[frozenset(each.ends)] > 1:
                    continue  # they are named by their ports
                taken = named.setdefault(name, each.place)
                refuse(
                    taken != each.place,
                    f"{each.place}: {taken} is called {name}, too: give one of the nodes another "
                    "name",
                )
        linked = {name for pair in pairs for name in pair}
        for name in self._hosts:
            refuse(name not in linked, f"host {name!r} has no link: link it to another node")

    def _number_ports(self, joints: Iterable[_Joint]) -> None:
        """Give every link its ports: first those that are asked for, then the next free ones."""
        for each in joints:
            for name, port in each.document.ports.items():
                refuse(
                    name not in each.ends or name not in self._switches,
                    f"{each.place}.ports: {name!r} is no switch of this link",
                )
                if not 0 <= port <= MAX_PORTS:
                    raise InputError(
                        f"{each.place}.ports.{name} {port}: a port is 1 to {MAX_PORTS}, or 0 of a "
                        "switch with a program of its own"
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
            for name, other in (each.ends, each.ends[::-1]):
                if each.hosts and name in self._switches:
                    waiting.append(name)
                elif not each.hosts:
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

    def _attachments(self, joints: Iterable[_Joint]) -> Iterator[Attachment]:
        """Yield the ends of links that are hosts'."""
        between = 0
        for each in joints:
            if len(each.hosts) > 1:
                for position, host in enumerate(each.hosts):
                    yield Attachment(each.place, each.document, host, "", True, between, position)
                between += 1
                continue
            for host in each.hosts:
                (switch,) = (name for name in each.ends if name != host)
                program = bool(self._document.programs.get(switch))
                yield Attachment(each.place, each.document, host, switch, program)
