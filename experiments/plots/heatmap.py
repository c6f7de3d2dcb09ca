"""Heat maps: what each direction of the links carried over time, as a part of what it could
carry."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate, groupby

from weft.experiments.plots.palette import label_of
from weft.experiments.plots.series import selected
from weft.experiments.results.results import LinkResult, Results, Run, scenario_of
from weft.experiments.scenario.plot_spec import TIERS, PlotSpec

MAX_RUNS = 6
MAX_NAMED_ROWS = 40
"""The most rows that have a name each; if there are more, those of one node have its name
together."""
TIER_ORDER = ("host_up", "fabric_up", "fabric_down", "host_down")
"""The order of rows, which follows the way of a packet."""
RAMP = ((255, 255, 255), (205, 225, 242), (126, 184, 218), (42, 111, 178), (10, 35, 92))
"""Colours from nothing to a full link, in equal steps, which can be told apart in print, too."""


@dataclass(frozen=True)
class HeatMap:
    """The loads of one run's links."""

    names: tuple[str, ...]
    """The names of the directions, such as ``leaf0>spine1``; each has a row."""
    sources: tuple[str, ...]
    """The node that each direction leaves."""
    loads: tuple[tuple[float, ...], ...]
    """By row and bin of time: which part, 0 to 1, of what the link can carry it carried."""
    bin_ns: int

    @property
    def end_ns(self) -> int:
        """Return the time at which the last bin ends."""
        return self.bin_ns * len(self.loads[0])

    def marks(self) -> list[tuple[float, str]]:
        """Return the names that are written beside the rows, each with its place, which is counted
        in rows."""
        if len(self.names) <= MAX_NAMED_ROWS:
            return [(row + 0.5, name) for row, name in enumerate(self.names)]
        counts = [(source, len(list(group))) for source, group in groupby(self.sources)]
        ends = accumulate(rows for _, rows in counts)
        found = [
            (end - rows / 2, f"{source}>") for end, (source, rows) in zip(ends, counts, strict=True)
        ]
        thin = -(-len(found) // MAX_NAMED_ROWS)
        return found[thin // 2 :: thin]


def heat_map(run: Run, tiers: Collection[str]) -> HeatMap | None:
    """Return the loads of a run's links of these kinds, or None if they were not counted."""
    network = scenario_of(run.scenario).network()
    directions = {each.ends: place for place, each in enumerate(network.directions)}
    rates = {direction.ends: direction.link.rate_bps for direction in network.directions}
    nodes = {name: place for place, name in enumerate(network.nodes)}

    def place(link: LinkResult) -> tuple[int, ...]:
        ends = link.from_node, link.to_node
        source, target = network.directions[directions[ends]].nodes
        return TIER_ORDER.index(link.tier), nodes[source], nodes[target], directions[ends]

    links = [
        link
        for link in run.links
        if link.tier in tiers and link.load_bytes and (link.from_node, link.to_node) in rates
    ]
    if not links or run.load_bin_ns < 1:
        return None
    links.sort(key=place)
    return HeatMap(
        tuple(f"{link.from_node}>{link.to_node}" for link in links),
        tuple(link.from_node for link in links),
        tuple(_shares(link, run.load_bin_ns, rates) for link in links),
        run.load_bin_ns,
    )


def _shares(
    link: LinkResult, bin_ns: int, rates: Mapping[tuple[str, str], int]
) -> tuple[float, ...]:
    most = bin_ns * rates[link.from_node, link.to_node] / 8e9
    return tuple(min(1.0, size_bytes / most) for size_bytes in link.load_bytes)


def heat_maps_of(results: Results, spec: PlotSpec) -> list[tuple[str, HeatMap]]:
    """Return the first `MAX_RUNS` of the runs that a plot shows, each with its title."""
    found = [
        (", ".join([label_of(each.algorithm), *each.place_among(results.swept)]), shown)
        for point in selected(results, spec)
        for each in point
        if (shown := heat_map(each.shown, TIERS[spec.tier])) is not None
    ]
    return found[:MAX_RUNS]
