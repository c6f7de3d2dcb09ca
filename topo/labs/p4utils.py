"""The networks of p4-utils: ``p4app.json``."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.topo.labs.lab_format import (
    Programs,
    check_switches,
    delay_of,
    file_beside,
    program_of,
    rate_of,
)
from weft.topo.labs.p4utils_addresses import STRATEGIES, Addresses, Attached
from weft.topo.network_document import LinkDocument, NetworkDocument

PACKET_BYTES = 1514
"""What a packet of a queue's bound counts."""
_OWN = "p4utils."


class P4UtilsDefaults(msgspec.Struct, forbid_unknown_fields=True):
    """What links have that say nothing else, and hosts."""

    weight: Any = None
    bw: Any = None
    delay: Any = None
    loss: Any = None
    max_queue_size: Any = None
    auto_arp_tables: bool = True
    auto_gw_arp: bool = True


class P4UtilsLink(msgspec.Struct, forbid_unknown_fields=True):
    """The third value of a link."""

    weight: Any = None
    port1: int | None = None
    port2: int | None = None
    intfName1: str | None = None
    intfName2: str | None = None
    addr1: str | None = None
    addr2: str | None = None
    sw_ip1: str | None = None
    sw_ip2: str | None = None
    params1: dict[str, Any] = {}
    params2: dict[str, Any] = {}
    bw: Any = None
    delay: Any = None
    loss: Any = None
    max_queue_size: Any = None


class P4UtilsHost(msgspec.Struct, forbid_unknown_fields=True):
    """A host."""

    defaultRoute: str = ""
    dhcp: bool = False
    host_node: Any = None
    scheduler: Any = None
    socket_path: Any = None
    log_enabled: Any = None
    log_dir: Any = None


class P4UtilsSwitch(msgspec.Struct, forbid_unknown_fields=True):
    """A switch."""

    p4_src: str = ""
    cli_input: str = ""
    cpu_port: bool = False
    priority_queues_num: int | None = None
    switch_node: Any = None
    log_enabled: Any = None
    log_dir: Any = None
    pcap_dump: Any = None
    pcap_dir: Any = None
    sw_bin: Any = None
    thrift_port: Any = None
    grpc_port: Any = None


class P4UtilsTopology(msgspec.Struct, forbid_unknown_fields=True):
    """The network."""

    links: list[list[Any]]
    hosts: dict[str, P4UtilsHost]
    switches: dict[str, P4UtilsSwitch]
    assignment_strategy: str = "manual"
    default: P4UtilsDefaults = msgspec.field(default_factory=P4UtilsDefaults)
    auto_arp_tables: Any = None
    auto_gw_arp: Any = None
    routers: dict[str, Any] = {}


class P4UtilsFile(msgspec.Struct, forbid_unknown_fields=True):
    """A whole file."""

    topology: P4UtilsTopology
    p4_src: str = ""
    cli: Any = None
    pcap_dump: bool = False
    enable_log: Any = None
    tasks_file: str = ""
    exec_scripts: list[Any] = []
    host_node: Any = None
    switch_node: Any = None
    router_node: Any = None
    compiler_module: Any = None
    client_module: Any = None
    mininet_module: Any = None
    topo_module: Any = None
    topodb_module: Any = None
    controller_module: Any = None


class P4Utils:
    """The format of p4-utils' ``p4app.json``."""

    name = "a p4app.json of p4-utils"
    links = "topology.links"

    def fits(self, content: Any) -> bool:
        """Return whether a document is one: the network is inside."""
        return isinstance(content, dict) and isinstance(content.get("topology"), dict)

    def read(self, document: PlacedDocument, programs: Programs) -> NetworkDocument:
        """Return the network that a document describes."""
        found = document.typed(P4UtilsFile)
        topology = found.topology
        _check_own_modules(document, found)
        if topology.routers:
            raise document.wrong(
                "topology.routers", "Weft has hosts and P4 switches, and no routers of FRR"
            )
        strategy = topology.assignment_strategy
        if strategy not in STRATEGIES:
            raise document.wrong(
                "topology.assignment_strategy",
                f"{shown(strategy)} is unknown{did_you_mean(strategy, STRATEGIES)}: choose from "
                f"{', '.join(STRATEGIES)}",
            )
        check_switches(document, programs, [*topology.switches])
        switches = sorted(topology.switches, key=natural)
        links = [_link(document, topology, index) for index in range(len(topology.links))]
        _number(links, topology)
        described = NetworkDocument(
            document.path.stem,
            sorted(topology.hosts, key=natural),
            switches,
            {
                name: program_of(
                    document, programs, name, f"topology.switches.{name}",
                    topology.switches[name].p4_src or found.p4_src,
                )
                for name in switches
            },
            entries={
                name: file_beside(
                    document, f"topology.switches.{name}.cli_input", switch.cli_input
                )
                for name, switch in topology.switches.items()
                if switch.cli_input
            },
            links=links,
            left_out=_left_out(document, found),
        )  # fmt: skip
        queues = _queues(document, topology)
        described.priority_queues = queues or described.priority_queues
        _address(document, topology, described)
        return described


