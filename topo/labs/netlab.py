"""The labs of netlab: ``topology.yml`` with Linux hosts, and bridges as P4 switches."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from typing import Any

from weft.base.errors import did_you_mean
from weft.base.placed import PlacedDocument
from weft.base.units import shown
from weft.topo.labs.containerlab import SWITCH_IMAGE
from weft.topo.labs.lab_format import SOURCE, Programs, check_switches, delay_of, program_of
from weft.topo.labs.netlab_addresses import FAMILIES, Networks, Pools, addresses, places_in
from weft.topo.labs.netlab_nodes import CLONES, NODE_LEFT_OUT, Values, names_in, nodes_of
from weft.topo.network_document import NO_ADDRESS, LinkDocument, NetworkDocument

TOP = (
    "addressing", "defaults", "groups", "links", "message", "module", "name", "nodes", "plugin",
    "prefix", "provider", "tools", "validate", "version",
)  # fmt: skip
"""What a file may have at its top."""
TOP_LEFT_OUT = ("plugin", "tools", "validate")
LINK_FIELDS = ("bandwidth", "bridge", "disable", "gateway", "pool", "prefix", "tc", "type")
LINK_LEFT_OUT = ("mtu", "ra", "role", "shutdown")
LINK_NAMES = ("group", "linkindex", "name")
END_FIELDS = ("ipv4", "ipv6", "gateway", "ifindex", "ifname", "node", "mtu")
IMPAIRMENTS = ("delay", "jitter", "loss", "rate")
LAN = "lan"
"""The pool of links of hosts."""


@dataclass(frozen=True)
class _Link:
    """A link as the file has it: its place there, its nodes with what they have, and what it has
    itself."""

    place: str
    ends: tuple[tuple[str, Values], ...]
    has: Values


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
        nodes, clones = nodes_of(document, content)
        for name in names_in(document, "module", content.get("module")):
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
        read = [
            _read(document, place, one, {**nodes, **clones})
            for place, one in _links(document, content["links"])
        ]
        wanted = [each for each in read if not each.has.get("disable")]
        given = [each for each in wanted if not clones.keys() & dict(each.ends).keys()]
        given += [one for each in wanted if each not in given for one in _cloned(each, clones)]
        places = {name: f"nodes.{name}" for name in switches}
        joined = [each for one in given for each in _spread(document, one, nodes, switches, places)]
        check_switches(document, programs, switches)
        pools = Pools(document, content)
        commands: dict[str, list[str]] = {}
        for name, node in nodes.items():
            found = pools.loopback(f"nodes.{name}.loopback", node.get("loopback"), node["id"])
            if name not in switches and (lines := [*map(_loopback, found)]):
                commands[name] = lines
        links = [_link(document, each, switches) for each in joined]
        _address(document, pools, joined, links, nodes, switches)
        return NetworkDocument(
            str(content.get("name", "netlab")),
            [name for name in nodes if name not in switches],
            switches,
            {name: program_of(document, programs, name, places[name]) for name in switches},
            commands=commands,
            links=links,
            left_out=[*_left_out(document, content, nodes, given)],
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
        for name in given.keys() - nodes.keys() - {*LINK_FIELDS, *LINK_LEFT_OUT, *LINK_NAMES}:
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


def _read(document: PlacedDocument, place: str, given: Any, nodes: Values) -> _Link:
    """Return a link in one form, whichever it has."""
    given, shared = given if isinstance(given, tuple) else (given, {})
    if not isinstance(given, (str, list, dict)):
        raise document.wrong(place, f"{shown(given)} is no link: write NODE-NODE")
    ends = tuple(_ends(document, place, given, nodes))
    return _Link(place, ends, {**shared, **given} if isinstance(given, dict) else shared)


def _cloned(link: _Link, clones: Mapping[str, list[str]]) -> Iterator[_Link]:
    """Yield a link, or one for each clone of a node of its, whose peers' ports count on."""
    name = next((name for name, _ in link.ends if name in clones), None)
    if name is None:
        yield link
        return
    for number, clone in enumerate(clones[name]):
        ends = []
        for other, own in link.ends:
            if other != name and isinstance(own.get("ifindex"), int):
                own = {**own, "ifindex": own["ifindex"] + number}
            ends.append((clone if other == name else other, own))
        yield from _cloned(replace(link, ends=tuple(ends)), clones)


def _spread(
    document: PlacedDocument,
    link: _Link,
    nodes: Values,
    switches: list[str],
    places: dict[str, str],
) -> Iterator[_Link]:
    """Yield a link of two ends, or, of more, one from each to a switch in their midst, which is the
    node that the link calls its bridge, or one more."""
    if len(link.ends) == 2 and "bridge" not in link.has:
        yield link
        return
    if len(link.ends) < 2:
        raise document.wrong(
            link.place, f"it has {len(link.ends)} nodes: a link of Weft's has two ends, or more"
        )
    numbers = (f"{LAN}{number}" for number in range(1, len(nodes) + len(places) + 2))
    named = str(link.has.get("bridge") or next(one for one in numbers if one not in places))
    if named in nodes and named not in switches:
        raise document.wrong(
            f"{link.place}.bridge",
            f"{named} is a host: write role: bridge, or --program {named}=FILE{SOURCE}",
        )
    if named not in switches:
        switches.append(named)
        places[named] = link.place
    for end in link.ends:
        if end[0] != named:
            yield replace(link, ends=(end, (named, {})))


