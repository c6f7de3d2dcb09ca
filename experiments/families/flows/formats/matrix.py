"""htsim's connection matrices (``.cm``, ``.tm``): flows with start times, and triggers that start
others.

A line is a header (``Nodes``, ``Connections``, ``Triggers``, each with a number), a connection
``SRC->DST id ID start PS size BYTES``, with ``trigger ID`` in place of the start for a flow that a
trigger starts, and ``send_done_trigger ID`` or ``recv_done_trigger ID`` for the trigger that its
end at the source or at the destination fires; or a trigger ``trigger id ID oneshot``,
``multishot`` or ``barrier count N``. ``#`` begins a comment. Start times are in picoseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weft.agents.collectives.flow_graph import DONE, MAX_TASKS, RECEIVED, FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading

HEADERS = ("Nodes", "Connections", "Triggers", "Failures")
NUMBERS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger", "prio")
"""The keys of a connection that have a number each. ``prio`` changes nothing here."""
KINDS = ("oneshot", "multishot", "barrier")
"""The kinds of triggers. A flow is sent once, so that a multishot does what a oneshot does."""
MAX_NUMBER = 1 << 60


@dataclass(frozen=True)
class _Line:
    """A line of the file, for messages."""

    where: str
    text: str

    def error(self, what: str) -> InputError:
        return InputError(f"{self.where}: {shown(self.text)}: {what}")


@dataclass(frozen=True)
class _Connection:
    line: _Line
    source: int
    destination: int
    numbers: dict[str, float]


@dataclass
class _Trigger:
    line: _Line
    kind: str
    count: int
    fired_by: list[tuple[int, int]] = field(default_factory=list)
    """(connection, event) pairs that fire the trigger."""
    starts: list[int] = field(default_factory=list)
    """The connections that the trigger starts."""


class Matrix(FileFormat):
    """htsim's connection matrices, by one of their endings."""

    about = "a connection matrix"
    most_bytes = 64 << 20

    def __init__(self, name: str, position: int) -> None:
        self.name, self.position = name, position

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return FileFlows(parse_matrix(self.text(path), str(path)))


FORMAT = (Matrix(".cm", 0), Matrix(".tm", 2))


def parse_matrix(text: str, name: str) -> FlowGraph:
    """Return the flows of a file's text, in the order of its connections; node n is rank n.

    Raises:
        InputError: a line makes no sense; the message names the place and shows the text.
    """
    headers: dict[str, tuple[_Line, int]] = {}
    connections: list[_Connection] = []
    triggers: dict[int, _Trigger] = {}
    for line, words in _lines(text, name):
        if words[0] in HEADERS:
            refuse(
                words[0] in headers or len(words) != 2,
                f"{words[0]} is there once, with one number",
                line.error,
            )
            headers[words[0]] = line, int(_number(line, words[0], words[1]))
        elif "->" in words[0]:
            connections.append(_connection(line, words))
        elif words[0] == "trigger":
            number, trigger = _trigger(line, words[1:])
            refuse(number in triggers, f"trigger {number} is there already", line.error)
            triggers[number] = trigger
        elif words[0] == "failure":
            raise line.error("failures are no part of a workload here: use --fault")
        else:
            raise line.error(
                f"begin with {', '.join(HEADERS)}, trigger, a connection like 0->1, or #"
            )
    _check_headers(headers, connections, len(triggers), name)
    return _graph(connections, triggers, name)


