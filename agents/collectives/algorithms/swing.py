"""Swing: an Allgather between ranks that are near each other on a ring, log2 P rounds.

De Sensi, Bonato, Saam, Hoefler: "Swing: Short-cutting Rings for Higher Bandwidth Allreduce", NSDI
2024, section 3 (the second half of its Allreduce; of "Bine trees", arXiv 2508.17311, it is the
butterfly). In round s, from log2 P - 1 down to 0, an even place exchanges all that it has with the
one rho(s) places on, an odd one with that rho(s) places back, rho(s) = (1 - (-2)^(s+1)) / 3. So
most bytes go the shortest way: in the last round, half of all between neighbours. It is made for
powers of two; other numbers are folded as in recursive doubling.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.algorithms.recursive_doubling import (
    FoldedAllgather,
    Folding,
    Recursive,
    folded_gather,
)
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Transfers
from weft.agents.collectives.unicast import Pattern


def partner_of(place: int, round_: int, places: int) -> int:
    """Return the place that one exchanges something with in a round."""
    power = 2 << round_
    distance = (1 + power if round_ % 2 == 0 else 1 - power) // 3
    return (place + distance if place % 2 == 0 else place - distance) % places


@lru_cache(maxsize=4)
def _held(places: int) -> tuple[npt.NDArray[np.bool_], ...]:
    """Return which places' shards each place has before each round, bool [places, places] each, in
    the order of the rounds."""
    held = np.eye(places, dtype=bool)
    found = []
    for round_ in _rounds(places):
        found.append(held)
        partners = [partner_of(place, round_, places) for place in range(places)]
        held = held | held[partners]
    return tuple(found)


def _rounds(places: int) -> range:
    return range(places.bit_length() - 2, -1, -1)


class SwingAllgather(FoldedAllgather):
    """An Allgather whose rounds have distances that alternate in direction, the longest first."""

    def _exchanges(
        self, folding: Folding, place: int
    ) -> Iterator[tuple[int, Sequence[int], Sequence[int]]]:
        places = 1 << folding.rounds
        for round_, held in zip(_rounds(places), _held(places), strict=True):
            partner = partner_of(place, round_, places)
            yield partner, _ranks(folding, held[place]), _ranks(folding, held[partner])


def _ranks(folding: Folding, held: npt.NDArray[np.bool_]) -> list[int]:
    """Return the ranks whose shards some places have."""
    places = np.flatnonzero(held).tolist()
    return [
        rank for place in places for rank in range(folding.first(place), folding.first(place + 1))
    ]


def _exchanges(active: IntArray, held: IntArray) -> Iterator[Transfers]:
    places = len(active)
    for round_ in _rounds(places):
        partners = [partner_of(place, round_, places) for place in range(places)]
        yield Transfers(active, active[partners], held)
        held = held + held[partners]


class Swing(Recursive):
    """An Allgather swings to and fro on a ring of the ranks (De Sensi and others, NSDI 2024)."""

    name = "swing"
    collectives = ("allgather",)
    position: Mapping[str, int] = {"allgather": 4}
    colours = ("#9a6324", "#c99a5b")
    patterns: Mapping[str, type[Pattern]] = {"allgather": SwingAllgather}

    def places_met(self, folding: Folding, place: int) -> Iterator[int]:
        places = 1 << folding.rounds
        return (partner_of(place, round_, places) for round_ in _rounds(places))

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Return the rounds, with those of the fold before and behind."""
        return folded_gather(task.sizes, _exchanges)


ALGORITHMS = (Swing(),)
