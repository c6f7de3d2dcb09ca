"""Drawing of a topology as an SVG picture: hosts at the bottom, links coloured by what they
carried."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.base.units import scaled
from weft.topo.network import Direction, Host, Switch, Topology

if TYPE_CHECKING:
    from jinja2 import Template

HERE = Path(__file__).resolve().parent

HOST_SPACING = 58.0
NARROW_HOST_SPACING = 21.0
"""The spacing of hosts when there are more than :data:`WIDE_HOSTS` of them; labels then stand
upright."""
WIDE_HOSTS = 24
LEAF_GAP = 18.0
HOST_HALVES = (20.0, 13.0)
NARROW_HOST_HALVES = (8.5, 18.0)
SWITCH_HALVES = (36.0, 16.0)
"""Half the width and height of a node's box."""
LEAST_SWITCH_SPACING = 92.0
LEAST_LAYER_HEIGHT = 130.0
LAYER_HEIGHT_PER_WIDTH = 0.11
MARGIN = 34.0
TOP = 78.0
"""Where the middle of the uppermost layer is."""
LEAST_WIDTH = 400.0
LEGEND_HEIGHT, LEGEND_WIDTH = 64.0, 240.0
LEGEND_STEPS = 24
END_SPACING = 13.0
"""The spacing of the links that end side by side at a switch, if there is room."""
HOST_LINK_SAG = 22.0
"""How far links between hosts hang below the hosts."""
NUMBER_DISTANCE = 16.0
"""How far the number of a port stands from its end of the link."""
LANE = 2.6
"""Half the distance between the two directions of a link."""

INK = "#1c2733"
QUIET = "#8a97a5"
UNLOADED = "#b9c3cd"
SWITCH_FILL = {"leaf": "#e3edf7", "spine": "#dfe9dd", "agg": "#dfe9dd", "core": "#f3e9d8"}
OWN_FILL = {1: "#e3edf7", 2: "#dfe9dd"}
"""Fills of the switches of a network that is no Clos, by level; those above have that of a core."""
PROGRAM_FILL = "#f8e1e7"
"""The fill of a switch with a program of its own."""
MOST_BULGE, BULGE_PER_SWITCH = 150.0, 16.0
"""How far the middle of a layer rises above its ends, if switches of it are linked."""
RAMP = (
    (0.0, (214, 230, 244)),
    (0.35, (126, 184, 218)),
    (0.7, (42, 111, 178)),
    (1.0, (10, 35, 92)),
)
"""Colours from no load to the largest, light to dark: they can be told apart in print, and even
loads look calm."""


@dataclass(frozen=True)
class _Spot:
    """The place of a node: where its middle is, and half its size."""

    x: float
    y: float
    half_width: float
    half_height: float


@dataclass(frozen=True)
class _Line:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    width: float
    label: str
    """What is shown of the node to somebody who points at it."""
    sag: float = 0.0
    """How far the middle hangs below a straight line, twice over, so that it passes nodes by."""


@dataclass(frozen=True)
class _Number:
    """The place of a port's number."""

    x: float
    y: float
    text: int


_Ends = dict[tuple[str, str], tuple[float, float]]
"""Where each link meets each node, by the ends of the direction that leaves there."""


