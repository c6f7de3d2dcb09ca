"""What a graph of flows consists of beside its columns: places, multicasts and sums."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]


NONE = -1
"""In place of a task or a multicast where there is none."""


@dataclass(frozen=True)
class FlowPlaces:
    """Where the bytes of flows are, where they do not just follow each other. Columns have an entry
    for each task of the graph; those of waits mean nothing."""

    memory: tuple[int, ...]
    """Where a flow's source reads it: 0 in its buffer, 1 in its output."""
    offset: tuple[int, ...]
    """The place of the flow's first byte there..."""
    target: tuple[int, ...]
    """... and in the output of its destination."""
    buffer_bytes: tuple[int, ...]
    """The size of each rank's buffer..."""
    output_bytes: tuple[int, ...]
    """... and of its output."""


@dataclass(frozen=True)
class FlowMulticast:
    """Flows of the same bytes that are one multicast."""

    source: int
    destinations: tuple[int, ...]
    flows: tuple[int, ...]
    """The flow to each of the destinations."""
    size_bytes: int
    group: int
    """The number of the group by which it goes: those of one source to the same destinations
    share one."""
    shard: int
    """Its number among the multicasts of its group."""


@dataclass(frozen=True)
class Sum:
    """Waits of all ranks that are one sum of float32 numbers by the switches. Columns have
    an entry for each rank."""

    waits: tuple[int, ...]
    size_bytes: int
    offset: tuple[int, ...]
    """The place of the first byte that a rank contributes, in its buffer..."""
    target: tuple[int, ...]
    """... and of the first byte of the sums, in its output."""
    owner: int = NONE
    """The rank that alone gets the sums, or `NONE` if all do."""
    contributors: tuple[int, ...] = ()
    """The ranks that have anything to add; empty: all. Others contribute zeros, and their packets
    have headers only."""

    def sends(self, rank: int) -> bool:
        """Return whether a rank sends numbers: the owner adds its own to what comes."""
        return rank != self.owner and (not self.contributors or rank in self.contributors)

    def gets(self, rank: int) -> bool:
        """Return whether a rank gets the sums."""
        return self.owner in (NONE, rank)


@dataclass(frozen=True, eq=False)
class FlowColumns:
    """The columns of a `FlowGraph` are int64 arrays of one length."""

    source: IntArray
    destination: IntArray
    size_bytes: IntArray
    delay_ns: IntArray
    needed: IntArray
    cause: IntArray
    event: IntArray
    waiting: IntArray
    follows: IntArray
    multicast: IntArray


class FlowPlace(NamedTuple):
    """Where the bytes of a flow are; see `FlowPlaces`."""

    memory: int
    offset: int
    target: int


def by_rank(flows: IntArray, rank_of: IntArray) -> dict[int, IntArray]:
    """Return the flows, in order, by a rank that each has."""
    ranks = rank_of[flows]
    order = np.argsort(ranks, kind="stable")
    found, starts = np.unique(ranks[order], return_index=True)
    groups = np.split(flows[order], starts[1:])
    return dict(zip(found.tolist(), groups, strict=False))  # of no flows there is an empty group


def partners_of(table: FlowColumns, at_rank: IntArray) -> dict[int, set[int]]:
    """Return whom each rank sends to, tells, or hears from; `at_rank` is where the event of each
    dependency happens."""
    one = np.concatenate([table.source, at_rank])
    other = np.concatenate([table.destination, table.source[table.waiting]])
    everybody = np.concatenate([other, one])
    groups = by_rank(np.arange(len(everybody)), np.concatenate([one, other]))
    return {rank: set(everybody[places].tolist()) for rank, places in groups.items()}


def sums_before(groups: dict[int, IntArray], amounts: IntArray) -> IntArray:
    """Return the sum of the amounts of those before each task in its group."""
    sums = np.zeros(len(amounts), np.int64)
    for tasks in groups.values():
        sums[tasks] = np.cumsum(amounts[tasks]) - amounts[tasks]
    return sums
