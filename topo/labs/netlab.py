"""The labs of netlab: ``topology.yml`` with Linux hosts, and bridges as P4 switches."""

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.topo.labs.containerlab import SWITCH_IMAGE
from weft.topo.labs.lab_format import Programs, check_switches, delay_of, program_of
from weft.topo.network_document import NO_ADDRESS, LinkDocument, NetworkDocument

TOP = (
    "addressing", "defaults", "groups", "links", "message", "module", "name", "nodes", "plugin",
    "prefix", "provider", "tools", "validate", "version",
)  # fmt: skip
"""What a file may have at its top: of it nodes, links, defaults.device, provider and name say
something here."""
NODE_LEFT_OUT = (
    "box", "clab", "config", "cpu", "group", "id", "image", "libvirt", "loopback", "memory", "mgmt",
    "mtu", "name", "provider", "skip_config", "unmanaged",
)  # fmt: skip
"""What of a node does nothing: hosts are namespaces of this machine, with its files."""
LINK_FIELDS = ("bandwidth", "disable", "gateway", "prefix", "tc", "type")
LINK_LEFT_OUT = ("bridge", "group", "linkindex", "mtu", "name", "pool", "ra", "role", "shutdown")
END_FIELDS = ("ipv4", "ipv6", "gateway", "ifindex", "ifname", "node", "mtu")
IMPAIRMENTS = ("delay", "jitter", "loss", "rate")

Values = dict[str, Any]


class Netlab:
    """The format of netlab."""

    name = "a lab of netlab"
    links = "links"

    def fits(self, content: Any) -> bool:
        """Return whether a document is one: nodes with links, none of which is of another tool's
        form."""
        if not isinstance(content, dict) or not {"nodes", "links"} <= content.keys():
            return False
        return not {"hosts", "switches", "topology"} & content.keys()

    def read(self, document: PlacedDocument, programs: Programs) -> NetworkDocument:
        """Return the network that a document describes."""
        content = _nested(document.content)
        for key in content:
            if key not in TOP:
                raise document.wrong(
                    key, f"means nothing here{did_you_mean(key, TOP)}; there may be {_all(TOP)}"
                )
        defaults = content.get("defaults")
        device = defaults.get("device", "") if isinstance(defaults, dict) else ""
        nodes = dict(_nodes(document, content["nodes"], device))
        for name in content.get("module") or ():
            raise document.wrong(
                "module",
                f"{shown(name)}: Weft configures no routing protocols; P4 programs forward",
            )
        switches = [
            name
            for name, node in nodes.items()
            if node.get("role") == "bridge"
            or SWITCH_IMAGE.search(str(_image(node)))
            or name in programs.by_switch
        ]
        check_switches(document, programs, switches)
        links = [
            _link(document, place, given, nodes, switches)
            for place, given in _links(document, content["links"])
        ]
        return NetworkDocument(
            str(content.get("name", "netlab")),
            [name for name in nodes if name not in switches],
            switches,
            {name: program_of(document, programs, name, f"nodes.{name}") for name in switches},
            links=[link for link in links if link is not None],
            left_out=_left_out(document, nodes),
        )


def _nested(value: Any) -> Any:
    """Return a document whose keys with dots are objects in objects, as netlab takes them."""
    if not isinstance(value, dict):
        return [_nested(each) for each in value] if isinstance(value, list) else value
    made: Values = {}
    for key, inner in value.items():
        *above, last = str(key).split(".")
        place = made
        for name in above:
            place[name] = place = dict(place.get(name) or {})
        inner = _nested(inner)
        both = isinstance(inner, dict) and isinstance(place.get(last), dict)
        place[last] = {**place[last], **inner} if both else inner
    return made


def _nodes(document: PlacedDocument, given: Any, default: str) -> Iterator[tuple[str, Values]]:
    """Yield the nodes with what they have."""
    if isinstance(given, list):
        given = {
            str(each.get("name", "")) if isinstance(each, dict) else str(each): (
                each if isinstance(each, dict) else {}
            )
            for each in given
        }
    if not isinstance(given, dict):
        raise document.wrong("nodes", f"{shown(given)}: nodes are a list of names, or an object")
    for name, own in given.items():
        place = f"nodes.{name}"
        node = own or {}
        if not isinstance(node, dict):
            raise document.wrong(place, f"{shown(node)} is no object")
        device = node.get("device", default)
        if device != "linux":
            raise document.wrong(
                place,
                f"device {shown(device)}: Weft has hosts, and P4 switches in place of bridges, "
                "both of device linux, and runs no network operating systems; defaults.device says "
                "what a node is that does not say it",
            )
        known = ("device", "role", *NODE_LEFT_OUT)
        for field in node:
            if field not in known:
                raise document.wrong(
                    f"{place}.{field}",
                    f"means nothing here{did_you_mean(field, known)}; there may be {_all(known)}",
                )
        if (role := node.get("role", "host")) not in ("host", "bridge"):
            raise document.wrong(
                f"{place}.role",
                f"{shown(role)}: a node is a host, or with role bridge a P4 switch",
            )
        yield name, node


