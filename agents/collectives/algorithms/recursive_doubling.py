"""Recursive doubling: Allgather in log2 P rounds.

Thakur, Rabenseifner, Gropp: "Optimization of collective communication operations in MPICH", 2005.
It is made for powers of two. Of other numbers P = Q + rem, Q = 2^q, the
first 2 rem ranks pair up: an even one leaves its part to the odd one behind it, which takes part
for both, and so Q ranks are left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import (
    IntArray,
    Transfers,
    critical_path_bytes,
    exchanges,
    folded,
)
from weft.agents.collectives.unicast import Pattern, Write, require, summed


@dataclass(frozen=True)
class Folding:
    """A folding maps P ranks to Q = 2^q places."""

    size: int

    @property
    def rounds(self) -> int:
        """Return the number of rounds between the ranks that take part, q."""
        return self.size.bit_length() - 1

    @property
    def pairs(self) -> int:
        """Return how many ranks leave their part to their neighbour, rem."""
        return self.size - (1 << self.rounds)

    def place(self, rank: int) -> int | None:
        """Return the place that a rank has; None if it leaves its part to the next rank."""
        if rank >= 2 * self.pairs:
            return rank - self.pairs
        return rank // 2 if rank % 2 else None

    def rank(self, place: int) -> int:
        """Return the rank that has a place."""
        return 2 * place + 1 if place < self.pairs else place + self.pairs

    def first(self, place: int) -> int:
        """Return the first rank whose part belongs to this place or a later one (place Q: P)."""
        return 2 * place if place < self.pairs else place + self.pairs

    def ranks(self, place: int, round_: int) -> range:
        """Return the ranks whose parts a place and the others of its group of 2^round have
        together."""
        start = place >> round_ << round_
        return range(self.first(start), self.first(start + (1 << round_)))


class Step(NamedTuple):
    """What a rank sends and receives at a time, when all that comes in the steps before is
    there."""

    to: int
    send: Sequence[int]
    """Shards, by their ranks."""
    of: int
    receive: Sequence[int]


class SteppedAllgather(Pattern):
    """An Allgather in steps: in each, this rank sends some of what it has to one rank, and receives
    what it lacks from one.

    Args:
        buffer: the gathered array's bytes; this rank's shard is in its place.
    """

    def _make_steps(self) -> Iterator[Step]:
        """Yield the steps of this rank, in order."""
        raise NotImplementedError

    def _set_up(self) -> None:
        self._steps = list(self._make_steps())
        self._left = [sum(map(self._blocks.count, step.receive)) for step in self._steps]
        self._step_of = {
            shard: number for number, step in enumerate(self._steps) for shard in step.receive
        }
        sources = [step.of for step in self._steps]
        self.expected = summed(zip(sources, self._left, strict=True))
        self.targets = {step.to for step in self._steps if any(map(self._blocks.of, step.send))}
        self._sent = 0
        """Steps whose sending has begun."""

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block of a step, and return what can be sent now."""
        require(block < self._blocks.total, block)
        step = self._step_of.get(self._blocks.part_of(block), -1)
        require(step >= 0 and self._steps[step].of == peer, block)
        self._left[step] -= 1
        return self._blocks.span(block)[1], self.begin()

    def begin(self) -> Iterable[Write]:
        """Return the sending of all steps that have become possible: all before them is
        received."""
        possible: list[Iterator[Write]] = []
        while self._sent < len(self._steps) and not any(self._left[: self._sent]):
            step = self._steps[self._sent]
            possible.append(self._send(step.to, step.send))
            self._sent += 1
        return (write for writes in possible for write in writes)

    def _send(self, peer: int, shards: Sequence[int]) -> Iterator[Write]:
        for shard in shards:
            for block in self._blocks.of(shard):
                yield self._write(peer, block)


class FoldedAllgather(SteppedAllgather):
    """An Allgather in which the places of a fold exchange all that they have, each with another one
    in each round."""

    def _exchanges(
        self, folding: Folding, place: int
    ) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        """Yield of each round the partner's place, and the ranks whose shards this place has, and
        the partner."""
        raise NotImplementedError

    def _make_steps(self) -> Iterator[Step]:
        rank, everyone = self._rank, range(self._size)
        folding = Folding(self._size)
        place = folding.place(rank)
        if place is None:
            others = [other for other in everyone if other != rank]
            yield Step(rank + 1, [rank], rank + 1, [])
            yield Step(rank + 1, [], rank + 1, others)
            return
        if place < folding.pairs:
            yield Step(rank - 1, [], rank - 1, [rank - 1])
        for partner, mine, theirs in self._exchanges(folding, place):
            peer = folding.rank(partner)
            yield Step(peer, mine, peer, theirs)
        if place < folding.pairs:
            others = [other for other in everyone if other != rank - 1]
            yield Step(rank - 1, others, rank - 1, [])


class RecursiveDoublingAllgather(FoldedAllgather):
    """An Allgather in which, in each round k, this rank exchanges all that it has with the rank 2^k
    places away."""

    def _exchanges(
        self, folding: Folding, place: int
    ) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        for round_ in range(folding.rounds):
            partner = place ^ 1 << round_
            yield partner, folding.ranks(place, round_), folding.ranks(partner, round_)


def folded_gather(
    sizes: IntArray, rounds: Callable[[IntArray, IntArray], Iterable[Transfers]]
) -> Iterator[Transfers]:
    """Yield the rounds of an Allgather between the places of a fold.

    Args:
        sizes: bytes of each rank's shard, int64 [P].
        rounds: given the ranks that take part, and the bytes that each has, its rounds between
            these.
    """
    evens, odds, active = folded(len(sizes))
    if len(evens):
        yield Transfers(evens, odds, sizes[evens])
    held = sizes[active]
    held[: len(evens)] += sizes[evens]
    yield from rounds(active, held)
    if len(evens):
        yield Transfers(odds, evens, sizes.sum() - sizes[evens])


class Folded(Algorithm):
    """A folded algorithm has rounds between the places of a power of two, with another partner in
    each."""

    in_rounds = True

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the partners of all rounds, and the neighbour in a pair."""
        folding = Folding(size)
        place = folding.place(rank)
        if place is None:
            return {rank + 1}
        found = {folding.rank(each) for each in self.places_met(folding, place)}
        return found | ({rank - 1} if place < folding.pairs else set())

    def places_met(self, folding: Folding, place: int) -> Iterator[int]:
        """Yield the places that one exchanges something with, by rounds."""
        return (place ^ 1 << round_ for round_ in range(folding.rounds))


class Recursive(Folded):
    """A recursive algorithm begins a round when all that comes in the rounds before is there."""

    def least_bytes(self, task: Task) -> int:
        """Return the critical path of one operation, or what the fullest link carries of all."""
        return max(critical_path_bytes(task.ranks, self.rounds(task)), super().least_bytes(task))


class RecursiveDoubling(Recursive):
    """An Allgather doubles what each rank has in every round (Thakur, Rabenseifner, Gropp,
    2005)."""

    name = "recursive-doubling"
    collectives = ("allgather",)
    position: Mapping[str, int] = {"allgather": 3}
    colours = ("#009e73", "#3fc79e")
    patterns: Mapping[str, type[Pattern]] = {"allgather": RecursiveDoublingAllgather}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Return the rounds: in round i a rank exchanges all that it has with the rank 2^i away.
        Where P is no power of two, the even ranks of pairs first send their shard to the odd ones,
        and get all other shards at the end."""
        return folded_gather(task.sizes, exchanges)


ALGORITHMS = (RecursiveDoubling(),)
