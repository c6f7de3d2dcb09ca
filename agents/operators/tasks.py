"""Tasks of a fused operator: which tile is computed when, by which workgroup, and what goes as one.

A *task* computes one tile of the output, which belongs to one rank, its *owner*. A *slice* is a run
of tiles for the same owner, which follow each other in memory: it is sent by one put when its last
tile is there, and has one flag. *Workgroups* take the tasks one by one ("Optimizing Distributed ML
Communication with Fused Computation-Collective Operations", SC24, arXiv 2305.06942).
"""

import heapq
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

from weft.base.errors import InputError

REMOTE_FIRST, LOCAL_FIRST, INTERLEAVED = "remote-first", "local-first", "interleaved"
ORDERS = {
    REMOTE_FIRST: "tiles for other ranks, then the rank's own",
    LOCAL_FIRST: "the rank's own tiles, then those for others",
    INTERLEAVED: "a slice for each rank in turn",
}
"""The orders in which a rank computes tiles, the default first, each with what help says of it."""


class RowSpan(NamedTuple):
    """A run of rows, or of whatever is counted."""

    first: int
    size: int


def cut(total: int, size: int) -> list[RowSpan]:
    """Cut a total into spans of a size, of which the last may be shorter; none of nothing."""
    return [RowSpan(first, min(size, total - first)) for first in range(0, total, size)]


def in_order(owners: Sequence[int], rank: int, ranks: int, order: str) -> list[int]:
    """Return the order in which a rank computes slices, as places in `owners`.

    Other ranks come by turns from the one after this rank on, so that not all ranks send to the
    same one first.

    Args:
        owners: the rank that each slice belongs to.
        order: one of `ORDERS`.

    Raises:
        InputError: there is no such order.
    """
    if order not in ORDERS:
        raise InputError(f"order {order!r}: choose from {', '.join(ORDERS)}")
    by_owner: dict[int, list[int]] = {}
    for place, owner in enumerate(owners):
        by_owner.setdefault(owner, []).append(place)
    turns = [by_owner.get((rank + step) % ranks, []) for step in range(1, ranks + 1)]
    own = turns[-1]
    others = [place for turn in zip_longest(*turns[:-1]) for place in turn if place is not None]
    if order == REMOTE_FIRST:
        return others + own
    if order == LOCAL_FIRST:
        return own + others
    return [place for turn in zip_longest(*turns) for place in turn if place is not None]


def assigned(costs: Sequence[int], workgroups: int) -> list[list[int]]:
    """Return which tasks each workgroup carries out, in order, as places in `costs`: each task goes
    to the workgroup that is free first.

    Args:
        costs: what each task takes, in the order in which they are taken.
        workgroups: how many there are, at least 1.
    """
    free = [(0, group) for group in range(workgroups)]
    found: list[list[int]] = [[] for _ in range(workgroups)]
    for place, cost in enumerate(costs):
        free_at, group = free[0]
        found[group].append(place)
        heapq.heapreplace(free, (free_at + cost, group))
    return found


def compute_ns(costs: Sequence[int], workgroups: int) -> int:
    """Return how long workgroups take for tasks that wait for nothing."""
    return max(sum(costs[task] for task in tasks) for tasks in assigned(costs, workgroups))
