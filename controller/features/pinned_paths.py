"""Pinned paths: this module plans the entries that lead single flows along paths that the
controller chose.

A flow is what one UDP source port carries from one host to another. Its path is a number: between
leaves of two tiers, the spine's index; between pods of a fat tree of three tiers, the core's;
within a pod, that of the aggregation switch, counted within the pod. A path needs an entry on each
of its switches that has a choice: on the leaf, and between pods on the aggregation switch above it.
From the top there is only one way down.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import pairwise

from weft.base.errors import InputError, refuse
from weft.controller.entities import Action, Entity, entry
from weft.controller.features.feature import Demand, Feature, Planned, Planning
from weft.controller.flows import WITHIN_LEAF
from weft.controller.program_names import ProgramNames
from weft.switch.engine.control.entities import Exact
from weft.topo.clos import Direction, Switch, Topology


@dataclass(frozen=True)
class Pin:
    """A flow that is pinned to its path."""

    source: int
    """Number of the host that sends."""
    destination: int
    source_port: int
    """UDP source port of the flow's packets."""
    path: int
    """The number of the path; -1 between hosts of one leaf, where there is nothing to choose."""

    def __str__(self) -> str:
        return f"pin of h{self.source} > h{self.destination} from port {self.source_port}"


class PathMap:
    """The numbers of the paths between the leaves of a topology."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._spines = topology.switches_of("spine")
        self._cores = topology.switches_of("core")
        self._aggs: dict[int | None, list[str]] = defaultdict(list)
        for agg in topology.switches_of("agg"):
            self._aggs[agg.pod].append(agg.name)
        self._above = {
            (core.name, topology.switch(name).pod): name
            for core in self._cores
            for name in topology.neighbours(core.name)
        }

    def count(self, source: Switch, destination: Switch) -> int:
        """Return how many paths lead from one leaf to another; there are 0 from a leaf to
        itself."""
        if source == destination:
            return 0
        if source.pod is None:
            return len(self._spines)
        return len(self._aggs[source.pod] if source.pod == destination.pod else self._cores)

    def directions(self, source: Switch, destination: Switch, path: int) -> tuple[Direction, ...]:
        """Return the directions of links that a path from leaf to leaf takes, in order; there are
        none within a leaf (path -1).

        Raises InputError for a path that does not exist.
        """
        if source == destination and path == WITHIN_LEAF:
            return ()
        known = self.count(source, destination)
        if not 0 <= path < known:
            there = f"0 to {known - 1}" if known else f"{WITHIN_LEAF} alone"
            raise InputError(
                f"path {path} from {source.name} to {destination.name}: the paths are {there}"
            )
        if source.pod is None:
            between = [self._spines[path].name]
        elif source.pod == destination.pod:
            between = [self._aggs[source.pod][path]]
        else:
            core = self._cores[path].name
            between = [self._above[core, source.pod], core, self._above[core, destination.pod]]
        way = [source.name, *between, destination.name]
        return tuple(self._topology.direction(*ends) for ends in pairwise(way))


class PinnedPaths(Feature):
    """Flows that are pinned to paths. Callers give the pins; those whose path needs a link that has
    failed are left out."""

    name = "pinned_paths"

    def wanted(self, demand: Demand, topology: Topology) -> object:
        """See `Feature.wanted`."""
        return demand.pins

    def plan(self, planning: Planning) -> Planned:
        """See `Feature.plan`."""
        pins = planning.wants.get(self.name, ())
        return Planned(plan_pins(planning.names, planning.topology, pins, planning.without))


def plan_pins(
    names: ProgramNames,
    topology: Topology,
    pins: Iterable[Pin],
    without: Collection[str] = (),
) -> dict[str, list[Entity]]:
    """Return the entries of pinned paths of every switch that has any, by its name.

    ``without`` names links that are not to be used: a flow whose path needs one of them is not
    pinned on any switch. Raises InputError for an unknown host, link or path; a source port that
    UDP does not have; a flow with two paths; and more flows than a switch holds.
    """
    paths = PathMap(topology)
    down = {topology.link(name).name for name in without}
    actions: dict[tuple[str, str, int], list[tuple[str, Action]]] = {}
    chosen: dict[tuple[int, int, int], int] = {}
    found: dict[str, list[Entity]] = {}
    for pin in pins:
        source, destination = topology.host(pin.source), topology.host(pin.destination)
        if not 0 <= pin.source_port < 1 << 16:
            raise InputError(f"{pin}: a UDP port is 0 to 65535")
        flow = pin.source, pin.destination, pin.source_port
        if flow in chosen:
            refuse(
                chosen[flow] != pin.path, f"{pin}: it has two paths, {chosen[flow]} and {pin.path}"
            )
            continue
        chosen[flow] = pin.path
        way = source.leaf, destination.leaf, pin.path
        if way not in actions:
            ends = topology.switch(source.leaf), topology.switch(destination.leaf)
            actions[way] = _choices(names, topology, paths.directions(*ends, pin.path), down)
        match = {
            names.name("src_addr"): Exact(source.address),
            names.name("dst_addr"): Exact(destination.address),
            names.name("src_port"): Exact(pin.source_port),
        }
        for switch, action in actions[way]:
            found.setdefault(switch, []).append(entry(names.name("pinned_path"), match, action))
    for switch, entries in found.items():
        if len(entries) > names.size("pinned_path"):
            raise InputError(
                f"{switch}: {len(entries)} pinned paths, and a switch holds "
                f"{names.size('pinned_path')}: choose paths by source ports, or fewer flows"
            )
    return found


def _choices(
    names: ProgramNames, topology: Topology, path: Iterable[Direction], down: Collection[str]
) -> list[tuple[str, Action]]:
    """Return the switches of a path that have a choice, and what each does; none if a link of the
    path is down."""
    found = []
    for direction in path:
        if direction.link.name in down:
            return []
        if direction.upward:
            here, there = (topology.node(name) for name in direction.nodes)
            action = Action.of(
                names.name("pin"),
                port=direction.source.number,
                src_mac=here.mac,
                dst_mac=there.mac,
            )
            found.append((here.name, action))
    return found
