"""Several agents on one endpoint: a rank and a reduction server on the same host; sans-I/O.

It has a `HostAgent`'s verbs for whoever drives it, and gives each agent the completions of its own
queue pairs. What the two say to each other is no packet (`weft.agents.transport.local`).
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence
from functools import partial

from weft.agents.collectives.agent import HostAgent
from weft.agents.datagrams import Datagrams
from weft.agents.servers import ReductionServer
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.posting import Completion
from weft.base.errors import InputError


class AgentGroup:
    """See the module.

    Args:
        parts: agents of this endpoint, one `HostAgent` at most; they have no driver of their own.

    Raises:
        InputError: an agent of another endpoint, several ranks, or nobody.
    """

    def __init__(self, endpoint: Endpoint, parts: Sequence[HostAgent | ReductionServer]) -> None:
        if any(part.endpoint is not endpoint for part in parts):
            raise InputError("a host's agents share its endpoint; one of them has another")
        self.endpoint = endpoint
        self.parts = tuple(parts)
        ranks = [place for place, part in enumerate(parts) if isinstance(part, HostAgent)]
        if len(ranks) > 1 or not parts:
            raise InputError(f"a host has one rank at most and an agent at least, not {len(ranks)}")
        self._rank = ranks[0] if ranks else 0
        self._completed: list[list[Completion]] = [[] for _ in parts]
        self._nothing = Datagrams.allocate(1, 1)
        # It holds its agents, and they not it, or none would go by reference counting alone.
        home = weakref.ref(self)
        for number, part in enumerate(self.parts):
            part.poll = partial(_poll, home, number)

    def _sort(self) -> None:
        """Give each agent its completions. What is no server's is the rank's."""
        for completion in self.endpoint.poll():
            number = self._rank
            for place, part in enumerate(self.parts):
                if isinstance(part, ReductionServer) and part.serves(completion):
                    number = place
            self._completed[number].append(completion)

    def completions_of(self, number: int) -> list[Completion]:
        """What the agent at a place has not been told yet."""
        self._sort()
        completions, self._completed[number] = self._completed[number], []
        return completions

    @property
    def _pending(self) -> bool:
        return self.endpoint.has_completions or any(self._completed)

    @property
    def address(self) -> int:
        """IPv4 address of the host."""
        return self.endpoint.address

    @property
    def groups(self) -> Collection[int]:
        """The multicast groups of which the host must be a member."""
        return [group for part in self.parts for group in part.groups]

    @property
    def attentive(self) -> bool:
        """Whether it must be looked after whenever something arrives."""
        return any(part.attentive for part in self.parts)

    @property
    def due_ns(self) -> int | None:
        """When it, apart from its endpoint, must be looked after; 0: now."""
        if self._pending:
            return 0
        times = [part.due_ns for part in self.parts]
        return min((each for each in times if each is not None), default=None)

    def deadline(self) -> int | None:
        """When to call `transmit` if nothing arrives."""
        times = (self.endpoint.deadline(), self.due_ns)
        return min((each for each in times if each is not None), default=None)

    def has_event(self) -> bool:
        """Whether the rank's agent has an event."""
        return any(part.has_event() for part in self.parts)

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived."""
        self.endpoint.receive(batch, now_ns)
        self.attend(self._nothing, now_ns)

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 62) -> Datagrams:
        """What to send now; the batch is valid until the next call."""
        due_ns = self.due_ns
        if due_ns is not None and now_ns >= due_ns:
            self.attend(self._nothing, now_ns)
        batch = self.endpoint.transmit(now_ns, budget_bytes)
        if self._pending:
            self.attend(self._nothing, now_ns)
        return batch

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """In place of `receive` and `transmit`, for a driver whose compiled code serves the
        endpoint; see `HostAgent.attend`."""
        self.endpoint.take_events(batch)
        while True:
            for part in self.parts:
                part.attend(self._nothing, now_ns)
            if not self._pending:
                return


def _poll(home: weakref.ref[AgentGroup], number: int) -> list[Completion]:
    """An agent's completions; none once its host is gone."""
    host = home()
    return [] if host is None else host.completions_of(number)
