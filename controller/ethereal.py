"""Ethereal: it cuts flows into pieces, each on a single path, that load all paths alike.

"Challenging the Need for Packet Spraying in Large-Scale Distributed Training" (Addanki, Goyal,
Marinos, Schmid; arXiv 2407.00550). Every source decides by itself, from its own flows of a step. Of
n flows of one size to one leaf, to which s paths lead, it places the first n - (n mod s) whole,
round the paths. It cuts each of the r = n mod s flows that are left into s / gcd(r, s) equal
pieces, which go on round the paths. So each path has 1/s of the bytes.

Sizes need not divide: a piece is a whole number of units (a unit is a byte, or a packet's payload),
unless its flow ends in the middle of a unit. Even then, of all that a source sends to a leaf, flows
of all sizes together, no path has over one unit more than another. A flow has fewer pieces only
where it has fewer units.
"""

import math
from collections.abc import Collection, Iterable

import numpy as np
import numpy.typing as npt

from weft.base.errors import refuse
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import WITHIN_LEAF, Flows, IntArray, Pieces
from weft.topo.clos import Topology

Network = Topology | ClosPaths

Columns = tuple[IntArray, IntArray, IntArray, IntArray]
"""Columns of pieces: flow, path, offset in bytes, and bytes."""


def ethereal(
    network: Network,
    flows: Flows,
    seed: int = 1,
    without: Collection[str] = (),
    unit_bytes: int = 1,
    whole_below_bytes: int = 0,
) -> Pieces:
    """Cut the flows of a step and give each piece its path.

    A source sends to its destination leaves in an order of its own, drawn by ``seed``. It begins
    with another path for each leaf, so that sources do not meet; where all paths get exactly the
    same, it begins with the first. Flows within a leaf stay whole.

    Args:
        network: a topology, or its paths.
        without: names of links of the topology that are not to be used (failed ones).
        unit_bytes: pieces are whole numbers of this; the path MTU gives the fewest packets.
        whole_below_bytes: smaller flows are not cut.

    Raises:
        InputError: there is no such host or link, or no path is left between two leaves.
    """
    paths = network if isinstance(network, ClosPaths) else ClosPaths.of(network, without)
    refuse(
        unit_bytes < 1,
        f"unit {unit_bytes}: a unit has at least 1 byte",
    )
    paths.check_hosts(flows.source, flows.destination)
    leaf = paths.leaf_of(flows.destination)
    order = np.lexsort((leaf, flows.source))
    group_of_row = flows.source[order] * paths.leaves + leaf[order]
    firsts = np.flatnonzero(np.diff(group_of_row, prepend=-1))
    found = _Groups(paths, flows, order, firsts)
    columns = [found.pieces(alike, unit_bytes, whole_below_bytes) for alike in found.alike()]
    flow, path, offset, size_bytes = _concatenated(columns)
    turn = _shuffled(seed, flows.source[flow], leaf[flow])
    rows = np.lexsort((turn, flows.source[flow]))  # stable: within a group as they were cut
    return Pieces(flow[rows], path[rows], offset[rows], size_bytes[rows])


class _Groups:
    """Flows by source and destination leaf; a group is a run of ``order``."""

    def __init__(self, paths: ClosPaths, flows: Flows, order: IntArray, firsts: IntArray) -> None:
        self.paths = paths
        self.order = order
        self.firsts = firsts
        self.ends = np.append(firsts, len(order))[1:]
        self.sizes = flows.size_bytes[order]
        source, destination = flows.source[order[firsts]], flows.destination[order[firsts]]
        self.source_leaf = paths.leaf_of(source)
        self.destination_leaf = paths.leaf_of(destination)
        self.start = source % paths.hosts_per_leaf + self.source_leaf + self.destination_leaf

    def alike(self) -> Iterable[IntArray]:
        """Yield groups that are cut alike: they have as many flows of the same sizes over the same
        paths."""
        found: dict[tuple[bytes, bytes], list[int]] = {}
        usable: dict[tuple[int, int], bytes] = {}
        leaves = zip(self.source_leaf.tolist(), self.destination_leaf.tolist(), strict=True)
        runs = zip(self.firsts.tolist(), self.ends.tolist(), strict=True)
        for number, (ends, (first, end)) in enumerate(zip(leaves, runs, strict=True)):
            key = usable.get(ends)
            if key is None:
                key = usable[ends] = self.paths.usable_paths(*ends).tobytes()
            found.setdefault((key, self.sizes[first:end].tobytes()), []).append(number)
        return (np.array(groups, np.int64) for groups in found.values())

    def pieces(self, groups: IntArray, unit_bytes: int, whole_below_bytes: int) -> Columns:
        """Return all pieces of groups that are cut alike."""
        one = groups[0]
        usable = self.paths.usable_paths(
            int(self.source_leaf[one]), int(self.destination_leaf[one])
        )
        sizes = self.sizes[self.firsts[one] : self.ends[one]]
        row, place, offset, size_bytes = cut(
            sizes, max(1, len(usable)), unit_bytes, whole_below_bytes
        )
        flow = self.order[self.firsts[groups][:, None] + row]
        if len(usable):
            # Loads that are equal are so from any path on. Where all sources begin with the same,
            # shifts (each host sends to the one so many places on) never meet.
            loads = np.bincount(place, size_bytes, len(usable))
            start = np.zeros_like(groups) if np.ptp(loads) == 0 else self.start[groups]
            path = usable[(place + start[:, None]) % len(usable)]
        else:
            path = np.full_like(flow, WITHIN_LEAF)
        offsets, all_sizes = (
            np.broadcast_to(column, flow.shape) for column in (offset, size_bytes)
        )
        return flow.ravel(), path.ravel(), offsets.ravel(), all_sizes.ravel()