def _image(node: Mapping[str, Any]) -> object:
    container = node.get("clab")
    return node.get("image") or (container.get("image", "") if isinstance(container, dict) else "")


def _links(document: PlacedDocument, given: Any) -> Iterator[tuple[str, Any]]:
    """Yield the links with their places, also those of groups."""
    if isinstance(given, dict):
        for name, inner in given.items():
            yield from _listed(document, f"links.{name}", inner, {})
    else:
        yield from _listed(document, "links", given, {})


def _listed(
    document: PlacedDocument, place: str, given: Any, shared: Values
) -> Iterator[tuple[str, Any]]:
    if not isinstance(given, list):
        raise document.wrong(place, f"{shown(given)} is no list of links")
    for index, each in enumerate(given):
        here = f"{place}[{index}]"
        each = _nested(each)
        if isinstance(each, dict) and "members" in each:
            inner = {**shared, **{key: value for key, value in each.items() if key != "members"}}
            yield from _listed(document, f"{here}.members", each["members"], inner)
        elif isinstance(each, dict):
            yield here, {**shared, **each}
        else:
            yield here, (each, shared) if shared else each


def _ends(document: PlacedDocument, place: str, given: Any, nodes: Values) -> Iterator[Any]:
    """Yield the node of each end of a link with what it has there."""
    if isinstance(given, str):
        whole = given
        cuts = [at for at, sign in enumerate(whole) if sign == "-"]
        found = [(whole[:at], whole[at + 1 :]) for at in cuts]
        pairs = [pair for pair in found if nodes.keys() >= set(pair)]
        given = [*pairs[0]] if pairs else [*(found[0] if found else (whole,))]
    if isinstance(given, list):
        ends: list[tuple[str, Any]] = [(str(name), {}) for name in given]
    elif "interfaces" in given:
        ends = [
            (str(each.get("node", "")), each) if isinstance(each, dict) else (str(each), {})
            for each in given["interfaces"]
        ]
    else:
        ends = [(name, own or {}) for name, own in given.items() if name in nodes]
        for name in given.keys() - nodes.keys() - {*LINK_FIELDS, *LINK_LEFT_OUT}:
            raise document.wrong(
                place,
                f"{name!r} is no node{did_you_mean(name, nodes)}, and says nothing of a link here; "
                f"there are the nodes {_all(nodes)}, and {_all(LINK_FIELDS)}",
            )
    for name, own in ends:
        if name not in nodes:
            raise document.wrong(
                place,
                f"there is no node {name!r}{did_you_mean(name, nodes)}; there are {_all(nodes)}",
            )
        if not isinstance(own, dict):
            raise document.wrong(place, f"{name}: {shown(own)} is no object")
        for field in own:
            if field not in END_FIELDS:
                raise document.wrong(
                    f"{place}.{name}",
                    f"{field!r} means nothing here{did_you_mean(field, END_FIELDS)}; there may be "
                    f"{_all(END_FIELDS)}",
                )
        yield name, own


