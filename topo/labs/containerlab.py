"""The labs of containerlab: ``NAME.clab.yml`` with Linux nodes, bridges and P4 switches."""

import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_interface
from typing import Any

import msgspec

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.topo.labs.lab_format import Programs, check_switches, file_beside, program_of
from weft.topo.network_document import NO_ADDRESS, LinkDocument, NetworkDocument

HOST_KINDS = ("linux",)
SWITCH_KINDS = ("bridge", "ovs-bridge")
SWITCH_IMAGE = re.compile(r"behavioral-model|bmv2|simple_switch|stratum")
"""What the image of a Linux node is called that is a P4 switch."""
PROGRAM, ENTRIES = "weft.program", "weft.entries"
"""Labels by which a node names its P4 program, which makes it a switch, and its files of
entries."""
_ADDRESS = re.compile(
    r"\bip\s+(?:-\S+\s+)*a(?:ddress|ddr|)\s+(?:add|a|replace|change)\s+([0-9a-fA-F.:]+)"
)
"""A command that gives an interface an address."""
_PORT = re.compile(r".*?([1-9][0-9]{0,2})")
"""A switch's interface, whose last number is that of its port."""
NODE_FIELDS = ("kind", "group", "exec", "labels")
LEFT_OUT = (
    "image", "image-pull-policy", "binds", "env", "env-files", "ports", "cmd", "entrypoint",
    "mgmt-ipv4", "mgmt-ipv6", "network-mode", "memory", "cpu", "cpu-set", "user", "restart-policy",
    "stages", "healthcheck", "dns", "position", "sysctls", "cap-add", "devices", "auto-remove",
    "startup-delay", "publish", "type", "aliases", "certificate", "cgroup-parent", "cgroupns-mode",
    "credentials", "extras", "hostname", "license", "link-apply-mode", "pid-mode", "privileged",
    "runtime", "security-opts", "shm-size", "tmpfs", "volumes",
)  # fmt: skip
"""What of a node does nothing: hosts are namespaces of this machine, with its files."""
LINK_FIELDS = ("endpoints", "type", "ipv4", "ipv6", "mtu", "labels", "vars")
LINK_LEFT_OUT = ("mtu", "labels", "vars")
FAMILIES = ("ipv4", "ipv6")
END_FIELDS = ("node", "interface", "mac", *FAMILIES, "vars")


class LabTopology(msgspec.Struct, forbid_unknown_fields=True):
    """The nodes and links of a lab, and what nodes have that say nothing else."""

    nodes: dict[str, dict[str, Any] | None]
    links: list[Any] = []
    defaults: dict[str, Any] = {}
    kinds: dict[str, dict[str, Any]] = {}
    groups: dict[str, dict[str, Any]] = {}


class LabFile(msgspec.Struct, forbid_unknown_fields=True):
    """A whole file."""

    name: str
    topology: LabTopology
    prefix: Any = None
    mgmt: Any = None
    settings: Any = None
    debug: Any = None


class Containerlab:
    """The format of containerlab."""

    name = "a lab of containerlab"
    links = "topology.links"

    def fits(self, content: Any) -> bool:
        """Return whether a document is one: a topology with nodes is in it."""
        topology = content.get("topology") if isinstance(content, dict) else None
        return isinstance(topology, dict) and "nodes" in topology

    def read(self, document: PlacedDocument, programs: Programs) -> NetworkDocument:
        """Return the network that a document describes."""
        found = document.typed(LabFile)
        nodes = {
            name: _node(document, found.topology, name, node or {})
            for name, node in found.topology.nodes.items()
        }
        switches = [
            name for name, node in nodes.items() if _is_switch(node) or name in programs.by_switch
        ]
        hosts = [name for name in nodes if name not in switches]
        check_switches(document, programs, switches)
        _check_addresses(document, nodes, hosts)
        links = [
            _link(document, found.topology, index, switches)
            for index in range(len(found.topology.links))
        ]
        entries: dict[str, str | list[str]] = {}
        for name in switches:
            if named := _labels(nodes[name]).get(ENTRIES):
                place = f"topology.nodes.{name}"
                entries[name] = [file_beside(document, place, each) for each in named.split()]
        return NetworkDocument(
            found.name,
            hosts,
            switches,
            {
                name: program_of(
                    document, programs, name, f"topology.nodes.{name}",
                    _labels(nodes[name]).get(PROGRAM, ""),
                )
                for name in switches
            },
            entries=entries,
            commands={name: nodes[name]["exec"] for name in hosts if nodes[name].get("exec")},
            links=links,
            left_out=_left_out(document, nodes, found.topology.links),
        )  # fmt: skip


