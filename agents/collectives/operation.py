"""What the collectives have in common: the operation, its report, its posts and its phases."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control
from weft.agents.collectives.fixed_point import FixedPoint
from weft.agents.collectives.requests import Request
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import ProtocolError


@dataclass(frozen=True)
class Moment:
    """A moment says when something happened to a flow of the collective `flows`."""

    flow: int
    what: str
    """``begun`` or ``acknowledged``, at its source, or ``received``, at its destination; of a wait
    that takes time, ``over``, and where that was not known before, ``began``."""
    at_ns: int


@dataclass
class OperationReport:
    """A report has what one rank has counted and timed in one operation."""

    phases_ns: dict[str, int] = field(default_factory=dict)
    """Durations of barrier, data, recovery and handshake, as far as the operation came."""
    received_bytes: int = 0
    """How many bytes of other ranks' data came, each byte counted once."""
    chunks_multicast: int = 0
    chunks_fetched: int = 0
    chunks_duplicate: int = 0
    blocks_saturated: int = 0
    """How many blocks of this rank's result have a sum that left the range of int32 (algorithm
    switch)."""
    fixed_point: FixedPoint = field(default_factory=FixedPoint)
    """What blocks lost to fixed point (algorithm switch)."""
    flow_count: int = 0
    """How many queue pairs its RDMA WRITEs left by, each of which is a flow to the switches. For
    several operations this is the sum."""
    flows: list[Moment] = field(default_factory=list)
    """What happened on this rank to the flows of the collective flows, in order."""

    def moments_since(self, start_ns: int) -> list[tuple[int, str, int]]:
        """Return `flows`, each as (flow, what, ns since `start_ns`)."""
        return [(each.flow, each.what, each.at_ns - start_ns) for each in self.flows]

    def __add__(self, other: "OperationReport") -> "OperationReport":
        """Return the sum of both reports; the phases' durations add up."""
        phases_ns = Counter(self.phases_ns)
        phases_ns.update(other.phases_ns)
        return OperationReport(
            dict(phases_ns),
            self.received_bytes + other.received_bytes,
            self.chunks_multicast + other.chunks_multicast,
            self.chunks_fetched + other.chunks_fetched,
            self.chunks_duplicate + other.chunks_duplicate,
            self.blocks_saturated + other.blocks_saturated,
            self.fixed_point + other.fixed_point,
            self.flow_count + other.flow_count,
            [*self.flows, *other.flows],
        )


@dataclass(frozen=True)
class Ticket:
    """The context of a post says which operation it belongs to and what it was for."""

    operation: int
    what: str
    detail: object = None


class ComputeRequest(NamedTuple):
    """What an operation lets others compute."""

    operation: int
    wait: int
    """Which wait of its graph that is."""
    compute: Callable[[], None]
    """Computes it, in any thread."""


@dataclass(frozen=True)
class WrittenBytes:
    """The detail of an RDMA WRITE's ticket says how many bytes it writes, and for which flow."""

    length: int
    flow: int = 0
    """Which of the collective flows it belongs to."""


class Posts:
    """The posts of one operation, and how many have not completed."""

    def __init__(self, communicator: Communicator, operation: int) -> None:
        self._communicator = communicator
        self._operation = operation
        self._open: dict[Ticket, int] = {}
        self.open_writes = 0
        """RDMA WRITEs that are not acknowledged."""
        self.writing_bytes = 0
        """How many bytes these have."""
        self.flows: set[RcQueuePair] = set()
        """Queue pairs that RDMA WRITEs have left by."""

    @property
    def outstanding(self) -> bool:
        """Whether anything that was posted has not completed yet."""
        return bool(self._open)

    def describe(self) -> str:
        """Return what the oldest post was for that has not completed."""
        return next(iter(self._open)).what if self._open else "nothing"

    def ticket(self, what: str, detail: object = None) -> Ticket:
        """Count a post that the caller is about to make."""
        ticket = Ticket(self._operation, what, detail)
        self._open[ticket] = self._open.get(ticket, 0) + 1
        return ticket

    def completed(self, ticket: Ticket) -> None:
        """Take note that a post has completed."""
        left = self._open.pop(ticket) - 1
        if left:
            self._open[ticket] = left
        if isinstance(ticket.detail, WrittenBytes):
            self.open_writes -= 1
            self.writing_bytes -= ticket.detail.length
            self._communicator.endpoint.state.writing_bytes -= ticket.detail.length

    def send(self, peer: int, message: Control) -> None:
        """Send a control message to a peer."""
        name = message.kind.name.lower()
        ticket = self.ticket(f"{self._communicator.name(peer)} to acknowledge {name}")
        self._communicator.queue_pairs[peer].post_send(message.encode(), context=ticket)

    def write(
        self, peer: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        immediate: int, flow: int = 0,
    ) -> None:  # fmt: skip
        """Write bytes of a region to an address of a peer's memory by RDMA WRITE with an immediate
        value."""
        what = f"{self._communicator.name(peer)} to acknowledge an RDMA WRITE"
        ticket = self.ticket(what, WrittenBytes(length, flow))
        self.open_writes += 1
        self.writing_bytes += length
        self._communicator.endpoint.state.writing_bytes += length
        pair = self._communicator.pair_for(peer, length)
        self.flows.add(pair)
        pair.post_write(region, offset, length, address, rkey, immediate=immediate, context=ticket)

    def read(
        self, peer: int, region: MemoryRegion, offset: int, length: int, address: int, rkey: int,
        detail: object,
    ) -> None:  # fmt: skip
        """Fetch bytes at an address of a peer's memory into a region by RDMA READ; `detail` goes on
        the ticket."""
        ticket = self.ticket(f"{self._communicator.name(peer)} to answer an RDMA READ", detail)
        self._communicator.queue_pairs[peer].post_read(
            region, offset, length, address, rkey, context=ticket
        )


