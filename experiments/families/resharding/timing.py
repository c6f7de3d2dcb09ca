"""A model of how long flows that wait for each other take, message by message.

A message takes its source's link and then its destination's, one after the other in the order in
which they begin. A link carries each packet with its headers, a switch sends a packet on once it
has it whole, and what happens at one host is known at another when a message has told it. Links
between switches are never full, nothing is lost, and no window is too small.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import DONE, RECEIVED, FlowGraph
from weft.agents.collectives.overheads import RC_OVERHEAD_BYTES

ENDS_BYTES = 20
"""What the first and the last packet of an RDMA WRITE WITH IMMEDIATE have in headers more than
others."""
TOLD_BYTES = 90
"""A frame that tells another host of an event, or an acknowledgement, roughly."""

Places = Sequence[tuple[int, str]]
"""By host, the pod and the switch where it is."""


@dataclass(frozen=True)
class Links:
    """What it takes to bring messages from one host to another.

    Args:
        rate_bps: the rate of all links.
        mtu: the most payload of a packet, in bytes.
        block_bytes: what a flow passes on at a time, and the largest message.
        delay_ns: the propagation delay of each link.
        places: where hosts are; empty: all at one switch.
        headers: whether packets have any.
    """

    rate_bps: int
    mtu: int
    block_bytes: int
    delay_ns: int = 0
    places: Places = ()
    headers: bool = True

    def carried_ns(self, size_bytes: int) -> float:
        """Return how long a link carries a flow of so many bytes."""
        if self.headers:
            packets, blocks = -(-size_bytes // self.mtu), -(-size_bytes // self.block_bytes)
            size_bytes += packets * RC_OVERHEAD_BYTES + blocks * ENDS_BYTES
        return size_bytes * 8e9 / self.rate_bps

    def behind_ns(self, source: int, destination: int, size_bytes: int) -> float:
        """Return how much later the end of a flow comes than it leaves, with all links idle."""
        hops = self._switches(source, destination)
        return hops * self.carried_ns(min(size_bytes, self.mtu)) + (hops + 1) * self.delay_ns

    def told_ns(self, source: int, destination: int) -> float:
        """Return how long it takes to tell another host of an event."""
        if source == destination:
            return 0.0
        links = self._switches(source, destination) + 1
        told_bytes = TOLD_BYTES if self.headers else 0
        return links * (told_bytes * 8e9 / self.rate_bps + self.delay_ns)

    def _switches(self, source: int, destination: int) -> int:
        """Return how many switches are on the way between two hosts of a Clos."""
        if not self.places or self.places[source] == self.places[destination]:
            return 1
        return 3 if self.places[source][0] == self.places[destination][0] else 5


def span_ns(graph: FlowGraph, links: Links) -> float:
    """Return how long the flows of a graph take by the model."""
    return _Model(graph, links).span_ns()


class _Model:
    """A graph that is carried out in the time of the model."""

    def __init__(self, graph: FlowGraph, links: Links) -> None:
        self._graph, self._links = graph, links
        self._left = list(graph.needed)
        self._known = [0.0] * len(graph.source)
        """When a task's source knows of all events so far that it waits for."""
        self._after: dict[tuple[int, int], list[int]] = {}
        for cause, event, waiting in zip(graph.cause, graph.event, graph.waiting, strict=True):
            self._after.setdefault((cause, event), []).append(waiting)
        self._followers: dict[int, list[int]] = {}
        for task, followed in enumerate(graph.follows):
            if followed != NONE:
                self._followers.setdefault(followed, []).append(task)
        self._sent: dict[int, float] = {}
        """By multicast, when all of it has left its source."""
        self._come: dict[int, float] = {}
        self._out = [0.0] * graph.ranks
        self._in = [0.0] * graph.ranks
        self._due: list[tuple[float, int]] = []
        self._over = 0.0

    def span_ns(self) -> float:
        """Return when all is over."""
        for task, needed in enumerate(self._left):
            if not needed and not self._waits_for_blocks(task):
                heapq.heappush(self._due, (0.0, task))
        while self._due:
            now_ns, task = heapq.heappop(self._due)
            self._begin(task, now_ns)
        return self._over

    def _waits_for_blocks(self, task: int) -> bool:
        followed = self._graph.follows[task] if self._graph.follows else NONE
        return followed != NONE and followed not in self._come

    def _begin(self, task: int, now_ns: float) -> None:
        graph, links = self._graph, self._links
        source, destination = graph.source[task], graph.destination[task]
        now_ns += graph.delay_ns[task]
        if source == destination:
            self._happened(task, DONE, source, now_ns)
            return
        size_bytes = graph.size_bytes[task]
        carried_ns = links.carried_ns(size_bytes)
        behind_ns = links.behind_ns(source, destination, size_bytes)
        number = graph.multicast[task] if graph.multicast else NONE
        if number != NONE and number in self._sent:
            left_ns = self._sent[number]
        else:
            left_ns = max(now_ns, self._out[source]) + carried_ns
            followed = graph.follows[task] if graph.follows else NONE
            if followed != NONE:  # its last block leaves once it is there
                last_ns = links.carried_ns(min(size_bytes, links.block_bytes))
                left_ns = max(left_ns, self._come[followed] + last_ns)
            self._out[source] = left_ns
            if number != NONE:
                self._sent[number] = left_ns
        come_ns = max(left_ns + behind_ns, self._in[destination] + carried_ns)
        self._in[destination] = self._come[task] = come_ns
        if number != NONE:  # the source says that all has been sent
            told_ns = links.told_ns(source, destination)
            self._out[source] += TOLD_BYTES * links.headers * 8e9 / links.rate_bps
            come_ns = max(come_ns, self._out[source] + told_ns)
        self._happened(task, RECEIVED, destination, come_ns)
        self._happened(task, DONE, source, come_ns + links.told_ns(destination, source))
        first = min(size_bytes, links.block_bytes)
        first_ns = left_ns - carried_ns + links.carried_ns(first) + behind_ns
        for follower in self._followers.get(task, ()):
            self._known[follower] = max(self._known[follower], first_ns)
            if not self._left[follower]:
                heapq.heappush(self._due, (self._known[follower], follower))

    def _happened(self, task: int, event: int, rank: int, now_ns: float) -> None:
        self._over = max(self._over, now_ns)
        for waiting in self._after.get((task, event), ()):
            known_ns = now_ns + self._links.told_ns(rank, self._graph.source[waiting])
            self._known[waiting] = max(self._known[waiting], known_ns)
            self._left[waiting] -= 1
            if not self._left[waiting] and not self._waits_for_blocks(waiting):
                heapq.heappush(self._due, (self._known[waiting], waiting))
