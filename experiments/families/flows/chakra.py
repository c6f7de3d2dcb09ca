"""MLCommons Chakra's execution traces (``.et``), one file a rank: ``NAME.0.et``, ``NAME.1.et`` ...

A rank's nodes become the following. Computation is a wait. ``COMM_SEND`` is a flow to the rank
whose ``COMM_RECV`` has the same source, destination and tag. ``COMM_COLL`` is a part of a
collective of all ranks that have one of its process group (``pg_name``), done by the flows of an
algorithm; a rank's nth part in its file belongs to the nth of the others. Sizes are as ASTRA-sim
takes them: for an Allgather, what each rank has; for the others, the whole; 0 bytes count as 1. A
node begins when all that it depends on is done: a wait is over, a collective's part here is done. A
``COMM_SEND`` is done as soon as it has begun, since then the NIC has it, and a ``COMM_RECV`` when
its message has come. Nodes about memory take no time.

Tools that make traces leave out nodes that others have control dependencies on, such as the parents
of an operator that was not traced. So a control dependency on a node that is not there counts
nothing, and a note says so; without the node that a data dependency names there is no trace.
"""

import contextlib
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from weft.agents.collectives.flow_graph import DONE, MAX_TASKS, RECEIVED, FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import InputError, refuse
from weft.base.files import read_bounded, told_as_input
from weft.experiments.families.flows.chakra_schema import (
    COLLECTIVE,
    COLLECTIVES,
    COMP,
    RECV,
    SEND,
    read_nodes,
)
from weft.experiments.families.flows.collectives import Events, add_collective, algorithm_for

MAX_MICROS = 1 << 40
MAX_BYTES = 1 << 40

MOST_BYTES = 256 << 20
"""The largest trace of a rank that is read."""


class TraceFlows(NamedTuple):
    """The flows of traces, and what somebody who runs them should know of the files."""

    graph: FlowGraph
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Node:
    """A node of one rank's trace."""

    rank: int
    number: int
    """The node's id."""
    name: str
    kind: int
    before: tuple[int, ...]
    """The nodes that it depends on."""
    lost: tuple[int, ...]
    """The nodes that are not there, of those that it has control dependencies on."""
    duration_ns: int
    attributes: dict[str, int | str]
    where: str

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: node {self.number} {self.name[:60]!r}: {what}")

    def whole(self, name: str, most: int, default: int | None = None) -> int:
        """Return an attribute that must be a whole number from 0 to ``most``. Raises InputError."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int) or not 0 <= value <= most:
            raise self.error(f"{name} is {value!r}: a number from 0 to {most} is needed")
        return value


def trace_files(path: Path) -> list[Path]:
    """Return the files of all ranks, given that of rank 0.

    Raises:
        InputError: the file does not have the name of such a file.
    """
    stem, dot, rank = path.name.removesuffix(".et").rpartition(".")
    if not dot or rank != "0":
        raise InputError(
            f"workload {str(path)!r}: name the trace of rank 0, like trace.0.et; those of the "
            "other ranks are beside it"
        )
    named = (path.with_name(f"{stem}.{number}.et") for number in count())
    return list(takewhile(Path.exists, named))


def read_traces(path: Path, algorithm: str) -> TraceFlows:
    """Return the flows of the traces beside that of rank 0.

    Args:
        algorithm: the algorithm of Allreduces; other collectives take one like it.

    Raises:
        InputError: a file cannot be read or makes no sense; the message names it and the node.
    """
    traces = []
    for file in trace_files(path):
        with told_as_input(f"workload {str(file)!r} cannot be read"):
            traces.append((str(file), read_bounded(file, MOST_BYTES, endings=(".et",))))
    return parse_traces(traces, algorithm)


def parse_traces(traces: Sequence[tuple[str, bytes]], algorithm: str) -> TraceFlows:
    """Return the same as `read_traces`, given (name, bytes) of every rank's file."""
    ranks = [_nodes(rank, name, data) for rank, (name, data) in enumerate(traces)]
    builder = _Traces(ranks, algorithm).build()
    first = traces[0][0] if traces else "workload"
    if not builder.flows:
        raise InputError(f"{first}: the traces have no flows")
    try:
        return TraceFlows(builder.build(), _notes(ranks))
    except InputError as error:
        raise InputError(f"{first}, and those beside it: {error}") from None