def _node(
    document: PlacedDocument, topology: LabTopology, name: str, own: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what a node has, by itself, by its group, its kind, or by default."""
    place = f"topology.nodes.{name}"
    kinds = (*HOST_KINDS, *SWITCH_KINDS)
    group = own.get("group", topology.defaults.get("group", ""))
    groups = topology.groups.get(str(group), {})
    kind = own.get("kind") or groups.get("kind") or topology.defaults.get("kind") or "linux"
    if kind not in kinds:
        raise document.wrong(
            place,
            f"kind {shown(kind)}{did_you_mean(kind, kinds)}: Weft has Linux hosts and P4 switches, "
            f"of the kinds {', '.join(kinds)}, and runs no network operating systems",
        )
    layers = (topology.defaults, topology.kinds.get(kind, {}), groups, own)
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer)
    for field in merged:
        if field not in (*NODE_FIELDS, *LEFT_OUT):
            known = (*NODE_FIELDS, *LEFT_OUT)
            raise document.wrong(
                f"{place}.{field}" if field in own else place,
                f"{field!r} means nothing here{did_you_mean(field, known)}; there may be "
                f"{', '.join(NODE_FIELDS)}",
            )
    merged["exec"] = [line for layer in layers for line in _texts(document, place, layer)]
    merged["kind"] = kind
    return merged


def _check_addresses(
    document: PlacedDocument, nodes: Mapping[str, Mapping[str, Any]], hosts: list[str]
) -> None:
    """Raise InputError where commands give one address to two hosts."""
    had: dict[str, str] = {}
    for name in hosts:
        for index, line in enumerate(nodes[name]["exec"]):
            given = _ADDRESS.search(line)
            other = had.setdefault(given[1].lower(), name) if given else name
            if given and other != name:
                place = f"topology.nodes.{name}"
                raise document.wrong(
                    place,
                    f"exec {shown(line)}: {other} has the address {given[1]} already",
                    at=f"{place}.exec[{index}]",
                )


def _texts(document: PlacedDocument, place: str, layer: Mapping[str, Any]) -> list[str]:
    lines = layer.get("exec", [])
    if not isinstance(lines, list) or not all(isinstance(line, str) for line in lines):
        raise document.wrong(place, f"exec {shown(lines)} is no list of commands")
    return lines


def _labels(node: Mapping[str, Any]) -> dict[str, str]:
    labels = node.get("labels")
    return {key: str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}


def _is_switch(node: Mapping[str, Any]) -> bool:
    return (
        node["kind"] in SWITCH_KINDS
        or PROGRAM in _labels(node)
        or SWITCH_IMAGE.search(str(node.get("image", ""))) is not None
    )


def _left_out(
    document: PlacedDocument, nodes: Mapping[str, Mapping[str, Any]], links: list[Any]
) -> list[str]:
    """Return a line for each field that nodes or links have and that does nothing."""
    fields = dict.fromkeys(
        field for node in nodes.values() for field in node if field in LEFT_OUT and field != "image"
    )
    said = []
    for field in fields:
        names = [name for name, node in nodes.items() if field in node]
        said.append(
            f"{document.at(f'topology.nodes.{names[0]}')}: {field} is left out (of "
            f"{', '.join(names)}): hosts are namespaces of this machine, with its own files"
        )
    return said + [
        f"{document.at(f'topology.links[{index}]')}: {field} is left out: it does nothing here"
        for index, link in enumerate(links)
        for field in LINK_LEFT_OUT
        if field in link
    ]


def _link(
    document: PlacedDocument, topology: LabTopology, index: int, switches: list[str]
) -> LinkDocument:
    place = f"topology.links[{index}]"
    given = topology.links[index]
    ends = given.get("endpoints") if isinstance(given, dict) else None
    if not isinstance(ends, list) or len(ends) != 2:
        raise document.wrong(place, 'a link is { endpoints: ["NODE:INTERFACE", "NODE:INTERFACE"] }')
    for field in given:
        if field not in LINK_FIELDS:
            raise document.wrong(
                f"{place}.{field}",
                f"{field!r} means nothing here{did_you_mean(field, LINK_FIELDS)}; a link has "
                f"{', '.join(LINK_FIELDS)}",
            )
    if given.get("type", "veth") != "veth":
        raise document.wrong(
            f"{place}.type", f"{shown(given['type'])}: Weft links nodes of the lab, by type veth"
        )
    link = LinkDocument()
    names = []
    for number, end in enumerate(ends):
        name, interface, mac = _end(document, topology, place, end)
        addresses = [*_addresses(document, place, given, number)]
        names.append(name)
        if name in switches:
            found = _PORT.fullmatch(interface)
            if found is not None:
                link.ports[name] = int(found[1])
            continue
        values = {"ip": addresses or NO_ADDRESS, "interface": interface, "mac": mac}
        for field, value in values.items():
            if value:
                setattr(link, field, {**(getattr(link, field) or {}), name: value})
    link.ends = names[0], names[1]
    return link


def _addresses(
    document: PlacedDocument, place: str, link: Mapping[str, Any], number: int
) -> Iterator[str]:
    """Yield the addresses of one of a link's ends: its own, or its part of the link's."""
    end = link["endpoints"][number]
    for family in FAMILIES:
        both = link.get(family, ["", ""])
        if not isinstance(both, list) or len(both) > 2:
            raise document.wrong(
                f"{place}.{family}", f"{shown(both)}: write a list, of an address for each end"
            )
        value = end.get(family) if isinstance(end, dict) else None
        value = value or (both[number] if number < len(both) else "")
        if not value:
            continue
        try:
            fits = f"ipv{ip_interface(value).version}" == family and "/" in str(value)
        except ValueError:
            fits = False
        if not fits:
            raise document.wrong(
                f"{place}.{family}",
                f"{shown(value)} is no address of {family} with its prefix length",
            )
        yield str(value)


def _end(
    document: PlacedDocument, topology: LabTopology, place: str, end: Any
) -> tuple[str, str, str]:
    """Return the node of a link's end, its interface and its MAC address, if it says one."""
    name, interface, mac = "", "", ""
    if isinstance(end, str):
        name, _, interface = end.partition(":")
    elif isinstance(end, dict):
        name, interface, mac = (str(end.get(key, "")) for key in ("node", "interface", "mac"))
        for field in end:
            if field not in END_FIELDS:
                raise document.wrong(
                    place,
                    f"{field!r} of {name} means nothing here{did_you_mean(field, END_FIELDS)}; "
                    f"there may be {', '.join(END_FIELDS)}",
                )
    if name not in topology.nodes:
        raise document.wrong(
            place,
            f"{shown(end)}: there is no node {name!r}{did_you_mean(name, topology.nodes)}; there "
            f"are {', '.join(topology.nodes)}",
        )
    if not interface:
        raise document.wrong(place, f"{shown(end)} names no interface: write {name}:eth1")
    return name, interface, mac
