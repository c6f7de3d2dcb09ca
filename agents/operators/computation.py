"""What ranks compute while flows carry what they made: the numbers behind a graph of flows.

A rank's buffer has its own inputs, then its tiles in order. Its output has its result, what it has
gathered, and what has landed: of operators that add, a part by each rank. An operator that neither
adds nor finishes lets tiles land in the result.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from weft.agents.operators.operator import ITEM_BYTES, Floats, Operator, Sizes
from weft.agents.operators.registry import operator_named

Bytes = npt.NDArray[np.uint8]

TILE, ADD, FINISH = range(3)
"""What a wait of the graph computes: a tile; a run of sums; the result."""
CHECKED_ITEMS = 1 << 18
"""How many numbers are compared at a time."""


class Work(NamedTuple):
    """What a wait of the graph computes."""

    task: int
    """The wait."""
    rank: int
    what: int
    """`TILE`, `ADD` or `FINISH`."""
    first: int
    """The number of the tile; of sums, the place of the first byte in the rank's part..."""
    size_bytes: int = 0
    """... and how many they are."""


@dataclass(frozen=True)
class Layout:
    """A layout says where things are in the memory of a rank."""

    operator: Operator
    rank: int

    @cached_property
    def tile_offsets(self) -> tuple[int, ...]:
        """Return where each tile begins in the buffer, and where the last one ends."""
        sizes = [tile.size_bytes for tile in self.operator.tiles(self.rank)]
        first = self.operator.input_bytes(self.rank)
        return (*(first + np.cumsum([0, *sizes])).tolist(),)

    @property
    def buffer_bytes(self) -> int:
        """Return the size of the buffer."""
        return self.tile_offsets[-1]

    @property
    def gathered(self) -> int:
        """Return where in the output begins what is gathered."""
        return self.operator.result_bytes(self.rank)

    def landing(self, source: int) -> int:
        """Return where in the output begins what comes of a rank's tiles."""
        operator = self.operator
        if not (operator.adds or operator.finishes):
            return 0
        first = self.gathered + operator.gathered_bytes(self.rank)
        return first + (source * operator.landing_bytes(self.rank) if self._lands_apart else 0)

    @property
    def _lands_apart(self) -> bool:
        """Return whether what comes of each rank lies apart, until the owner adds it."""
        return self.operator.adds and not self.operator.finishes

    @property
    def result(self) -> int:
        """Return where in the output begins the result of the rank's part."""
        return self.operator.part_first(self.rank) if self.operator.gives else 0

    @property
    def output_bytes(self) -> int:
        """Return the size of the output."""
        operator = self.operator
        if not (operator.adds or operator.finishes):
            return self.gathered + operator.gathered_bytes(self.rank)
        last = operator.ranks - 1 if self._lands_apart else 0
        return self.landing(last) + operator.landing_bytes(self.rank)


@dataclass(frozen=True)
class Computation:
    """A computation says what the waits of a graph of flows compute."""

    operator: str
    sizes: Sizes
    ranks: int
    seed: int
    work: tuple[Work, ...]
    alone: str = ""
    """``communication``: tiles are there from the start, or made at the end, as far as nothing of
    them is sent; ``computation``: what ranks gather is there from the start, and nothing is sent;
    empty: neither."""
    measured: bool = False
    """Whether what waits of workgroups compute takes the time that it takes, in threads."""

    def fill(self, rank: int, buffer: Bytes, number: int) -> Iterator[None]:
        """Write a rank's own inputs into its buffer, and make all that its tiles need."""
        yield from program_of(self, rank, number).fill(buffer)

    def checks(self, rank: int, memories: Sequence[Bytes], number: int) -> Iterator[str]:
        """Compare a rank's result with a plain computation, and yield what is wrong, or nothing, a
        part a step.

        Args:
            memories: the rank's buffer and output, uint8.
        """
        yield from program_of(self, rank, number).checks(memories)


@lru_cache(maxsize=2)  # fused and unfused alike, and with sums by switches
def operator_of(name: str, sizes: Sizes, ranks: int, seed: int) -> Operator:
    """Return an operator, which keeps what it has made. Raises InputError for bad sizes."""
    return operator_named(name)(sizes, ranks, seed)


def program_of(computation: Computation, rank: int, number: int) -> "RankProgram":
    """Return what one rank computes in an operation."""
    programs = _programs_of(computation)
    if (rank, number) not in programs:
        programs[rank, number] = RankProgram(computation, rank, number)
    return programs[rank, number]


@lru_cache(maxsize=2)
def _programs_of(computation: Computation) -> "dict[tuple[int, int], RankProgram]":
    """Return where the programs of a computation are kept, by rank and operation. They keep its
    operator, whose weights may be gigabytes."""
    return {}


