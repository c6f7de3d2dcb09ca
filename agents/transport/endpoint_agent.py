"""What agents on an endpoint have in common, as whoever drives them sees them; sans-I/O."""

from collections.abc import Callable, Collection, Sequence

from weft.agents.datagrams import Datagrams
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.posting import Completion


class EndpointAgent:
    """What agents on an endpoint have in common; a subclass says what it does (`look_after`) and
    when (`due_ns`)."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.poll: Callable[[], list[Completion]] = endpoint.poll
        """Where completions come from; another source where other agents share the endpoint."""

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Look after these completions, after all others that there are, and what is due."""
        raise NotImplementedError

    @property
    def due_ns(self) -> int | None:
        """Return when the agent, apart from its endpoint, must be looked after."""
        raise NotImplementedError

    @property
    def address(self) -> int:
        """Return the IPv4 address of the host."""
        return self.endpoint.address

    @property
    def groups(self) -> Collection[int]:
        """Return the multicast groups of which the host must be a member."""
        return self.endpoint.groups

    @property
    def attentive(self) -> bool:
        """Return whether the agent must be looked after whenever something arrives."""
        return False

    @property
    def waits_for_sent(self) -> bool:
        """Whether the agent goes on when what it has posted is done. Where it does not, it may be
        told of that with the next other event."""
        return True

    def has_event(self) -> bool:
        """Return whether there is an event for whoever uses the agent."""
        return False

    def deadline(self) -> int | None:
        """Return when to call `transmit` if nothing arrives."""
        times = (self.endpoint.deadline(), self.due_ns)
        return min((each for each in times if each is not None), default=None)

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        """Take in datagrams that arrived."""
        self.endpoint.receive(batch, now_ns)
        self.look_after(now_ns)

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 62) -> Datagrams:
        """Return what to send now; the batch is valid until the next call."""
        due_ns = self.due_ns
        if due_ns is not None and now_ns >= due_ns:
            self.look_after(now_ns)
        batch = self.endpoint.transmit(now_ns, budget_bytes)
        self._take_news(now_ns)
        return batch

    def _take_news(self, now_ns: int) -> None:
        """Look after what has completed meanwhile, if anything has."""
        completions = self.poll()
        if completions:
            self.look_after(now_ns, completions)

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """Take the place of `receive` and `transmit` for a driver whose compiled code serves the
        endpoint: look after what that code found (`batch` holds what was received last) and what is
        due. To be called when the endpoint has events, at `due_ns`, and after every arrival while
        `attentive`; afterwards there may be something to send."""
        self.endpoint.take_events(batch)
        self.look_after(now_ns)
