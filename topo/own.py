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
``programs``, ``entries``, ``commands``, ``defaults`` and ``links``. Whatever a network is made from
becomes a `NetworkDocument`, and that a `Topology`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from weft.base import documents
from weft.base.arguments import items, text, texts, whole
from weft.base.arguments import path as path_of
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.topo.addresses import Interface
from weft.topo.network import CPU_PORT, Topology
from weft.topo.network_document import (
    Figure,
    Figures,
    LinkDocument,
    NetworkDocument,
    OfHosts,
    texts_of,
)
from weft.topo.wiring import topology_of

MOST_BYTES = 16 << 20
"""The largest network file that is read."""


class Network:
    """A network that is put together from Python, node by node and link by link.

    Args:
        name: what it is called.
        rate: of links that say nothing else: ``"100Mbit"``, or bit/s.
        delay: likewise: ``"1ms"``, or ns.
        queue: bound of a port's queue: ``"512KiB"``, or bytes.
        loss: likewise: the probability by which a packet is lost: ``"1%"``, or 0.01.
        jitter: likewise: by how much at most a delay is greater or less, at random.
        cpu_port: the number that switches have for the port to the controller.
    """

    def __init__(
        self,
        name: str = "network",
        *,
        rate: Figure | None = None,
        delay: Figure | None = None,
        queue: Figure | None = None,
        loss: str | float | None = None,
        jitter: Figure | None = None,
        cpu_port: int = CPU_PORT,
    ) -> None:
        what = f"network {shown(name)}"
        figures = {"rate": rate, "delay": delay, "queue": queue, "loss": loss, "jitter": jitter}
        self._document = NetworkDocument(
            text("network", name, "'lab'"),
            cpu_port=whole(f"{what}: cpu_port", cpu_port, "255"),
            defaults=documents.typed(Figures, figures, what),
        )

    def host(self, name: str, commands: Sequence[str] = ()) -> str:
        """Add a host, and return its name. Hosts are ranks in the order in which they are added;
        a host has an interface for each of its links.

        Args:
            commands: what its shell runs once the network is up.
        """
        self._document.hosts.append(text("host", name, "'h0'"))
        if commands:
            what = f"host {name!r}: commands"
            self._document.commands[name] = [*texts(what, commands, "['ip route']")]
        return name

    def switch(
        self,
        name: str,
        program: "str | Path | None" = None,
        entries: "Sequence[str | Path]" = (),
    ) -> str:
        """Add a switch, and return its name.

        Args:
            program: the path of a P4 program of its own. Such a switch has no entries but those
                that are written to it, and its hosts find each other by ARP. Without one it runs
                the fabric's program.
            entries: the paths of files with what goes into it once the network is up.
        """
        text("switch", name, "'left'")
        if program is not None:
            own = path_of(f"switch {name!r}: program", program, "'mine.p4'")
            self._document.programs[name] = str(Path(own).absolute())
        if entries:
            what = f"switch {name!r}: entries"
            paths = [
                path_of(what, each, "'s1-runtime.json'")
                for each in items(what, entries, "paths", "['s1-runtime.json']")
            ]
            self._document.entries[name] = [str(Path(each).absolute()) for each in paths]
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
        loss: str | float | None = None,
        jitter: Figure | None = None,
        ports: Mapping[str, int] | None = None,
        ip: OfHosts | None = None,
        mac: str | dict[str, str] | None = None,
        gateway: OfHosts | None = None,
        interface: str | dict[str, str] | None = None,
    ) -> None:
        """Link two nodes, hosts or switches. Two nodes may have several links, which are then named
        by their ports: ``s1:1-s2:1``, ``s1:2-s2:2``.

        Args:
            rate, delay, queue, loss, jitter: those of the link in each direction. The built-in
                switches lose and delay packets at random, whatever programs they run.
            ports: the numbers of its ports at switches, by their names; by default the next free
                ones.
            ip: the address and prefix length of the host's interface, like ``10.0.1.7/24`` or
                ``2001:db8::7/64``, or a list with one of IPv4 and one of IPv6; ``none`` for no
                address; by default one of IPv4 in a /24 of the switch or of the link. Of a link
                between hosts it is given by their names: ``{"a": "10.1.0.1/30", ...}``. The
                fabric's program forwards IPv4 alone.
            mac: the MAC address of the host's interface, or by the hosts' names.
            gateway: the address by which the host sends to others, or a list with one of each kind;
                or by the hosts' names.
            interface: what the host calls its interface, or by the hosts' names; by default
                ``h0-eth0`` and so on.
        """
        given: dict[str, object] = {
            "ends": [one, other], "rate": rate, "delay": delay, "queue": queue, "loss": loss,
            "jitter": jitter, "ip": ip, "mac": mac, "gateway": gateway, "interface": interface,
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
    document.entries = {
        switch: [path and str(folder / path) for path in texts_of(paths)]
        for switch, paths in document.entries.items()
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
        graph: an undirected graph (``networkx.Graph`` or ``MultiGraph``).
        defaults: ``rate``, ``delay``, ``queue`` and ``loss`` of links that say nothing else.

    Raises:
        InputError: it is no such graph, or no network.
    """
    lacking = [each for each in ("nodes", "edges", "degree") if not hasattr(graph, each)]
    if lacking:
        raise InputError(f"graph {shown(graph)}: give a networkx.Graph")
    refuse(
        graph.is_directed(),
        f"graph {graph}: links have both directions: give a networkx.Graph or MultiGraph, not a "
        "directed one",
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
        found = topology_of(document, f"network {topology.name!r}")
        return replace(
            found,
            priority_queues=topology.priority_queues,
            queue_changes=topology.queue_changes,
        )
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