def _link(
    document: PlacedDocument, place: str, given: Any, nodes: Values, switches: list[str]
) -> LinkDocument | None:
    """Return a link; None for one that is disabled."""
    given, shared = given if isinstance(given, tuple) else (given, {})
    if not isinstance(given, (str, list, dict)):
        raise document.wrong(place, f"{shown(given)} is no link: write NODE-NODE")
    ends = list(_ends(document, place, given, nodes))
    has: Values = {**shared, **given} if isinstance(given, dict) else shared
    if has.get("disable"):
        return None
    if len(ends) != 2:
        raise document.wrong(
            place,
            f"it has {len(ends)} nodes: a link of Weft's has two ends; put a node with role "
            "bridge, a P4 switch, where more meet",
        )
    if has.get("type", "p2p") not in ("p2p", "lan"):
        raise document.wrong(f"{place}.type", f"{shown(has['type'])}: Weft has p2p and lan")
    link = LinkDocument(ends=(ends[0][0], ends[1][0]))
    if "bandwidth" in has:
        link.rate = _rate(document, f"{place}.bandwidth", has["bandwidth"])
    _impair(document, f"{place}.tc", has.get("tc") or {}, link)
    prefixes = _prefixes(document, f"{place}.prefix", has.get("prefix"))
    for number, (name, own) in enumerate(ends, 1):
        if name in switches:
            if (port := own.get("ifindex")) is not None:
                if not isinstance(port, int) or isinstance(port, bool):
                    raise document.wrong(f"{place}.{name}.ifindex", f"{shown(port)} is no number")
                link.ports[name] = port
            continue
        addresses = [*_addresses(document, f"{place}.{name}", own, prefixes, number)]
        values = {
            "ip": addresses or (NO_ADDRESS if has.get("prefix") is False else None),
            "gateway": own.get("gateway") or has.get("gateway"),
            "interface": own.get("ifname"),
        }
        for field, value in values.items():
            if value:
                setattr(link, field, {**(getattr(link, field) or {}), name: value})
    return link


def _rate(document: PlacedDocument, place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise document.wrong(place, f"{shown(value)} is no rate in kbit/s, like 100000")
    return value * 1000


def _impair(document: PlacedDocument, place: str, given: Any, link: LinkDocument) -> None:
    """Give a link what netlab asks netem for."""
    for field, value in given.items() if isinstance(given, dict) else ():
        here = f"{place}.{field}"
        if field not in IMPAIRMENTS:
            raise document.wrong(
                here, f"Weft has no such impairment; there may be {_all(IMPAIRMENTS)}"
            )
        if field == "rate":
            link.rate = _rate(document, here, value)
        elif field == "loss":
            if (
                isinstance(value, bool)
                or not isinstance(value, (int, float))
                or not 0 <= value <= 100
            ):
                raise document.wrong(here, f"{shown(value)} is no percentage from 0 to 100")
            link.loss = value / 100
        else:
            # A number by itself is of milliseconds.
            text = f"{value}ms" if isinstance(value, (int, float)) else value
            setattr(link, field, delay_of(document, here, text))


def _prefixes(document: PlacedDocument, place: str, given: Any) -> dict[str, Any]:
    """Return the networks of a link by ``ipv4`` and ``ipv6``."""
    if given is None or given is False:
        return {}
    by_family = given if isinstance(given, dict) else {"ipv4": given}
    made = {}
    for family, text in by_family.items():
        if family not in ("ipv4", "ipv6") or not isinstance(text, str):
            raise document.wrong(
                place, f"{shown(given)}: a prefix is like 192.168.22.0/24, or has ipv4 and ipv6"
            )
        try:
            made[family] = ipaddress.ip_network(text)
        except ValueError as error:
            raise document.wrong(place, str(error)) from None
    return made


def _addresses(
    document: PlacedDocument, place: str, own: Values, prefixes: Values, number: int
) -> Iterator[str]:
    """Yield the addresses of a host at a link: its own, by a number in the link's prefix, or, where
    it says nothing, by its place among the link's ends."""
    for family in ("ipv4", "ipv6"):
        value = own.get(family, number if family in prefixes else None)
        if value is None or isinstance(value, bool):
            continue
        if isinstance(value, int):
            network = prefixes.get(family)
            if network is None or not 0 < value < network.num_addresses:
                raise document.wrong(
                    f"{place}.{family}", f"there is no address {value} in the link's prefix"
                )
            value = f"{network[value]}/{network.prefixlen}"
        elif "/" not in str(value) and family in prefixes:
            value = f"{value}/{prefixes[family].prefixlen}"
        try:
            yield str(ipaddress.ip_interface(value))
        except ValueError:
            raise document.wrong(
                f"{place}.{family}", f"{shown(value)} is no address like 192.168.22.17/24"
            ) from None


def _left_out(document: PlacedDocument, nodes: Mapping[str, Values]) -> list[str]:
    """Return a line for each field that nodes have and that does nothing."""
    said = []
    for field in dict.fromkeys(field for node in nodes.values() for field in node):
        if field in NODE_LEFT_OUT and field not in ("image", "name", "id"):
            names = [name for name, node in nodes.items() if field in node]
            said.append(
                f"{document.at(f'nodes.{names[0]}')}: {field} is left out (of {', '.join(names)}): "
                "hosts are namespaces of this machine, with its own files"
            )
    return said


def _all(names: Any) -> str:
    return ", ".join(names)
