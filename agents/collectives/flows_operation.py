"""Flows that depend on each other, by RDMA WRITEs: one rank's part of a `FlowGraph`.

Each rank tells those that send to it where they may write, and begins once all that it sends to
have said so. A flow is cut into blocks, each an RDMA WRITE with immediate. The flows that a rank
sends at the same time take turns, a block each; but those of collectives to the same rank go one
after the other, as what is posted to a queue pair does. Else a flow that others wait for would be
held up by one that begins later. What happens on one rank and is waited for on another is told by a
message (`Kind.HAPPENED`).

A flow that follows another one posts each block when it has come. A multicast leaves by its group;
when all of it has left, its source says so to every destination (`Kind.SENT`), which reads what it
misses from the source's memory by RDMA READ, and answers when it has everything (`Kind.GOT`).

What switches add is posted to the aggregation queue pair, whose reductions all ranks post in the
same order. So a sum whose turn has not come waits for those before it.

What waits of workgroups compute is computed here when they are over; or, if it is to take the time
that it takes, by whoever drives the agent (`FlowsOperation.take_work`), who says when it has ended.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.fixed_point import FixedPoint
from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import DONE, RECEIVED, FlowGraph
from weft.agents.collectives.flow_schedule import RankSums, Schedule, SumPosted
from weft.agents.collectives.multicast_flows import MulticastFlows
from weft.agents.collectives.names import GIVEN
from weft.agents.collectives.operation import (
    ComputeRequest,
    Moment,
    Operation,
    OperationReport,
    Ticket,
    WrittenBytes,
)
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Blocks, Bytes, block_bytes
from weft.agents.operators.computation import program_of
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import ProtocolError

BLOCKS_UNDER_WAY = 8
"""How many blocks each line of flows has under way for each lane: enough to fill a link, but not
all, so that the lines share it."""


@dataclass
class _Sending:
    """A flow that has begun is posted block by block."""

    flow: int
    memory: int
    """The number of the memory that it is read from."""
    offset: int
    """Where its first byte is there."""
    target: int
    """Where its first byte goes in the memory of its destination."""
    block: int
    """The destination's number of its first block."""
    size_bytes: int
    posted_bytes: int = 0
    under_way: int = 0
    come: deque[int] | None = None
    """Of a flow that follows another: the blocks that have come and were not posted, by number."""

    @property
    def can_post(self) -> bool:
        """Return whether a block can be posted now."""
        return self.come is None or bool(self.come)


@dataclass
class _Line:
    """The flows of a line are sent one after the other."""

    flows: deque[_Sending]
    """The flows that have blocks to be posted."""
    under_way: int = 0
    """Blocks of these and of those before."""
    queued: bool = False
    """Whether it has a turn."""


