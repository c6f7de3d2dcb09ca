"""Looks now and then whether sums of switches come; sans-I/O.

A tree of switches waits for all ranks, however long one computes, so nothing in the transport says
that it is broken. Whoever is told by this finds out (`weft.experiments.families.programs.silence`).
"""

from collections.abc import Callable, Sequence

from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion

SILENT_NS = 2_500_000_000
"""After so long without a sum, a rank says that it waits,"""
AGAIN_NS = 500_000_000
"""and so much later again."""


class SwitchWatch(EndpointAgent):
    """Looks as long as switches add.

    Args:
        adds: returns whether they do.
        look: called with the time.
    """

    def __init__(
        self, endpoint: Endpoint, adds: Callable[[], bool], look: Callable[[int], None]
    ) -> None:
        super().__init__(endpoint)
        self._adds = adds
        self._look = look
        self._next_ns = 0

    @property
    def due_ns(self) -> int | None:
        """Return when to look next."""
        return self._next_ns if self._adds() else None

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Look, if it is time to."""
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + AGAIN_NS
            self._look(now_ns)

    @property
    def waits_for_sent(self) -> bool:
        """Whether it goes on when something that was sent has come: it sends nothing."""
        return False

    def serves(self, completion: Completion) -> bool:
        """Return False: it has no queue pairs."""
        return False
