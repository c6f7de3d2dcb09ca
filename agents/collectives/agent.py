"""A host's agent: its endpoint and the collective operations that run on it; sans-I/O.

Five verbs for whoever drives it, one more for whoever uses it:

    receive(batch, now)      datagrams that arrived
    transmit(now, budget)    datagrams to send; called after receive and start until there are none
    deadline()               when to call transmit if nothing arrives
    start(request, ...)      begin an operation
    next_event()             Done or Failed

Operations may run at the same time. All ranks start them in the same order.

An operation ends on each rank within `Request.limit_ns` of its start, and within what the data of
operations that run beside it may take. It ends in success, or in an error that names the rank that
was waited for, and what was expected of it. A rank that dies is found much earlier: the ranks that
wait for it probe it every 0.5 s, and the transport gives up a peer that acknowledges nothing for
2.0 to 2.3 s (`TransportOptions`). A rank that fails tells its peers, and they tell theirs, so
every rank knows of it, by name, within 3 s. After a failure the agent starts nothing more.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.algorithm import Register
from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.dtypes import Array
from weft.agents.collectives.flows_operation import FlowsOperation
from weft.agents.collectives.names import MAX_AT_ONCE
from weft.agents.collectives.operation import ComputeRequest, Operation, OperationReport, Ticket
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request, flat_bytes
from weft.agents.collectives.timing import TIMEOUT_BASE_NS, operation_timeout_ns
from weft.agents.transport.aggregation import AggregationQueuePair
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion
from weft.agents.transport.types import CompletionKind, MemoryRegion
from weft.base.entry_points import blamed
from weft.base.errors import InputError, ProtocolError, RunError, refuse

PROBE_NS = 500_000_000
"""How often a rank asks whether the peers that it waits for are there."""
IDLE_REGIONS = 32
"""Registered buffers that no operation uses, kept for the next."""
MAX_EARLY = 8 * MAX_AT_ONCE
"""Messages from one peer of operations that this rank has not started; a few of each can come."""


@dataclass(frozen=True)
class Done:
    """An operation has ended well: its result is complete and its buffers belong to the caller
    again."""

    number: int
    finished_ns: int
    report: OperationReport


@dataclass(frozen=True)
class Failed:
    """An operation has failed; its buffers hold anything."""

    number: int
    finished_ns: int
    error: str
    report: OperationReport


@dataclass
class _Running:
    operation: Operation
    started_ns: int
    limit_ns: int
    data_ns: int
    """What its data may add to the time of others."""
    regions: list[MemoryRegion]


class HostAgent(EndpointAgent):
    """An agent carries out the collective operations of one rank; see the module."""

    def __init__(self, endpoint: Endpoint, communicator: Communicator) -> None:
        super().__init__(endpoint)
        self.communicator = communicator
        self.failure = ""
        """Why the agent can start nothing more, or empty."""
        self._running: dict[int, _Running] = {}
        """The running operations by their numbers, in order."""
        self._next_number = 0
        self._probe_ns = 0
        self._idle_regions: deque[MemoryRegion] = deque()
        self._events: deque[Done | Failed] = deque()
        self._early: list[tuple[int, Control]] = []
        """Messages of operations that this rank has not started yet."""

    def start(
        self, request: Request, buffer: Array, now_ns: int, output: Array | None = None
    ) -> None:
        """Begin an operation. The arrays belong to it until its event comes.

        Args:
            buffer: of the request's dtype, C-contiguous, writeable. Allgather: all ranks' elements
                in order of ranks, this rank's own in their place; gathered in place. Broadcast: the
                root's elements. Reduce-Scatter: this rank's part of all ranks' results; Allreduce:
                its vector; both only read.
            output: Reduce-Scatter: this rank's result; Allreduce: the result.

        Raises:
            InputError: an array does not fit the request, or the request the communicator.
            RunError: too many operations are running, or an earlier one failed.
        """
        number = request.number
        refuse(self.failure, f"operation {number}: an earlier one failed: {self.failure}", RunError)
        refuse(
            number < self._next_number,
            f"operation {number}: {self._next_number} is the next number",
        )
        if not self.has_room(number):
            raise RunError(
                f"operation {number}: {len(self._running)} are running, the oldest is number "
                f"{next(iter(self._running))}; wait for an event (at most {MAX_AT_ONCE} at once, "
                "256 numbers apart)"
            )
        regions: list[MemoryRegion] = []
        try:
            operation = build(
                self.communicator, request, buffer, output,
                lambda memory: self._register(memory, regions),
            )  # fmt: skip
        except InputError:
            self._idle_regions += regions
            raise
        if not self._running:
            self._probe_ns = now_ns + PROBE_NS
        self._running[number] = self._limited(request, operation, now_ns, regions)
        self._next_number = number + 1
        operation.start(now_ns)
        early = [entry for entry in self._early if entry[1].operation <= number]
        self._early = [entry for entry in self._early if entry[1].operation > number]
        for peer, message in early:
            try:
                self._control(peer, message, now_ns)
            except ProtocolError as error:
                self._blame(peer, error, now_ns)
        self.look_after(now_ns)

    def serves(self, completion: Completion) -> bool:
        """Return whether a completion of the endpoint is of one of the communicator's queue
        pairs."""
        return self.communicator.owns(completion.qp)

    @property
    def attentive(self) -> bool:
        """Return whether the operation must be looked after whenever something arrives."""
        return any(running.operation.attentive for running in self._running.values())

    @property
    def waits_for_sent(self) -> bool:
        return any(running.operation.waits_for_sent for running in self._running.values())

    def next_event(self) -> Done | Failed | None:
        """Return the oldest event that was not taken yet, or None."""
        return self._events.popleft() if self._events else None

    def has_event(self) -> bool:
        """Return whether `next_event` has something."""
        return bool(self._events)

    def has_room(self, number: int) -> bool:
        """Return whether the operation of this number may start beside those that run."""
        oldest = next(iter(self._running), number)
        return len(self._running) < MAX_AT_ONCE and number - oldest < 256

    @property
    def running(self) -> int:
        """Return how many operations are running."""
        return len(self._running)

    def report(self, now_ns: int) -> OperationReport:
        """Return the sum of the running operations' reports, for a progress bar."""
        reports = (running.operation.report(now_ns) for running in self._running.values())
        return sum(reports, OperationReport())

    def take_work(self) -> list[ComputeRequest]:
        """Return what the operations that run want to be computed elsewhere from now on."""
        return [work for each in self._running.values() for work in each.operation.take_work()]

    def computed(self, work: ComputeRequest, began_ns: int, now_ns: int) -> None:
        """Take note that some work is done, which began at a time."""
        running = self._running.get(work.operation)
        if running is not None:
            running.operation.computed(work.wait, began_ns, now_ns)
            self.look_after(now_ns)

    def abort(self, reason: str, now_ns: int) -> None:
        """Give up what is running, and let the peers know."""
        if self._running:
            self._fail(reason, now_ns, self.communicator.rank)

    def _limited(
        self, request: Request, operation: Operation, now_ns: int, regions: list[MemoryRegion]
    ) -> _Running:
        """Return a new operation with a time limit; it and those that run share the link."""
        size, rate_bps = self.communicator.size, self.endpoint.rate_bps or 10**9
        total_bytes = sum(request.shard_bytes(size))
        whole_ns = operation_timeout_ns(size, total_bytes, rate_bps, request.repeat_ns)
        data_ns = whole_ns - TIMEOUT_BASE_NS
        limit_ns = now_ns + request.limit_ns(size, rate_bps)
        for other in self._running.values():
            other.limit_ns += data_ns
            limit_ns += other.data_ns
        return _Running(operation, now_ns, limit_ns, data_ns, regions)

    def _register(self, memory: npt.NDArray[np.uint8], regions: list[MemoryRegion]) -> MemoryRegion:
        """Return the memory's region and note that it is in use; memory used again is registered
        once."""
        place = memory.ctypes.data, len(memory)
        idle = (
            each for each in self._idle_regions if (each.buffer.ctypes.data, each.length) == place
        )
        region = next(idle, None)
        if region is None:
            region = self.endpoint.register(memory)
        else:
            self._idle_regions.remove(region)
        regions.append(region)
        return region

    def _release(self, regions: list[MemoryRegion]) -> None:
        """Keep regions for the next operation: a READ request of this one may be repeated yet.

        Not those of memory that the operation made for itself, which no other will use.
        """
        for region in regions:
            if region.buffer.base is None:
                self.endpoint.deregister(region)
            else:
                self._idle_regions.append(region)
        while len(self._idle_regions) > IDLE_REGIONS:
            self.endpoint.deregister(self._idle_regions.popleft())

    @property
    def due_ns(self) -> int | None:
        """Return when the operations that run must be looked after; None if none runs."""
        if not self._running:
            return None
        due_ns = self._probe_ns
        for running in self._running.values():
            check_ns = running.operation.deadline()
            due_ns = min(due_ns, running.limit_ns)
            if check_ns is not None:
                due_ns = min(due_ns, check_ns)
        return due_ns

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Give completions to their operations, go on with all of them, and probe silent peers."""
        for completion in completions:
            self._take(completion, now_ns)
        for completion in self.poll():
            self._take(completion, now_ns)
        for number, running in list(self._running.items()):
            operation = running.operation
            operation.advance(now_ns)
            if operation.done:
                operation.close()
                del self._running[number]
                self._release(running.regions)
                self._events.append(Done(number, now_ns, operation.report(now_ns)))
            elif now_ns >= running.limit_ns:
                seconds = (now_ns - running.started_ns) / 1e9
                self._fail(
                    f"no end after {seconds:.1f} s, in phase {operation.phase}: "
                    f"waited for {operation.waiting_for()}",
                    now_ns,
                    self.communicator.rank,
                )
                return
        if self._running and now_ns >= self._probe_ns:
            self._probe(now_ns)

    def _probe(self, now_ns: int) -> None:
        """Send something to peers that are waited for and to which nothing is under way."""
        self._probe_ns = now_ns + PROBE_NS
        peers = set().union(*(each.operation.waits_on() for each in self._running.values()))
        probe = Control(Kind.PROBE, 0).encode()
        for peer in sorted(peers):
            pair = self.communicator.queue_pairs[peer]
            if not pair.outstanding:
                pair.post_send(probe)

    def _take(self, completion: Completion, now_ns: int) -> None:
        kind = completion.kind
        try:
            if kind is CompletionKind.RECEIVED:
                peer = self.communicator.peer_of(completion.qp)
                self._control(peer, Control.decode(completion.data), now_ns)
            elif kind is CompletionKind.WRITE_WITH_IMMEDIATE:
                peer = self.communicator.peer_of(completion.qp)
                self._written(peer, completion.immediate or 0, completion.length, now_ns)
            elif isinstance(completion.qp, AggregationQueuePair) and completion.error:
                self._fail(completion.error, now_ns, self.communicator.rank)
            elif kind is CompletionKind.ERROR:
                self._broken(completion, now_ns)
            elif isinstance(completion.context, Ticket):
                running = self._running.get(completion.context.operation)
                if running is not None:
                    running.operation.completed(completion.context, now_ns)
        except ProtocolError as error:
            self._blame(self.communicator.peer_of(completion.qp), error, now_ns)
        except RunError as error:
            self._fail(str(error), now_ns, self.communicator.rank)

    def _blame(self, peer: int, error: ProtocolError, now_ns: int) -> None:
        reason = f"{self.communicator.name(peer)} broke the protocol: {error}"
        self._fail(reason, now_ns, self.communicator.rank)

    def _written(self, peer: int, immediate: int, length_bytes: int, now_ns: int) -> None:
        for number, running in self._running.items():
            if number & 0xFF == immediate >> 24:
                running.operation.written(peer, immediate & 0xFFFFFF, length_bytes, now_ns)
                return
        refuse(
            self._running,
            f"an RDMA WRITE of operation {immediate >> 24}, which is not on",
            ProtocolError,
        )

    def _control(self, peer: int, message: Control, now_ns: int) -> None:
        if message.kind is Kind.PROBE:
            return
        refuse(
            message.kind is Kind.ABORT and message.rank >= len(self.communicator.members),
            f"ABORT by rank {message.rank}, which does not exist",
            ProtocolError,
        )
        if message.operation >= self._next_number:
            refuse(
                sum(sender == peer for sender, _ in self._early) >= MAX_EARLY,
                f"{MAX_EARLY} messages of operations that have not begun",
                ProtocolError,
            )
            self._early.append((peer, message))
        elif message.kind is Kind.ABORT:
            reason = f"{self.communicator.title(message.rank)} gave up: {message.text}"
            self._fail(reason, now_ns, message.rank, message.text)
        elif message.operation in self._running:
            self._running[message.operation].operation.control(peer, message, now_ns)
        # Otherwise it is of an operation that has ended here.

    def _broken(self, completion: Completion, now_ns: int) -> None:
        where = ""
        if self._running:
            operation = next(iter(self._running.values())).operation
            where = f" in phase {operation.phase}, waiting for {operation.waiting_for()}"
        lost = self.communicator.name(self.communicator.peer_of(completion.qp))
        self._fail(f"lost {lost}{where}: {completion.error}", now_ns, self.communicator.rank)

    def _fail(self, reason: str, now_ns: int, finder: int, passed_on: str = "") -> None:
        """End all running operations in failure and tell every peer that can still be told."""
        if self.failure:
            return
        self.failure = reason
        first = next(iter(self._running), max(self._next_number - 1, 0))
        abort = Control(Kind.ABORT, first, rank=finder, text=passed_on or reason).encode()
        for pair in self.communicator.queue_pairs.values():
            if not pair.error:
                pair.post_send(abort)
        for number, running in self._running.items():
            report = running.operation.report(now_ns)
            running.operation.close()
            self._events.append(Failed(number, now_ns, reason, report))
        self._running.clear()


def build(
    communicator: Communicator,
    request: Request,
    buffer: Array,
    output: Array | None,
    register: Register,
) -> Operation:
    """Return the operation of a request on this rank.

    Args:
        buffer, output: as `HostAgent.start` has them.
        register: gives the memory region of an array of bytes.

    Raises:
        InputError: the arrays do not fit the request, or the request the communicator.
    """
    name = f"{request.collective.title()} on {communicator.size} ranks"
    rank, size = communicator.rank, communicator.size
    own = request.buffer_elements(rank, size)
    data = flat_bytes(buffer, request, own, f"{name}, the buffer of rank {rank}")
    count = request.output_elements(rank, size)
    result = None
    refuse(count is None and output is not None, f"{name}: it works in place and has no output")
    if count is not None:
        if output is None:
            raise InputError(f"{name}: pass the array for the result as output")
        result = flat_bytes(output, request, count, f"{name}, the output of rank {rank}")
        refuse(
            np.may_share_memory(data, result),
            f"{name}: buffer and output overlap; pass arrays of their own",
        )
        if request.flows is not None:
            return FlowsOperation(communicator, request, data, result, register)
    algorithm = algorithm_of(request.collective, request.algorithm)
    with blamed(algorithm, "operation"):
        algorithm.check(request)
        return algorithm.operation(communicator, request, data, result, register)
