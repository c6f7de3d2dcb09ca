"""Algorithms around a ring, cut into blocks so that no link waits for a whole shard.

Allgather and Reduce-Scatter: every link carries N(P-1) bytes in one direction. Broadcast: N, from
the root around to the rank before it. Allreduce: Reduce-Scatter and Allgather as one stream of
blocks (Patarasuk, Yuan: "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009), so that every link carries 2 L (P - 1) / P bytes of a vector of L bytes, in one direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Order
from weft.agents.collectives.reduction import combine
from weft.agents.collectives.requests import Request
from weft.agents.collectives.transfers import Task, Transfers, fullest_link_bytes
from weft.agents.collectives.unicast import Blocks, Bytes, Pattern, Write, block_bytes, require


class RingAllgather:
    """Every rank passes on each block as soon as it has come, until the block has reached the rank
    before its source.

    Args:
        buffer: the gathered array's bytes; this rank's shard is in its place.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes
    ) -> None:
        shards = request.shard_bytes(size)
        self.memories: Sequence[Bytes] = (buffer,)
        self._rank = rank
        self._next = (rank + 1) % size
        self._previous = (rank - 1) % size
        self._blocks = Blocks(shards, block_bytes(request, shards, path_mtu))
        own = len(self._blocks.of(rank))
        nexts = len(self._blocks.of(self._next))
        others = self._blocks.total - own
        self.expected: Mapping[int, int] = {self._previous: others} if others else {}
        sends = size > 1 and self._blocks.total > nexts
        self.targets: Collection[int] = (self._next,) if sends else ()

    def window(self, peer: int) -> int:
        return 0

    def begin(self) -> Iterable[Write]:
        return self._pass_on(self._blocks.of(self._rank)) if self.targets else ()

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        require(block < self._blocks.total, block)
        source = self._blocks.part_of(block)
        require(source != self._rank, block)
        following = () if source == self._next else self._pass_on((block,))
        return self._blocks.span(block)[1], following

    def _pass_on(self, blocks: Iterable[int]) -> Iterator[Write]:
        for block in blocks:
            offset, length = self._blocks.span(block)
            yield Write(self._next, block, 0, offset, length, offset)


class RingReduceScatter:
    """The sum of rank c's shard begins at rank c + 1, goes around the ring, every rank adds its own
    part to it, and ends at rank c: ((x[c+1] + x[c+2]) + ...) + x[c], the same in every run.

    Half types are added in their own type, that of the wire, so rounded at every rank.

    Args:
        buffer: all ranks' elements of this rank's contribution; only read.
        output: of this rank's shard of the result.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        shards = request.shard_bytes(size)
        self._partial = np.empty(len(buffer), np.uint8)
        """What the previous rank writes, and this one adds to."""
        self.memories: Sequence[Bytes] = (buffer, self._partial)
        self._request = request
        self._rank = rank
        self._size = size
        self._next = (rank + 1) % size
        previous = (rank - 1) % size
        self._output = output
        self._blocks = Blocks(shards, block_bytes(request, shards, path_mtu))
        total = self._blocks.total
        first = self._first = previous
        incoming = total - len(self._blocks.of(first))
        self.expected: Mapping[int, int] = {previous: incoming} if size > 1 and incoming else {}
        sends = size > 1 and total > len(self._blocks.of(rank))
        self.targets: Collection[int] = (self._next,) if sends else ()
        if size == 1:
            output[:] = buffer

    def window(self, peer: int) -> int:
        return 1

    def begin(self) -> Iterable[Write]:
        for block in self._blocks.of(self._first) if self.targets else ():
            offset, length = self._blocks.span(block)
            yield Write(self._next, block, 0, offset, length, offset)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        require(block < self._blocks.total, block)
        shard = self._blocks.part_of(block)
        require(shard != self._first, block)
        offset, length = self._blocks.span(block)
        partial = self._partial[offset : offset + length]
        own = self.memories[0][offset : offset + length]
        if shard != self._rank:
            combine(self._request, partial, own, partial)
            return length, (Write(self._next, block, 1, offset, length, offset),)
        begin = offset - self._blocks.span(self._blocks.of(shard).start)[0]
        result = self._output[begin : begin + length]
        combine(self._request, partial, own, result, ranks=self._size)
        return length, ()


BUFFER, OUTPUT = range(2)
"""The memories of a rank in an Allreduce."""


class RingAllreduce:
    """The sum of part c of the vector begins at rank c + 1, goes around the ring, every rank adds
    its own to it, and is whole at rank c: ((x[c+1] + x[c+2]) + ...) + x[c]. From there the result
    goes around to rank c - 1. No block waits for another, and none for the end of the first round.

    The result is the same on all ranks and in every run. Half types are added in their own type,
    that of the wire, so rounded at every rank. An average is divided once, where the sum is whole.

    Sums arrive in the output, are added to there and passed on from there. The result that
    overwrites a sum contains it, so the next rank has it by then.

    Args:
        buffer: the vector that this rank contributes; only read.
        output: of the same size.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        parts = request.shard_bytes(size)
        self.memories: Sequence[Bytes] = (buffer, output)
        self._request = request
        self._size = size
        self._rank = rank
        self._next = (rank + 1) % size
        self._previous = (rank - 1) % size
        self._blocks = Blocks(parts, block_bytes(request, parts, path_mtu))
        total = self._total = self._blocks.total
        first, own, last = (
            len(self._blocks.of(part)) for part in (self._previous, rank, self._next)
        )
        incoming, outgoing = (
            (2 * total - first - own, 2 * total - own - last) if size > 1 else (0, 0)
        )
        self.expected: Mapping[int, int] = {self._previous: incoming} if incoming else {}
        self.targets: Collection[int] = (self._next,) if outgoing else ()
        if size == 1:
            output[:] = buffer

    def window(self, peer: int) -> int:
        return OUTPUT

    def begin(self) -> Iterable[Write]:
        for block in self._blocks.of(self._previous) if self.targets else ():
            yield self._write(block, BUFFER, 0)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        whole, place = divmod(block, self._total)
        require(whole < 2, block)
        part = self._blocks.part_of(place)
        require(part != (self._rank if whole else self._previous), block)
        length = self._blocks.span(place)[1]
        if whole:
            return length, () if part == self._next else self._pass_on(place, self._total)
        self._add(place, last=part == self._rank)
        return length, self._pass_on(place, self._total if part == self._rank else 0)

    def _add(self, block: int, last: bool) -> None:
        offset, length = self._blocks.span(block)
        buffer, output = (memory[offset : offset + length] for memory in self.memories)
        combine(self._request, output, buffer, output, ranks=self._size if last else 0)

    def _pass_on(self, block: int, numbered_from: int) -> Iterator[Write]:
        yield self._write(block, OUTPUT, numbered_from)

    def _write(self, block: int, memory: int, numbered_from: int) -> Write:
        offset, length = self._blocks.span(block)
        return Write(self._next, numbered_from + block, memory, offset, length, offset)


