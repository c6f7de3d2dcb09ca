"""Workgroups of ranks, which waits of a graph share."""

import heapq
from collections.abc import Iterator, Sequence

from weft.agents.collectives.flow_columns import (
    NONE,
)


class Workgroups:
    """The workgroups of ranks: which waits have one, and which could begin if they had."""

    def __init__(self, source: Sequence[int], pool: Sequence[int], pools: Sequence[int]) -> None:
        self._source, self._pool, self._pools = source, pool, pools
        self._free: dict[tuple[int, int], int] = {}
        """By rank and pool."""
        self._ready: dict[tuple[int, int], list[int]] = {}
        """Heaps of waits."""
        self._changed: set[tuple[int, int]] = set()

    def needs(self, task: int) -> bool:
        """Return whether a task needs a workgroup."""
        return bool(self._pool) and self._pool[task] != NONE

    def ready(self, task: int) -> None:
        """Note that a wait could begin if it had a workgroup."""
        key = self._source[task], self._pool[task]
        self._free.setdefault(key, self._pools[key[1]])
        heapq.heappush(self._ready.setdefault(key, []), task)
        self._changed.add(key)

    def leave(self, task: int) -> None:
        """Note that a wait has no use for its workgroup any more."""
        key = self._source[task], self._pool[task]
        self._free[key] += 1
        self._changed.add(key)

    def taken(self) -> Iterator[int]:
        """Yield the waits that begin now, since there are workgroups for them."""
        for key in sorted(self._changed):
            while self._free[key] and self._ready[key]:
                self._free[key] -= 1
                yield heapq.heappop(self._ready[key])
        self._changed.clear()
