"""Algorithms around a ring, cut into blocks so that no link waits for a whole shard.

Allgather and Reduce-Scatter: every link carries N(P-1) bytes in one direction. Broadcast: N, from
the root around to the rank before it. Allreduce: Reduce-Scatter and Allgather as one stream of
blocks (Patarasuk, Yuan: "Bandwidth optimal all-reduce algorithms for clusters of workstations",
2009), so that every link carries 2 L (P - 1) / P bytes of a vector of L bytes, in one direction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.agents.collectives.algorithm import Algorithm, Order
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers
from weft.agents.collectives.unicast import (
    Bytes,
    Pattern,
    TablePattern,
    Write,
    columns,
    require,
)
from weft.agents.transport.relay import RelayTable


class RingAllgather(TablePattern):
    """Every rank passes on each block as soon as it has come, until the block has reached the rank
    before its source.

    Args:
        buffer: the gathered array's bytes; this rank's shard is in its place.
    """

    def _table(self) -> RelayTable:
        part, offset, length = self._blocks.columns()
        number = np.arange(len(part))
        previous, following = (self._rank - 1) % self._size, (self._rank + 1) % self._size
        own, last = part == self._rank, part == following
        passed = np.concatenate([number[own & ~last], number[~own & ~last]])
        goes_on = ~last[~own]
        begin = int(np.count_nonzero(own & ~last))
        return RelayTable(
            columns(following, passed, 0, offset[passed], length[passed], offset[passed]),
            begin,
            columns(
                number[~own], previous, length[~own], begin + goes_on.cumsum() - goes_on, goes_on
            ),
        )


class RingReduction(Pattern):
    """The sum of part c of the vector begins at rank c + 1, goes around the ring, every rank adds
    its own part to it, and it is whole at rank c: ((x[c+1] + x[c+2]) + ...) + x[c]. That is all of
    a Reduce-Scatter, where rank c writes the sum to its output. In an Allreduce the result goes on
    around the ring to rank c - 1. No block waits for another, and none for the end of the first
    round.

    The result is the same on all ranks and in every run. Half types are added in their own type,
    which is that of the wire, so they are rounded at every rank. An average is divided once, where
    the sum is whole.

    In an Allreduce sums arrive in the output, are added to there and passed on from there. The
    result that overwrites a sum contains it, so the next rank has that sum by then.

    Args:
        buffer: the vector that this rank contributes; it is only read.
        output: where the result goes: this rank's part, or as much as the vector.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        super().__init__(request, rank, size, path_mtu, buffer, output)
        self._gathers = request.collective == "allreduce"
        self._output = output
        self._output_start = 0 if self._gathers else sum(self._parts[:rank])
        """Where the output begins in the vector."""
        self.memories = (buffer, output if self._gathers else np.empty(len(buffer), np.uint8))
        self._next = (rank + 1) % size
        self._previous = (rank - 1) % size
        total = self._total = self._blocks.total
        first, own, last = map(self._blocks.count, (self._previous, rank, self._next))
        incoming, outgoing = total - first, total - own
        if self._gathers:
            incoming += total - own
            outgoing += total - last
        self.expected = {self._previous: incoming} if size > 1 and incoming else {}
        self.targets = (self._next,) if size > 1 and outgoing else ()

    def window(self, peer: int) -> int:
        """Return 1: the rank before this one writes memory 1."""
        return 1

    def begin(self) -> Iterable[Write]:
        """Return the writes of the part whose sum begins at this rank."""
        blocks = self._blocks.of(self._previous) if self.targets else ()
        return (self._write(self._next, block) for block in blocks)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block of a sum, to which this rank's own part is added, or of a result; pass it
        on."""
        whole, place = divmod(block, self._total)
        require(whole <= self._gathers, block)
        part = self._blocks.part_of(place)
        require(part != (self._rank if whole else self._previous), block)
        length = self._blocks.span(place)[1]
        if not whole:
            whole = part == self._rank
            self._add(place, last=part == self._rank)
        if whole and (not self._gathers or part == self._next):
            return length, ()
        return length, (self._write(self._next, place, 1, self._total if whole else 0),)

    def _add(self, block: int, last: bool) -> None:
        offset, length = self._blocks.span(block)
        own, total = (memory[offset : offset + length] for memory in self.memories)
        result = total
        if last:
            begin = offset - self._output_start
            result = self._output[begin : begin + length]
        self._combine(total, own, result, ranks=self._size if last else 0)


class Ring(Algorithm):
    """Every rank passes on to the next rank what comes from the one before it (Thakur,
    Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH", 2005; for
    Allreduce, Patarasuk, Yuan, 2009)."""

    name = "ring"
    collectives = ("allgather", "reduce-scatter", "allreduce")
    position: Mapping[str, int] = {"allgather": 1, "reduce-scatter": 0, "allreduce": 0, "flows": 0,
                                    "fsdp-interleave": 0}  # fmt: skip
    interleaved_as = "ring"
    baseline = True
    colours = ("#d55e00", "#f08c3c")
    lags: Mapping[str, tuple[int, ...]] = {
        "allgather": (0,), "reduce-scatter": (1,), "allreduce": (1, 0)
    }  # fmt: skip
    """In step i of an Allgather rank r passes on the shard of rank r - i, of a Reduce-Scatter that
    of rank r - i - 1; an Allreduce is the one after the other."""

    patterns: Mapping[str, type[Pattern]] = {
        "allgather": RingAllgather, "reduce-scatter": RingReduction, "allreduce": RingReduction,
    }  # fmt: skip

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield P - 1 rounds as one: every rank passes on to the next rank every shard but the one
        whose way ends there. A gathered shard ends at the rank before its source, so rank r does
        not send that of rank r + 1; a reduced one ends at its owner, so rank r does not send its
        own."""
        ranks, sizes = np.arange(task.ranks, dtype=np.int64), task.sizes
        for lag in self.lags[task.collective] if task.ranks > 1 else ():
            yield Transfers(ranks, np.roll(ranks, -1), sizes.sum() - np.roll(sizes, lag - 1))

    def steps(self, task: Task) -> Iterator[Transfers]:
        """Yield P - 1 steps, in each of which every rank sends one shard to the next rank."""
        ranks = np.arange(task.ranks, dtype=np.int64)
        for lag in self.lags[task.collective]:
            for step in range(task.ranks - 1):
                yield Transfers(ranks, np.roll(ranks, -1), np.roll(task.shards, step + lag))

    def counted_steps(self, task: Task) -> Iterator[tuple[Transfers, int]]:
        """Yield the first step with the number of all, where all steps are alike."""
        steps = self.steps(task)
        if task.ranks > 1 and np.all(task.shards == task.shards[0]):
            yield next(steps), (task.ranks - 1) * len(self.lags[task.collective])
        else:
            yield from ((step, 1) for step in steps)

    def least_bytes(self, task: Task) -> int:
        """Return T - min n_r of the fullest link, and no less than the largest shard's way around;
        of an Allreduce twice that, of parts, where blocks are passed on as they come."""
        sizes, block = task.sizes, task.block
        around = task.operations * int(sizes.max()) + (task.ranks - 2) * block
        if task.collective == "allreduce":
            return max(super().least_bytes(task), around + (task.ranks - 1) * block)
        return max(task.operations * int(sizes.sum() - sizes.min()), around)

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return the order around the ring: a part's sum begins behind its owner, where it ends."""
        return tuple((place + 1 + step) % size for step in range(size))

    def sum_spans(self, request: Request, size: int) -> Sequence[int]:
        """Return where the ranks' parts end."""
        return list(np.cumsum(request.elements(size)))


ALGORITHMS = (Ring(),)
