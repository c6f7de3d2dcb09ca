"""What came of a test: failures and warnings, as text and as JSON."""

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from weft.switch.stf.statements import Place

BYTES_PER_ROW = 16
ROWS_AROUND = 1
"""How many rows of a frame are shown before and after the one that differs."""


@dataclass(frozen=True)
class Difference:
    """Where a frame is not what was expected. Both are hex digits, with `*` for any digit."""

    digit: int
    expected: str
    got: str

    @property
    def byte_offset(self) -> int:
        """The first byte that differs, or that only one of the two has."""
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
            rows.append(f"  {row * BYTES_PER_ROW:04x}  expected  {_spaced(wanted)}".rstrip())
            rows.append(f"        got       {_spaced(found)}".rstrip())
            if marks.strip():
                rows.append(f"                  {_spaced(marks)}".rstrip())
        if last > middle + ROWS_AROUND:
            rows.append("  ...")
        return rows


def _spaced(digits: str) -> str:
    return " ".join(digits[at : at + 2] for at in range(0, len(digits), 2))


@dataclass(frozen=True)
class Failure:
    """An expectation that does not hold. ``kind``: differs, missing, unexpected, counter,
    register, engine."""

    kind: str
    place: Place
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
        lines += [f"  {line}" for line in self.path.splitlines()]
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
class Path:
    """What a packet of the test went through, with all that was made of it, as text."""

    place: Place
    text: str


@dataclass
class Report:
    """The outcome of one test. ``notes`` have what it asked to read, ``paths`` those of its
    packets."""

    file: str
    packets: int = 0
    expectations: int = 0
    failures: list[Failure] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether all expectations hold."""
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