def natural(name: str) -> list[tuple[int, str]]:
    """Return what names are sorted by: numbers in them by their value."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _check_own_modules(document: PlacedDocument, found: P4UtilsFile) -> None:
    """Refuse modules that change what nodes and the network are, unless they are p4-utils' own."""
    modules = {
        name: getattr(found, name)
        for name in P4UtilsFile.__struct_fields__
        if name.endswith(("_node", "_module"))
    }
    for name, host in found.topology.hosts.items():
        modules[f"topology.hosts.{name}.host_node"] = host.host_node
    for name, switch in found.topology.switches.items():
        modules[f"topology.switches.{name}.switch_node"] = switch.switch_node
    for place, module in modules.items():
        name = module.get("module_name", _OWN) if isinstance(module, dict) else _OWN
        if not str(name).startswith(_OWN) or (isinstance(module, dict) and module.get("file_path")):
            raise document.wrong(
                place,
                f"{shown(name)} is Python code of its own, which Weft does not run: leave it out",
            )


def _left_out(document: PlacedDocument, found: P4UtilsFile) -> list[str]:
    """Return a line for each thing that the file asks and that does nothing here."""
    said = []

    def left_out(place: str, given: Any, instead: str) -> None:
        if given:
            said.append(f"{document.at(place)} is left out: {instead}")

    for field, instead in _OF_FILE.items():
        left_out(field, getattr(found, field), instead)
    left_out("cli", found.cli is False, "weft up has its prompt, or --script FILE")
    topology = found.topology
    for field in ("auto_arp_tables", "auto_gw_arp"):
        heeded = f"p4-utils heeds topology.default.{field} alone"
        left_out(f"topology.{field}", getattr(topology, field) is not None, heeded)
    left_out("topology.default.weight", _weighs(topology.default.weight), _NO_WEIGHTS)
    for kind, nodes, fields in (
        ("hosts", topology.hosts, _OF_HOST), ("switches", topology.switches, _OF_SWITCH),
    ):  # fmt: skip
        for name, node in nodes.items():
            for field, instead in fields.items():
                left_out(f"topology.{kind}.{name}.{field}", getattr(node, field), instead)
    for index, (one, other, *more) in enumerate(topology.links):
        options, place = more[0] if more else {}, f"topology.links[{index}][2]"
        left_out(f"{place}.weight", _weighs(options.get("weight")), _NO_WEIGHTS)
        for number, name in ((1, one), (2, other)):
            for field, what in (("intfName", "name"), ("addr", "MAC address")):
                given = name in topology.switches and options.get(f"{field}{number}")
                kept = f"the {what} of a switch's interface is Weft's own"
                left_out(f"{place}.{field}{number}", given, kept)
    return said


def _weighs(given: Any) -> bool:
    return given not in (None, 1)


_NO_WEIGHTS = "Weft's links have no weights; what computes paths by them takes its own"
_LOGS = "trace, at the prompt, says what switches do"
_CAPTURES = "captures are made by --pcap DIR"
_OF_FILE = {
    "exec_scripts": "start them by hand, in another terminal",
    "tasks_file": "its traffic is not started",
    "pcap_dump": _CAPTURES,
    "enable_log": _LOGS,
}
_OF_HOST = {
    "scheduler": "a host runs what its shell is told",
    "socket_path": "there is no scheduler of tasks",
    "log_enabled": "there is no scheduler of tasks",
    "log_dir": "there is no scheduler of tasks",
}
_OF_SWITCH = {
    "cpu_port": "the port to the controller is P4Runtime's, --cpu-port",
    "log_enabled": _LOGS,
    "log_dir": _LOGS,
    "pcap_dump": _CAPTURES,
    "pcap_dir": _CAPTURES,
    "sw_bin": "the switch is Weft's, or --switch bmv2",
    "thrift_port": "there is no Thrift; weft cli takes the commands",
    "grpc_port": "ports of P4Runtime are given by --grpc-port",
}
"""What of a file does nothing, and what serves instead."""


def _queues(document: PlacedDocument, topology: P4UtilsTopology) -> int | None:
    found: dict[int, str] = {}
    for name, switch in topology.switches.items():
        if switch.priority_queues_num is not None:
            found.setdefault(switch.priority_queues_num, name)
    if len(found) > 1:
        *_, (number, name) = found.items()
        raise document.wrong(
            f"topology.switches.{name}.priority_queues_num",
            f"{number}: {next(iter(found.values()))} has {next(iter(found))}, and Weft has one "
            "number for all of a network",
        )
    return next(iter(found), None)


