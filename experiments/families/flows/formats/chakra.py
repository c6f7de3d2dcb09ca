"""MLCommons Chakra's execution traces (``.et``), one file a rank: ``NAME.0.et``, ``NAME.1.et`` ...

A rank's nodes become those of `weft.experiments.families.flows.traces`. ``COMM_SEND`` is a flow to
the rank whose ``COMM_RECV`` has the same source, destination and tag; ``COMM_COLL`` is a part of a
collective of all ranks that have one of its process group (``pg_name``). Sizes are as ASTRA-sim
takes them: for an Allgather, what each rank has; for the others, the whole; 0 bytes count as 1.
Nodes about memory take no time.

Tools that make traces leave out nodes that others have control dependencies on, such as the parents
of an operator that was not traced. So a control dependency on a node that is not there counts
nothing, and a note says so; without the node that a data dependency names there is no trace.
"""

from collections.abc import Mapping, Sequence
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from weft.agents.collectives.flow_graph import MAX_TASKS
from weft.base.errors import InputError, refuse
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading
from weft.experiments.families.flows.formats.chakra_schema import (
    COLLECTIVE,
    COLLECTIVES,
    COMP,
    RECV,
    SEND,
    read_nodes,
)
from weft.experiments.families.flows.traces import (
    Computation,
    Node,
    Part,
    Receive,
    Send,
    Traces,
)

MAX_MICROS = 1 << 40
MAX_BYTES = 1 << 40


class _Lost(NamedTuple):
    """A control dependency on a node that is not there."""

    node: Node
    number: int


class _Attributes:
    """The attributes of a node in a file."""

    def __init__(self, message: Any, where: str) -> None:
        self._values = {each.name: _value(each) for each in message.attr}
        self._where = where

    def text(self, name: str) -> str:
        return str(self._values.get(name, ""))

    def whole(self, name: str, most: int, default: int | None = None) -> int:
        """Return an attribute that must be a whole number from 0 to ``most``. Raises InputError."""
        value = self._values.get(name, default)
        if not isinstance(value, int) or not 0 <= value <= most:
            raise InputError(
                f"{self._where}: {name} is {value!r}: a number from 0 to {most} is needed"
            )
        return value


class Chakra(FileFormat):
    """Chakra's execution traces, a file for each rank."""

    name = ".et"
    position = 1
    about = "Chakra's traces"

    def files(self, path: Path) -> list[Path]:
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

    def has_collectives(self, path: Path) -> bool:
        """Return whether rank 0's trace has collectives."""
        nodes = read_nodes(self.content(path), str(path))
        return any(int(message.type) == COLLECTIVE for message in nodes)

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return parse_traces(
            [(str(file), self.content(file)) for file in self.files(path)], reading.algorithm
        )


FORMAT = Chakra()


def parse_traces(traces: Sequence[tuple[str, bytes]], algorithm: str) -> FileFlows:
    """Return the flows of (name, bytes) of every rank's file.

    Args:
        algorithm: the algorithm of Allreduces; other collectives take one like it.

    Raises:
        InputError: a file makes no sense; the message names it and the node.
    """
    lost: list[_Lost] = []
    ranks = [_nodes(rank, len(traces), *file, lost) for rank, file in enumerate(traces)]
    builder = Traces(ranks, algorithm, send="COMM_SEND", receive="COMM_RECV").build()
    first = traces[0][0] if traces else "workload"
    if not builder.flows:
        raise InputError(f"{first}: the traces have no flows")
    try:
        return FileFlows(builder.build(), _notes(lost))
    except InputError as error:
        raise InputError(f"{first}, and those beside it: {error}") from None


def _notes(lost: Sequence[_Lost]) -> tuple[str, ...]:
    """Return a note on control dependencies on nodes that are not there, if there are any."""
    if not lost:
        return ()
    more = f", as are {len(lost) - 1} more of these traces" if len(lost) > 1 else ""
    told = f"its control dependency on node {lost[0].number}, which is not there, is left out{more}"
    return (str(lost[0].node.error(told)),)


def _nodes(rank: int, ranks: int, name: str, data: bytes, lost: list[_Lost]) -> Mapping[int, Node]:
    """Return the nodes of one rank's trace, and add what it lacks to ``lost``."""
    messages = list(islice(read_nodes(data, name), MAX_TASKS + 1))
    there = {int(message.id) for message in messages}
    found: dict[int, Node] = {}
    for message in messages:
        number = int(message.id)
        where = f"{name}: node {number} {message.name[:60]!r}"
        control = dict.fromkeys(message.ctrl_deps)
        before = [each for each in control if each in there]
        node = Node(
            rank, number, where, _work(rank, ranks, message, where),
            tuple(dict.fromkeys([*before, *message.data_deps])),
        )  # fmt: skip
        refuse(number in found, "there are two of this id", node.error)
        found[number] = node
        refuse(len(found) > MAX_TASKS, f"a trace has at most {MAX_TASKS} nodes", node.error)
        lost += [_Lost(node, each) for each in control if each not in there]
        for each in message.data_deps:
            refuse(
                each not in there,
                f"it has a data dependency on node {each}, which is not there",
                node.error,
            )
    return found


def _work(rank: int, ranks: int, message: Any, where: str) -> Computation | Send | Receive | Part:
    attributes = _Attributes(message, where)
    micros = int(message.duration_micros)
    if micros > MAX_MICROS:
        raise InputError(f"{where}: it takes {micros} us: at most {MAX_MICROS}")
    kind = int(message.type)
    if kind == COLLECTIVE:
        return _part(attributes, where)
    if kind not in (SEND, RECV):
        return Computation(1000 * micros if kind == COMP else 0)
    sends = kind == SEND
    source = attributes.whole("comm_src", ranks - 1, rank if sends else None)
    destination = attributes.whole("comm_dst", ranks - 1, None if sends else rank)
    if source == destination or rank != (source if sends else destination):
        raise InputError(f"{where}: rank {rank} has a message from {source} to {destination}")
    tag = attributes.whole("comm_tag", 1 << 32, 0)
    if sends:
        return Send(destination, max(1, attributes.whole("comm_size", MAX_BYTES)), tag)
    return Receive(source, tag)


def _part(attributes: _Attributes, where: str) -> Part:
    kind = attributes.whole("comm_type", 1 << 32)
    if kind not in COLLECTIVES:
        known = ", ".join(f"{number} ({name})" for number, name in COLLECTIVES.items())
        raise InputError(f"{where}: its comm_type is {kind}: one of {known}")
    return Part(
        attributes.text("pg_name"), COLLECTIVES[kind],
        max(1, attributes.whole("comm_size", MAX_BYTES, 0)),
        attributes.whole("root_rank", 1 << 32, 0),
    )  # fmt: skip


def _value(attribute: Any) -> int | str:
    kind = attribute.WhichOneof("value")
    return "" if kind is None else getattr(attribute, kind)