class PhaseClock:
    """A phase clock knows which phase an operation is in, and how long each phase took."""

    def __init__(self) -> None:
        self.phase = "start"
        self._entered_ns = 0
        self._durations: dict[str, int] = {}

    def enter(self, phase: str, now_ns: int) -> None:
        """Begin a phase, which ends the one before."""
        if self.phase != "start":
            self._durations[self.phase] = now_ns - self._entered_ns
        self.phase = phase
        self._entered_ns = now_ns

    def durations(self, now_ns: int) -> dict[str, int]:
        """Return how long each phase took so far; the one that runs counts up to now."""
        if self.phase in ("start", "done"):
            return dict(self._durations)
        return {**self._durations, self.phase: now_ns - self._entered_ns}


class Operation:
    """An operation runs on one rank, driven by its `HostAgent`; each collective's way of carrying
    one out is a subclass."""

    def __init__(self, communicator: Communicator, request: Request) -> None:
        self._communicator = communicator
        self._number = request.number
        self._posts = Posts(communicator, request.number)
        self._clock = PhaseClock()
        self._received_bytes = 0
        """How many bytes of other ranks' data have come."""

    @property
    def done(self) -> bool:
        """Return whether the result is complete and the buffers are free."""
        return self.phase == "done"

    @property
    def phase(self) -> str:
        """Return what the operation is at, as `OperationReport.phases_ns` calls it."""
        return self._clock.phase

    def start(self, now_ns: int) -> None:
        """Begin the operation."""
        raise NotImplementedError

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a control message of this operation."""
        raise ProtocolError(f"{message.kind.name}, which does not belong to this algorithm")

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Take note that a peer's RDMA WRITE with immediate has arrived as a whole; `block` is the
        immediate's lower 24 bits."""
        raise ProtocolError(f"an RDMA WRITE announced block {block}, which is not due")

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that one of this operation's posts is complete."""
        raise NotImplementedError

    def advance(self, now_ns: int) -> None:
        """Look after packets that may have come, and after time that has passed."""

    def deadline(self) -> int | None:
        """Return when `advance` must be called if nothing comes, or None."""
        return None

    def take_work(self) -> list[ComputeRequest]:
        """Return what is to be computed elsewhere from now on; `computed` is told when it has
        been."""
        return []

    def computed(self, wait: int, began_ns: int, now_ns: int) -> None:
        """Take note that some work is done, which began at a time."""
        raise NotImplementedError

    @property
    def attentive(self) -> bool:
        """Return whether arrivals that complete nothing matter to the operation, as single chunks
        do."""
        return False

    @property
    def waits_for_sent(self) -> bool:
        """Whether the operation goes on when what it has posted is done."""
        return True

    def waits_on(self) -> set[int]:
        """Return the peers that must do something before the operation can end."""
        raise NotImplementedError

    def waiting_for(self) -> str:
        """Return what the operation cannot go on without, for an error message."""
        raise NotImplementedError

    def close(self) -> None:
        """Receive nothing more."""

    def report(self, now_ns: int) -> OperationReport:
        """Return what has been counted and timed so far."""
        return OperationReport(
            self._clock.durations(now_ns),
            self._received_bytes,
            flow_count=len(self._posts.flows),
        )
