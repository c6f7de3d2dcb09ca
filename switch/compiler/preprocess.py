"""Preprocessing: ``#include``, ``#define`` and conditionals, with lines mapped back to their files.

P4_16 specification, section "Preprocessing". The C preprocessor in pcpp does the work; its line
markers tell which line of which file each line of its output came from.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pcpp

from switch.compiler.diagnostics import CompileError, Diagnostic

INCLUDE_FOLDER = Path(__file__).resolve().parent / "include"
"""Where Weft's own core.p4 and v1model.p4 are."""

_MARKER = re.compile(r'#line (\d+) "(.*)"$')


@dataclass
class Line:
    """One line of the preprocessor's output and where it came from."""

    text: str
    file: str
    number: int


@dataclass
class Preprocessed:
    """A preprocessed program: its lines, and the text of each file that it was made of."""

    lines: list[Line] = field(default_factory=list)
    sources: dict[str, list[str]] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


class _Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
    """pcpp with errors kept as diagnostics instead of printed."""

    def __init__(self, include_dirs: Sequence[Path]) -> None:
        super().__init__()
        self.diagnostics: list[Diagnostic] = []
        self.include_dirs = include_dirs
        for folder in include_dirs:
            self.add_path(str(folder))

    def _note(self, file: str, line: int, message: str) -> None:
        text = ""
        with contextlib.suppress(OSError, IndexError):
            text = read_source(Path(file))[line - 1]
        column = len(text) - len(text.lstrip()) + 1
        length = max(1, len(text.strip()))
        self.diagnostics.append(Diagnostic(file, line, column, message.strip(), text, length))
        self.return_code += 1

    def on_error(self, file: str, line: int, msg: str) -> None:
        if msg.startswith("Could not evaluate expression"):
            if "ZeroDivisionError" in msg:
                msg = "this condition divides by zero"
            else:
                msg = (
                    "this condition cannot be evaluated: write a whole expression of numbers, "
                    "defined macros, operators and defined(NAME)"
                )
        self._note(file, line, msg)

    def note_too_deep(self, source: str) -> None:
        """Note that the preprocessor ran out of stack."""
        token = self.lastdirective
        if token is not None and token.value == "include":
            message = "includes are nested too deeply: does a file include itself?"
            self._note(token.source, token.lineno, message)
        else:
            message = "the preprocessor finds macros or conditions nested too deeply here"
            self.diagnostics.append(Diagnostic(source, 0, 0, message))

    def note_malformed(self, source: str) -> None:
        """Note that the preprocessor gave up, without a reason of its own."""
        token = self.lastdirective
        message = "the preprocessor cannot read this directive, or what follows it"
        if token is None:
            self.diagnostics.append(Diagnostic(source, 0, 0, message))
        else:
            self._note(token.source, token.lineno, message)

    def on_include_not_found(
        self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
    ) -> None:
        if is_malformed:
            message = f"malformed #include: {includepath}"
        else:
            searched = [] if is_system_include else [curdir or "."]
            searched += [str(folder) for folder in self.include_dirs]
            message = f"include file {includepath!r} not found; searched {', '.join(searched)}"
        token = self.lastdirective
        self._note(token.source, token.lineno, message)

    def on_directive_handle(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        if directive.value in ("error", "warning"):
            return True  # pcpp then asks on_directive_unknown, in a branch that is taken only
        if directive.value == "pragma":
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def on_directive_unknown(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        message = "".join(token.value for token in toks).strip()
        if directive.value == "error":
            self._note(directive.source, directive.lineno, f"#error {message}")
        elif directive.value != "warning":
            self._note(
                directive.source,
                directive.lineno,
                f"unknown preprocessor directive #{directive.value}",
            )
        return False

    def on_comment(self, tok: Any) -> bool:
        return False


def read_source(path: Path) -> list[str]:
    """The lines of a source file, without their ends."""
    return path.read_text(encoding="utf-8", errors="replace").split("\n")


def preprocess(
    source: Path, include_dirs: Sequence[Path] = (), defines: Mapping[str, str | None] | None = None
) -> Preprocessed:
    """Preprocess the program in `source`.

    ``#include "..."`` looks beside the including file, then in `include_dirs`; ``#include <...>``
    only in the latter; Weft's own core.p4 and v1model.p4 come last. Raises `CompileError`.
    """
    try:
        text = "\n".join(read_source(source))
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise CompileError([Diagnostic(str(source), 0, 0, f"cannot read: {reason}")]) from None
    preprocessor = _Preprocessor([*include_dirs, INCLUDE_FOLDER])
    for name, value in (defines or {}).items():
        preprocessor.define(f"{name} {'1' if value is None else value}")
    output = io.StringIO()
    try:
        preprocessor.parse(text, str(source))
        preprocessor.write(output)
    except RecursionError:
        preprocessor.note_too_deep(str(source))
    except Exception:  # pcpp raises all kinds on malformed directives
        if not preprocessor.diagnostics:
            preprocessor.note_malformed(str(source))
    if preprocessor.diagnostics:
        raise CompileError(preprocessor.diagnostics)
    return _collect(output.getvalue(), str(source), text)


def _collect(output: str, main_file: str, main_text: str) -> Preprocessed:
    """Split the preprocessor's output at its line markers."""
    result = Preprocessed(sources={main_file: main_text.split("\n")})
    file, number = main_file, 1
    for text in output.split("\n"):
        marker = _MARKER.match(text)
        if marker is None:
            result.lines.append(Line(text, file, number))
            number += 1
            continue
        number, file = int(marker[1]), marker[2]
        if file not in result.sources:
            try:
                result.sources[file] = read_source(Path(file))
            except OSError:
                result.sources[file] = []
    return result


def display_name(file: str, folder: Path) -> str:
    """A file's name as it is written into outputs: relative to the program's folder if inside it.

    So the output does not depend on where a checkout lies.
    """
    path = Path(file)
    for base in (folder, INCLUDE_FOLDER):
        try:
            return Path(os.path.abspath(path)).relative_to(os.path.abspath(base)).as_posix()
        except ValueError:
            continue
    return path.as_posix()