def cut(sizes: IntArray, paths: int, unit_bytes: int = 1, whole_below_bytes: int = 0) -> Columns:
    """Cut what one source sends to one leaf; return (row in ``sizes``, path from 0, offset, bytes)
    of every piece, in order.

    Flows of equal size are cut together, the smallest first. The loads of any two paths differ by
    at most ``unit_bytes``, or by the largest flow below ``whole_below_bytes``, which are not cut.
    """
    loads = np.zeros(paths, np.int64)
    found: list[Columns] = []
    for size_bytes in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size_bytes)
        over = len(rows) % paths if size_bytes else 0
        whole, split = rows[: len(rows) - over], rows[len(rows) - over :]
        if len(whole):
            place = np.arange(len(whole), dtype=np.int64) % paths
            none = np.zeros_like(whole)
            found.append((whole, place, none, none + size_bytes))
            loads += len(whole) // paths * size_bytes
        if size_bytes < whole_below_bytes:
            place = np.argsort(loads, kind="stable")[:over]
            none = np.zeros_like(split)
            found.append((split, place, none, none + size_bytes))
            loads[place] += size_bytes
        elif len(split):
            number, place, offset, piece_bytes = _split(size_bytes, len(split), paths, unit_bytes)
            added = np.zeros(paths, np.int64)
            np.add.at(added, place, piece_bytes)
            # Whoever has most so far gets least now, and the difference stays within a unit.
            renamed = np.empty(paths, np.int64)
            renamed[np.argsort(-added, kind="stable")] = np.argsort(loads, kind="stable")
            place = renamed[place]
            np.add.at(loads, place, piece_bytes)
            found.append((split[number], place, offset, piece_bytes))
    return _concatenated(found)


def _split(size_bytes: int, flows: int, paths: int, unit_bytes: int) -> Columns:
    """Cut ``flows`` < ``paths`` flows of one size, and return (flow from 0, path, offset, bytes).

    With g = gcd(flows, paths), every g-th flow has the same paths; each of these g classes does the
    same with paths / g paths.
    """
    classes = math.gcd(flows, paths)
    each, turns = paths // classes, flows // classes
    piece_bytes, offset = _cut_in_turn(size_bytes, turns, each, unit_bytes)
    flow = np.arange(flows, dtype=np.int64)
    first_path = flow % classes * each
    path = first_path[:, None] + np.arange(each, dtype=np.int64)
    turn = flow // classes
    columns = (np.repeat(flow, each), path.ravel(), offset[turn].ravel(), piece_bytes[turn].ravel())
    some = columns[3] > 0
    flow, path, offset, piece_bytes = (column[some] for column in columns)
    return flow, path, offset, piece_bytes


def _cut_in_turn(
    size_bytes: int, flows: int, paths: int, unit_bytes: int
) -> tuple[IntArray, IntArray]:
    """Cut every flow into a piece for each path; return bytes and offsets, each int64 [flows,
    paths].

    The units that do not divide go, one by one, to the paths that have least so far; the last unit
    of a flow, which may be short, belongs to the path that then has most. So loads still differ by
    at most a unit.
    """
    units = -(-size_bytes // unit_bytes)
    short = units * unit_bytes - size_bytes
    least, more = divmod(units, paths)
    pieces = np.full((flows, paths), least * unit_bytes, np.int64)
    offsets = np.empty_like(pieces)
    loads = np.zeros(paths, np.int64)
    for piece, offset in zip(pieces, offsets, strict=True):
        last = paths - 1
        if more or short:
            piece[np.argsort(loads, kind="stable")[:more]] += unit_bytes
            last = int(np.argmax(np.where(piece > 0, loads + piece, -1)))
            piece[last] -= short
            loads += piece
            loads -= loads.min()
        order = (np.arange(paths) + last + 1) % paths  # the piece with the last byte at the end
        offset[order] = np.cumsum(piece[order]) - piece[order]
    return pieces, offsets


def _concatenated(parts: Collection[Columns]) -> Columns:
    none = (np.zeros(0, np.int64),) * 4
    flow, path, offset, size_bytes = map(np.concatenate, zip(none, *parts, strict=True))
    return flow, path, offset, size_bytes


def _shuffled(seed: int, source: IntArray, leaf: IntArray) -> npt.NDArray[np.uint64]:
    """Return a number for each (source, leaf) that looks random, the same whoever else sends
    (splitmix64: Steele, Lea, Flood, 2014)."""
    words = np.uint64(seed % 2**64) + (source << 32 | leaf).astype(np.uint64)
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)), np.uint64)


def lanes(steps: Iterable[tuple[Flows, Pieces]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return by (source, destination) the paths that the pair's pieces take in any of the steps,
    ascending.

    Each path is one lane, that is, a queue pair of its own. Two hosts below one leaf have a single
    lane, whose path is `WITHIN_LEAF`.
    """
    rows = [
        np.stack([flows.source[pieces.flow], flows.destination[pieces.flow], pieces.path], axis=1)
        for flows, pieces in steps
    ]
    found: dict[tuple[int, int], list[int]] = {}
    unique = np.unique(np.concatenate([np.zeros((0, 3), np.int64), *rows]), axis=0)
    for source, destination, path in unique.tolist():
        found.setdefault((source, destination), []).append(path)
    return {ends: tuple(paths) for ends, paths in found.items()}
