"""A reduction server: its endpoint and the jobs that it serves; sans-I/O.

It has a `HostAgent`'s verbs for whoever drives it, and learns all from the wire. A *job* is one
communicator; any number of them are served at once, and what fails in one harms no other. The first
message of an operation, OPEN, says all of it; the server admits it, or refuses it with a reason
that ends it on all ranks.

A server that waits for a member probes it every 0.5 s, as ranks do; a member that is gone is told
to all others of its job, by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.reduction_plan import ReductionPlan, Terms, plan_of
from weft.agents.servers.server_operation import Post, ServerMembers, ServerOperation
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.endpoint_agent import EndpointAgent
from weft.agents.transport.posting import Completion, Posting
from weft.agents.transport.types import CompletionKind, MemoryRegion
from weft.base.errors import ProtocolError, refuse

MEMORY_BYTES = 1 << 30
MOST_OPERATIONS = 256
PROBE_NS = 500_000_000
LINGER_NS = 3_000_000_000
"""How long the memory of a failed operation is kept: what is under way to it would be refused, and
that would reach ranks before they are told why the operation failed."""


@dataclass
class ServedCommunicator:
    """A served communicator holds the operations and members of one job of a server."""

    members: ServerMembers
    operations: dict[int, ServerOperation] = field(default_factory=dict)
    last_number: int = 0
    """The number of the last operation so far."""
    opened: dict[int, int] = field(default_factory=dict)
    """The number of the last operation that each rank has opened."""
    failure: str = ""
    """Why the job does nothing more, or empty."""

    def operation_of(self, low_bits: int, member: int) -> ServerOperation | None:
        """Return the oldest operation with these low 8 bits of its number to which a member has
        more to say."""
        for number, operation in self.operations.items():
            if number & 0xFF == low_bits and operation.expects(member):
                return operation
        return None


class ReductionServer(EndpointAgent):
    """A reduction server combines what the ranks of its jobs send it; see the module.

    Args:
        memory_bytes: most that all operations together may take.
        most_operations: that are under way at once, of all jobs.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        memory_bytes: int = MEMORY_BYTES,
        most_operations: int = MOST_OPERATIONS,
    ) -> None:
        super().__init__(endpoint)
        self.memory_bytes = memory_bytes
        self.most_operations = most_operations
        self.used_bytes = 0
        self.jobs: dict[int, ServedCommunicator] = {}
        self._places: dict[Posting, tuple[ServedCommunicator, int]] = {}
        self._memory: dict[ServerOperation, tuple[int, list[MemoryRegion]]] = {}
        self._lingering: list[tuple[int, ServerOperation]] = []
        """Failed operations, and when their memory is given back."""
        self._probe_ns = 0

    def add_job(
        self, job: int, server_index: int, addresses: Sequence[int], servers: Sequence[int]
    ) -> None:
        """Serve one more communicator.

        Args:
            job: a number of the caller's choice.
            server_index: which of the servers this one is.
            addresses, servers: IPv4 addresses of all ranks and of all servers.

        Raises:
            InputError: the number is taken, or this is not that server.
        """
        refuse(job in self.jobs, f"job {job} is served already; choose another number")
        made = ServedCommunicator(ServerMembers(self.endpoint, server_index, addresses, servers))
        self.jobs[job] = made
        self._places.update(
            (pair, (made, member)) for member, pair in made.members.queue_pairs.items()
        )

    def introduction(self, job: int) -> dict[int, tuple[int, ...]]:
        """Return what each member must be told: (queue pair number, initial PSN) by member."""
        return self.jobs[job].members.introduction()

    def connect(self, job: int, introductions: Mapping[int, Sequence[int]]) -> None:
        """Connect a job's queue pairs, given what its members say in their introductions to this
        one. Raises InputError where one is lacking."""
        self.jobs[job].members.connect(introductions)

    @property
    def running(self) -> int:
        """Return how many operations are under way."""
        return sum(len(job.operations) for job in self.jobs.values())

    @property
    def due_ns(self) -> int | None:
        """Return when the server, apart from its endpoint, must be looked after."""
        times = [each for each, _ in self._lingering[:1]]
        if self.running:
            times.append(self._probe_ns)
        return min(times, default=None)

    def serves(self, completion: Completion) -> bool:
        """Return whether a completion of the endpoint is of one of its queue pairs."""
        return completion.qp in self._places

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        """Give completions to their jobs, probe silent members and release idle memory."""
        while completions := completions or self.poll():
            for completion in completions:
                job, member = self._places[completion.qp]
                self._take(job, member, completion, now_ns)
            completions = ()
        if self.running and now_ns >= self._probe_ns:
            self._probe_ns = now_ns + PROBE_NS
            for job in self.jobs.values():
                self._probe(job)
        while self._lingering and now_ns >= self._lingering[0][0]:
            self._release(self._lingering.pop(0)[1])

    def _take(
        self, job: ServedCommunicator, member: int, completion: Completion, now_ns: int
    ) -> None:
        kind, context = completion.kind, completion.context
        if kind is CompletionKind.ERROR:
            self._fail(
                job, job.members.own, f"lost {job.members.name(member)}: {completion.error}", now_ns
            )
            return
        try:
            if kind is CompletionKind.RECEIVED:
                self._control(job, member, Control.decode(completion.data), now_ns)
            elif kind is CompletionKind.WRITE_WITH_IMMEDIATE:
                self._written(job, member, completion.immediate or 0, completion.length)
            elif isinstance(context, Post) and context.operation in self._memory:
                context.operation.acknowledged(context.slots, context.slot)
                self._finish(job, context.operation)
        except ProtocolError as error:
            reason = f"{job.members.name(member)} broke the protocol: {error}"
            self._fail(job, job.members.own, reason, now_ns)

    def _control(self, job: ServedCommunicator, member: int, message: Control, now_ns: int) -> None:
        kind, members = message.kind, job.members
        if kind is Kind.PROBE or kind is Kind.WAITING or job.failure:
            return
        if kind is Kind.ABORT:
            refuse(
                message.rank >= len(members.members),
                f"ABORT by member {message.rank}, which does not exist",
                ProtocolError,
            )
            self._fail(job, message.rank, message.text, now_ns)
        elif kind is Kind.OPEN:
            self._open(job, member, message, now_ns)
        elif kind is Kind.ADMIT and message.operation in job.operations:
            job.operations[message.operation].admitted(member, message)
        elif kind is Kind.REFUSE and member >= members.size:
            reason = f"{members.name(member)} refused operation {message.operation}: {message.text}"
            self._fail(job, members.own, reason, now_ns)
        else:
            raise ProtocolError(f"{kind.name}, which does not belong to reduction servers")

    def _open(self, job: ServedCommunicator, member: int, message: Control, now_ns: int) -> None:
        number, terms = message.operation, Terms.decode(message.data)
        members = job.members
        if member < members.size:
            refuse(
                number <= job.opened.get(member, -1),
                f"OPEN of operation {number}, which is over or open",
                ProtocolError,
            )
            job.opened[member] = number
        refuse(
            (terms.size, terms.servers, terms.packet_bytes)
            != (members.size, members.servers, members.path_mtu),
            f"OPEN for {terms.size} ranks, {terms.servers} servers and packets of "
            f"{terms.packet_bytes} bytes; the job has {members.size}, {members.servers} and "
            f"{members.path_mtu}",
            ProtocolError,
        )
        operation = job.operations.get(number)
        if operation is None:
            plan = plan_of(terms)
            refuse(
                member not in plan.share(members.index).incoming,
                f"OPEN of operation {number}, in which it has no part here",
                ProtocolError,
            )
            reason = self._lacks(plan, job)
            if reason:
                members.send(member, Control(Kind.REFUSE, number, text=reason))
                return
            operation = self._begin(job, number, plan, now_ns)
        elif operation.plan.terms != terms:
            raise ProtocolError(
                f"OPEN of operation {number} as {terms}; another member has said "
                f"{operation.plan.terms}"
            )
        operation.open(member, message)

    def _lacks(self, plan: ReductionPlan, job: ServedCommunicator) -> str:
        """Return why an operation cannot be admitted, or nothing."""
        needed = ServerOperation.memory_bytes(plan, job.members.index)
        free = self.memory_bytes - self.used_bytes
        if needed > free:
            return (
                f"it needs {needed} bytes of memory, {max(free, 0)} of {self.memory_bytes} are "
                "free; wait for other operations, or choose smaller blocks"
            )
        if self.running >= self.most_operations:
            return f"{self.running} operations are under way, which is the most; wait for some"
        return ""

    def _begin(
        self, job: ServedCommunicator, number: int, plan: ReductionPlan, now_ns: int
    ) -> ServerOperation:
        regions: list[MemoryRegion] = []

        def register(size_bytes: int) -> MemoryRegion:
            regions.append(self.endpoint.register(np.empty(size_bytes, np.uint8)))
            return regions[-1]

        if not self.running:
            self._probe_ns = now_ns + PROBE_NS
        operation = ServerOperation(job.members, number, plan, register)
        taken = ServerOperation.memory_bytes(plan, job.members.index)
        self._memory[operation] = (taken, regions)
        self.used_bytes += taken
        job.operations[number] = operation
        job.last_number = max(job.last_number, number)
        operation.start()
        return operation

    def _written(
        self, job: ServedCommunicator, member: int, immediate: int, length_bytes: int
    ) -> None:
        if job.failure:
            return
        operation = job.operation_of(immediate >> 24, member)
        if operation is None:
            raise ProtocolError(f"an RDMA WRITE of operation {immediate >> 24}, which is not on")
        operation.written(member, immediate & 0xFFFFFF, length_bytes)
        self._finish(job, operation)

    def _finish(self, job: ServedCommunicator, operation: ServerOperation) -> None:
        """Forget an operation that is over."""
        if operation.done and job.operations.get(operation.number) is operation:
            del job.operations[operation.number]
            self._release(operation)

    def _release(self, operation: ServerOperation) -> None:
        taken, regions = self._memory.pop(operation)
        self.used_bytes -= taken
        for region in regions:
            self.endpoint.deregister(region)

    def _probe(self, job: ServedCommunicator) -> None:
        """Send something to members that are waited for and to which nothing is under way; tell
        those who have contributed whom nothing comes from."""
        late: set[int] = set()
        for number, operation in job.operations.items():
            late |= operation.waits_on()
            behind = operation.behind() if operation.idle else None
            operation.idle = True
            if behind is not None:
                waiting = Control(Kind.WAITING, number, rank=behind)
                for member in operation.opened():
                    if member < job.members.size and member != behind:
                        job.members.send(member, waiting)
        probe = Control(Kind.PROBE, 0)
        for member in sorted(late):
            if not job.members.queue_pairs[member].outstanding:
                job.members.send(member, probe)

    def _fail(self, job: ServedCommunicator, finder: int, reason: str, now_ns: int) -> None:
        """End a job: tell every member that can still be told."""
        if job.failure:
            return
        job.failure = reason
        first = min(job.operations, default=job.last_number)
        abort = Control(Kind.ABORT, first, rank=finder, text=reason)
        for member, pair in job.members.queue_pairs.items():
            if not pair.error:
                job.members.send(member, abort)
        for operation in job.operations.values():
            self._lingering.append((now_ns + LINGER_NS, operation))
        job.operations.clear()
