"""What the compiler says about a program: positions, errors and warnings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from weft.base.errors import InputError
from weft.base.streams import escaped

Needed = TypeVar("Needed")

MAXIMUM_LISTED = 20
"""The most errors that a message lists; it gives the number of the others."""

MAXIMUM_ERRORS = 1000
"""The number of errors after which the compilation ends."""

MAXIMUM_WIDTH = 160
"""The most characters of a source line that are shown. Of a longer line those around the error are.
"""


WARNINGS = {
    "deprecated": "something that is annotated @deprecated is used",
    "ignore": "a property, annotation or key that has no effect here",
    "invalid-header": "a field of a header that is not valid, or may not be, is read",
    "mismatch": "something is given a name or value that was hardly meant",
    "shadow": "a name hides another of the same kind",
    "uninitialized-out-param": "an out parameter may be left without a value",
    "uninitialized-use": "a variable may be read before it has a value",
    "unreachable": "a parser state or statement that no packet comes to",
    "unused": "a declaration that nothing uses",
}
"""The kinds of warnings, with what they are about. They have p4c's names where it has the same."""


class Span(NamedTuple):
    """A span is a stretch of source text; lines and columns count from 1, the end column is
    exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def to(self, other: "Span") -> "Span":
        """Return the span from the start of this one to the end of the other."""
        if other.file != self.file or (other.end_line, other.end_column) < (self.line, self.column):
            return self
        return Span(self.file, self.line, self.column, other.end_line, other.end_column)


NOWHERE = Span("", 0, 0, 0, 0)


@dataclass(frozen=True)
class Diagnostic:
    """A diagnostic is one error or warning, with the source line that it is about (empty if there
    is none)."""

    file: str
    line: int
    column: int
    message: str
    source_line: str = ""
    length: int = 1
    severity: str = "error"
    kind: str = ""
    """The word that ``--Wdisable`` and ``--Werror`` take, if this is a warning."""

    def __str__(self) -> str:
        file = escaped(self.file, one_line=True)
        place = f"{file}:{self.line}:{self.column}" if self.line else file
        text = f"{place}: {self.severity}: {self.message}"
        if self.kind:
            text += f" [--Wwarn={self.kind}]"
        if not self.source_line.strip():
            return text
        line = self.source_line.expandtabs(1).rstrip()
        line, before = _window(escaped(line), len(escaped(line[: self.column - 1])))
        underline = "^" + "~" * max(0, min(self.length, len(line) - before) - 1)
        margin = f"{self.line:>6} | "
        return f"{text}\n{margin}{line}\n{' ' * 6} | {' ' * before}{underline}"


def _window(line: str, before: int) -> tuple[str, int]:
    """Return what is shown of a line around its character number `before`, and that character's
    number there."""
    if len(line) <= MAXIMUM_WIDTH:
        return line, before
    start = max(0, min(before - MAXIMUM_WIDTH // 2, len(line) - MAXIMUM_WIDTH))
    end = start + MAXIMUM_WIDTH
    left = "..." if start else ""
    right = "..." if end < len(line) else ""
    return f"{left}{line[start:end]}{right}", before - start + len(left)


class CompileError(InputError):
    """The P4 source does not compile; `diagnostics` says what is wrong and where."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(diagnostics)
        count = len(self.diagnostics)
        summary = "1 error" if count == 1 else f"{count} errors"
        listed = [str(item) for item in self.diagnostics[:MAXIMUM_LISTED]]
        if count > MAXIMUM_LISTED:
            listed.append(f"... and {count - MAXIMUM_LISTED} more")
        super().__init__("\n".join([*listed, summary]))


class InternalError(CompileError):
    """The compiler itself failed at a place in the program, which may be right."""


class Abandon(Exception):
    """An error was reported, and the code cannot go on with what it is doing."""


class Reporter:
    """A reporter collects errors and warnings, so that several are reported in one go."""

    def __init__(self, sources: Mapping[str, Sequence[str]]) -> None:
        self._sources = sources
        self.errors: list[Diagnostic] = []
        self.warnings: list[Diagnostic] = []

    def line(self, span: Span) -> str:
        """Return the line of source text in which a span begins; empty if there is none."""
        lines = self._sources.get(span.file, ())
        return lines[span.line - 1] if 0 < span.line <= len(lines) else ""

    def _note(
        self, known: list[Diagnostic], span: Span, message: str, severity: str, kind: str = ""
    ) -> None:
        """Add a diagnostic to those that are known, unless it is there already."""
        text = self.line(span)
        end = span.end_column if span.end_line == span.line else len(text) + 1
        file = span.file or next(iter(self._sources), "")  # the program, if nothing in it
        length = max(1, end - span.column)
        found = Diagnostic(file, span.line, span.column, message, text, length, severity, kind)
        if found not in known:
            known.append(found)

    def error(self, span: Span, message: str) -> None:
        """Note an error; after `MAXIMUM_ERRORS` the compilation ends at once."""
        self._note(self.errors, span, message, "error")
        if len(self.errors) >= MAXIMUM_ERRORS:
            self.finish()

    def fail(self, span: Span, message: str) -> Abandon:
        """Note an error and return the exception to raise: ``raise reporter.fail(...)``."""
        self.error(span, message)
        return Abandon(message)

    def error_if(self, wrong: object, span: Span, message: str) -> None:
        """Note an error if something is wrong."""
        if wrong:
            self.error(span, message)

    def fail_if(self, wrong: object, span: Span, message: str) -> None:
        """Note an error and raise `Abandon` if something is wrong."""
        if wrong:
            raise self.fail(span, message)

    def needed(self, value: object, kind: type[Needed], span: Span, message: str) -> Needed:
        """Return a value that must be of a kind; note an error and raise `Abandon` if it is not."""
        if isinstance(value, kind):
            return value
        raise self.fail(span, message)

    def warning(self, span: Span, message: str, kind: str = "ignore") -> None:
        """Note a warning; `kind` is one of `WARNINGS`."""
        self._note(self.warnings, span, message, "warning", kind)

    def warn_if(self, doubtful: object, span: Span, message: str, kind: str = "ignore") -> None:
        """Note a warning if something is doubtful; `kind` is one of `WARNINGS`."""
        if doubtful:
            self.warning(span, message, kind)

    def sorted_warnings(self) -> list[Diagnostic]:
        """Return the warnings in the order of the places that they are about."""
        return sorted(self.warnings, key=lambda item: (item.file, item.line, item.column))

    def finish(self) -> None:
        """Raise `CompileError` if there was any error."""
        if self.errors:
            self.errors.sort(key=lambda item: (item.file, item.line, item.column))
            raise CompileError(self.errors)