def draw_svg(
    topology: Topology,
    loads: Mapping[tuple[str, str], float] | None = None,
    *,
    unit: str = "bytes",
    title: str | None = None,
) -> str:
    """Return the topology as a self-contained SVG document.

    ``loads`` gives a figure for directions of links, by (from, to). Each such direction is drawn as
    a lane of its own, on the right of the way it goes, coloured and widened by its share of the
    largest figure. Directions that ``loads`` leaves out are drawn grey. ``unit`` names the figures;
    with ``bytes`` they are written as KB, MB and so on. Raises InputError for a direction that the
    topology does not have.
    """
    for source, destination in loads or {}:
        topology.direction(source, destination)
    spots, right, bottom = _lay_out(topology)
    ends = _link_ends(topology, spots)
    caption = title if title is not None else topology.describe()
    width = max(right, MARGIN + 8.4 * len(caption), LEAST_WIDTH) + MARGIN
    height = bottom + (LEGEND_HEIGHT if loads is not None else 0.0) + MARGIN / 2
    legend = None
    if loads is None:
        lines = [_plain_link(each, ends, _sag(topology, each)) for each in topology.directions[::2]]
    else:
        largest = max(loads.values(), default=0.0)
        ordered = sorted(topology.directions, key=lambda each: loads.get(each.ends, 0.0))
        lines = [
            _lane(each, ends, loads.get(each.ends), largest, unit, _sag(topology, each))
            for each in ordered
        ]
        legend = _legend(bottom + 12.0, largest, unit)
    return _template().render(
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        left=MARGIN,
        caption=caption,
        lines=lines,
        numbers=[_number(each, ends) for each in topology.directions if each.link.parallel],
        legend=legend,
        nodes=[_node(topology, name, spot) for name, spot in spots.items()],
    )


@cache
def _template() -> "Template":
    from weft.base.templates import environment  # nothing but a drawing waits for it

    templates = environment(HERE / "templates")
    templates.globals.update(ink=INK, tenths="{:.1f}".format)
    return templates.get_template("network.svg")


def _lay_out(topology: Topology) -> tuple[dict[str, _Spot], float, float]:
    """Return every node's place, and how far right and down the nodes reach.

    Hosts stand side by side in groups below their leaves; the switches of each upper layer are
    spread evenly over the whole width. A layer whose switches are linked with each other is an arc,
    so that links do not hide behind the switches between.
    """
    wide = len(topology.hosts) <= WIDE_HOSTS
    spacing = HOST_SPACING if wide else NARROW_HOST_SPACING
    layers: dict[int, list[str]] = {}
    for switch in topology.switches:
        layers.setdefault(switch.level, []).append(switch.name)
    below: dict[str, list[Host]] = {name: [] for name in topology.nodes}
    homes = _homes(topology, layers[1][0])
    for host in topology.hosts:
        below[homes[host.name]].append(host)
    spans = [max(spacing * len(below[leaf]), LEAST_SWITCH_SPACING) for leaf in layers[1]]
    width = sum(spans) + LEAF_GAP * (len(spans) - 1)
    inner = max([width, *(LEAST_SWITCH_SPACING * len(names) for names in layers.values())])
    bulges = {level: _bulge(topology, names) for level, names in layers.items()}
    step = max(LEAST_LAYER_HEIGHT, LAYER_HEIGHT_PER_WIDTH * inner) + max(bulges.values())
    leaf_y = TOP + step * (max(layers) - 1) + bulges[max(layers)]
    host_y = leaf_y + LEAST_LAYER_HEIGHT
    spots: dict[str, _Spot] = {}
    left = MARGIN + (inner - width) / 2

    def rise(x: float, level: int) -> float:
        part = (x - MARGIN) / inner
        return bulges[level] * 4 * part * (1 - part)

    for leaf, span in zip(layers[1], spans, strict=True):
        hosts = below[leaf]
        middle = left + span / 2
        spots[leaf] = _Spot(middle, leaf_y - rise(middle, 1), *SWITCH_HALVES)
        for position, host in enumerate(hosts):
            x = left + span / 2 + (position - (len(hosts) - 1) / 2) * spacing
            spots[host.name] = _Spot(x, host_y, *(HOST_HALVES if wide else NARROW_HOST_HALVES))
        left += span + LEAF_GAP
    for level, names in layers.items():
        for position, name in enumerate(names if level > 1 else ()):
            x = MARGIN + inner * (position + 0.5) / len(names)
            y = leaf_y - step * (level - 1) - rise(x, level)
            spots[name] = _Spot(x, y, *SWITCH_HALVES)
    room = HOST_LINK_SAG if any(topology.between_hosts(link) for link in topology.links) else 0.0
    return spots, MARGIN + inner, host_y + 18.0 + room


