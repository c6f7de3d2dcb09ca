"""What came of a test: what left against what was expected, and failures and warnings as text and
as JSON.

As p4c's runner has it: ports are looked at one by one; at each, frames are expected in the order of
the test, wherever in it the statements are; a frame may be longer than what is expected of it
unless that ends with ``$``; a port that no statement names is not looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from typing import Any

from weft.switch.stf.statements import Expect, SendPacket, TextPlace

BYTES_PER_ROW = 16
ROWS_AROUND = 1
"""How many rows of a frame are shown before and after the one that differs."""
MOST_PATH_LINES = 200
"""The most lines of a packet's path that a failure shows: of a longer one, the ends."""
MOST_ALIGNED = 1000
"""The most frames at a port that are aligned; of more, each is held against the expectation in the
same place."""


@dataclass(frozen=True)
class Difference:
    """A difference tells where a frame is not what was expected. Both are hex digits, with `*` for
    any digit."""

    digit: int
    expected: str
    got: str

    @property
    def byte_offset(self) -> int:
        """Return the first byte that differs, or that only one of the two has."""
        return self.digit // 2

    def rows(self) -> list[str]:
        """Return both, row by row, with a marker under the digits that differ."""
        width = 2 * BYTES_PER_ROW
        rows = []
        middle = self.digit // width
        last = (max(len(self.expected), len(self.got), 1) - 1) // width
        for row in range(max(0, middle - ROWS_AROUND), min(last, middle + ROWS_AROUND) + 1):
            wanted = self.expected[row * width : (row + 1) * width]
            found = self.got[row * width : (row + 1) * width]
            marks = "".join(
                " " if other and digit in ("*", other) else "^"
                for digit, other in zip_longest(wanted, found, fillvalue="")
            )
            rows += [
                f"  {row * BYTES_PER_ROW:04x}  expected  {_spaced(wanted)}".rstrip(),
                f"        got       {_spaced(found)}".rstrip(),
            ]
            if marks.strip():
                rows.append(f"                  {_spaced(marks)}".rstrip())
        if last > middle + ROWS_AROUND:
            rows.append("  ...")
        return rows


def _spaced(digits: str) -> str:
    return " ".join(digits[at : at + 2] for at in range(0, len(digits), 2))


def _shortened(path: list[str]) -> list[str]:
    """Return the lines of a path, or its ends if there are too many."""
    left_out = len(path) - MOST_PATH_LINES
    if left_out <= 0:
        return path
    half = MOST_PATH_LINES // 2
    return [*path[:half], f"... {left_out} more lines, which --trace shows ...", *path[-half:]]


@dataclass(frozen=True)
class StfFailure:
    """A failure is an expectation that does not hold. ``kind``: differs, missing, unexpected,
    counter, register, assertion, engine."""

    kind: str
    place: TextPlace
    message: str
    port: int | None = None
    difference: Difference | None = None
    frame: bytes | None = None
    path: str = ""

    def lines(self) -> list[str]:
        """Return the failure as lines of text."""
        lines = [f"{self.place.file}:{self.place.line}: {self.message}"]
        if self.place.source_line.strip():
            lines.append(f"{self.place.line:>6} | {self.place.source_line.strip()[:120]}")
        if self.difference is not None:
            lines += self.difference.rows()
        elif self.frame is not None:
            digits = self.frame.hex()
            lines += [
                f"  {at // 2:04x}  got       {_spaced(digits[at : at + 32])}"
                for at in range(0, min(len(digits), 128), 32)
            ]
            if len(digits) > 128:
                lines.append(f"  ...   {len(self.frame)} bytes")
        lines += [f"  {line}" for line in _shortened(self.path.splitlines())]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the failure in the form that JSON has; what is not known of it is left out."""
        found = self.difference
        frame = None if self.frame is None else self.frame.hex()
        document = {
            "kind": self.kind,
            "line": self.place.line,
            "message": self.message,
            "statement": self.place.source_line.strip(),
            "port": self.port,
            "byte_offset": found and found.byte_offset,
            "expected": found and found.expected,
            "got": found.got if found else frame,
            "path": self.path or None,
        }
        return {key: value for key, value in document.items() if value is not None}


@dataclass(frozen=True)
class PacketPath:
    """A path tells what a packet of the test went through, with all that was made of it, as
    text."""

    place: TextPlace
    text: str


@dataclass
class Report:
    """A report has the outcome of one test. ``notes`` have what it asked to read, ``paths`` those
    of its packets."""

    file: str
    packets: int = 0
    expectations: int = 0
    failures: list[StfFailure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    paths: list[PacketPath] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Return whether all expectations hold."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return the report in the form that JSON has."""
        document: dict[str, Any] = {
            "test": self.file,
            "passed": self.passed,
            "packets_sent": self.packets,
            "expectations": self.expectations,
            "failures": [failure.to_dict() for failure in self.failures],
            "warnings": self.warnings,
            "notes": self.notes,
        }
        if self.paths:
            document["paths"] = [{"line": one.place.line, "path": one.text} for one in self.paths]
        return document


