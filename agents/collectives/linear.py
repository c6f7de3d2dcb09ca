"""Linear Allgather: every rank writes its shard to every other, the next rank first.

N(P-1) bytes out of and into every host, as around a ring, but most of them across the fabric.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, Write, block_bytes, require


class LinearAllgather:
    """One rank's part.

    Args:
        buffer: the gathered array's bytes; this rank's shard is in its place.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes
    ) -> None:
        shards = request.shard_bytes(size)
        self.memories: Sequence[Bytes] = (buffer,)
        self._rank = rank
        self._blocks = Blocks(shards, block_bytes(request, shards, path_mtu))
        others = [(rank + distance) % size for distance in range(1, size)]
        self.expected: Mapping[int, int] = {
            peer: len(self._blocks.of(peer)) for peer in others if self._blocks.of(peer)
        }
        self.targets: Collection[int] = others if self._blocks.of(rank) else ()

    def window(self, peer: int) -> int:
        return 0

    def begin(self) -> Iterable[Write]:
        for peer in self.targets:
            for block in self._blocks.of(self._rank):
                offset, length = self._blocks.span(block)
                yield Write(peer, block, 0, offset, length, offset)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        require(block in self._blocks.of(peer), block)
        return self._blocks.span(block)[1], ()
