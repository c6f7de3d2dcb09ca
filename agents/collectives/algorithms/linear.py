"""Linear Allgather: every rank writes its shard to every other, the next rank first.

N(P-1) bytes out of and into every host, as around a ring, but most of them across the fabric.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.requests import Request
from weft.agents.collectives.transfers import Task, Transfers, at_once, to_all
from weft.agents.collectives.unicast import Blocks, Bytes, Pattern, Write, block_bytes, require


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


class Linear(Algorithm):
    """Thakur, Rabenseifner, Gropp, 2005."""

    name = "linear"
    collectives = ("allgather",)
    colours = ("#cc79a7", "#e09cc2")

    def pattern(
        self, request: Request, rank: int, size: int, path_mtu: int, data: Bytes,
        result: Bytes | None,
    ) -> Pattern:  # fmt: skip
        return LinearAllgather(request, rank, size, path_mtu, data)

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        return set(range(size)) - {rank}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        return to_all(task.sizes)

    def steps(self, task: Task) -> Iterator[Transfers]:
        return at_once(super().steps(task), task.ranks - 1)

    def least_bytes(self, task: Task) -> int:
        """The fullest uplink's (P - 1) n_r, or the fullest downlink's T - n_r."""
        sizes = task.sizes
        fullest = max((task.ranks - 1) * sizes.max(), sizes.sum() - sizes.min())
        return task.operations * int(fullest)


ALGORITHMS = (Linear(),)
