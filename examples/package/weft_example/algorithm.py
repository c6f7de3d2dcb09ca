"""An algorithm: Allgather around a ring in both directions at once.

Every shard goes half of the way forwards and half of it backwards, so it arrives after half as many
hops as by Weft's `ring`. Every link carries as many bytes.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers
from weft.agents.collectives.unicast import Pattern, TablePattern, columns
from weft.agents.transport.relay import RelayTable


class TwoWay(TablePattern):
    """One rank's part: it passes a block on, as soon as it has come, to the other side."""

    def _table(self) -> RelayTable:
        size, rank = self._size, self._rank
        following, previous = (rank + 1) % size, (rank - 1) % size
        part, offset, length = self._blocks.columns()
        number = np.arange(len(part))
        behind, before = (rank - part) % size, (part - rank) % size
        forwards, backwards = size // 2, (size - 1) // 2
        own, forward = part == rank, (behind > 0) & (behind <= forwards)
        # First what this rank has itself, to both sides; then a row for each block that goes on.
        to_following = number[own] if forwards else number[:0]
        to_previous = number[own] if backwards else number[:0]
        others = number[~own]
        goes_on = np.where(forward, behind < forwards, before < backwards)[others]
        passed = np.concatenate([to_following, to_previous, others[goes_on]])
        peers = np.concatenate(
            [
                np.full(len(to_following), following),
                np.full(len(to_previous), previous),
                np.where(forward, following, previous)[others[goes_on]],
            ]
        )
        begin = len(to_following) + len(to_previous)
        return RelayTable(
            columns(peers, passed, 0, offset[passed], length[passed], offset[passed]),
            begin,
            columns(
                others,
                np.where(forward, previous, following)[others],
                length[others],
                begin + goes_on.cumsum() - goes_on,
                goes_on,
            ),
        )


class TwoWayRing(Algorithm):
    """Both halves of a ring at once."""

    name = "two-way-ring"
    collectives = ("allgather",)
    colours = ("#7a5195", "#a684b8")
    label = "Two-way ring"
    patterns: Mapping[str, type[Pattern]] = {"allgather": TwoWay}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield what every rank sends: step by step a shard forwards, and one backwards."""
        ranks = np.arange(task.ranks, dtype=np.int64)
        for step in range(task.ranks // 2):
            yield Transfers(ranks, np.roll(ranks, -1), np.roll(task.sizes, step))
            if step < (task.ranks - 1) // 2:
                yield Transfers(ranks, np.roll(ranks, 1), np.roll(task.sizes, -step))


TWO_WAY_RING = TwoWayRing()