class FlowsOperation(Operation):
    """One rank's part of a graph of flows; see the module.

    Args:
        buffer: the bytes of the flows that this rank sends, one after the other.
        output: room for those that come to it.
        register: gives the memory region of an array.

    Raises:
        InputError: the communicator has no queue pair with a peer.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        buffer: Bytes,
        output: Bytes,
        register: Callable[[Bytes], MemoryRegion],
    ) -> None:
        assert request.flows is not None
        graph = self._graph = request.flows
        rank = communicator.rank
        communicator.check_peers(graph.partners(rank), "flows")
        super().__init__(communicator, request)
        self._regions = register(buffer), register(output)
        self._output = self._regions[1]
        path_mtu = communicator.endpoint.path_mtu
        self._block_bytes = block_bytes(request, graph.sizes(graph.flows), path_mtu)
        self._most_under_way = BLOCKS_UNDER_WAY * request.lanes
        self._incoming = graph.received_by(rank).tolist()
        self._blocks = Blocks(graph.sizes(graph.received_by(rank)), self._block_bytes)
        self._left = [len(self._blocks.of(place)) for place in range(len(self._incoming))]
        """Blocks to come of each incoming flow."""
        self._multicast = {flow for cast in graph.multicasts for flow in cast.flows}
        self._missing = sum(
            left
            for flow, left in zip(self._incoming, self._left, strict=True)
            if flow not in self._multicast
        )
        """Blocks to come of all that are not multicast."""
        self._arrived: set[int] = set()
        self._outgoing = _outgoing(graph, rank, self._block_bytes)
        self._followers: dict[int, list[_Sending]] = {}
        """The flows that send on what a flow brings, by that one."""
        for sending in self._outgoing.values():
            followed = int(graph.table.follows[sending.flow])
            if followed != NONE:
                sending.come = deque()
                self._followers.setdefault(followed, []).append(sending)
        self._casts = MulticastFlows(communicator, request, self._regions, self._posts)
        self._targets = {graph.destination[flow] for flow in self._outgoing}
        self._ready: dict[int, tuple[int, int]] = {}
        """Address and key of the targets' memory."""
        self._sums = RankSums(communicator, request, buffer, output) if graph.sums else None
        computation = request.computation
        self._schedule = Schedule(graph, rank)
        if computation is not None:
            program, memories = program_of(computation, rank, request.number), (buffer, output)
            program.gather(output)
            self._schedule = Schedule(
                graph, rank, lambda wait: program.run(wait, memories),
                computes_elsewhere=computation.measured,
            )  # fmt: skip
        self._alone = request.algorithm == GIVEN and computation is None
        self._lines: dict[int, _Line] = {}
        """The lines by flow, or by destination."""
        self._turns: deque[_Line] = deque()
        """Lines that have a block to be posted, and may."""
        self._sending: dict[int, _Sending] = {}
        self._moments: list[Moment] = []

    def start(self, now_ns: int) -> None:
        """Begin the tasks that wait for nothing, and tell the sources where they may write."""
        self._schedule.start(now_ns)
        self._casts.attach()
        self._clock.enter("barrier", now_ns)
        ready = Control(
            Kind.READY, self._number, address=self._output.address, rkey=self._output.rkey
        )
        for peer in sorted({self._graph.source[flow] for flow in self._incoming}):
            self._posts.send(peer, ready)
        self._proceed(now_ns)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a message that an event has happened elsewhere, or where a destination is
        written."""
        if message.kind is Kind.HAPPENED:
            self._schedule.hear(peer, message.address, now_ns)
        elif message.kind is Kind.SENT:
            self._casts.sent(peer, message, now_ns)
        elif message.kind is Kind.GOT:
            self._acknowledged(self._casts.got(peer, message), now_ns)
        elif message.kind is not Kind.READY or peer not in self._targets:
            raise ProtocolError(f"{message.kind.name}, which does not belong to flows")
        elif peer in self._ready:
            raise ProtocolError("READY a second time")
        else:
            self._ready[peer] = (message.address, message.rkey)
        self._proceed(now_ns)

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Take a block of a flow; the last one of a flow is an event."""
        if block >= self._blocks.total or block in self._arrived:
            raise ProtocolError(f"an RDMA WRITE announced block {block}, which is not due")
        place = self._blocks.part_of(block)
        flow = self._incoming[place]
        length = self._blocks.span(block)[1]
        is_unicast = flow not in self._multicast
        if self._graph.source[flow] != peer or length_bytes != length or not is_unicast:
            raise ProtocolError(
                f"an RDMA WRITE of {length_bytes} bytes announced block {block}, which is one of "
                f"{length} from rank {self._graph.source[flow]}"
            )
        self._arrived.add(block)
        self._received_bytes += length
        self._missing -= 1
        self._left[place] -= 1
        for follower in self._followers.get(flow, ()):
            assert follower.come is not None
            follower.come.append(block - self._blocks.of(place).start)
            if follower.flow in self._sending:
                self._offer(self._line_of(follower))
        if not self._left[place]:
            self._received(flow, now_ns)
        self._proceed(now_ns)

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that an RDMA WRITE is complete; the last one of a flow is an event."""
        if isinstance(ticket.detail, SumPosted):
            self._summed(ticket.detail.number, now_ns)
            self._proceed(now_ns)
            return
        self._posts.completed(ticket)
        if not isinstance(ticket.detail, WrittenBytes):
            self._casts.completed(ticket)
            self._proceed(now_ns)
            return
        sending = self._sending[ticket.detail.flow]
        sending.under_way -= 1
        line = self._line_of(sending)
        line.under_way -= 1
        self._offer(line)
        if not sending.under_way and sending.posted_bytes == sending.size_bytes:
            del self._sending[sending.flow]
            self._acknowledged(sending.flow, now_ns)
        self._proceed(now_ns)

    def advance(self, now_ns: int) -> None:
        """Begin and post what can be begun and posted by now."""
        self._proceed(now_ns)
        unfinished = (
            self._schedule.unfinished
            or self._posts.outstanding
            or self._missing
            or self._casts.missing
        )
        if self._clock.phase == "data" and not unfinished:
            self._clock.enter("done", now_ns)

    def deadline(self) -> int | None:
        """Return when the next wait or delay of the schedule is over, or a multicast is looked
        after, or None."""
        times = [self._casts.deadline()]
        if self._clock.phase == "data":
            times.append(self._schedule.deadline())
        return min((time for time in times if time is not None), default=None)

    @property
    def attentive(self) -> bool:
        """Return whether single chunks that arrive may make a multicast whole."""
        return self._casts.awaits_chunks

    def waits_on(self) -> set[int]:
        """Return whoever sends to this rank, is sent to, or has something to tell it."""
        return self._graph.partners(self._communicator.rank)

    def waiting_for(self) -> str:
        """Return what flows or tasks this rank waits for."""
        name = self._communicator.name
        unready = sorted(self._targets - self._ready.keys())
        if unready:
            return f"{name(unready[0])} to be ready"
        lacking = [
            place
            for place, left in enumerate(self._left)
            if left and self._incoming[place] not in self._casts.whole
        ]
        if lacking:
            flow = self._incoming[lacking[0]]
            return (
                f"{len(lacking)} flows of {len(self._left)}, the first number {flow} from "
                f"{name(self._graph.source[flow])}"
            )
        return self._schedule.waiting_for() or self._posts.describe()

    def report(self, now_ns: int) -> OperationReport:
        """Return the report with the moments of all flows of this rank."""
        sinks, casts = self._casts.sinks, self._casts
        report = super().report(now_ns)
        return replace(
            report,
            flows=list(self._moments),
            fixed_point=FixedPoint() if self._sums is None else self._sums.lost(),
            received_bytes=report.received_bytes + casts.received_bytes,
            chunks_multicast=sum(sink.received for sink in sinks),
            chunks_fetched=casts.chunks_fetched,
            chunks_duplicate=casts.chunks_read_twice + sum(sink.duplicates for sink in sinks),
        )

    def take_work(self) -> list[ComputeRequest]:
        """Return what is to be computed elsewhere from now on."""
        found, self._schedule.computing = self._schedule.computing, []
        return [
            ComputeRequest(self._number, wait, partial(self._schedule.compute, wait))
            for wait in found
        ]

    def computed(self, wait: int, began_ns: int, now_ns: int) -> None:
        """Take note that what a wait computes is there."""
        self._moments.append(Moment(wait, "began", began_ns))
        self._moments.append(Moment(wait, "over", now_ns))
        self._schedule.end_computing(wait, now_ns)
        self._proceed(now_ns)

    def close(self) -> None:
        """Receive nothing more."""
        self._casts.detach()
        if self._sums is not None:
            self._sums.close()

    def _summed(self, number: int, now_ns: int) -> None:
        assert self._sums is not None
        self._sums.left -= 1
        wait = self._graph.sums[number].waits[self._communicator.rank]
        self._moments.append(Moment(wait, "over", now_ns))
        self._schedule.end(wait, now_ns)

    def _received(self, flow: int, now_ns: int) -> None:
        self._moments.append(Moment(flow, "received", now_ns))
        self._schedule.happened(flow, RECEIVED, now_ns)

    def _acknowledged(self, flow: int, now_ns: int) -> None:
        self._moments.append(Moment(flow, "acknowledged", now_ns))
        self._schedule.happened(flow, DONE, now_ns)

    def _proceed(self, now_ns: int) -> None:
        """Begin what can begin, tell what is to be told, post what can be posted."""
        for flow in self._casts.look(now_ns):
            self._received(flow, now_ns)
        if self._clock.phase == "barrier":
            if len(self._ready) < len(self._targets):
                return
            self._clock.enter("data", now_ns)
        schedule = self._schedule
        for flow in schedule.due(now_ns):
            self._moments.append(Moment(flow, "begun", now_ns))
            if flow in self._multicast:
                self._casts.begin(flow)
                continue
            sending = self._sending[flow] = self._outgoing[flow]
            line = self._line_of(sending)
            line.flows.append(sending)
            self._offer(line)
        if self._graph.places is not None:
            self._moments += [Moment(task, "over", at_ns) for task, at_ns in schedule.over]
        schedule.over.clear()
        if self._sums is not None:
            self._sums.post(schedule.held)
        while schedule.notices:
            peer, edge = schedule.notices.popleft()
            self._posts.send(peer, Control(Kind.HAPPENED, self._number, address=edge))
        while self._turns:
            line = self._turns.popleft()
            line.queued = False
            self._post(line)
            self._offer(line)

    def _offer(self, line: _Line) -> None:
        """Give a line a turn if it has something to post, and may."""
        able = line.flows and line.flows[0].can_post and line.under_way < self._most_under_way
        if able and not line.queued:
            line.queued = True
            self._turns.append(line)

    def _line_of(self, sending: _Sending) -> _Line:
        key = sending.flow if self._alone else self._graph.destination[sending.flow]
        return self._lines.setdefault(key, _Line(deque()))

    def _post(self, line: _Line) -> None:
        """Post the next block of a line's first flow."""
        sending = line.flows[0]
        peer = self._graph.destination[sending.flow]
        address, rkey = self._ready[peer]
        number = sending.posted_bytes // self._block_bytes
        if sending.come is not None:
            number = sending.come.popleft()
        done = number * self._block_bytes
        length = min(self._block_bytes, sending.size_bytes - done)
        block = sending.block + number
        sending.posted_bytes += length
        sending.under_way += 1
        line.under_way += 1
        if sending.posted_bytes == sending.size_bytes:
            line.flows.popleft()
        self._posts.write(
            peer, self._regions[sending.memory], sending.offset + done, length,
            address + sending.target + done, rkey, (self._number & 0xFF) << 24 | block,
            flow=sending.flow,
        )  # fmt: skip


def _outgoing(graph: FlowGraph, rank: int, block_size: int) -> dict[int, _Sending]:
    """Return a rank's flows: where their bytes are, and where they go."""
    flows = graph.sent_by(rank)
    sizes = graph.table.size_bytes[flows]
    memory = np.zeros(len(graph.source), np.int64)
    if graph.places is not None:
        memory[:] = graph.places.memory
    columns = (
        flows, memory[flows], graph.offset_bytes[flows], graph.target_bytes[flows],
        graph.first_blocks(block_size)[flows], sizes,
    )  # fmt: skip
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return {row[0]: _Sending(*row) for row in rows}
