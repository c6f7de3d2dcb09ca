"""Digests: lists of messages for the controller, which are not sent again until acknowledged.

P4Runtime specification, section "DigestEntry". A machine without I/O: it is told what the data
plane has learned and the time, and says which lists are due and when it wants to be called.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

MOST_LIST_SIZE = 1024
"""How many messages a list has at most if the client sets no limit."""

MOST_CACHED = 1 << 16
"""How many messages of a digest wait for an acknowledgement; the oldest beyond are forgotten."""

Values = tuple[int, ...]


@dataclass(frozen=True)
class Limits:
    """These are the limits in a digest's ``DigestEntry.Config``."""

    max_timeout_ns: int = 0
    max_list_size: int = 0
    ack_timeout_ns: int = 0


@dataclass
class Learner:
    """A learner collects the messages of one digest that is switched on."""

    limits: Limits
    buffer: dict[Values, None] = field(default_factory=dict)
    first_ns: int = 0
    """The time at which the first message came into the empty buffer."""
    sent: dict[int, tuple[int, tuple[Values, ...]]] = field(default_factory=dict)
    """The lists that wait for their acknowledgement: when each was sent, and its messages."""
    cached: dict[Values, int] = field(default_factory=dict)
    """The messages in those lists, and the list that each is in."""

    def learn(self, values: Values, now_ns: int) -> None:
        """Take a message of the data plane, unless it is buffered or sent already."""
        if values not in self.buffer and values not in self.cached:
            if not self.buffer:
                self.first_ns = now_ns
            self.buffer[values] = None

    def expire(self, now_ns: int) -> None:
        """Forget the lists that have waited for their acknowledgement long enough."""
        for list_id, (sent_ns, _) in list(self.sent.items()):
            if now_ns - sent_ns < self.limits.ack_timeout_ns and len(self.cached) <= MOST_CACHED:
                return
            self.acknowledge(list_id)

    def acknowledge(self, list_id: int) -> None:
        """Take the acknowledgement of a list: its messages may be sent again."""
        _, messages = self.sent.pop(list_id, (0, ()))
        for values in messages:
            if self.cached.get(values) == list_id:
                del self.cached[values]

    @property
    def list_size(self) -> int:
        """Return the number of messages that make a list full."""
        return min(self.limits.max_list_size or MOST_LIST_SIZE, MOST_LIST_SIZE)

    def due(self, now_ns: int) -> bool:
        """Return whether a list is to be sent."""
        waited = now_ns - self.first_ns >= self.limits.max_timeout_ns
        return bool(self.buffer) and (waited or len(self.buffer) >= self.list_size)

    def take(self, list_id: int, now_ns: int) -> tuple[Values, ...]:
        """Take the messages of the next list out of the buffer, and return them."""
        messages = tuple(list(self.buffer)[: self.list_size])
        for values in messages:
            del self.buffer[values]
        self.first_ns = now_ns
        if self.limits.ack_timeout_ns > 0:
            self.sent[list_id] = (now_ns, messages)
            self.cached.update(dict.fromkeys(messages, list_id))
        return messages

    def deadline(self) -> int | None:
        """Return when a list will be due, or a cached one be forgotten; None for never."""
        times = [self.first_ns + self.limits.max_timeout_ns] if self.buffer else []
        if self.sent:
            sent_ns, _ = next(iter(self.sent.values()))
            times.append(sent_ns + self.limits.ack_timeout_ns)
        return min(times, default=None)


@dataclass(eq=False)
class Digests:
    """All digests of a switch, by name."""

    learners: dict[str, Learner] = field(default_factory=dict, init=False)
    _list_id: int = field(default=0, init=False)

    def configure(self, name: str, limits: Limits) -> None:
        """Switch a digest on, or change its limits."""
        self.learners.setdefault(name, Learner(limits)).limits = limits

    def learn(self, name: str, values: Values, now_ns: int) -> None:
        """Take what the data plane has learned; it is dropped while the digest is off."""
        if (learner := self.learners.get(name)) is not None:
            learner.expire(now_ns)
            learner.learn(values, now_ns)

    def lists(self, now_ns: int) -> Iterator[tuple[str, int, tuple[Values, ...]]]:
        """Yield the lists that are due: the digest, the list's id and its messages."""
        for name, learner in self.learners.items():
            learner.expire(now_ns)
            while learner.due(now_ns):
                self._list_id += 1
                yield name, self._list_id, learner.take(self._list_id, now_ns)

    def forget(self) -> None:
        """Forget what was sent, as another client has become the primary and is to be sent it
        again."""
        for learner in self.learners.values():
            learner.sent.clear()
            learner.cached.clear()

    def deadline(self) -> int | None:
        """Return when ``lists`` is to be called next; None for never."""
        times = [learner.deadline() for learner in self.learners.values()]
        return min((time for time in times if time is not None), default=None)