class RankProgram:
    """A program computes what one rank's waits stand for, in the rank's memory."""

    def __init__(self, computation: Computation, rank: int, number: int) -> None:
        made = computation.operator, computation.sizes, computation.ranks, computation.seed
        self._operator = operator_of(*made)
        self._layout = Layout(self._operator, rank)
        self._rank, self._number = rank, number
        self._work = {work.task: work for work in computation.work if work.rank == rank}
        self._alone = computation.alone
        tiles = self._operator.tiles(rank)
        self._early = {
            number
            for number, tile in enumerate(tiles)
            if self._alone == "communication" and not tile.needs
        }
        """Tiles that are computed before the start..."""
        self._late = {
            number
            for number, tile in enumerate(tiles)
            if self._alone == "communication"
            and tile.needs
            and tile.owner == rank
            and not self._operator.adds
        }
        """... and those that are computed after the end."""
        self._made: dict[int, Floats] = {}
        """Early tiles, until the wait that would compute them."""

    def fill(self, buffer: Bytes) -> Iterator[None]:
        """Write the rank's own inputs into its buffer, and compute early tiles, a part a step."""
        operator, rank = self._operator, self._rank
        own = operator.own_inputs(rank, self._number)
        buffer.view(np.float32)[: len(own)] = own
        nothing = np.zeros(operator.gathered_bytes(rank) // ITEM_BYTES, np.float32)
        for number in range(len(operator.tiles(rank))):
            # What tiles are made of, like weights, is made by the first of them, and kept.
            if number in self._early or not number:
                self._made[number] = operator.compute(rank, self._number, number, own, nothing)
                yield
        yield

    def run(self, task: int, memories: Sequence[Bytes]) -> None:
        """Compute what a wait of the graph stands for; nothing if that is nothing.

        Args:
            memories: the rank's buffer and output, uint8.
        """
        work = self._work.get(task)
        if work is None:
            return
        buffer, output = (memory.view(np.float32) for memory in memories)
        if work.what == TILE:
            if work.first not in self._late:
                self._compute(work.first, buffer, output)
        elif work.what == ADD:
            self._add(work.first // ITEM_BYTES, work.size_bytes // ITEM_BYTES, buffer, output)
        else:
            self._finish(output)

    def _compute(self, number: int, buffer: Floats, output: Floats) -> int:
        """Compute a tile, and return the place of its first number in the memory that it is in."""
        operator, layout, rank = self._operator, self._layout, self._rank
        tile = operator.tiles(rank)[number]
        own = buffer[: operator.input_bytes(rank) // ITEM_BYTES]
        first = layout.gathered // ITEM_BYTES
        gathered = output[first : first + operator.gathered_bytes(rank) // ITEM_BYTES]
        if number in self._early:
            values = self._made.pop(number)
        else:
            values = operator.compute(rank, self._number, number, own, gathered)
        place, memory = layout.tile_offsets[number] // ITEM_BYTES, buffer
        if tile.owner == rank and not operator.adds:
            place, memory = (layout.landing(rank) + tile.first) // ITEM_BYTES, output
        memory[place : place + len(values)] = values
        return place

    def _add(self, first: int, count: int, buffer: Floats, output: Floats) -> None:
        """Add what all ranks have computed of a run of sums, in the order of ranks."""
        layout, rank = self._layout, self._rank
        own = next(
            layout.tile_offsets[number] // ITEM_BYTES
            for number, tile in enumerate(self._operator.tiles(rank))
            if tile.owner == rank
        )
        place = layout.result // ITEM_BYTES + first
        result = output[place : place + count]
        result[:] = 0
        for source in range(self._operator.ranks):
            at = own if source == rank else layout.landing(source) // ITEM_BYTES
            result += (buffer if source == rank else output)[at + first : at + first + count]

    def _finish(self, output: Floats) -> None:
        operator, layout, rank = self._operator, self._layout, self._rank
        first = layout.landing(rank) // ITEM_BYTES
        landed = output[first : first + operator.landing_bytes(rank) // ITEM_BYTES]
        result = operator.finish(rank, self._number, landed)
        output[: len(result)] = result

    def gather(self, output: Bytes) -> None:
        """Write what the rank would gather into its output, where it computes alone."""
        operator, numbers = self._operator, output.view(np.float32)
        first = self._layout.gathered
        for each in operator.inputs if self._alone == "computation" else ():
            if self._rank not in each.destinations:
                continue
            target = first + each.targets[each.destinations.index(self._rank)]
            theirs = operator.own_inputs(each.source, self._number)
            piece = theirs[each.first // ITEM_BYTES :][: each.size_bytes // ITEM_BYTES]
            numbers[target // ITEM_BYTES :][: len(piece)] = piece

    def checks(self, memories: Sequence[Bytes]) -> Iterator[str]:
        """See `Computation.checks`."""
        buffer, output = (memory.view(np.float32) for memory in memories)
        if self._alone == "computation":
            yield from self._check_tiles(buffer, output)
            return
        for number in self._late:
            self._compute(number, buffer, output)
            yield ""
        expected = self._operator.expected(self._rank, self._number)
        there = output[: self._operator.result_bytes(self._rank) // ITEM_BYTES]
        if len(there) != len(expected):
            yield f"the result has {len(there)} numbers of {len(expected)}"
            return
        for first in range(0, len(expected), CHECKED_ITEMS):
            part = slice(first, first + CHECKED_ITEMS)
            wrong = np.flatnonzero(there[part] != expected[part])
            if len(wrong):
                place = first + int(wrong[0])
                yield f"number {place} of the result is {there[place]}, not {expected[place]}"
            yield ""

    def _check_tiles(self, buffer: Floats, output: Floats) -> Iterator[str]:
        """Compare each tile with one that is computed anew, in memory of its own."""
        again = [np.full_like(memory, np.nan) for memory in (buffer, output)]
        own = self._operator.input_bytes(self._rank) // ITEM_BYTES
        first = self._layout.gathered // ITEM_BYTES
        again[0][:own] = buffer[:own]
        again[1][first:] = output[first:]
        for number, tile in enumerate(self._operator.tiles(self._rank)):
            place = self._compute(number, *again)
            memory = int(tile.owner == self._rank and not self._operator.adds)
            there = (buffer, output)[memory][place : place + tile.size_bytes // ITEM_BYTES]
            same = np.array_equal(there, again[memory][place : place + len(there)])
            yield "" if same else f"tile {number} is not what it is computed to"
