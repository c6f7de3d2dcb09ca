"""Recursive halving: Reduce-Scatter in log2 P rounds.

Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH", 2005.
Numbers of ranks that are no powers of two are folded as in recursive doubling.
"""

import itertools
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.algorithm import Order
from weft.agents.collectives.algorithms.recursive_doubling import Folding, Recursive
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers, exchanges, folded
from weft.agents.collectives.unicast import Bytes, Pattern, Write, require
from weft.base.errors import ProtocolError

BUFFER, STAGING, OUTPUT = range(3)
"""The memories of a rank."""


@dataclass(frozen=True)
class PartArea:
    """An area is where a peer's part arrives: bytes [begin, end) of the contribution, at `offset`
    of the memory that the peer writes, in blocks numbered from `first` on."""

    peer: int
    begin: int
    end: int
    offset: int
    first: int
    blocks: int

    @property
    def size(self) -> int:
        """How many bytes of the contribution the peer's part has."""
        return self.end - self.begin


@dataclass(frozen=True)
class PartSend:
    """Bytes [begin, end) of the sum so far, to be sent to a peer."""

    peer: int
    begin: int
    end: int


class RecursiveHalvingReduceScatter(Pattern):
    """Send, in each round k from q - 1 down to 0, the half of this rank's range that it does not
    keep to the rank 2^k places away, and add what it receives for the half that it keeps.

    The order of summation depends on P alone. Half types are added in their own type, that of the
    wire.

    Args:
        buffer: all ranks' elements of this rank's contribution; only read.
        output: of this rank's shard of the result.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        super().__init__(request, rank, size, path_mtu, buffer, output)
        self._ends: list[int] = np.concatenate([[0], np.cumsum(self._parts)]).astype(int).tolist()
        self._folding = Folding(size)
        self._place = self._folding.place(rank)
        self._areas = self._areas_of(rank)
        staged = sum(area.size for area in self._areas) if self._place is not None else 0
        self.memories = (buffer, np.empty(staged, np.uint8), output)
        self._left = [area.blocks for area in self._areas]
        self.expected = {area.peer: area.blocks for area in self._areas if area.blocks}
        self._sum = (BUFFER, 0)
        """Where the sum so far is: its memory, and what to take off a place in the contribution."""
        self._steps = deque(self._program())
        self.targets = {
            step.peer
            for step in self._steps
            if isinstance(step, PartSend) and step.end > step.begin
        }

    def window(self, peer: int) -> int:
        """Return the output for a rank that is folded away, else the staging memory."""
        return OUTPUT if self._place is None else STAGING

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block into the area of its peer, and return what can be sent now."""
        for index, area in enumerate(self._areas):
            if area.peer == peer:
                place = block - area.first
                require(0 <= place < area.blocks, block)
                self._left[index] -= 1
                length = min(self._block_bytes, area.size - place * self._block_bytes)
                return length, self.begin()
        raise ProtocolError(f"an RDMA WRITE announced block {block}; its writer has no area here")

    def _areas_of(self, rank: int) -> list[PartArea]:
        """Return the areas in the order in which a rank adds them."""
        folding, place, ends = self._folding, self._folding.place(rank), self._ends
        if place is None:
            parts = [(rank + 1, ends[rank], ends[rank + 1])]
        else:
            parts = [(rank - 1, 0, ends[-1])] if place < folding.pairs else []
            for round_ in reversed(range(folding.rounds)):
                mine = folding.ranks(place, round_)
                partner = folding.rank(place ^ 1 << round_)
                parts.append((partner, ends[mine.start], ends[mine.stop]))
        areas: list[PartArea] = []
        offset = first = 0
        for peer, begin, end in parts:
            blocks = -(-(end - begin) // self._block_bytes)
            areas.append(PartArea(peer, begin, end, offset, first, blocks))
            offset, first = offset + end - begin, first + blocks
        return areas

    def _program(self) -> Iterator[PartSend | int]:
        """Yield what this rank does, in order: sends, and the adding of areas by their number."""
        folding, place, ends, rank = self._folding, self._place, self._ends, self._rank
        if place is None:
            yield PartSend(rank + 1, 0, ends[-1])
            return
        paired = place < folding.pairs
        if paired:
            yield 0
        for index, round_ in enumerate(reversed(range(folding.rounds))):
            partner = place ^ 1 << round_
            theirs = folding.ranks(partner, round_)
            yield PartSend(folding.rank(partner), ends[theirs.start], ends[theirs.stop])
            yield index + paired
        if paired:
            yield PartSend(rank - 1, ends[rank - 1], ends[rank])

    def begin(self) -> Iterable[Write]:
        """Add the areas that have become whole, in their order, and send what that allows."""
        sends: list[Iterator[Write]] = []
        while self._steps:
            step = self._steps[0]
            if isinstance(step, PartSend):
                sends.append(self._writes(step, *self._sum))
            elif self._left[step]:
                break
            else:
                whole = not any(isinstance(later, int) for later in list(self._steps)[1:])
                self._add(self._areas[step], whole)
            self._steps.popleft()
        return itertools.chain.from_iterable(sends)

    def _add(self, area: PartArea, whole: bool) -> None:
        memory, base = self._sum
        arrived = self.memories[STAGING][area.offset : area.offset + area.size]
        before = self.memories[memory][area.begin - base : area.end - base]
        self._combine(before, arrived, arrived, ranks=self._size if whole else 0)
        self._sum = (STAGING, area.begin - area.offset)
        if whole:
            begin, end = self._ends[self._rank : self._rank + 2]
            self._copy(arrived[begin - area.begin : end - area.begin], self.memories[OUTPUT])

    def _writes(self, send: PartSend, memory: int, base: int) -> Iterator[Write]:
        area = next(area for area in self._areas_of(send.peer) if area.peer == self._rank)
        for place in range(area.blocks):
            start = place * self._block_bytes
            length = min(self._block_bytes, area.size - start)
            offset = send.begin + start - base
            yield Write(send.peer, area.first + place, memory, offset, length, area.offset + start)


def halving_order(size: int) -> Order:
    """Return the order of sums: ranks that are too many for a power of two are added to their
    neighbours first; then those that are furthest apart are added first."""
    left_out = size - (1 << size.bit_length() - 1)
    sums: list[Order] = [(2 * pair + 1, 2 * pair) for pair in range(left_out)]
    sums += range(2 * left_out, size)
    while len(sums) > 1:
        half = len(sums) // 2
        sums = [(sums[place], sums[place + half]) for place in range(half)]
    return sums[0]


class RecursiveHalving(Recursive):
    """A Reduce-Scatter halves what each rank sums in every round (Thakur, Rabenseifner, Gropp,
    2005)."""

    name = "recursive-halving"
    collectives = ("reduce-scatter",)
    position: Mapping[str, int] = {"reduce-scatter": 1}
    colours = ("#009e73", "#3fc79e")
    patterns: Mapping[str, type[Pattern]] = {"reduce-scatter": RecursiveHalvingReduceScatter}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the rounds of recursive doubling backwards: a rank sends what its partner is to
        keep, as a whole. The even ranks of a fold give away all P shards of their contribution
        first, and get their sum at the end."""
        sizes, sizing = task.shards, task.sizing
        evens, odds, active = folded(task.ranks)
        if len(evens):
            yield Transfers(evens, odds, sizing(np.full(len(evens), sizes.sum())))
        held = sizes[active]
        held[: len(evens)] += sizes[evens]
        for source, destination, size_bytes in reversed(list(exchanges(active, held))):
            yield Transfers(destination, source, sizing(size_bytes))
        if len(evens):
            yield Transfers(odds, evens, sizing(sizes[evens]))

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return the order of recursive halving, which is the same for all elements."""
        return halving_order(size)


ALGORITHMS = (RecursiveHalving(),)
