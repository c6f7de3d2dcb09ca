"""Calls something when a time is over, in the network's thread; sans-I/O."""

from collections.abc import Callable, Sequence

from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion


class Deadlines(EndpointAgent):
    """The times by which things must have ended."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._calls: dict[int, tuple[int, Callable[[], None]]] = {}
        self._next_key = 0

    def add(self, at_ns: int, call: Callable[[], None]) -> int:
        """Let something be called at a time, unless it is removed before. Return its key."""
        self._next_key += 1
        self._calls[self._next_key] = (at_ns, call)
        return self._next_key

    def remove(self, key: int) -> None:
        """Forget what is to be called."""
        self._calls.pop(key, None)

    @property
    def due_ns(self) -> int | None:
        """Return when something is to be called next."""
        return min((at_ns for at_ns, _ in self._calls.values()), default=None)

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Call what is due."""
        for key, (at_ns, call) in list(self._calls.items()):
            if at_ns <= now_ns:
                del self._calls[key]
                call()

    @property
    def waits_for_sent(self) -> bool:
        """Whether it goes on when something that was sent has come: it sends nothing."""
        return False

    def serves(self, completion: Completion) -> bool:
        """Return False: it has no queue pairs."""
        return False
