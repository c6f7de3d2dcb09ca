"""Allreduce by direct exchange: everybody's part d goes to rank d, and its sum to everybody.

Every link carries 2 L (P - 1) / P bytes of a vector of L bytes in each direction, as around a ring,
in two steps in place of 2 (P - 1).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.agents.collectives.direct import Exchange
from weft.agents.collectives.reduction import combine
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Bytes, Write, block_bytes, require

BUFFER, STAGING, OUTPUT = range(3)
"""The memories of a rank. Staging has room for the result, then for every other rank's part."""


class DirectAllreduce:
    """A rank adds each block of its part once it has come from all, in order of ranks, and sends
    the sum to all others; no block waits for another.

    The result is the same on all ranks and in every run. Half types are added in their own type,
    that of the wire. An average is divided once, where the sum is whole.

    Args:
        buffer: the vector that this rank contributes; only read.
        output: of the same size.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        parts = request.shard_bytes(size)
        self._request = request
        self._rank = rank
        self._size = size
        block_size = block_bytes(request, parts, path_mtu)
        self._exchange = exchange = Exchange(parts, block_size, rank, request.lanes)
        self._own_bytes = parts[rank]
        self._vector_bytes = len(buffer)
        staged = len(buffer) + (size - 1) * parts[rank] if size > 1 else 0
        self.memories: Sequence[Bytes] = (buffer, np.empty(staged, np.uint8), output)
        self._missing = [size - 1] * exchange.own
        """Of each block of this rank's part, how many ranks' have not come."""
        counts = {peer: exchange.own + exchange.count(peer) for peer in exchange.others()}
        self.expected: Mapping[int, int] = {peer: count for peer, count in counts.items() if count}
        self.targets: Collection[int] = tuple(self.expected)
        if size == 1:
            output[:] = buffer

    def window(self, peer: int) -> int:
        return STAGING

    def begin(self) -> Iterable[Write]:
        slots = [self._slot(self._rank, peer) for peer in range(self._size)]
        return self._exchange.writes(slots, [self._vector_bytes] * self._size)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        numbered_from = self._size * self._exchange.own
        if block >= numbered_from:
            return self._take_result(peer, block - numbered_from, block), ()
        place = self._exchange.place_of(peer, block)
        require(self._missing[place] > 0, block)
        self._missing[place] -= 1
        length = self._exchange.own_span(place)[1]
        if self._missing[place]:
            return length, ()
        self._add(place)
        return length, self._results(place)

    @staticmethod
    def _slot(source: int, destination: int) -> int:
        """Where a rank's part is among those of all others."""
        return source - (source > destination)

    def _take_result(self, peer: int, block: int, number: int) -> int:
        require(block in self._exchange.blocks.of(peer), number)
        offset, length = self._exchange.blocks.span(block)
        end = offset + length
        self.memories[OUTPUT][offset:end] = self.memories[STAGING][offset:end]
        return length

    def _add(self, place: int) -> None:
        """Sum up a block of this rank's part, which is there from all."""
        offset, length = self._exchange.own_span(place)
        within = offset - self._exchange.own_span(0)[0]
        total = self.memories[OUTPUT][offset : offset + length]
        terms = [self._term(source, offset, within, length) for source in range(self._size)]
        before = terms[0]
        for count, term in enumerate(terms[1:], 2):
            whole = self._size if count == self._size else 0
            combine(self._request, before, term, total, ranks=whole)
            before = total

    def _term(self, source: int, offset: int, within: int, length: int) -> Bytes:
        """A rank's part of a sum."""
        if source == self._rank:
            return self.memories[BUFFER][offset : offset + length]
        start = self._vector_bytes + self._slot(source, self._rank) * self._own_bytes + within
        return self.memories[STAGING][start : start + length]

    def _results(self, place: int) -> Iterator[Write]:
        block = self._exchange.blocks.of(self._rank)[place]
        offset, length = self._exchange.blocks.span(block)
        for peer in self._exchange.others():
            number = self._size * self._exchange.count(peer) + block
            yield Write(peer, number, OUTPUT, offset, length, offset)
