"""Algorithms around a ring, cut into blocks so that no link waits for a whole shard.

Allgather and Reduce-Scatter: every link carries N(P-1) bytes in one direction. Broadcast: N, from
the root around to the rank before it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.agents.collectives.reduction import combine
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, Write, block_bytes, require


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