def _notes(ranks: Sequence[Mapping[int, _Node]]) -> tuple[str, ...]:
    """Return a note on control dependencies on nodes that are not there, if there are any."""
    lost = [(node, number) for nodes in ranks for node in nodes.values() for number in node.lost]
    if not lost:
        return ()
    node, number = lost[0]
    more = f", as are {len(lost) - 1} more of these traces" if len(lost) > 1 else ""
    told = f"its control dependency on node {number}, which is not there, is left out{more}"
    return (str(node.error(told)),)


def has_collectives(path: Path) -> bool:
    """Return whether rank 0's trace has collectives. Raises InputError as `read_traces` does."""
    with told_as_input(f"workload {str(path)!r} cannot be read"):
        data = read_bounded(path, MOST_BYTES, endings=(".et",))
    return any(node.kind == COLLECTIVE for node in _nodes(0, str(path), data).values())


def _nodes(rank: int, name: str, data: bytes) -> dict[int, _Node]:
    messages = list(islice(read_nodes(data, name), MAX_TASKS + 1))
    there = {int(message.id) for message in messages}
    found: dict[int, _Node] = {}
    for message in messages:
        micros = int(message.duration_micros)
        control = dict.fromkeys(message.ctrl_deps)
        before = [number for number in control if number in there]
        node = _Node(
            rank, int(message.id), message.name, int(message.type),
            tuple(dict.fromkeys([*before, *message.data_deps])),
            tuple(number for number in control if number not in there),
            1000 * micros, {each.name: _value(each) for each in message.attr}, name,
        )  # fmt: skip
        refuse(micros > MAX_MICROS, f"it takes {micros} us: at most {MAX_MICROS}", node.error)
        refuse(node.number in found, "there are two of this id", node.error)
        found[node.number] = node
        refuse(len(found) > MAX_TASKS, f"a trace has at most {MAX_TASKS} nodes", node.error)
    for node in found.values():
        for number in node.before:
            refuse(
                number not in there,
                f"it has a data dependency on node {number}, which is not there",
                node.error,
            )
    return found


def _value(attribute: Any) -> int | str:
    kind = attribute.WhichOneof("value")
    return "" if kind is None else getattr(attribute, kind)


