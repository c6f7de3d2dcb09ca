"""Traces of ranks: what each of them computes, sends and receives, and in which order; and the
flows that these become.

Computation is a wait. A send is a flow to the rank that has a receive with the same source and tag:
the first to be sent with the first to be received. A part of a collective is done by the flows of
an algorithm; a rank's nth part of a group in its trace belongs to the nth of the others. A node
begins when all that it depends on is done. A send is done as soon as it has begun, since then the
network card has it, unless it says otherwise; a receive when its message has come.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import InputError, refuse

if TYPE_CHECKING:
    from weft.experiments.families.flows.collectives import Events


@dataclass(frozen=True)
class Computation:
    """Work of a rank that no other hears of."""

    duration_ns: int = 0
    pool: int = NONE
    """Which of the rank's processors it needs to itself; `NONE`: it runs beside all else."""


@dataclass(frozen=True)
class Send:
    """A message to another rank."""

    destination: int
    size_bytes: int
    """At least 1."""
    tag: int
    acknowledged: bool = False
    """Whether it is done only when all of it is acknowledged."""


@dataclass(frozen=True)
class Receive:
    """A message from another rank."""

    source: int
    tag: int


@dataclass(frozen=True)
class Part:
    """A rank's part in a collective."""

    group: str
    collective: str
    """Of `weft.experiments.theory.flow_steps`."""
    size_bytes: int
    """Of an Allgather, what each rank has; of the others, the whole. At least 1."""
    root: int = 0
    """The root's place in the group."""


@dataclass(frozen=True)
class Node:
    """A node of one rank's trace."""

    rank: int
    number: int
    """Its own in the trace."""
    where: str
    """The place in its file, for messages."""
    work: Computation | Send | Receive | Part
    before: tuple[int, ...] = ()
    """The nodes that must be done before it begins."""
    begun: tuple[int, ...] = ()
    """The nodes that must have begun before it begins."""

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: {what}")


