"""Direct exchange: every rank writes what is another's straight to it, all at the same time.

All-to-all: each rank's vector has a part for every rank. Many-to-one: every rank's shard goes to
the root.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, Write, block_bytes, require


class Exchange:
    """The blocks of an exchange in which rank r has a part for each rank d, of `parts[d]` bytes.

    At rank d the parts of all ranks follow each other in order of ranks, those of its own among
    them; their blocks are numbered through.
    """

    def __init__(self, parts: Sequence[int], block_size: int, rank: int, lanes: int = 1) -> None:
        self.blocks = Blocks(parts, block_size)
        """Of one rank's vector."""
        self._rank = rank
        self._lanes = lanes
        self._size = len(parts)
        self._parts = parts
        self.own = self.count(rank)
        """Blocks that come to this rank from each other one."""

    def count(self, rank: int) -> int:
        """Blocks that come to a rank from each other one."""
        return len(self.blocks.of(rank))

    def others(self) -> Iterator[int]:
        """All other ranks, beginning behind this one."""
        return ((self._rank + distance) % self._size for distance in range(1, self._size))

    def writes(self, slot_of: Sequence[int], starts_at: Sequence[int]) -> Iterator[Write]:
        """What this rank writes from its memory 0: a block for each lane to each other in turn.

        Blocks are smaller with lanes, so turns are as long as without.

        Args:
            slot_of: by destination, where this rank's part is among the parts there.
            starts_at: by destination, where the first of these parts is in its memory.
        """
        most = max(map(self.count, self.others()), default=0)
        for first in range(0, most, self._lanes):
            for peer in self.others():
                count = self.count(peer)
                for place in range(first, min(first + self._lanes, count)):
                    block = self.blocks.of(peer)[place]
                    offset, length = self.blocks.span(block)
                    within = offset - self.blocks.span(self.blocks.of(peer).start)[0]
                    target = starts_at[peer] + slot_of[peer] * self._parts[peer] + within
                    yield Write(peer, self._rank * count + place, 0, offset, length, target)

    def place_of(self, peer: int, block: int) -> int:
        """Which of its blocks a peer has written; raises ProtocolError if none."""
        require(self.own > 0 and block // self.own == peer != self._rank, block)
        return block % self.own

    def own_span(self, place: int) -> tuple[int, int]:
        """(offset, length) in this rank's vector of a block of its own part."""
        return self.blocks.span(self.blocks.of(self._rank)[place])


class DirectAlltoall:
    """One rank's part: its vector's part d goes to rank d, where the parts of all ranks follow each
    other.

    Args:
        buffer: this rank's vector; only read.
        output: of as many parts of this rank's size as there are ranks.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        parts = request.shard_bytes(size)
        self.memories: Sequence[Bytes] = (buffer, output)
        block_size = block_bytes(request, parts, path_mtu)
        self._exchange = Exchange(parts, block_size, rank, request.lanes)
        self._rank = rank
        self._size = size
        others = tuple(self._exchange.others())
        own = self._exchange.own
        self.expected: Mapping[int, int] = dict.fromkeys(others, own) if own else {}
        self.targets: Collection[int] = [peer for peer in others if self._exchange.count(peer)]
        start, length = sum(parts[:rank]), parts[rank]
        output[rank * length : (rank + 1) * length] = buffer[start : start + length]

    def window(self, peer: int) -> int:
        return 1

    def begin(self) -> Iterable[Write]:
        return self._exchange.writes([self._rank] * self._size, [0] * self._size)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        place = self._exchange.place_of(peer, block)
        return self._exchange.own_span(place)[1], ()


class DirectGather:
    """One rank's part of many-to-one.

    Args:
        buffer: on the root the gathered array, with its own shard in its place; elsewhere the
            rank's shard.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes
    ) -> None:
        shards = request.shard_bytes(size)
        self.memories: Sequence[Bytes] = (buffer,)
        self._blocks = Blocks(shards, block_bytes(request, shards, path_mtu))
        self._rank = rank
        self._root = request.root
        counts = {peer: len(self._blocks.of(peer)) for peer in range(size) if peer != self._root}
        at_root = rank == self._root
        self.expected: Mapping[int, int] = (
            {peer: count for peer, count in counts.items() if count} if at_root else {}
        )
        self.targets: Collection[int] = (self._root,) if counts.get(rank) else ()

    def window(self, peer: int) -> int:
        return 0

    def begin(self) -> Iterable[Write]:
        blocks = self._blocks.of(self._rank) if self.targets else range(0)
        for block in blocks:
            target, length = self._blocks.span(block)
            offset = target - self._blocks.span(blocks.start)[0]
            yield Write(self._root, block, 0, offset, length, target)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        require(block in self._blocks.of(peer), block)
        return self._blocks.span(block)[1], ()
