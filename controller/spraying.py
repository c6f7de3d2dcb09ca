"""Spraying: every packet of RoCEv2 takes a port of its own, at random or in turn.

A set is the ports that a route may take. It has places: in turn, several rounds of all the ports,
each round in an order of its own, so that switches do not go through their uplinks in step; at
random, one place a port. The orders differ between switches and are drawn from the seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from weft.base.errors import InputError
from weft.controller import fabric
from weft.controller.entities import Action, Entity, Exact, ProfileMember, entry

ROUNDS = 8
"""Orders of the ports that follow each other, of a set with few ports."""
MAX_SET_PLACES = 256
"""Of a set in turn, but for one round at least."""
FIRST_MEMBER = 1 << 17
"""Ids of members that spray: above those of ports and of the one that drops, plus the set."""


@dataclass(frozen=True)
class Spraying:
    """How one switch sprays."""

    in_turn: bool
    seed: int
    device_id: int

    def entities(
        self, number: int, forward: Sequence[Action]
    ) -> tuple[ProfileMember, list[Entity]]:
        """The member that sprays over set ``number``, and the entries of the set's places.

        ``forward``: the action of each port. Raises InputError for a set that a switch has no room
        for.
        """
        sets = (
            fabric.size("spray_turn") // 2
        )  # two cells a set: for packets with data and for acknowledgements
        if not 0 < number < sets:
            raise InputError(
                f"spraying over {number} sets of ports: a switch tells {sets - 1} "
                "apart: choose paths ecmp, or a smaller network"
            )
        places = self._order(number, forward)
        action = Action.of(
            fabric.name("spray"), set=number, last=len(places) - 1, in_turn=int(self.in_turn)
        )
        entries: list[Entity] = [
            entry(
                fabric.name("spray_port"),
                {fabric.name("place"): Exact(number << 16 | index)},
                one,
                referred=True,
            )
            for index, one in enumerate(places)
        ]
        return ProfileMember(fabric.name("ecmp"), FIRST_MEMBER + number, action), entries

    def _order(self, number: int, forward: Sequence[Action]) -> list[Action]:
        if not self.in_turn:
            return list(forward)
        draw = random.Random(f"spray {self.seed} {self.device_id} {number}")
        rounds = max(1, min(ROUNDS, MAX_SET_PLACES // len(forward)))
        return [one for _ in range(rounds) for one in draw.sample(forward, len(forward))]
