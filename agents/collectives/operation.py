"""What the collectives have in common: the request, the report, the posts of one operation and its
phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from agents.collectives.communicator import Communicator
from agents.collectives.control import Control
from agents.collectives.timing import operation_timeout_ns
from agents.transport.types import MemoryRegion
from switch.errors import InputError

ALGORITHMS = ("ring", "multicast")
CUTOFFS = ("adaptive", "paper", "fetch-only")


@dataclass(frozen=True)
class Allgather:
    """A request for an Allgather; the same on every rank.

    Raises:
        InputError: a value makes no sense.
    """

    number: int
    """Counts the operations of the communicator, from 0; each rank starts them in this order."""
    algorithm: str
    """``ring`` or ``multicast``."""
    shard_bytes: int
    chains: int = 0
    """Multicast: chains M side by side; 0 is M = P."""
    cutoff: str = "adaptive"
    """Multicast: ``adaptive``, ``paper`` (5 x the expected time) or ``fetch-only`` (nothing is
    multicast)."""
    timeout_ns: int = 0
    """0: `operation_timeout_ns`."""

    def __post_init__(self) -> None:
        if self.algorithm not in ALGORITHMS:
            raise InputError(f"algorithm {self.algorithm!r}: choose from {', '.join(ALGORITHMS)}")
        if self.cutoff not in CUTOFFS:
            raise InputError(f"cutoff {self.cutoff!r}: choose from {', '.join(CUTOFFS)}")
        for name in ("number", "shard_bytes", "chains", "timeout_ns"):
            if getattr(self, name) < 0:
                raise InputError(f"{name} {getattr(self, name)} is negative")

    def limit_ns(self, size: int, rate_bps: int) -> int:
        """The time limit on each rank, from its own start."""
        return self.timeout_ns or operation_timeout_ns(size, self.shard_bytes, rate_bps)


@dataclass
class Report:
    """What one rank has counted and timed in one operation."""

    phases_ns: dict[str, int] = field(default_factory=dict)
    """Durations of barrier, data, recovery and handshake, as far as the operation came."""
    received_bytes: int = 0
    """Of the other ranks' shards."""
    chunks_multicast: int = 0
    chunks_fetched: int = 0
    chunks_duplicate: int = 0


class Operation(Protocol):
    """A running operation of one rank, as the HostAgent drives it."""

    @property
    def done(self) -> bool: ...

    @property
    def phase(self) -> str: ...

    def start(self, now_ns: int) -> None: ...

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """A control message of this operation has come."""
        ...

    def written(self, peer: int, immediate: int, now_ns: int) -> None:
        """A peer's RDMA WRITE with immediate has arrived as a whole."""
        ...

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """One of this operation's posts is complete."""
        ...

    def advance(self, now_ns: int) -> None:
        """Packets may have come, or time has passed: look after both."""
        ...

    def deadline(self) -> int | None: ...

    @property
    def attentive(self) -> bool:
        """Whether arrivals matter that complete nothing: those of single chunks."""
        ...

    def waiting_for(self) -> str:
        """What the operation cannot go on without, for an error message."""
        ...

    def close(self) -> None:
        """Receive nothing more."""
        ...

    def report(self, now_ns: int) -> Report: ...


@dataclass(frozen=True)
class Ticket:
    """The context of a post: which operation it belongs to and what it was for."""

    operation: int
    what: str
    detail: object = None


class Posts:
    """The posts of one operation: counts those that have not completed."""

    def __init__(self, communicator: Communicator, operation: int) -> None:
        self._communicator = communicator
        self._operation = operation
        self._open: dict[Ticket, int] = {}

    @property
    def outstanding(self) -> bool:
        return bool(self._open)

    def describe(self) -> str:
        """The oldest post that has not completed."""
        return next(iter(self._open)).what if self._open else "nothing"

    def ticket(self, what: str, detail: object = None) -> Ticket:
        """Count a post that the caller is about to make."""
        ticket = Ticket(self._operation, what, detail)
        self._open[ticket] = self._open.get(ticket, 0) + 1
        return ticket

    def completed(self, ticket: Ticket) -> None:
        left = self._open.pop(ticket) - 1
        if left:
            self._open[ticket] = left

    def send(self, peer: int, message: Control) -> None:
        name = message.kind.name.lower()
        ticket = self.ticket(f"{self._communicator.name(peer)} to acknowledge {name}")
        self._communicator.queue_pairs[peer].post_send(message.encode(), context=ticket)

    def write(
        self, peer: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        immediate: int,
    ) -> None:  # fmt: skip
        ticket = self.ticket(f"{self._communicator.name(peer)} to acknowledge an RDMA WRITE")
        self._communicator.queue_pairs[peer].post_write(
            region, offset, length, address, rkey, immediate=immediate, context=ticket
        )

    def read(
        self, peer: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        detail: object,
    ) -> None:  # fmt: skip
        ticket = self.ticket(f"{self._communicator.name(peer)} to answer an RDMA READ", detail)
        self._communicator.queue_pairs[peer].post_read(
            region, offset, length, address, rkey, context=ticket
        )


class PhaseClock:
    """In which phase an operation is, and how long each took."""

    def __init__(self) -> None:
        self.phase = "start"
        self._entered_ns = 0
        self._durations: dict[str, int] = {}

    def enter(self, phase: str, now_ns: int) -> None:
        if self.phase != "start":
            self._durations[self.phase] = now_ns - self._entered_ns
        self.phase = phase
        self._entered_ns = now_ns

    def durations(self, now_ns: int) -> dict[str, int]:
        """All phases so far, the running one up to now."""
        if self.phase in ("start", "done"):
            return dict(self._durations)
        return {**self._durations, self.phase: now_ns - self._entered_ns}
