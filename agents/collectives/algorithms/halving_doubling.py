"""Allreduce by recursive halving and doubling, which is Rabenseifner's algorithm.

Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH", 2005,
section 4.5. Numbers of ranks that are no powers of two are folded as in recursive doubling: an even
rank of a pair gives its whole vector to the odd one, which takes part for both and gives it the
result. A rank of a power of two sends and receives 2 L (P - 1) / P bytes of a vector of L bytes.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.algorithm import Order
from weft.agents.collectives.algorithms.recursive_doubling import Folded, Folding
from weft.agents.collectives.algorithms.recursive_halving import halving_order
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers, even_parts, exchanges, folded
from weft.agents.collectives.unicast import Bytes, Pattern, Write, summed
from weft.base.errors import ProtocolError

BUFFER, STAGING, OUTPUT = range(3)
"""The memories of a rank."""
WHOLE = 1 << 30
"""The stage of a block that is the result; before, the number of areas that it is the sum of."""


@dataclass(frozen=True)
class VectorArea:
    """An area is where blocks from a peer arrive: block b at its place in the vector plus `shift`
    bytes, with the number b + `number_shift`. `stage` counts the areas that are added before; it is
    `WHOLE` if what arrives is the result."""

    peer: int
    blocks: range
    shift: int
    number_shift: int
    stage: int


@dataclass(frozen=True)
class BlockSend:
    """A block is sent to an area of a peer once it has reached a stage."""

    peer: int
    block: int
    stage: int
    area: VectorArea


class HalvingDoublingAllreduce(Pattern):
    """The vector has a part for each of Q = 2^q places. In round q - 1 down to 0 a place gives that
    half of its range that it does not keep to the one 2^k places away, and adds what it gets for
    the half that it keeps. Then it gets all parts back by the same rounds in the other order.

    Blocks are sent in the order of the rounds, each as soon as it is there: no round waits for the
    end of the one before.

    The order of summation depends on P alone, and every part is summed up on one rank: the result
    is the same on all ranks and in every run. Half types are added in their own type, that of the
    wire. An average is divided once, where the sum is whole.

    Args:
        buffer: the vector that this rank contributes; only read.
        output: of the same size.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        self._folding = Folding(size)
        self._place = self._folding.place(rank)
        parts = request.shard_bytes(1 << self._folding.rounds)
        super().__init__(request, rank, size, path_mtu, buffer, output, parts)
        self._vector_bytes = len(buffer)
        self._areas = self._areas_of(rank)
        sums = [self._bytes_of(area.blocks) for area in self._areas if area.stage != WHOLE]
        self._sums = len(sums)
        """How many areas are added."""
        staged_bytes = self._vector_bytes + sum(end - begin for begin, end in sums)
        staged = 0 if self._place is None else staged_bytes
        self.memories = (buffer, np.empty(staged, np.uint8), output)
        self._stages = [0] * self._blocks.total
        self._early: set[tuple[int, int]] = set()
        """(stage, block) of what arrived before what is to be added first."""
        self.expected = summed((area.peer, len(area.blocks)) for area in self._areas)
        self._program = deque(self._sends())
        self.targets = {send.peer for send in self._program}

    def window(self, peer: int) -> int:
        """Return the output for a rank that is folded away, else the staging memory."""
        return OUTPUT if self._place is None else STAGING

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block into the area of its peer and number, and return what can be sent now."""
        for area in self._areas:
            place = block - area.number_shift
            if area.peer == peer and place in area.blocks:
                self._take(area, place)
                return self._blocks.span(place)[1], self.begin()
        raise ProtocolError(f"an RDMA WRITE announced block {block}, which is not its writer's")

    def _range(self, place: int, round_: int) -> range:
        """Return the blocks of a place's group of 2^round places."""
        start = place >> round_ << round_
        return range(self._blocks.of(start).start, self._blocks.of(start + (1 << round_) - 1).stop)

    def _areas_of(self, rank: int) -> list[VectorArea]:
        """Return the areas in the order in which a rank adds them; then those of the result.

        The result's come first in the staging memory, in one vector; each of the others has its own
        bytes behind that.
        """
        folding, place = self._folding, self._folding.place(rank)
        everything = range(self._blocks.total)
        if place is None:
            return [VectorArea(rank + 1, everything, 0, 0, WHOLE)]
        sums = [(rank - 1, everything)] if place < folding.pairs else []
        rounds = range(folding.rounds)
        partners = {k: folding.rank(place ^ 1 << k) for k in rounds}
        sums += [(partners[k], self._range(place, k)) for k in reversed(rounds)]
        results = [(partners[k], self._range(place ^ 1 << k, k)) for k in rounds]
        areas: list[VectorArea] = []
        number, offset = 0, self._vector_bytes
        for stage, (peer, blocks) in enumerate(sums):
            begin, end = self._bytes_of(blocks)
            areas.append(VectorArea(peer, blocks, offset - begin, number - blocks.start, stage))
            number, offset = number + len(blocks), offset + end - begin
        for peer, blocks in results:
            areas.append(VectorArea(peer, blocks, 0, number - blocks.start, WHOLE))
            number += len(blocks)
        return areas

    def _bytes_of(self, blocks: range) -> tuple[int, int]:
        if not blocks:
            return 0, 0
        offset, length = self._blocks.span(blocks[-1])
        return self._blocks.span(blocks[0])[0], offset + length

    def _sends(self) -> Iterator[BlockSend]:
        """Yield all that this rank sends, in order."""
        folding, place, rank = self._folding, self._place, self._rank
        if place is None:
            yield from self._sends_to(rank + 1, range(self._blocks.total), 0)
            return
        for stage, k in enumerate(reversed(range(folding.rounds)), int(place < folding.pairs)):
            partner = place ^ 1 << k
            yield from self._sends_to(folding.rank(partner), self._range(partner, k), stage)
        held = list(self._blocks.of(place))
        for k in range(folding.rounds):
            partner = place ^ 1 << k
            yield from self._sends_to(folding.rank(partner), held, WHOLE)
            held += self._range(partner, k)
        if place < folding.pairs:
            yield from self._sends_to(rank - 1, held, WHOLE)

    def _sends_to(self, peer: int, blocks: Sequence[int], stage: int) -> Iterator[BlockSend]:
        area = next(
            area
            for area in self._areas_of(peer)
            if area.peer == self._rank and (area.stage == WHOLE) == (stage == WHOLE)
        )
        return (BlockSend(peer, block, stage, area) for block in tuple(blocks))

    def _take(self, area: VectorArea, block: int) -> None:
        """Put a block that has arrived where it belongs, and add what that allows."""
        if area.stage == WHOLE:
            if self._place is not None:
                offset, length = self._blocks.span(block)
                span = slice(offset, offset + length)
                self._copy(self.memories[STAGING][span], self.memories[OUTPUT][span])
            self._stages[block] = WHOLE
            return
        self._early.add((area.stage, block))
        while (self._stages[block], block) in self._early:
            self._early.remove((self._stages[block], block))
            self._add(self._areas[self._stages[block]], block)

    def _add(self, area: VectorArea, block: int) -> None:
        offset, length = self._blocks.span(block)
        start = offset + area.shift
        arrived = self.memories[STAGING][start : start + length]
        before = self.memories[OUTPUT if self._stages[block] else BUFFER][offset : offset + length]
        output = self.memories[OUTPUT][offset : offset + length]
        whole = self._stages[block] == self._sums - 1
        self._combine(before, arrived, output, ranks=self._size if whole else 0)
        self._stages[block] = WHOLE if whole else self._stages[block] + 1

    def begin(self) -> Iterable[Write]:
        """Return what has become possible, in the order of the program."""
        writes = []
        while self._program and self._stages[self._program[0].block] >= self._program[0].stage:
            send = self._program.popleft()
            offset, length = self._blocks.span(send.block)
            memory = OUTPUT if self._stages[send.block] else BUFFER
            number = send.block + send.area.number_shift
            writes.append(
                Write(send.peer, number, memory, offset, length, offset + send.area.shift)
            )
        return writes