def _homes(topology: Topology, otherwise: str) -> dict[str, str]:
    """Return, by host, the switch below which it stands: the first one that it is linked to, or
    that of a host that it is linked to."""
    found = {
        host.name: next(each.switch for each in host.interfaces if each.switch)
        for host in topology.hosts
        if any(each.switch for each in host.interfaces)
    }
    waiting = [*found]
    for name in waiting:
        for other in topology.neighbours(name):
            if isinstance(topology.nodes[other], Host) and other not in found:
                found[other] = found[name]
                waiting.append(other)
    return {host.name: found.get(host.name, otherwise) for host in topology.hosts}


def _bulge(topology: Topology, names: Sequence[str]) -> float:
    """Return how far the middle of a layer rises above its ends."""
    linked = any(not set(topology.neighbours(name)).isdisjoint(names) for name in names)
    return min(MOST_BULGE, BULGE_PER_SWITCH * len(names)) if linked else 0.0


def _link_ends(topology: Topology, spots: Mapping[str, _Spot]) -> _Ends:
    """Return where each link meets each node: the links stand side by side, in the order of the
    neighbours, and of ports; those within a layer are at the sides, those between hosts below."""
    ends: _Ends = {}
    for name, spot in spots.items():
        level = topology.nodes[name].level
        outward = topology.outward(name)
        levels = [topology.nodes[each.destination.node].level for each in outward]
        for each, other in zip(outward, levels, strict=True):
            if other == level == 0:
                ends[each.ends] = (spot.x, spot.y + spot.half_height)
            elif other == level:
                right = spots[each.destination.node].x > spot.x
                ends[each.ends] = (spot.x + (1 if right else -1) * spot.half_width, spot.y)
        for upward in (True, False):
            there = [
                each
                for each, other in zip(outward, levels, strict=True)
                if other != level and (other > level) == upward
            ]
            there.sort(key=lambda each: (spots[each.destination.node].x, _rank(topology, each)))
            spacing = min(END_SPACING, 2 * (spot.half_width - 5.0) / max(1, len(there)))
            y = spot.y - spot.half_height if upward else spot.y + spot.half_height
            for position, each in enumerate(there):
                ends[each.ends] = (spot.x + (position - (len(there) - 1) / 2) * spacing, y)
    return ends


def _rank(topology: Topology, direction: Direction) -> int:
    """Return the place of a link among those of its two nodes; both see the same order."""
    if not direction.link.parallel:
        return 0
    nodes = set(direction.nodes)
    beside = [each.link for each in topology.outward(min(nodes)) if set(each.nodes) == nodes]
    return beside.index(direction.link)


