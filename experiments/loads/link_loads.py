"""The loads of links, computed without a packet from flows whose paths are known.

Bytes are those of the flows; headers, acknowledgements and what is sent again are not counted.
"""

from dataclasses import dataclass, replace
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.base.errors import refuse
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF, BoolArray, Flows, IntArray, Pieces
from weft.controller.selector_hash import (
    Salts,
    choose,
    core_masks,
    ecmp_paths,
    uplink_masks,
)

Numbers = npt.NDArray[Any]
"""int64 where bytes are whole numbers, otherwise float64."""

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinkLoads:
    """The bytes on every direction of every link, by kind of link."""

    host_up: Numbers
    """[hosts]: from each host."""
    host_down: Numbers
    leaf_up: Numbers
    """[leaves, uplinks]: from each leaf, by its uplink."""
    leaf_down: Numbers
    """[leaves, uplinks]: to each leaf, by the same links."""
    core_up: Numbers
    """[pods, uplinks, cores]: from each aggregation switch, by its uplink."""
    core_down: Numbers

    @staticmethod
    def zeros(paths: ClosPaths, dtype: type = np.int64) -> "LinkLoads":
        """Return loads that are 0 on all links."""
        shapes = ((paths.hosts,), (paths.leaves, paths.uplinks),
                  (paths.pods, paths.uplinks, paths.cores))  # fmt: skip
        return LinkLoads(*(np.zeros(shape, dtype) for shape in shapes for _ in range(2)))

    @property
    def fabric(self) -> Numbers:
        """Return the loads of all directions of links between switches, one after the other."""
        parts = (self.leaf_up, self.leaf_down, self.core_up, self.core_down)
        return np.concatenate([part.ravel() for part in parts])

    @property
    def hosts(self) -> Numbers:
        """Return the loads of all directions of hosts' links: first all that lead up, then all that
        lead down."""
        return np.concatenate([self.host_up, self.host_down])

    def by_direction(self) -> Numbers:
        """Return the loads of all links, in the order of `Topology.directions`."""
        # A topology's links to cores are by position, then pod, then core.
        up = (self.host_up, self.leaf_up, self.core_up.transpose(1, 0, 2))
        down = (self.host_down, self.leaf_down, self.core_down.transpose(1, 0, 2))
        both = (np.concatenate([part.ravel() for part in parts]) for parts in (up, down))
        return np.stack(list(both), axis=1).ravel()

    def __add__(self, other: "LinkLoads") -> "LinkLoads":
        return LinkLoads(*map(add, vars(self).values(), vars(other).values()))

    def __mul__(self, times: int) -> "LinkLoads":
        return LinkLoads(*(one * times for one in vars(self).values()))


def direction_name(paths: ClosPaths, number: int) -> str:
    """Return the name of a direction by its place in `Topology.directions`: ``leaf0>spine1``."""
    link, down = divmod(number, 2)
    leaf_links = paths.leaves * paths.uplinks
    if link < paths.hosts:
        ends = f"h{link}", f"leaf{link // paths.hosts_per_leaf}"
    elif link < paths.hosts + leaf_links:
        leaf, position = divmod(link - paths.hosts, paths.uplinks)
        pod = leaf // paths.leaves_per_pod
        above = f"agg{pod * paths.uplinks + position}" if paths.cores else f"spine{position}"
        ends = f"leaf{leaf}", above
    else:
        position, rest = divmod(link - paths.hosts - leaf_links, paths.pods * paths.cores)
        pod, core = divmod(rest, paths.cores)
        ends = f"agg{pod * paths.uplinks + position}", f"core{position * paths.cores + core}"
    return ">".join(ends[::-1] if down else ends)