@dataclass(frozen=True)
class Output:
    """An output is a frame that left, with the packet statement that it came of, and its path if
    that is known."""

    port: int
    frame: bytes
    cause: SendPacket
    path: str = ""


def difference(expect: Expect, frame: bytes) -> Difference | None:
    """Return where a frame is not as expected, or None."""
    if expect.digits is None:
        return None
    wanted, found = expect.digits.lower(), frame.hex()
    for at, digit in enumerate(wanted):
        if at >= len(found) or digit not in ("*", found[at]):
            return Difference(at, wanted, found)
    if expect.exact and len(found) > len(wanted):
        return Difference(len(wanted), wanted, found)
    return None


def compare_port(
    port: int, expected: Sequence[Expect], outputs: Sequence[Output]
) -> list[StfFailure]:
    """Return everything that is not as expected at a port."""
    failures = []
    for number, (expect, output) in enumerate(_pairs(expected, outputs), 1):
        if expect is None and output is not None:
            failures.append(
                StfFailure(
                    "unexpected",
                    output.cause.place,
                    f"an unexpected packet of {len(output.frame)} bytes left at port {port}",
                    port,
                    frame=output.frame,
                    path=output.path,
                )
            )
        elif expect is not None and output is None:
            failures.append(
                StfFailure("missing", expect.place, f"no packet left at port {port} for this", port)
            )
        elif expect and output and (found := difference(expect, output.frame)):
            failures.append(_differs(port, number, expect, output, found))
    return failures


def _differs(
    port: int, number: int, expect: Expect, output: Output, found: Difference
) -> StfFailure:
    wanted_bytes, got_bytes = (len(found.expected) + 1) // 2, len(output.frame)
    if found.digit >= len(found.got):
        what = f"is too short: {got_bytes} bytes, expected are at least {wanted_bytes}"
    elif found.digit >= len(found.expected):
        what = f"is too long: {got_bytes} bytes, expected are exactly {wanted_bytes}"
    else:
        what = f"differs at byte {found.byte_offset}"
    return StfFailure(
        "differs",
        expect.place,
        f"packet {number} at port {port} {what} (sent by line {output.cause.place.line})",
        port,
        found,
        output.frame,
        output.path,
    )


def _pairs(
    expected: Sequence[Expect], outputs: Sequence[Output]
) -> list[tuple[Expect | None, Output | None]]:
    """Return which frame is held against which expectation: in order, each once, and so that as
    many as possible match."""
    if max(len(expected), len(outputs)) > MOST_ALIGNED:
        return list(zip_longest(expected, outputs))
    matching = [[difference(e, o.frame) is None for o in outputs] for e in expected]
    best = [[0] * (len(outputs) + 1) for _ in range(len(expected) + 1)]
    for i in range(len(expected) - 1, -1, -1):
        for j in range(len(outputs) - 1, -1, -1):
            together = best[i + 1][j + 1] + 1 if matching[i][j] else 0
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[Expect | None, Output | None]] = []
    i = j = 0
    while i < len(expected) and j < len(outputs):
        if matching[i][j] and best[i][j] == best[i + 1][j + 1] + 1:
            pairs.append((expected[i], outputs[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            pairs.append((expected[i], None))
            i += 1
        else:
            pairs.append((None, outputs[j]))
            j += 1
    pairs += [(expect, None) for expect in expected[i:]]
    pairs += [(None, output) for output in outputs[j:]]
    return _rejoin(pairs)


def _rejoin(
    pairs: list[tuple[Expect | None, Output | None]],
) -> list[tuple[Expect | None, Output | None]]:
    """Hold what is missing against what is unexpected in the same stretch of pairs: the two
    differ."""
    joined: list[tuple[Expect | None, Output | None]] = []
    for are_single, stretch in groupby(pairs, lambda pair: None in pair):
        some = list(stretch)
        if are_single:
            missing = [expect for expect, _ in some if expect is not None]
            some = list(zip_longest(missing, [each for _, each in some if each is not None]))
        joined += some
    return joined