class _Traces:
    """What turns all ranks' nodes into tasks: each when all before it have become tasks, and a
    collective when all its ranks have come to it."""

    def __init__(self, ranks: Sequence[dict[int, _Node]], algorithm: str) -> None:
        self._ranks = ranks
        self._algorithm = algorithm
        self._builder = GraphBuilder()
        self._ended: dict[tuple[int, int], Events] = {}
        """The events which say that a node is done, by rank and node."""
        self._order: TopologicalSorter[tuple[int, int]] = TopologicalSorter()
        """Says, by rank and node, which nodes may be taken because all that they depend on has
        become tasks."""
        self._flows: dict[tuple[int, int, int], tuple[deque[tuple[_Node, int]], deque[_Node]]] = {}
        """Sends, each with its flow, and receives that have not met, by source, destination and
        tag."""
        self._collectives: dict[tuple[str, int], list[_Node]] = {}
        """The parts of each collective, in order of ranks, by process group and place in the
        file."""
        self._place: dict[tuple[int, int], tuple[str, int]] = {}
        """The process group and the place in the file of every node that is such a part."""
        self._missing: dict[tuple[str, int], int] = {}
        """How many ranks have not yet come to a collective."""

    def build(self) -> GraphBuilder:
        every = [node for nodes in self._ranks for node in nodes.values()]
        for node in every:  # before what they depend on, so that they are taken in this order
            self._order.add((node.rank, node.number))
        for node in every:
            self._order.add((node.rank, node.number), *((node.rank, n) for n in node.before))
        self._match_collectives()
        with contextlib.suppress(CycleError):  # its nodes never begin, and are told of below
            self._order.prepare()
        while able := self._order.get_ready():
            for rank, number in able:
                self._take(self._ranks[rank][number])
        self._check_all_ended(every)
        return self._builder

    def _check_all_ended(self, every: Sequence[_Node]) -> None:
        for (source, destination, tag), (sent, receiving) in self._flows.items():
            words = f"from rank {source} to rank {destination} with tag {tag} that ever begins"
            for node in receiving:
                raise node.error(f"it has no counterpart: there is no COMM_SEND {words}")
            for node, _ in sent:
                raise node.error(f"it has no counterpart: there is no COMM_RECV {words}")
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
            for node in (each for each in nodes.values() if each.kind == COLLECTIVE):
                group = str(node.attributes.get("pg_name", ""))
                place = group, counts[group]
                counts[group] += 1
                self._place[node.rank, node.number] = place
                self._collectives.setdefault(place, []).append(node)
            members.update(counts.keys())
        for place, parts in self._collectives.items():
            refuse(
                len(parts) != members[place[0]],
                f"{len(parts)} of {members[place[0]]} ranks have collective number {place[1]} "
                f"of process group {place[0]!r}",
                parts[0].error,
            )
            self._missing[place] = len(parts)

    def _take(self, node: _Node) -> None:
        """Take a node of which all that it depends on has become tasks."""
        if node.kind == COLLECTIVE:
            place = self._place[node.rank, node.number]
            self._missing[place] -= 1
            if not self._missing[place]:
                self._collective(self._collectives[place])
        elif node.kind in (SEND, RECV):
            self._message(node)
        else:
            waits = node.kind == COMP and node.duration_ns
            before = self._before(node)
            if waits or len(before) > 1:
                delay_ns = node.duration_ns if waits else 0
                before = ((self._builder.wait(node.rank, delay_ns, before), DONE),)
            self._end(node, before)

    def _message(self, node: _Node) -> None:
        sends = node.kind == SEND
        last = len(self._ranks) - 1
        source = node.whole("comm_src", last, node.rank if sends else None)
        destination = node.whole("comm_dst", last, None if sends else node.rank)
        refuse(
            source == destination or node.rank != (source if sends else destination),
            f"rank {node.rank} has a message from {source} to {destination}",
            node.error,
        )
        key = source, destination, node.whole("comm_tag", 1 << 32, 0)
        sent, receiving = self._flows.setdefault(key, (deque(), deque()))
        if sends:
            size_bytes = max(1, node.whole("comm_size", MAX_BYTES))
            before = self._before(node)
            sent.append((node, self._builder.flow(source, destination, size_bytes, before)))
            self._end(node, before)
        else:
            receiving.append(node)
        if sent and receiving:
            (_, flow), receiver = sent.popleft(), receiving.popleft()
            come = (*self._before(receiver), (flow, RECEIVED))
            self._end(receiver, ((self._builder.wait(destination, after=come), DONE),))

    def _collective(self, nodes: Sequence[_Node]) -> None:
        """Make the tasks of a collective to which all its ranks have come."""
        first = nodes[0]
        kinds = {node.whole("comm_type", 1 << 32) for node in nodes}
        kind = first.whole("comm_type", 1 << 32)
        known = ", ".join(f"{number} ({name})" for number, name in COLLECTIVES.items())
        if kinds != {kind} or kind not in COLLECTIVES:
            raise first.error(f"its comm_type is {sorted(kinds)} on all ranks: one of {known}")
        size_bytes = max(1, first.whole("comm_size", MAX_BYTES, 0))
        for node in nodes:
            refuse(
                max(1, node.whole("comm_size", MAX_BYTES, 0)) != size_bytes,
                f"its comm_size is not {size_bytes}, as rank {first.rank} has it",
                node.error,
            )
        after = {node.rank: self._before(node) for node in nodes}
        name = COLLECTIVES[kind]
        if name == "barrier":
            name, size_bytes = "allreduce", len(nodes)
        if name == "reduce-scatter":
            size_bytes = max(1, size_bytes // len(nodes))  # what each rank ends with
        done = add_collective(
            self._builder, name, algorithm_for(name, self._algorithm),
            [node.rank for node in nodes], size_bytes, after,
            root=first.whole("root_rank", len(nodes) - 1, 0),
        )  # fmt: skip
        for node in nodes:
            self._end(node, done[node.rank])

    def _before(self, node: _Node) -> Events:
        """Return the events which say that all that a node depends on is done."""
        events = (self._ended[node.rank, number] for number in node.before)
        return tuple(dict.fromkeys(event for each in events for event in each))

    def _end(self, node: _Node, events: Events) -> None:
        self._ended[node.rank, node.number] = events
        self._order.done((node.rank, node.number))