def _link(document: PlacedDocument, topology: P4UtilsTopology, index: int) -> LinkDocument:
    place = f"topology.links[{index}]"
    values = topology.links[index]
    if not 2 <= len(values) <= 3 or not all(isinstance(each, str) for each in values[:2]):
        raise document.wrong(place, "a link is [NODE, NODE] or [NODE, NODE, {...}]")
    known = [*topology.hosts, *topology.switches]
    for name in values[:2]:
        if name not in known:
            raise document.wrong(
                place, f"there is no node {name!r}{did_you_mean(name, known)}; there are "
                f"{', '.join(known)}"
            )  # fmt: skip
    inner = PlacedDocument(document.path, values[2] if len(values) > 2 else {}, {
        key.removeprefix(f"{place}[2].").removeprefix(f"{place}[2]"): line
        for key, line in document.lines.items()
        if key.startswith(f"{place}[2]")
    })  # fmt: skip
    own = inner.typed(P4UtilsLink)
    one, other = values[0], values[1]
    link = LinkDocument(ends=(one, other))
    for name, port, params, where in (
        (one, own.port1, own.params1, "params1"), (other, own.port2, own.params2, "params2"),
    ):  # fmt: skip
        if port is not None and name in topology.switches:
            link.ports[name] = port
        for key in params:
            if key != "ip" or name not in topology.hosts:
                raise inner.wrong(
                    where, f"{key!r} of {name} means nothing here: a host's ip is what there may be"
                )
    for field, read in _FIGURES.items():
        value, at = getattr(own, field), f"{place}[2].{field}"
        if value is None:
            value, at = getattr(topology.default, field), f"topology.default.{field}"
        if value is not None:
            read(document, at, value, link)
    return link


def _loss(document: PlacedDocument, place: str, value: object, link: LinkDocument) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 100:
        raise document.wrong(place, f"{shown(value)} is no loss in percent, from 0 to 100")
    link.loss = value / 100


def _queue(document: PlacedDocument, place: str, value: object, link: LinkDocument) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise document.wrong(place, f"{shown(value)} is no number of packets, like 100")
    link.queue = value * PACKET_BYTES


def _bw(document: PlacedDocument, place: str, value: object, link: LinkDocument) -> None:
    link.rate = rate_of(document, place, value)


def _delay(document: PlacedDocument, place: str, value: object, link: LinkDocument) -> None:
    link.delay = delay_of(document, place, value)


_FIGURES: dict[str, Callable[[PlacedDocument, str, object, LinkDocument], None]] = {
    "bw": _bw, "delay": _delay, "loss": _loss, "max_queue_size": _queue,
}  # fmt: skip


def _number(links: list[LinkDocument], topology: P4UtilsTopology) -> None:
    """Give links the port numbers at switches that p4-utils gives them: the next free ones, in the
    natural order of the names of their ends."""
    used = {
        name: {link.ports[name] for link in links if name in link.ports}
        for name in topology.switches
    }
    for link in sorted(links, key=lambda each: [natural(name) for name in each.ends]):
        for name in link.ends:
            if name in topology.switches and name not in link.ports:
                port = next(one for one in range(1, 2 + len(used[name])) if one not in used[name])
                used[name].add(port)
                link.ports[name] = port


def _address(
    document: PlacedDocument, topology: P4UtilsTopology, described: NetworkDocument
) -> None:
    """Give hosts their addresses, and what they know of each other and of their gateways."""
    attached = []
    for index, link in enumerate(described.links):
        options = topology.links[index][2] if len(topology.links[index]) > 2 else {}
        for end, host in enumerate(link.ends, 1):
            if host not in topology.hosts:
                continue
            attached.append(
                Attached(
                    index, host, link.ends[2 - end],
                    ip=options.get(f"params{end}", {}).get("ip", ""),
                    mac=options.get(f"addr{end}") or "",
                    interface=options.get(f"intfName{end}") or "",
                    gateway=(options.get(f"sw_ip{3 - end}") or "").partition("/")[0],
                )
            )  # fmt: skip
    addresses = Addresses(
        document, topology.assignment_strategy, described.switches, [*topology.hosts], attached
    )
    both = {each.link: sum(other.link == each.link for other in attached) > 1 for each in attached}
    for each in addresses.given:
        link = described.links[each.link]
        for field in ("ip", "mac", "gateway", "interface"):
            value = getattr(each, field)
            if value:
                old = getattr(link, field)
                setattr(
                    link, field, {**(old or {}), each.host: value} if both[each.link] else value
                )
    for host, asked in topology.hosts.items():
        commands = addresses.neighbours(
            host, topology.default.auto_arp_tables, topology.default.auto_gw_arp
        )
        if asked.defaultRoute:
            commands.append(f"ip route replace default {asked.defaultRoute}")
        if asked.dhcp:
            raise document.wrong(
                f"topology.hosts.{host}.dhcp",
                "Weft gives addresses by itself: leave dhcp out, or run a client by hand",
            )
        if commands:
            described.commands[host] = commands