class Ring(Algorithm):
    """Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH",
    2005; of Allreduce: Patarasuk, Yuan, 2009."""

    name = "ring"
    collectives = ("allgather", "reduce-scatter", "allreduce")
    colours = ("#d55e00", "#f08c3c")
    lags: Mapping[str, tuple[int, ...]] = {
        "allgather": (0,), "reduce-scatter": (1,), "allreduce": (1, 0)
    }  # fmt: skip
    """In step i of an Allgather rank r passes on the shard of rank r - i, of a Reduce-Scatter that
    of rank r - i - 1; an Allreduce is the one after the other."""

    def pattern(
        self, request: Request, rank: int, size: int, path_mtu: int, data: Bytes,
        result: Bytes | None,
    ) -> Pattern:  # fmt: skip
        if result is None:
            return RingAllgather(request, rank, size, path_mtu, data)
        kind = RingAllreduce if request.collective == "allreduce" else RingReduceScatter
        return kind(request, rank, size, path_mtu, data, result)

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """P - 1 rounds as one: every rank passes every shard on to the next, but the one whose way
        ends. A gathered shard ends at the rank before its source, so rank r does not send that of
        rank r + 1; a reduced one ends at its owner, so rank r does not send its own."""
        ranks, sizes = np.arange(task.ranks, dtype=np.int64), task.sizes
        for lag in self.lags[task.collective] if task.ranks > 1 else ():
            yield Transfers(ranks, np.roll(ranks, -1), sizes.sum() - np.roll(sizes, lag - 1))

    def steps(self, task: Task) -> Iterator[Transfers]:
        ranks = np.arange(task.ranks, dtype=np.int64)
        for lag in self.lags[task.collective]:
            for step in range(task.ranks - 1):
                yield Transfers(ranks, np.roll(ranks, -1), np.roll(task.shards, step + lag))

    def least_bytes(self, task: Task) -> int:
        """T - min n_r of the fullest link, and no less than the largest shard's way around; of an
        Allreduce twice that, of parts, where blocks are passed on as they come."""
        sizes, block = task.sizes, task.block
        around = task.operations * int(sizes.max()) + (task.ranks - 2) * block
        if task.collective == "allreduce":
            fullest = task.operations * fullest_link_bytes(task.ranks, self.rounds(task))
            return max(fullest, around + (task.ranks - 1) * block)
        return max(task.operations * int(sizes.sum() - sizes.min()), around)

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """A part's sum begins behind its owner, where it ends."""
        return tuple((place + 1 + step) % size for step in range(size))

    def sum_spans(self, request: Request, size: int) -> Sequence[int]:
        return list(np.cumsum(request.elements(size)))


ALGORITHMS = (Ring(),)
