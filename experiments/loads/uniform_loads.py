"""The loads of links where every host sends as many bytes to every other, counted by pairs of
leaves.

That is an All-to-all of any number of hosts, without an object for any of its flows: 65,536 hosts
have over 4 billion.
"""

from dataclasses import replace

import numpy as np

from weft.controller.clos_paths import ClosPaths
from weft.controller.ethereal import Columns, cut
from weft.controller.flows import BoolArray, IntArray
from weft.experiments.loads.link_loads import (
    FloatArray,
    LinkLoads,
    demand_loads,
    destination_paths,
    kind_paths,
    kinds_of,
    loads_of,
)


def uniform_spray(paths: ClosPaths, size_bytes: int) -> LinkLoads:
    """Return `spray_loads` of flows of ``size_bytes`` from every host to every other."""
    demand = np.full((paths.leaves, paths.leaves), size_bytes * paths.hosts_per_leaf**2, np.int64)
    np.fill_diagonal(demand, 0)
    return demand_loads(paths, demand, _host_loads(paths, size_bytes))


def uniform_destination(paths: ClosPaths, size_bytes: int) -> LinkLoads:
    """Return the same as `destination_loads` for such flows. All hosts of a leaf send alike."""
    everybody = np.arange(paths.hosts, dtype=np.int64)
    loads = LinkLoads.zeros(paths)
    for leaf in range(paths.leaves):
        source = np.full(paths.hosts, leaf * paths.hosts_per_leaf, np.int64)
        path = destination_paths(paths, source, everybody)
        sizes = np.full(paths.hosts, size_bytes * paths.hosts_per_leaf, np.int64)
        loads = loads + loads_of(paths, source, everybody, sizes, path)
    hosts = _host_loads(paths, size_bytes)
    return replace(loads, host_up=hosts.host_up, host_down=hosts.host_down)


