"""Allreduce around a ring: Reduce-Scatter and Allgather as one stream of blocks.

Patarasuk, Yuan: "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009. Every
link carries 2 L (P - 1) / P bytes of a vector of L bytes, in one direction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.agents.collectives.reduction import combine
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, Write, block_bytes, require

BUFFER, OUTPUT = range(2)
"""The memories of a rank."""


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