def loads_of(
    paths: ClosPaths, source: IntArray, destination: IntArray, size_bytes: IntArray, path: IntArray
) -> LinkLoads:
    """Return the loads, int64, of messages between hosts, each on one path (`WITHIN_LEAF` stands
    for none)."""
    paths.check_hosts(source, destination)
    loads = LinkLoads.zeros(paths)
    apart = source != destination
    np.add.at(loads.host_up, source[apart], size_bytes[apart])
    np.add.at(loads.host_down, destination[apart], size_bytes[apart])
    away = path != WITHIN_LEAF
    leaf, far_leaf = paths.leaf_of(source[away]), paths.leaf_of(destination[away])
    size_bytes, path = size_bytes[away], path[away]
    pod, far_pod = paths.pod_of(leaf), paths.pod_of(far_leaf)
    between = pod != far_pod
    position = np.where(between, path // max(1, paths.cores), path)
    np.add.at(loads.leaf_up, (leaf, position), size_bytes)
    np.add.at(loads.leaf_down, (far_leaf, position), size_bytes)
    if paths.cores:
        core, position = path[between] % paths.cores, position[between]
        np.add.at(loads.core_up, (pod[between], position, core), size_bytes[between])
        np.add.at(loads.core_down, (far_pod[between], position, core), size_bytes[between])
    return loads


def pieces_loads(paths: ClosPaths, flows: Flows, pieces: Pieces) -> LinkLoads:
    """Return the loads of flows that are sent in pieces."""
    source, destination = flows.source[pieces.flow], flows.destination[pieces.flow]
    return loads_of(paths, source, destination, pieces.size_bytes, pieces.path)


def ecmp_loads(paths: ClosPaths, salts: Salts, flows: Flows, source_ports: IntArray) -> LinkLoads:
    """Return the loads of flows that are hashed, exactly as the switches hash them.

    ``source_ports`` is int64 [flows, lanes]; every flow is cut into as many nearly equal parts.
    """
    refuse(
        source_ports.ndim != 2 or len(source_ports) != len(flows),
        f"source ports of shape {source_ports.shape} for {len(flows)} flows: one row a flow, "
        "one column a lane",
    )
    lanes = source_ports.shape[1]
    loads = LinkLoads.zeros(paths)
    for lane in range(lanes):
        size_bytes = (flows.size_bytes + lanes - 1 - lane) // lanes
        ends = flows.source, flows.destination
        path = ecmp_paths(paths, salts, *ends, source_ports[:, lane])
        loads = loads + loads_of(paths, *ends, size_bytes, path)
    return loads


def destination_loads(paths: ClosPaths, flows: Flows) -> LinkLoads:
    """Return the loads of flows that are routed by destination, as
    `weft.controller.features.routes` does."""
    path = destination_paths(paths, flows.source, flows.destination)
    return loads_of(paths, flows.source, flows.destination, flows.size_bytes, path)


def destination_paths(paths: ClosPaths, source: IntArray, destination: IntArray) -> IntArray:
    """Return the paths of flows that are routed by destination (D-Mod-K), int64 [flows]."""
    paths.check_hosts(source, destination)
    path = np.full(len(source), WITHIN_LEAF, np.int64)
    away = np.flatnonzero(paths.leaf_of(source) != paths.leaf_of(destination))
    leaf, far_leaf = paths.leaf_of(source[away]), paths.leaf_of(destination[away])
    up = _in_turn(uplink_masks(paths, leaf, far_leaf), paths.uplinks, destination[away])
    path[away] = up
    pod, far_pod = paths.pod_of(leaf), paths.pod_of(far_leaf)
    between = np.flatnonzero(pod != far_pod)
    if len(between):
        up, pod, far_pod = up[between], pod[between], far_pod[between]
        number = destination[away[between]] // paths.uplinks
        core = _in_turn(core_masks(paths, pod, far_pod, up), paths.cores, number)
        path[away[between]] = up * paths.cores + core
    return path


def _in_turn(masks: BoolArray | None, uplinks: int, number: IntArray) -> IntArray:
    """Return the uplink of a destination of that number; those whose own is down take the
    others."""
    turn, place = np.divmod(number, uplinks)
    if masks is None:
        return place
    missing = np.cumsum(~masks, axis=1)
    rows = np.arange(len(number))
    other = choose(masks, uplinks, turn * missing[:, -1] + missing[rows, place] - 1)
    return np.where(masks[rows, place], place, other)


def leaf_demand(paths: ClosPaths, flows: Flows) -> IntArray:
    """Return the bytes from leaf to leaf, int64 [leaves, leaves]; 0 within a leaf."""
    paths.check_hosts(flows.source, flows.destination)
    demand = np.zeros((paths.leaves, paths.leaves), np.int64)
    ends = paths.leaf_of(flows.source), paths.leaf_of(flows.destination)
    np.add.at(demand, ends, flows.size_bytes)
    np.fill_diagonal(demand, 0)
    return demand


def spray_loads(paths: ClosPaths, flows: Flows) -> LinkLoads:
    """Return the loads, float64, of ideal spraying: every path between two leaves carries as many
    bytes."""
    none = np.full(len(flows), WITHIN_LEAF, np.int64)
    hosts = loads_of(paths, flows.source, flows.destination, flows.size_bytes, none)
    return demand_loads(paths, leaf_demand(paths, flows), hosts)


def demand_loads(paths: ClosPaths, demand: IntArray, hosts: LinkLoads) -> LinkLoads:
    """Return the loads of ideal spraying, given the bytes from leaf to leaf; ``hosts`` has the
    loads of hosts' links.

    Leaves of a pod that have the same uplinks up are alike, so pairs of kinds are computed and not
    pairs of leaves.
    """
    zeros = LinkLoads.zeros(paths, np.float64)
    loads = replace(zeros, host_up=hosts.host_up, host_down=hosts.host_down)
    kinds = kinds_of(paths)
    to_kind = np.stack([demand[:, there].sum(axis=1) for there in kinds], axis=1)
    for here in kinds:
        from_here = demand[here].sum(axis=0)
        for column, there in enumerate(kinds):
            size_bytes = int(from_here[there].sum())
            if not size_bytes:
                continue
            usable = kind_paths(paths, here, there)
            number = usable.sum()
            by_uplink = usable.reshape(paths.uplinks, -1).sum(axis=1)
            loads.leaf_up[here] += to_kind[here, column, None] * by_uplink / number
            loads.leaf_down[there] += from_here[there, None] * by_uplink / number
            if paths.between_pods(int(here[0]), int(there[0])):
                share = size_bytes * usable.reshape(paths.uplinks, -1) / number
                loads.core_up[here[0] // paths.leaves_per_pod] += share
                loads.core_down[there[0] // paths.leaves_per_pod] += share
    return loads


def kinds_of(paths: ClosPaths) -> list[IntArray]:
    """Return groups of leaves: leaves of one pod with the same uplinks up are in one group."""
    found: dict[tuple[int, bytes], list[int]] = {}
    for leaf in range(paths.leaves):
        key = (leaf // paths.leaves_per_pod, paths.leaf_up[leaf].tobytes())
        found.setdefault(key, []).append(leaf)
    return [np.array(leaves, np.int64) for leaves in found.values()]


def kind_paths(paths: ClosPaths, here: IntArray, there: IntArray) -> BoolArray:
    """Return which paths lead from a leaf of one kind to a leaf of another, bool [paths]."""
    one, other = int(here[0]), int(there[-1])
    if one == other:  # nothing goes there, or there is but one leaf of the kind
        return np.asarray(paths.leaf_up[one])
    usable = paths.usable(one, other)
    if not usable.any():
        paths.usable_paths(one, other)
    return usable