def _link(document: PlacedDocument, link: _Link, switches: list[str]) -> LinkDocument:
    """Return a link of two ends, without addresses."""
    place, has = link.place, link.has
    if has.get("type", "p2p") not in ("p2p", "lan"):
        raise document.wrong(f"{place}.type", f"{shown(has['type'])}: Weft has p2p and lan")
    made = LinkDocument(ends=(link.ends[0][0], link.ends[1][0]))
    if "bandwidth" in has:
        made.rate = _rate(document, f"{place}.bandwidth", has["bandwidth"])
    _impair(document, f"{place}.tc", has.get("tc") or {}, made)
    for name, own in link.ends:
        if name in switches and (port := own.get("ifindex")) is not None:
            if not isinstance(port, int) or isinstance(port, bool):
                raise document.wrong(f"{place}.{name}.ifindex", f"{shown(port)} is no number")
            made.ports[name] = port
    return made


def _address(
    document: PlacedDocument,
    pools: Pools,
    joined: list[_Link],
    links: list[LinkDocument],
    nodes: Mapping[str, Values],
    switches: list[str],
) -> None:
    """Give hosts their addresses: links at one switch are one segment, with one prefix of a pool
    where they name none."""
    segments: dict[str, list[int]] = {}
    for index, each in enumerate(joined):
        at = next((name for name, _ in each.ends if name in switches), f"links[{index}]")
        segments.setdefault(at, []).append(index)
    for inside in segments.values():
        own = {index: _networks(document, pools, joined[index]) for index in inside}
        said = [networks for networks in own.values() if networks is not None]
        alike = said[0] if said and all(each == said[0] for each in said) else None
        hosts = [
            (index, name) for index in inside for name, _ in joined[index].ends
            if name not in switches
        ]  # fmt: skip
        ids = [nodes[name]["id"] for _, name in hosts]
        shared = alike
        for (index, name), position in zip(hosts, range(len(hosts)), strict=True):
            networks = own[index]
            if networks is None:
                if shared is None:
                    shared = pools.next_of(LAN, joined[index].place)
                networks = shared
            number = places_in(networks, ids)[position]
            _interface(document, joined[index], links[index], name, networks, number)


def _networks(document: PlacedDocument, pools: Pools, link: _Link) -> Networks | None:
    """Return the networks that a link says for itself; None if it says none."""
    if "prefix" in link.has:
        return pools.networks(f"{link.place}.prefix", link.has["prefix"])
    if "pool" in link.has:
        return pools.next_of(str(link.has["pool"]), f"{link.place}.pool")
    return None


def _interface(
    document: PlacedDocument,
    link: _Link,
    made: LinkDocument,
    name: str,
    networks: Networks,
    number: int,
) -> None:
    """Say what a host's interface at a link has."""
    own = next(own for each, own in link.ends if each == name)
    place = f"{link.place}.{name}"
    values = {
        "ip": [*addresses(document, place, own, networks, number)] or NO_ADDRESS,
        "gateway": _gateway(document, link.place, own.get("gateway") or link.has.get("gateway")),
        "interface": own.get("ifname"),
    }
    for field, value in values.items():
        if value:
            setattr(made, field, {**(getattr(made, field) or {}), name: value})


def _gateway(document: PlacedDocument, place: str, given: Any) -> str | list[str] | None:
    """Return gateways: an address, or one of each kind."""
    if isinstance(given, dict):
        found = [str(given[each]).partition("/")[0] for each in FAMILIES if given.get(each)]
        return found or None
    if given is not None and not isinstance(given, (str, bool)):
        raise document.wrong(f"{place}.gateway", f"{shown(given)} is no address")
    return given.partition("/")[0] if isinstance(given, str) else None


def _loopback(address: str) -> str:
    """Return the command that gives a host's loopback interface an address."""
    if ip_interface(address).version == 4:
        return f"ip address add {address} dev lo"
    on = "sysctl -qw net.ipv6.conf.lo.disable_ipv6=0"
    return f"{on} && ip address add {address} dev lo"


def _rate(document: PlacedDocument, place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        raise document.wrong(place, f"{shown(value)} is no rate in kbit/s, like 100000")
    return value * 1000


def _impair(document: PlacedDocument, place: str, given: Any, link: LinkDocument) -> None:
    """Give a link what netlab asks netem for."""
    if not isinstance(given, dict):
        raise document.wrong(place, f"{shown(given)} is no object, like {{ delay: 5ms }}")
    for field, value in given.items():
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


def _left_out(
    document: PlacedDocument, content: Values, nodes: Mapping[str, Values], links: list[_Link]
) -> Iterator[str]:
    """Yield a line for each field that does nothing."""
    for field in TOP_LEFT_OUT:
        if content.get(field) and content[field] != [CLONES]:
            yield f"{document.at(field)} is left out: it runs netlab's own code"
    for field in dict.fromkeys(field for node in nodes.values() for field in node):
        if field in NODE_LEFT_OUT and field != "name":
            names = [name for name, node in nodes.items() if field in node]
            yield (
                f"{document.at(f'nodes.{names[0]}')}: {field} is left out (of {_all(names)}): "
                "hosts are namespaces of this machine, with its own files"
            )
    for link in links:
        for field in LINK_LEFT_OUT:
            if field in link.has:
                yield f"{document.at(link.place)}: {field} is left out: it does nothing here"
        for name, own in link.ends:
            if "mtu" in own:
                yield f"{document.at(link.place)}: mtu of {name} is left out: it does nothing here"


def _all(names: Any) -> str:
    return ", ".join(names)