def _lines(text: str, name: str) -> Iterator[tuple[_Line, Sequence[str]]]:
    """Yield the lines that say something, with their words."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            yield _Line(f"{name}:{number}", line.strip()), words


def _number(line: _Line, name: str, word: str) -> float:
    try:
        value = float(word) if name == "start" else int(word)
    except ValueError:
        raise line.error(f"{name} {shown(word)} is no number") from None
    if not 0 <= value <= MAX_NUMBER:
        raise line.error(f"{name} {shown(word)} is out of range: 0 to {MAX_NUMBER}")
    return value


def _connection(line: _Line, words: Sequence[str]) -> _Connection:
    source, destination = (int(_number(line, "node", end)) for end in words[0].split("->", 1))
    refuse(source == destination, "a flow goes from one node to another", line.error)
    numbers: dict[str, float] = {}
    rest = iter(words[1:])
    for key in rest:
        if key not in NUMBERS or key in numbers:
            why = "is there twice" if key in numbers else f"is none of {', '.join(NUMBERS)}"
            raise line.error(f"{shown(key)} {why}")
        numbers[key] = _number(line, key, next(rest, ""))
    refuse(
        ("start" in numbers) == ("trigger" in numbers),
        "a flow begins at a start or by a trigger: say one of them",
        line.error,
    )
    if not numbers.get("size"):
        raise line.error("a flow needs a size of 1 byte or more")
    return _Connection(line, source, destination, numbers)


def _trigger(line: _Line, words: Sequence[str]) -> tuple[int, _Trigger]:
    kinds = [word for word in words if word in KINDS]
    numbers: dict[str, int] = {}
    rest = iter(word for word in words if word not in KINDS)
    for key in rest:
        if key not in ("id", "count") or key in numbers:
            raise line.error(f"{shown(key)}: a trigger has id, count once, and its kind")
        numbers[key] = int(_number(line, key, next(rest, "")))
    if len(kinds) != 1 or not numbers.get("id"):
        raise line.error(f"a trigger has an id above 0 and is one of {', '.join(KINDS)}")
    barrier = kinds[0] == "barrier"
    refuse(
        barrier != ("count" in numbers) or not numbers.get("count", 1),
        "a barrier has a count above 0, and nothing else has one",
        line.error,
    )
    return numbers["id"], _Trigger(line, kinds[0], numbers.get("count", 1))


def _check_headers(
    headers: dict[str, tuple[_Line, int]],
    connections: Sequence[_Connection],
    triggers: int,
    name: str,
) -> None:
    if not 0 < len(connections) <= MAX_TASKS // 2:
        raise InputError(f"{name} has {len(connections)} connections: 1 to {MAX_TASKS // 2}")
    for key, found in (("Connections", len(connections)), ("Triggers", triggers)):
        if key in headers and headers[key][1] != found:
            raise headers[key][0].error(f"the file has {found}")
    if "Nodes" in headers:
        nodes = headers["Nodes"][1]
        for each in connections:
            outside = max(each.source, each.destination) >= nodes
            refuse(outside, f"nodes are 0 to {nodes - 1}", each.line.error)
    if headers.get("Failures", (None, 0))[1]:
        raise headers["Failures"][0].error("failures are no part of a workload here: use --fault")


def _graph(
    connections: Sequence[_Connection], triggers: dict[int, _Trigger], name: str
) -> FlowGraph:
    """Return the graph: flows are tasks in the order of the file, then there is a wait for each
    trigger."""

    def trigger_of(place: int, key: str) -> _Trigger | None:
        each = connections[place]
        number = int(each.numbers.get(key, 0))
        missing = key in each.numbers and number not in triggers
        refuse(missing, f"trigger {number} is not in the file", each.line.error)
        return triggers.get(number)

    for place in range(len(connections)):
        for key, event in (("send_done_trigger", DONE), ("recv_done_trigger", RECEIVED)):
            fired = trigger_of(place, key)
            if fired is not None:
                fired.fired_by.append((place, event))
        starting = trigger_of(place, "trigger")
        if starting is not None:
            starting.starts.append(place)
    used = [number for number, trigger in triggers.items() if trigger.starts]
    waits = {number: len(connections) + index for index, number in enumerate(used)}
    builder = GraphBuilder()
    for each in connections:
        number = int(each.numbers.get("trigger", 0))
        after = [(waits[number], DONE)] if number in waits else []
        delay_ns = round(each.numbers.get("start", 0) / 1000)
        size_bytes = int(each.numbers["size"])
        builder.flow(each.source, each.destination, size_bytes, after, delay_ns)
    for number in used:
        trigger = triggers[number]
        refuse(
            len(trigger.fired_by) < trigger.count,
            f"{len(trigger.fired_by)} flows fire it, and it waits for {trigger.count}",
            trigger.line.error,
        )
        # It is kept where the first flow that it starts is, which then needs no message.
        home = connections[trigger.starts[0]].source
        builder.wait(home, after=trigger.fired_by, needed=trigger.count)
    try:
        return builder.build()
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
