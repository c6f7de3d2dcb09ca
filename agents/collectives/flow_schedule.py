"""When flows, waits and sums of a graph may begin on one rank, and what its sums have posted."""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.fixed_point import FixedPoint
from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import DONE, FlowGraph
from weft.agents.collectives.operation import Ticket
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Bytes
from weft.agents.collectives.workgroups import Workgroups
from weft.agents.transport.aggregation import DataKind, Reduction
from weft.base.errors import InputError, ProtocolError, refuse


@dataclass(frozen=True)
class SumPosted:
    """The detail of a reduction's ticket says which sum of the graph it is."""

    number: int


class RankSums:
    """What a rank contributes to sums, posted in order."""

    def __init__(
        self, communicator: Communicator, request: Request, buffer: Bytes, output: Bytes
    ) -> None:
        assert request.flows is not None
        if communicator.aggregation is None:
            raise InputError(
                "flows: switches are to add, and the communicator has no aggregation job; make it "
                "with one"
            )
        self._pair = communicator.aggregation
        self._graph, self._rank, self._size = request.flows, communicator.rank, communicator.size
        self._number = request.number
        self._values, self._results = buffer.view(np.float32), output.view(np.float32)
        self._next = 0
        self.left = len(self._graph.sums)
        """Sums that have not come."""
        self._posted: list[Reduction] = []

    def post(self, held: set[int]) -> None:
        """Post the sums whose turn has come, of those that can be contributed to."""
        while self._next in held:
            held.remove(self._next)
            each, rank = self._graph.sums[self._next], self._rank
            count = each.size_bytes // 4
            values = self._values[each.offset[rank] // 4 :][:count]
            target = self._results[each.target[rank] // 4 :][: count * each.gets(rank)]
            shards = None
            if each.owner != NONE:
                shards = [count * each.gets(other) for other in range(self._size)]
            ticket = Ticket(self._number, "switches to add", SumPosted(self._next))
            posted = self._pair.post_reduction(
                values, target, DataKind.FLOAT32, self._number, shards=shards,
                contributors=each.contributors or None, context=ticket,
            )  # fmt: skip
            self._posted.append(posted)
            self._next += 1

    def lost(self) -> FixedPoint:
        """Return what sums have lost to fixed point so far."""
        return sum(map(FixedPoint.of_reduction, self._posted), FixedPoint())

    def close(self) -> None:
        """Take part no more if not all sums have come."""
        if self.left:
            self._pair.stop("an operation was given up")


class Schedule:
    """A schedule knows which of one rank's tasks can begin. It sends nothing itself.

    Args:
        over: is called with each wait that is over, before anything else begins by that.
        computes_elsewhere: whether that is done elsewhere for waits that have a workgroup.
    """

    def __init__(
        self, graph: FlowGraph, rank: int, over: Callable[[int], None] = lambda wait: None,
        *, computes_elsewhere: bool = False,
    ) -> None:  # fmt: skip
        self._graph = graph
        self.compute = over
        self._elsewhere = computes_elsewhere
        self.computing: list[int] = []
        """Waits that have got a workgroup and that nobody has looked at, if they are computed
        elsewhere."""
        self._rank = rank
        self._own: set[int] = set((graph.table.source == rank).nonzero()[0].tolist())
        self._left = {task: graph.needed[task] for task in self._own}
        self._after: dict[tuple[int, int], list[int]] = {}
        """Dependencies by the event on this rank."""
        for edge in (graph.at_rank == rank).nonzero()[0].tolist():
            self._after.setdefault((graph.cause[edge], graph.event[edge]), []).append(edge)
        self._told: set[int] = set()
        """Dependencies of which others have said that the event has happened."""
        self._due: list[tuple[int, int]] = []
        """(time, task), a heap."""
        self._workgroups = Workgroups(graph.source, graph.pool, graph.pools)
        self.notices: deque[tuple[int, int]] = deque()
        """(rank, dependency) that this rank has to tell."""
        self.over: list[tuple[int, int]] = []
        """(wait, when it was over) of waits that took time, which nobody has looked at yet."""
        self.unfinished = len(self._own)
        """Tasks of this rank that are not done."""
        self.held: set[int] = set()
        """Sums to which this rank can contribute, by number; `end` ends their waits."""

    def start(self, now_ns: int) -> None:
        """Start the operation, and with it the tasks that wait for nothing."""
        for task in sorted(task for task in self._own if not self._graph.needed[task]):
            self._begin(task, now_ns)
        self._take_workgroups(now_ns)

    def happened(self, task: int, event: int, now_ns: int) -> None:
        """Take note that an event has happened on this rank, once for each event."""
        self.unfinished -= event == DONE
        for edge in self._after.get((task, event), ()):
            waiting = self._graph.waiting[edge]
            if waiting in self._own:
                self._release(waiting, now_ns)
            else:
                self.notices.append((self._graph.source[waiting], edge))
        self._take_workgroups(now_ns)

    def hear(self, rank: int, edge: int, now_ns: int) -> None:
        """Hear from another rank that the event of a dependency has happened there.

        Raises:
            ProtocolError: that is not for this rank to hear from it, or not again.
        """
        graph = self._graph
        known = edge < len(graph.cause) and graph.waiting[edge] in self._own
        refuse(
            not known or int(graph.at_rank[edge]) != rank or rank == self._rank,
            f"word of dependency {edge}, which is not between these ranks",
            ProtocolError,
        )
        refuse(edge in self._told, f"word of dependency {edge} a second time", ProtocolError)
        self._told.add(edge)
        self._release(graph.waiting[edge], now_ns)
        self._take_workgroups(now_ns)

    def due(self, now_ns: int) -> list[int]:
        """Return the flows that begin now, in order; waits that are over have happened."""
        flows = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, task = heapq.heappop(self._due)
            if self._graph.destination[task] == self._rank:
                if self._graph.delay_ns[task]:
                    self.over.append((task, due_ns))
                if self._workgroups.needs(task):
                    self._workgroups.leave(task)
                if task in self._graph.sum_of:
                    self.held.add(self._graph.sum_of[task])
                    continue
                self.compute(task)
                self.happened(task, DONE, due_ns)
            else:
                flows.append(task)
        return flows

    def end(self, wait: int, now_ns: int) -> None:
        """End a wait that does not end by time."""
        self.compute(wait)
        self.happened(wait, DONE, now_ns)

    def end_computing(self, wait: int, now_ns: int) -> None:
        """End a wait whose work was done elsewhere."""
        self._workgroups.leave(wait)
        self.happened(wait, DONE, now_ns)

    def deadline(self) -> int | None:
        """Return when `due` has something next, if nothing happens."""
        return self._due[0][0] if self._due else None

    def waiting_for(self) -> str:
        """Return what keeps a task of this rank from beginning, or empty."""
        waiting = (task for task in sorted(self._own) if self._left[task] > 0)
        return next(
            (f"{self._left[each]} events before flow {each} can begin" for each in waiting), ""
        )

    def _take_workgroups(self, now_ns: int) -> None:
        for task in self._workgroups.taken():
            if self._elsewhere:
                self.computing.append(task)
                continue
            heapq.heappush(self._due, (now_ns + self._graph.delay_ns[task], task))

    def _release(self, task: int, now_ns: int) -> None:
        self._left[task] -= 1
        if not self._left[task]:
            self._begin(task, now_ns)

    def _begin(self, task: int, now_ns: int) -> None:
        if self._workgroups.needs(task):
            self._workgroups.ready(task)
            return
        heapq.heappush(self._due, (now_ns + self._graph.delay_ns[task], task))