def uniform_ethereal(
    paths: ClosPaths, size_bytes: int, unit_bytes: int = 1, whole_below_bytes: int = 0
) -> LinkLoads:
    """Return exactly the loads that Ethereal makes of flows of ``size_bytes`` from every host to
    every other.

    The bytes that all paths have alike are counted at once. What some paths have beyond that
    depends on the place at which sources begin.
    """
    loads = _host_loads(paths, size_bytes)
    sizes = np.full(paths.hosts_per_leaf, size_bytes, np.int64)
    kinds = kinds_of(paths)
    circles: dict[int, tuple[int, FloatArray]] = {}
    for here in kinds:
        for there in kinds:
            others = len(there) - np.isin(here, there)
            if not others.any():
                continue
            usable = kind_paths(paths, here, there)
            number = int(usable.sum())
            if number not in circles:
                circles[number] = _circle(
                    cut(sizes, number, unit_bytes, whole_below_bytes), paths.hosts_per_leaf, number
                )
            least, more = circles[number]
            up, down = (
                _on_all_paths(usable, counts, least, more)
                for counts in _begins(here, there, number)
            )
            loads.leaf_up[here] += up.reshape(len(here), paths.uplinks, -1).sum(axis=2)
            loads.leaf_down[there] += down.reshape(len(there), paths.uplinks, -1).sum(axis=2)
            if paths.between_pods(int(here[0]), int(there[0])):
                over = up.sum(axis=0).reshape(paths.uplinks, -1)
                loads.core_up[here[0] // paths.leaves_per_pod] += over
                loads.core_down[there[0] // paths.leaves_per_pod] += over
    return loads


def uniform_pieces(
    paths: ClosPaths, size_bytes: int, unit_bytes: int = 1, whole_below_bytes: int = 0
) -> int:
    """Return how many pieces Ethereal cuts the flows of all hosts into."""
    each = paths.hosts_per_leaf
    total = paths.hosts * (each - 1)
    kinds = kinds_of(paths)
    for here in kinds:
        for there in kinds:
            pairs = len(here) * len(there) - len(here) * np.array_equal(here, there)
            if pairs:
                sizes = np.full(each, size_bytes, np.int64)
                number = int(kind_paths(paths, here, there).sum())
                pieces = len(cut(sizes, number, unit_bytes, whole_below_bytes)[0])
                total += pairs * each * pieces
    return total


def _circle(pieces: Columns, hosts: int, paths: int) -> tuple[int, FloatArray]:
    """Return what all hosts of a leaf, each of which sends these pieces to another leaf, send there
    if the two leaves' numbers add up to o: the bytes that every path has, and, float64 [o, path],
    how many more bytes a path has."""
    _, place, _, piece_bytes = pieces
    load = np.zeros(paths, np.int64)
    np.add.at(load, place, piece_bytes)
    least = int(load.min())
    own = sum(np.roll(load - least, position) for position in range(hosts))
    places = np.arange(paths)
    return hosts * least, np.asarray(own, np.float64)[places[None, :] - places[:, None]]


def _begins(here: IntArray, there: IntArray, paths: int) -> tuple[IntArray, IntArray]:
    """Return how often a leaf's number and another's add up to o (modulo ``paths``), as int64
    [here, o] and int64 [there, o]."""
    rows, columns = np.nonzero(here[:, None] != there)
    turn = (here[rows] + there[columns]) % paths
    up, down = (
        np.bincount(each * paths + turn, minlength=len(leaves) * paths).reshape(len(leaves), paths)
        for leaves, each in ((here, rows), (there, columns))
    )
    return up, down


def _on_all_paths(usable: BoolArray, counts: IntArray, least: int, more: FloatArray) -> IntArray:
    """Return the bytes of each leaf on each path, int64 [leaves, paths]."""
    loads = np.zeros((len(counts), len(usable)), np.int64)
    loads[:, usable] = counts.sum(axis=1, keepdims=True) * least
    if more.any():
        loads[:, usable] += np.rint(counts @ more).astype(np.int64)
    return loads


def uniform_ecmp(paths: ClosPaths, size_bytes: int, lanes: int = 1, seed: int = 1) -> LinkLoads:
    """Return the loads of flows in ``lanes`` parts that are hashed as if each part drew its path by
    itself.

    One multinomial draw says how many of the flows between two leaves take which uplink. Between
    pods, another draw says how many of those between two pods, at one aggregation switch, take
    which core.
    """
    if not paths.uplinks:
        return _host_loads(paths, size_bytes)
    draw = np.random.default_rng(seed)
    part_bytes = size_bytes / lanes
    counts = LinkLoads.zeros(paths)
    to_pod = np.zeros((paths.pods, paths.pods, paths.uplinks), np.int64)
    kinds = kinds_of(paths)
    kind_of = np.empty(paths.leaves, np.int64)
    for number, leaves in enumerate(kinds):
        kind_of[leaves] = number
    for here in kinds:
        chances = np.zeros((len(kinds), paths.uplinks))
        for number, there in enumerate(kinds):
            usable = kind_paths(paths, here, there).reshape(paths.uplinks, -1).any(axis=1)
            chances[number] = usable / max(1, usable.sum())
        for leaf in here.tolist():
            flows = np.full(paths.leaves, paths.hosts_per_leaf**2 * lanes, np.int64)
            flows[leaf] = 0
            drawn = draw.multinomial(flows, chances[0] if len(kinds) == 1 else chances[kind_of])
            counts.leaf_up[leaf] += drawn.sum(axis=0)
            counts.leaf_down[:] += drawn
            pods = drawn.reshape(paths.pods, paths.leaves_per_pod, paths.uplinks).sum(axis=1)
            to_pod[leaf // paths.leaves_per_pod] += pods
    if paths.cores:
        _draw_cores(paths, draw, to_pod, counts)
    hosts = _host_loads(paths, size_bytes)
    parts = (counts.leaf_up, counts.leaf_down, counts.core_up, counts.core_down)
    return LinkLoads(hosts.host_up, hosts.host_down, *(part * part_bytes for part in parts))


def _draw_cores(
    paths: ClosPaths, draw: np.random.Generator, to_pod: IntArray, counts: LinkLoads
) -> None:
    for pod in range(paths.pods):
        usable = paths.core_up[pod] & paths.core_up
        number = usable.sum(axis=2, keepdims=True)
        flows = np.where(number[:, :, 0] > 0, to_pod[pod], 0)
        flows[pod] = 0
        drawn = draw.multinomial(flows, usable / np.maximum(1, number))
        counts.core_up[pod] += drawn.sum(axis=0)
        counts.core_down[:] += drawn


def _host_loads(paths: ClosPaths, size_bytes: int) -> LinkLoads:
    loads = LinkLoads.zeros(paths)
    loads.host_up[:] = loads.host_down[:] = size_bytes * (paths.hosts - 1)
    return loads
