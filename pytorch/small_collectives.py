"""Small collectives of a group as messages whose payload is in the packet that announces it, so
that nobody asks anybody for room; sans-I/O.

An Allgather takes ceil(log2 P) rounds (Bruck et al., "Efficient Algorithms for All-to-All
Communications in Multiport Message-Passing Systems", IEEE TPDS 8(11), 1997, section 4): in round k
a rank sends all that it has, 2^k parts at most, to the rank 2^k behind it. The message of the first
round also says what is called, in words, which each rank compares with its own call.
"""

from collections.abc import Callable

import numpy as np

from weft.agents.collectives.mailbox import Bytes
from weft.pytorch.group_agents import GroupAgents

ROUND_TAG = 2 - (1 << 31)
"""The tag of the messages of all rounds but the first."""

Compare = Callable[[Bytes, Bytes, Callable[[str], None]], None]
"""Sends the rank behind what this rank calls, and bytes; gets bytes of the rank before with what
that calls; and says, at the end, in what the two calls differ, or an empty text."""


class SmallAllgather:
    """An Allgather of few bytes of every rank.

    Args:
        agents: of the group.
        own: what this rank gives, uint8[m].
        gathered: where all go, uint8[P, m], in order of ranks.
        compare: does the first round.
        done: called once, with the error or an empty text.
    """

    def __init__(
        self,
        agents: GroupAgents,
        own: Bytes,
        gathered: Bytes,
        compare: Compare,
        done: Callable[[str], None],
    ) -> None:
        self._agents = agents
        self._done = done
        self._gathered = gathered
        size = agents.size
        self._parts = np.empty((size, len(own)), np.uint8)
        """Of this rank and those before it, one after the other backwards."""
        self._parts[0] = own
        self._rounds = (size - 1).bit_length()
        self._next = 0
        """The first round of which nothing has come."""
        self._came = [False] * self._rounds
        self._is_over = False
        for number in range(1, self._rounds):
            source = (agents.rank - (1 << number)) % size
            agents.receive(source, ROUND_TAG, self._coming(number), self._comes(number))
        compare(self._parts[0], self._coming(0), lambda error: self._take(0, error))

    def _coming(self, number: int) -> Bytes:
        """Return where the parts go that come in a round."""
        return self._parts[1 << number : 1 << (number + 1)].reshape(-1)

    def _comes(self, number: int) -> Callable[[str, int], None]:
        return lambda error, _source: self._take(number, error)

    def _take(self, number: int, error: str) -> None:
        """Take what has come in a round, and go on."""
        if self._is_over:
            return
        if error:
            self._is_over = True
            self._done(error)
            return
        self._came[number] = True
        size, rank = self._agents.size, self._agents.rank
        while self._next < self._rounds and self._came[self._next]:
            self._next += 1
            if self._next < self._rounds:
                target = (rank + (1 << self._next)) % size
                parts = self._parts[: min(1 << self._next, size - (1 << self._next))]
                self._agents.send(target, ROUND_TAG, parts.reshape(-1), lambda *_: None)
        if self._next == self._rounds:
            self._is_over = True
            self._gathered[(rank - np.arange(size)) % size] = self._parts
            self._done("")
