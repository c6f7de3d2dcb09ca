"""A host's agent: its endpoint and the collective operation that runs on it; sans-I/O.

Five verbs for whoever drives it, one more for whoever uses it:

    receive(batch, now)      datagrams that arrived
    transmit(now, budget)    datagrams to send; called after receive and start until there are none
    deadline()               when to call transmit if nothing arrives
    start(request, ...)      begin an operation
    next_event()             Done or Failed

An operation ends within `Allgather.limit_ns` of its start on each rank, in success or in an error
that names the rank and what it was waited for. A peer that acknowledges nothing is found out much
earlier, by the transport (`TransportOptions`: 2.0 to 2.3 s). A rank that fails tells its peers, and
they tell theirs, so the others need not wait for their own limits. After a failure the agent starts
nothing more.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from agents.collectives.communicator import Communicator
from agents.collectives.control import Control, Kind
from agents.collectives.multicast import MulticastAllgather
from agents.collectives.operation import Allgather, Operation, Report, Ticket
from agents.collectives.ring import RingAllgather
from agents.datagrams import Datagrams
from agents.transport.endpoint import Endpoint
from agents.transport.types import Completion, CompletionKind, MemoryRegion
from switch.errors import InputError, ProtocolError, RunError


@dataclass(frozen=True)
class Done:
    """An operation has ended well: the gathered buffer is complete and belongs to the caller
    again."""

    number: int
    finished_ns: int
    report: Report


@dataclass(frozen=True)
class Failed:
    """An operation has failed; the gathered buffer holds anything."""

    number: int
    finished_ns: int
    error: str
    report: Report


class HostAgent:
    """One rank's agent; see the module."""

    def __init__(self, endpoint: Endpoint, communicator: Communicator) -> None:
        self.endpoint = endpoint
        self.communicator = communicator
        self.failure = ""
        """Why the agent can start nothing more, or empty."""
        self._operation: Operation | None = None
        self._request: Allgather | None = None
        self._limit_ns = 0
        self._started_ns = 0
        self._next_number = 0
        self._region: MemoryRegion | None = None
        self._events: deque[Done | Failed] = deque()
        self._early: list[tuple[int, Control]] = []
        """Messages of operations that this rank has not started yet."""

    @property
    def address(self) -> int:
        """IPv4 address of the host."""
        return self.endpoint.address

    @property
    def groups(self) -> list[int]:
        """The multicast groups of which the host must be a member."""
        return self.endpoint.groups

    def start(self, request: Allgather, buffer: npt.NDArray[np.uint8], now_ns: int) -> None:
        """Begin an Allgather into ``buffer``, uint8[P x N], in which this rank's own shard is in
        its place.

        Raises:
            InputError: the buffer has the wrong size, or the request does not fit the communicator.
            RunError: an operation is running, or an earlier one failed.
        """
        if self._operation is not None:
            raise RunError(f"operation {request.number}: another is running; wait for its event")
        if self.failure:
            raise RunError(f"operation {request.number}: an earlier one failed: {self.failure}")
        if request.number < self._next_number:
            raise InputError(f"operation {request.number}: {self._next_number} is the next number")
        wanted = self.communicator.size * request.shard_bytes
        if len(buffer) != wanted:
            raise InputError(
                f"Allgather of {request.shard_bytes} bytes on {self.communicator.size} ranks: "
                f"the buffer has {len(buffer)} bytes; {wanted} are needed"
            )
        region = self._registered(buffer)
        kind = RingAllgather if request.algorithm == "ring" else MulticastAllgather
        operation = kind(self.communicator, request, region)
        self._operation, self._request = operation, request
        self._next_number = request.number + 1
        self._started_ns = now_ns
        self._limit_ns = now_ns + request.limit_ns(
            self.communicator.size, self.endpoint.rate_bps or 1_000_000_000
        )
        operation.start(now_ns)
        early, self._early = self._early, []
        for peer, message in early:
            self._control(peer, message, now_ns)
        self._advance(now_ns)

    def receive(self, batch: Datagrams, now_ns: int) -> None:
        self.endpoint.receive(batch, now_ns)
        self._advance(now_ns)

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 62) -> Datagrams:
        """What to send now; the batch is valid until the next call."""
        due_ns = self._due_ns()
        if due_ns is not None and now_ns >= due_ns:
            self._advance(now_ns)
        batch = self.endpoint.transmit(now_ns, budget_bytes)
        completions = self.endpoint.poll()
        if completions:
            self._advance(now_ns, completions)
        return batch

    def attend(self, batch: Datagrams, now_ns: int) -> None:
        """In place of `receive` and `transmit`, for a driver whose compiled code serves the
        endpoint: look after what that found (`batch` holds what was received last) and what is
        due. To be called when the endpoint has events, at `due_ns`, and after every arrival while
        `attentive`; afterwards there may be something to send."""
        self.endpoint.take_events(batch)
        self._advance(now_ns)

    @property
    def due_ns(self) -> int | None:
        """When the operation, apart from its endpoint, must be looked after."""
        return self._due_ns()

    @property
    def attentive(self) -> bool:
        """Whether the operation must be looked after whenever something arrives."""
        return self._operation is not None and self._operation.attentive

    def deadline(self) -> int | None:
        endpoint_ns, own_ns = self.endpoint.deadline(), self._due_ns()
        if endpoint_ns is None or own_ns is None:
            return own_ns if endpoint_ns is None else endpoint_ns
        return min(endpoint_ns, own_ns)

    def next_event(self) -> Done | Failed | None:
        return self._events.popleft() if self._events else None

    def has_event(self) -> bool:
        """Whether `next_event` has something."""
        return bool(self._events)

    @property
    def running(self) -> bool:
        return self._operation is not None

    def report(self, now_ns: int) -> Report:
        """Of the running operation: for a progress bar."""
        return self._operation.report(now_ns) if self._operation is not None else Report()

    def abort(self, reason: str, now_ns: int) -> None:
        """Give up the running operation, and let the peers know."""
        if self._operation is not None:
            self._fail(reason, now_ns, self.communicator.rank)

    def _registered(self, buffer: npt.NDArray[np.uint8]) -> MemoryRegion:
        """The buffer's region; one buffer used again and again is registered once."""
        if self._region is None or self._region.buffer is not buffer:
            if self._region is not None:
                self.endpoint.deregister(self._region)
            self._region = self.endpoint.register(buffer)
        return self._region

    def _due_ns(self) -> int | None:
        """When the running operation must be looked after, whatever the endpoint does."""
        if self._operation is None:
            return None
        check_ns = self._operation.deadline()
        return self._limit_ns if check_ns is None else min(check_ns, self._limit_ns)

    def _advance(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        for completion in completions:
            self._take(completion, now_ns)
        for completion in self.endpoint.poll():
            self._take(completion, now_ns)
        if self._operation is None or self._request is None:
            return
        self._operation.advance(now_ns)
        if self._operation.done:
            self._operation.close()
            report = self._operation.report(now_ns)
            self._events.append(Done(self._request.number, now_ns, report))
            self._operation = None
        elif now_ns >= self._limit_ns:
            seconds = (now_ns - self._started_ns) / 1e9
            self._fail(
                f"no end after {seconds:.1f} s, in phase {self._operation.phase}: "
                f"waited for {self._operation.waiting_for()}",
                now_ns,
                self.communicator.rank,
            )

    def _take(self, completion: Completion, now_ns: int) -> None:
        kind = completion.kind
        try:
            if kind is CompletionKind.RECEIVED:
                peer = self.communicator.peer_of(completion.qp)
                self._control(peer, Control.decode(completion.data), now_ns)
            elif kind is CompletionKind.WRITE_WITH_IMMEDIATE and self._operation is not None:
                peer = self.communicator.peer_of(completion.qp)
                self._operation.written(peer, completion.immediate or 0, now_ns)
            elif kind is CompletionKind.ERROR:
                self._broken(completion, now_ns)
            elif (
                isinstance(completion.context, Ticket)
                and self._operation is not None
                and self._request is not None
                and completion.context.operation == self._request.number
            ):
                self._operation.completed(completion.context, now_ns)
        except ProtocolError as error:
            peer = self.communicator.peer_of(completion.qp)
            reason = f"{self.communicator.name(peer)} broke the protocol: {error}"
            self._fail(reason, now_ns, self.communicator.rank)

    def _control(self, peer: int, message: Control, now_ns: int) -> None:
        if message.operation >= self._next_number:
            self._early.append((peer, message))
        elif (
            self._operation is None
            or self._request is None
            or message.operation != self._request.number
        ):
            return  # of an operation that has ended here
        elif message.kind is Kind.ABORT:
            reason = f"rank {message.rank} gave up: {message.text}"
            self._fail(reason, now_ns, message.rank, message.text)
        else:
            self._operation.control(peer, message, now_ns)

    def _broken(self, completion: Completion, now_ns: int) -> None:
        peer = self.communicator.peer_of(completion.qp)
        reason = f"lost {self.communicator.name(peer)}"
        if self._operation is not None:
            reason += (
                f" in phase {self._operation.phase}, waiting for {self._operation.waiting_for()}"
            )
        reason += f": {completion.error}"
        self._fail(reason, now_ns, self.communicator.rank)

    def _fail(self, reason: str, now_ns: int, finder: int, passed_on: str = "") -> None:
        """End the running operation in failure and tell every peer that can still be told."""
        if self.failure:
            return
        self.failure = reason
        if self._operation is None or self._request is None:
            return
        abort = Control(
            Kind.ABORT, self._request.number, rank=finder, text=passed_on or reason
        ).encode()
        for pair in self.communicator.queue_pairs.values():
            if not pair.error:
                pair.post_send(abort)
        report = self._operation.report(now_ns)
        self._operation.close()
        self._operation = None
        self._events.append(Failed(self._request.number, now_ns, reason, report))