class Traces:
    """What turns all ranks' nodes into tasks: each when all before it have become tasks, and a
    collective when all its ranks have come to it.

    Args:
        ranks: the nodes of every rank, by number.
        algorithm: the algorithm of Allreduces; other collectives take one like it.
        send, receive: what the file calls them, for messages.
    """

    def __init__(
        self,
        ranks: Sequence[Mapping[int, Node]],
        algorithm: str,
        *,
        send: str = "send",
        receive: str = "recv",
    ) -> None:
        self._ranks = ranks
        self._algorithm = algorithm
        self._send, self._receive = send, receive
        self._builder = GraphBuilder()
        self._begun: dict[tuple[int, int], Events] = {}
        """The events which say that a node has begun, by rank and node."""
        self._ended: dict[tuple[int, int], Events] = {}
        """The events which say that a node is done, by rank and node."""
        self._left: Counter[tuple[int, int]] = Counter()
        """How many of the nodes that one waits for have not become tasks, by rank and node."""
        self._able: deque[Node] = deque()
        """The nodes that may be taken because all that they depend on has become tasks."""
        self._waiting: dict[tuple[int, int, bool], list[Node]] = {}
        """Those that wait until another, by rank and node, is done, or has begun."""
        self._flows: dict[tuple[int, int, int], tuple[deque[tuple[Node, int]], deque[Node]]] = {}
        """Sends, each with its flow, and receives that have not met, by source, destination and
        tag."""
        self._parts: dict[tuple[str, int], list[Node]] = {}
        """The parts of each collective, in order of ranks, by group and place in the trace."""
        self._place: dict[tuple[int, int], tuple[str, int]] = {}
        """The group and the place in the trace of every node that is such a part."""
        self._missing: dict[tuple[str, int], int] = {}
        """How many ranks have not yet come to a collective."""

    def build(self, pools: int = 0) -> GraphBuilder:
        """Return the tasks of all nodes.

        Args:
            pools: how many processors of its own each rank has.

        Raises:
            InputError: nodes wait for each other, or have no counterpart.
        """
        self._builder.pools = [1] * pools
        every = [node for nodes in self._ranks for node in nodes.values()]
        for node in every:
            for done, numbers in ((True, node.before), (False, node.begun)):
                for number in numbers:
                    self._waiting.setdefault((node.rank, number, done), []).append(node)
                    self._left[node.rank, node.number] += 1
        self._match_collectives()
        self._able.extend(node for node in every if not self._left[node.rank, node.number])
        while self._able:
            self._take(self._able.popleft())
        self._check_all_ended(every)
        return self._builder

    def _check_all_ended(self, every: Sequence[Node]) -> None:
        for (source, destination, tag), (sent, receiving) in self._flows.items():
            words = f"from rank {source} to rank {destination} with tag {tag} that ever begins"
            for node in receiving:
                raise node.error(f"it has no counterpart: there is no {self._send} {words}")
            for node, _ in sent:
                raise node.error(f"it has no counterpart: there is no {self._receive} {words}")
        for node in every:
            refuse(
                (node.rank, node.number) not in self._ended,
                "it never begins: it depends on itself, or on a node that waits for it",
                node.error,
            )

    def _match_collectives(self) -> None:
        members: Counter[str] = Counter()
        for nodes in self._ranks:
            counts: Counter[str] = Counter()
            for node in nodes.values():
                if isinstance(node.work, Part):
                    place = node.work.group, counts[node.work.group]
                    counts[node.work.group] += 1
                    self._place[node.rank, node.number] = place
                    self._parts.setdefault(place, []).append(node)
            members.update(counts.keys())
        for place, parts in self._parts.items():
            refuse(
                len(parts) != members[place[0]],
                f"{len(parts)} of {members[place[0]]} ranks have collective number {place[1]} "
                f"of process group {place[0]!r}",
                parts[0].error,
            )
            self._missing[place] = len(parts)

    def _take(self, node: Node) -> None:
        """Take a node of which all that it depends on has become tasks."""
        before = self._events(node)
        self._begun[node.rank, node.number] = before
        self._release(node, done=False)
        match node.work:
            case Part():
                place = self._place[node.rank, node.number]
                self._missing[place] -= 1
                if not self._missing[place]:
                    self._collective(self._parts[place])
            case Computation(duration_ns, pool):
                if duration_ns or len(before) > 1:
                    pool = pool if duration_ns else NONE
                    task = self._builder.wait(node.rank, duration_ns, before, pool=pool)
                    before = ((task, DONE),)
                self._end(node, before)
            case Send() as send:
                key = node.rank, send.destination, send.tag
                task = self._builder.flow(node.rank, send.destination, send.size_bytes, before)
                self._flows.setdefault(key, (deque(), deque()))[0].append((node, task))
                self._end(node, ((task, DONE),) if send.acknowledged else before)
                self._meet(key)
            case Receive(source, tag):
                key = source, node.rank, tag
                self._flows.setdefault(key, (deque(), deque()))[1].append(node)
                self._meet(key)

    def _meet(self, key: tuple[int, int, int]) -> None:
        """Let the first send and the first receive with a source, destination and tag meet."""
        sent, receiving = self._flows[key]
        if sent and receiving:
            (_, flow), receiver = sent.popleft(), receiving.popleft()
            come = (*self._begun[receiver.rank, receiver.number], (flow, RECEIVED))
            self._end(receiver, ((self._builder.wait(receiver.rank, after=come), DONE),))

    def _collective(self, nodes: Sequence[Node]) -> None:
        """Make the tasks of a collective to which all its ranks have come."""
        # It knows scenarios, whose options list the forms of files, which know this module.
        from weft.experiments.families.flows.collectives import add_collective, algorithm_for

        parts = [node.work for node in nodes if isinstance(node.work, Part)]
        first = parts[0]
        for node, part in zip(nodes, parts, strict=True):
            if part != first:
                raise node.error(
                    f"it is {_shown(part)}, and {_shown(first)} on rank {nodes[0].rank}"
                )
        refuse(
            first.root >= len(nodes),
            f"its root is {first.root}, and its group has {len(nodes)} ranks, numbered from 0",
            nodes[0].error,
        )
        name, size_bytes = first.collective, first.size_bytes
        if name == "barrier":
            name, size_bytes = "allreduce", len(nodes)
        if name == "reduce-scatter":
            size_bytes = max(1, size_bytes // len(nodes))  # what each rank ends with
        if len(nodes) == 1:
            done = {nodes[0].rank: self._begun[nodes[0].rank, nodes[0].number]}
        else:
            done = add_collective(
                self._builder, name, algorithm_for(name, self._algorithm),
                [node.rank for node in nodes], size_bytes,
                {node.rank: self._begun[node.rank, node.number] for node in nodes},
                root=first.root,
            )  # fmt: skip
        for node in nodes:
            self._end(node, done[node.rank])

    def _events(self, node: Node) -> "Events":
        """Return the events which say that all that a node depends on is done, or has begun."""
        events = [
            *(self._ended[node.rank, number] for number in node.before),
            *(self._begun[node.rank, number] for number in node.begun),
        ]
        return tuple(dict.fromkeys(event for each in events for event in each))

    def _end(self, node: Node, events: "Events") -> None:
        self._ended[node.rank, node.number] = events
        self._release(node, done=True)

    def _release(self, node: Node, *, done: bool) -> None:
        """Let those begin that waited for a node alone."""
        for waiting in self._waiting.pop((node.rank, node.number, done), ()):
            self._left[waiting.rank, waiting.number] -= 1
            if not self._left[waiting.rank, waiting.number]:
                self._able.append(waiting)


def _shown(part: Part) -> str:
    root = f" from rank {part.root} of its group" if part.root else ""
    return f"{part.collective} of {part.size_bytes} bytes{root}"