class HalvingDoubling(Folded):
    """An Allreduce halves and doubles recursively, by Rabenseifner's algorithm (Thakur,
    Rabenseifner, Gropp, 2005)."""

    name = "halving-doubling"
    collectives = ("allreduce",)
    position: Mapping[str, int] = {"allreduce": 3, "flows": 2}
    counterparts: Mapping[str, str] = {
        "allgather": "recursive-doubling",
        "reduce-scatter": "recursive-halving",
    }
    colours = ("#009e73", "#3fc79e")
    patterns: Mapping[str, type[Pattern]] = {"allreduce": HalvingDoublingAllreduce}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the rounds of halving between the 2^q that take part, and those of doubling back.
        The vector has a part for each of them. An even rank of a fold gives away all of its vector
        first, and gets the result at the end: so the fullest link carries T more."""
        evens, odds, active = folded(task.ranks)
        parts = task.sizing(even_parts(task.vector_bytes, len(active), task.item_bytes))
        whole = np.full(len(evens), parts.sum())
        doubling = list(exchanges(active, parts))
        if len(evens):
            yield Transfers(evens, odds, whole)
        for source, destination, size_bytes in reversed(doubling):
            yield Transfers(destination, source, size_bytes)
        yield from doubling
        if len(evens):
            yield Transfers(odds, evens, whole)

    def sum_order(self, request: Request, size: int, place: int) -> Order:
        """Return the order of recursive halving, which is the same for all elements."""
        return halving_order(size)


ALGORITHMS = (HalvingDoubling(),)
