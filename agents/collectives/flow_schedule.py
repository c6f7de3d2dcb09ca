"""When a rank's tasks of a `FlowGraph` begin: what has happened, what is due, whom to tell."""

from __future__ import annotations

import heapq
from collections import deque

from weft.agents.collectives.flow_graph import DONE, FlowGraph
from weft.base.errors import ProtocolError


class Schedule:
    """One rank's tasks. It sends nothing itself."""

    def __init__(self, graph: FlowGraph, rank: int) -> None:
        self._graph = graph
        self._rank = rank
        table = graph.table
        self._own: set[int] = set((table.source == rank).nonzero()[0].tolist())
        self._left = {task: graph.needed[task] for task in self._own}
        self._after: dict[tuple[int, int], list[int]] = {}
        """Dependencies by the event on this rank."""
        for edge in (graph.at_rank == rank).nonzero()[0].tolist():
            self._after.setdefault((graph.cause[edge], graph.event[edge]), []).append(edge)
        self._told: set[int] = set()
        """Dependencies of which others have said that the event has happened."""
        self._due: list[tuple[int, int]] = []
        """(time, task), a heap."""
        self.notices: deque[tuple[int, int]] = deque()
        """(rank, dependency) that this rank has to tell."""
        self.unfinished = len(self._own)
        """Tasks of this rank that are not done."""

    def start(self, now_ns: int) -> None:
        """The operation starts, and with it the tasks that wait for nothing."""
        for task in sorted(self._own):
            if not self._graph.needed[task]:
                self._begin(task, now_ns)

    def happened(self, task: int, event: int, now_ns: int) -> None:
        """An event has happened on this rank: once each."""
        self.unfinished -= event == DONE
        for edge in self._after.get((task, event), ()):
            waiting = self._graph.waiting[edge]
            if waiting in self._own:
                self._release(waiting, now_ns)
            else:
                self.notices.append((self._graph.source[waiting], edge))

    def hear(self, rank: int, edge: int, now_ns: int) -> None:
        """Another rank says that the event of a dependency has happened there.

        Raises:
            ProtocolError: that is not for this rank to hear from it, or not again.
        """
        graph = self._graph
        known = edge < len(graph.cause) and graph.waiting[edge] in self._own
        if not known or int(graph.at_rank[edge]) != rank or rank == self._rank:
            raise ProtocolError(f"word of dependency {edge}, which is not between these ranks")
        if edge in self._told:
            raise ProtocolError(f"word of dependency {edge} a second time")
        self._told.add(edge)
        self._release(graph.waiting[edge], now_ns)

    def due(self, now_ns: int) -> list[int]:
        """The flows that begin now, in order; waits that are over have happened."""
        flows = []
        while self._due and self._due[0][0] <= now_ns:
            due_ns, task = heapq.heappop(self._due)
            if self._graph.destination[task] == self._rank:
                self.happened(task, DONE, due_ns)
            else:
                flows.append(task)
        return flows

    def deadline(self) -> int | None:
        """When `due` has something next, if nothing happens."""
        return self._due[0][0] if self._due else None

    def waiting_for(self) -> str:
        """What keeps a task of this rank from beginning, or empty."""
        for task in sorted(self._own):
            if self._left[task] > 0:
                return f"{self._left[task]} events before flow {task} can begin"
        return ""

    def _release(self, task: int, now_ns: int) -> None:
        self._left[task] -= 1
        if not self._left[task]:
            self._begin(task, now_ns)

    def _begin(self, task: int, now_ns: int) -> None:
        heapq.heappush(self._due, (now_ns + self._graph.delay_ns[task], task))