def _sag(topology: Topology, direction: Direction) -> float:
    """Return how far a link hangs below a straight line: one between hosts, and one of several
    within a layer."""
    one, other = (topology.nodes[name].level for name in direction.nodes)
    if one != other:
        return 0.0
    rank = _rank(topology, direction)
    if one == 0:
        return 2 * HOST_LINK_SAG * (1 + rank / 2)
    return 2 * END_SPACING * ((rank + 1) // 2) * (-1 if rank % 2 else 1)


def _number(direction: Direction, ends: _Ends) -> _Number:
    """Return the number of the port that a direction leaves, which stands beside its link."""
    (x1, y1), (x2, y2) = ends[direction.ends], ends[direction.ends[::-1]]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    part = min(NUMBER_DISTANCE / length, 0.3)
    return _Number(x1 + (x2 - x1) * part + 4.0, y1 + (y2 - y1) * part, direction.source.number)


def _plain_link(direction: Direction, ends: _Ends, sag: float) -> _Line:
    link = direction.link
    label = f"{link.name}: {_quantity(link.rate_bps, 'bit/s')}"
    if link.delay_ns:
        label += f", {link.delay_ns} ns"
    if link.loss:
        label += f", loses {100 * link.loss:.3g} %"
    return _Line(*ends[direction.ends], *ends[direction.ends[::-1]], QUIET, 1.4, label, sag)


def _lane(
    direction: Direction, ends: _Ends, load: float | None, largest: float, unit: str, sag: float
) -> _Line:
    (x1, y1), (x2, y2) = ends[direction.ends], ends[direction.ends[::-1]]
    length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5 or 1.0
    aside_x, aside_y = -(y2 - y1) / length * LANE, (x2 - x1) / length * LANE
    share = load / largest if load and largest > 0 else 0.0
    told = "no figure" if load is None else _quantity(load, unit)
    return _Line(
        x1 + aside_x,
        y1 + aside_y,
        x2 + aside_x,
        y2 + aside_y,
        _colour(share) if load is not None else UNLOADED,
        _width(share),
        f"{direction.name}: {told}",
        sag,
    )


def _node(topology: Topology, name: str, spot: _Spot) -> dict[str, Any]:
    node = topology.node(name)
    told = {"name": name, "spot": spot}
    if isinstance(node, Host):
        return {**told, "round": 4, "fill": "#ffffff", "told": _addresses(node)}
    program = f", {Path(node.program).name}" if node.program else ""
    words = f"device {node.device_id}{program}"
    return {**told, "round": 7, "fill": _fill(node), "told": words}


def _addresses(host: Host) -> str:
    """Return the addresses of a host's interfaces."""
    return "; ".join(each.addresses for each in host.interfaces)


def _fill(switch: Switch) -> str:
    if switch.program:
        return PROGRAM_FILL
    if switch.tier == "own":
        return OWN_FILL.get(switch.level, SWITCH_FILL["core"])
    return SWITCH_FILL[switch.tier]


def _legend(top: float, largest: float, unit: str) -> dict[str, Any]:
    """Return a colour bar that goes from nothing to the largest figure."""
    step = LEGEND_WIDTH / LEGEND_STEPS
    shares = [(number + 0.5) / LEGEND_STEPS for number in range(LEGEND_STEPS)]
    x = MARGIN + LEGEND_WIDTH + 34.0
    return {
        "top": top,
        "steps": [
            {
                "x": MARGIN + number * step,
                "width": step + 0.3,
                "height": _width(share) + 3.0,
                "colour": _colour(share),
            }
            for number, share in enumerate(shares)
        ],
        "figures": [
            {
                "x": MARGIN + LEGEND_WIDTH * share,
                "figure": _quantity(largest * share, unit),
                "anchor": anchor,
            }
            for share, anchor in ((0.0, "start"), (0.5, "middle"), (1.0, "end"))
        ],
        "unloaded": _Line(x, top + 22.0, x + 26.0, top + 22.0, UNLOADED, 1.0, "no figure"),
    }


def _width(share: float) -> float:
    """Return the width of a lane that carried this share of the largest load."""
    return 1.0 + 3.2 * share


def _colour(share: float) -> str:
    """Return the ramp's colour at this share of the largest load, 0 to 1."""
    share = min(1.0, max(0.0, share))
    for (low, start), (high, end) in pairwise(RAMP):
        if share <= high:
            part = (share - low) / (high - low)
            red, green, blue = (round(a + part * (b - a)) for a, b in zip(start, end, strict=True))
            return f"#{red:02x}{green:02x}{blue:02x}"
    return "#000000"


def _quantity(value: float, unit: str) -> str:
    """Return a figure with a decimal prefix: 1500000 bytes as ``1.5 MB``."""
    figure, prefix = scaled(value, 1000, ("", "k", "M", "G", "T"))
    return f"{figure:.3g} {prefix}{'B' if unit == 'bytes' else unit}"
