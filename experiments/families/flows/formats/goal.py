"""GOAL schedules as text (``.goal``), as LogGOPSim, ATLAHS and their generators write them.

``num_ranks N``, then for each rank ``rank R {``, a line for each operation, and ``}``::

    l1: calc 500 cpu 1
    l2: send 1000b to 3 tag 7 cpu 0 nic 0
    l3: recv 1000b from 3 tag 7
    l2 requires l1
    l3 irequires l2

``calc`` takes nanoseconds. ``requires`` waits until another operation is done, ``irequires`` until
it has begun. Comments are ``// ...`` and ``/* ... */``. What becomes of operations:
`operations`.

Source: Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language", ICPP 2009; the grammar of
LogGOPSim's txt2bin.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.families.flows.file_format import FileFlows, FileFormat, FileReading
from weft.experiments.families.flows.formats.operations import (
    Operation,
    Schedule,
    flows_of,
)

_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPERATION = re.compile(
    r"(?:(?P<label>[a-zA-Z]\w*)\s*:\s*)?(?:calc\s+(?P<calc>\d+)"
    r"|send\s+(?P<send>\d+)\s*b\s+to\s+(?P<to>\d+)"
    r"|recv\s+(?P<recv>\d+)\s*b\s+from\s+(?P<from>-1|\d+))(?P<rest>(?:\s+[a-z]+\s+-?\d+)*)",
    re.ASCII,
)
_REST = re.compile(r"([a-z]+)\s+(-?\d+)")
_DEPENDENCY = re.compile(r"([a-zA-Z]\w*)\s+(i?requires)\s+([a-zA-Z]\w*)", re.ASCII)
_RANKS = re.compile(r"num_ranks\s+(\d+)")
_RANK = re.compile(r"rank\s+(\d+)\s*\{")
_FORMS = (
    "write calc NS, send SIZEb to RANK, or recv SIZEb from RANK, with LABEL: before it and tag, "
    "cpu, nic behind it; or LABEL requires LABEL, LABEL irequires LABEL"
)
MAX_DIGITS = 18


class Goal(FileFormat):
    """GOAL schedules as text."""

    name = ".goal"
    position = 3
    about = "a GOAL schedule"

    def read(self, path: Path, reading: FileReading) -> FileFlows:
        return flows_of(parse(self.text(path), str(path)), str(path))


FORMAT = Goal()


def parse(text: str, name: str) -> Schedule:
    """Return the operations of a schedule.

    Raises:
        InputError: a line makes no sense; the message names it and shows the text.
    """
    schedule: Schedule = {}
    ranks = 0
    rank: _Rank | None = None
    for where, line in _lines(text, name):

        def error(what: str, where: str = where, line: str = line) -> InputError:
            return InputError(f"{where}: {shown(line)}: {what}")

        if rank is not None:
            if line == "}":
                schedule[rank.number] = rank.operations
                rank = None
            else:
                rank.add(line, where, error)
        elif match := _RANKS.fullmatch(line):
            refuse(ranks or schedule, "num_ranks is there once, before all ranks", error)
            ranks = _number(match[1], error)
        elif match := _RANK.fullmatch(line):
            if not ranks:
                raise error("num_ranks N comes before the first rank")
            number = _number(match[1], error)
            refuse(number >= ranks, f"ranks are 0 to {ranks - 1}", error)
            refuse(number in schedule, f"rank {number} is there already", error)
            rank = _Rank(number)
        else:
            raise error("write num_ranks N, or rank R { and its operations, or }")
    if rank is not None:
        raise InputError(f"{name}: rank {rank.number} has no }} at its end")
    if not ranks:
        raise InputError(f"{name}: a schedule begins with num_ranks N")
    return {number: schedule.get(number, []) for number in range(ranks)}


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """Yield the lines that say something, with their places; a brace ends a line."""
    without = _COMMENTS.sub(lambda found: "\n" * found[0].count("\n") or " ", text)
    for number, line in enumerate(without.split("\n"), 1):
        # `rank 0 { calc 5 }` may be one line.
        for part in re.sub(r"(\{)|(\})", r"\1\n\2\n", line).split("\n"):
            for each in part.split("\n"):
                if each.strip():
                    yield f"{name}:{number}", each.strip()


def _number(word: str, error: Callable[[str], InputError]) -> int:
    if len(word) > MAX_DIGITS:
        raise error(f"{shown(word)} is out of range")
    return int(word)


class _Rank:
    """The operations of one rank."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.operations: list[Operation] = []
        self._labels: dict[str, Operation] = {}

    def add(self, line: str, where: str, error: Callable[[str], InputError]) -> None:
        """Add a line: an operation, or what one waits for."""
        if match := _DEPENDENCY.fullmatch(line):
            for label in (match[1], match[3]):
                refuse(
                    label not in self._labels,
                    f"no operation of rank {self.number} above has the label {label}",
                    error,
                )
            one, other = self._labels[match[1]], self._labels[match[3]]
            (one.before if match[2] == "requires" else one.begun).append(other.number)
            return
        match = _OPERATION.fullmatch(line)
        if match is None:
            raise error(_FORMS)
        rest: dict[str, int] = {}
        for key, word in _REST.findall(match["rest"]):
            refuse(key in rest, f"{key} is there twice", error)
            if key not in (("cpu",) if match["calc"] else ("tag", "cpu", "nic")):
                raise error(f"{shown(key)} is none of what an operation has")
            rest[key] = _number(word, error)
            refuse(rest[key] < 0 and (key, word) != ("tag", "-1"), f"{key} {word} is none", error)
        operation = self._operation(match.groupdict(), rest, where, error)
        if label := match["label"]:
            refuse(label in self._labels, f"label {label} is there already", error)
            self._labels[label] = operation
        self.operations.append(operation)

    def _operation(
        self,
        words: dict[str, str | None],
        rest: dict[str, int],
        where: str,
        error: Callable[[str], InputError],
    ) -> Operation:
        kind = next(kind for kind in ("calc", "send", "recv") if words[kind] is not None)
        peer = words["to"] if kind == "send" else words["from"]
        return Operation(
            len(self.operations), where, kind, _number(words[kind] or "", error),
            _number(peer or "0", error), rest.get("tag", 0), rest.get("cpu", 0),
            rest.get("nic", 0),
        )  # fmt: skip
