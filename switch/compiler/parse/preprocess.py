"""Preprocessing: ``#include``, ``#define`` and conditionals, with lines mapped back to their files.

P4_16 specification, section "Preprocessing". The C preprocessor in pcpp does the work; its line
markers tell which line of which file each line of its output came from.
"""

import contextlib
import copy
import copyreg
import hashlib
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import pcpp
from pcpp.parser import LexToken

from weft.base.files import read_text, some_folder
from weft.switch.compiler.diagnostics import CompileError, Diagnostic

_COMPILER = Path(__file__).resolve().parent.parent
INCLUDE_FOLDERS = (
    _COMPILER / "include", *sorted(_COMPILER.glob("architectures/*/include"))
)  # fmt: skip
"""Where Weft's own core.p4 is, and those of the architectures, like v1model.p4."""

_MARKER = re.compile(r'#line (\d+) "(.*)"$')
_LINES_WITHOUT_MARKER = 8
"""The number of omitted lines from which on C preprocessors write a marker, not empty lines."""
MOST_TOKENS = 1 << 19
"""The most tokens that macros may become, with those on the way; fabric.p4 has 160,000."""
MOST_INCLUDES = 1 << 12
MOST_SOURCE_BYTES = 4 << 20
"""The largest size of one file; fabric.p4 and all that it includes have 60,000 bytes."""
P4_ENDINGS = (".p4", ".h", ".p4h", ".hp4", ".p4i", ".p4inc", ".inc")
"""What names of P4's source files end in."""
_FEW_USES = 8
_MOVED_AT_ONCE = 1 << 12
"""The number of tokens that pcpp moves for a use of a parameter in the time that one token takes.
"""
_SPLIT_WORD = re.compile(r"(\w)\\\r?\n(\w+)")
_LEXEME = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
_UNENDED_COMMENT = "this comment does not end: write */"
_HIDDEN = (("\ue000", "//"), ("\ue001", "/*"))
_OF_P4_14 = re.compile(r"^\s*(header_type|calculated_field|field_list_calculation)\s+\w+[\s{]")


@dataclass
class SourceLine:
    """A line of the preprocessor's output knows where it came from."""

    text: str
    file: str
    number: int


@dataclass
class Preprocessed:
    """A preprocessed program has its lines, and the text of each file that it was made of."""

    lines: list[SourceLine] = field(default_factory=list)
    sources: dict[str, list[str]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    """The digest (`file_digest`) of each file that was looked for, by its absolute path: while all
    are the same, so is what comes of them."""

    @property
    def text(self) -> str:
        """Return the whole text."""
        return "\n".join(line.text for line in self.lines)


def _copy_of(token: Any) -> Any:
    copied = LexToken()
    vars(copied).update(vars(token))
    return copied


# pcpp copies each token of each macro that is used; Python's general way takes twice as long.
copyreg.pickle(LexToken, lambda token: (_copy_of, (token,)))


class _TooMuchError(Exception):
    """The program grows too large; the diagnostics say why."""


class _Preprocessor(pcpp.Preprocessor):  # type: ignore[misc]
    """The preprocessor pcpp, with errors kept as diagnostics instead of printed."""

    def __init__(self, include_dirs: Sequence[Path]) -> None:
        with some_folder():  # which pcpp asks for, and shortens paths by
            super().__init__()
        self.diagnostics: list[Diagnostic] = []
        self.tokens = 0
        self.source_of_macro: str | None = None
        self.includes = 0
        self.files: dict[str, str] = {}
        self.include_dirs = include_dirs
        for folder in include_dirs:
            self.add_path(str(folder))

    def _note(self, file: str, line: int, message: str) -> None:
        text = ""
        with contextlib.suppress(OSError, IndexError):
            text = read_source(Path(file))[line - 1]
        column = len(text) - len(text.lstrip()) + 1
        self.diagnostics.append(
            Diagnostic(file, line, column, message.strip(), text, max(1, len(text.strip())))
        )
        self.return_code += 1

    def note_here(self, message: str, source: str = "") -> None:
        """Note an error at the last directive, or in a source file if there was none."""
        token = self.lastdirective
        if token is None:
            self.diagnostics.append(Diagnostic(source, 0, 0, message))
        else:
            self._note(token.source, token.lineno, message)

    def on_error(self, file: str, line: int, msg: str) -> None:
        if "ZeroDivisionError" in msg and msg.startswith("Could not evaluate expression"):
            msg = "this condition divides by zero"
        elif msg.startswith("Could not evaluate expression"):
            msg = (
                "this condition cannot be evaluated: write a whole expression of numbers, "
                "defined macros, operators and defined(NAME)"
            )
        self._note(file, line, msg)

    def note_too_deep(self, source: str) -> None:
        """Note that the preprocessor ran out of stack."""
        token = self.lastdirective
        if token is not None and token.value == "include":
            self.note_here("includes are nested too deeply: does a file include itself?")
        else:
            message = "the preprocessor finds macros or conditions nested too deeply here"
            self.diagnostics.append(Diagnostic(source, 0, 0, message))

    def expand_macros(self, tokens: Any, expanding_from: Any = ()) -> Any:
        """Expand macros as pcpp does, but stop with an error those that grow without end."""
        if self.linemacrodepth == 0 and tokens:
            self.source_of_macro = tokens[0].source
        self._count_tokens(len(tokens))
        expanded = super().expand_macros(tokens, list(expanding_from))
        self._count_tokens(len(expanded))
        return expanded

    def macro_expand_args(self, macro: Any, args: Any) -> Any:
        """Expand a macro's arguments as pcpp does, but measure first those that are used often."""
        if len(macro.patch) > _FEW_USES:
            lengths: dict[int, int] = {}
            for kind, place, _ in macro.patch:
                if place not in lengths:
                    tokens = [copy.copy(token) for token in args[place]]
                    lengths[place] = len(self.expand_macros(tokens) if kind == "e" else tokens)
            total = sum(lengths[place] for _, place, _ in macro.patch)
            self._count_tokens(total + total * len(macro.patch) // _MOVED_AT_ONCE)
        return super().macro_expand_args(macro, args)

    def _count_tokens(self, tokens: int) -> None:
        self.tokens += tokens
        if self.tokens > MOST_TOKENS:
            self._note(
                self.source_of_macro or "",
                self.linemacro,
                f"macros become more than {MOST_TOKENS} tokens by here: does each use another "
                "more than once?",
            )
            raise _TooMuchError

    def on_include_not_found(
        self, is_malformed: bool, is_system_include: bool, curdir: str, includepath: str
    ) -> None:
        searched = [] if is_system_include else [curdir or "."]
        searched += [str(folder) for folder in self.include_dirs]
        self.note_here(
            f"malformed #include: {includepath}"
            if is_malformed
            else f"include file {includepath!r} not found; searched {', '.join(searched)}"
        )

    def on_directive_handle(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        if directive.value in ("error", "warning"):
            return True  # pcpp then asks on_directive_unknown, in a branch that is taken only
        if (
            directive.value in ("pragma", "line") or directive.value.isdigit()
        ):  # places are told as in the file that was read
            raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)
        return super().on_directive_handle(directive, toks, ifpassthru, precedingtoks)

    def on_directive_unknown(
        self, directive: Any, toks: Any, ifpassthru: bool, precedingtoks: Any
    ) -> Any:
        message = f"unknown preprocessor directive #{directive.value}"
        if directive.value == "error":
            message = f"#error {''.join(token.value for token in toks).strip()}"
        if directive.value != "warning":
            self._note(directive.source, directive.lineno, message)
        return False

    def group_lines(self, input: str, abssource: str) -> Any:
        # A word that goes on in the next line: pcpp would make two words of it.
        return super().group_lines(_SPLIT_WORD.sub(r"\1\2\\\n", input), abssource)

    def on_comment(self, tok: Any) -> bool:
        return False

    def on_file_open(self, is_system_include: bool, includepath: str) -> io.StringIO:
        self.includes += 1
        if self.includes > MOST_INCLUDES:
            self.note_here(f"more than {MOST_INCLUDES} files are included by here")
            raise _TooMuchError
        self.files[os.path.abspath(includepath)] = file_digest(includepath)
        try:
            text = "\n".join(read_source(Path(includepath)))
        except FileNotFoundError:
            raise  # it is looked for in the next folder
        except OSError as problem:
            self.note_here(f"cannot read {includepath}: {problem.strerror}")
            text = ""
        if line := _unended_comment(text):
            self._note(includepath, line, _UNENDED_COMMENT)
            text = ""
        return io.StringIO(_hide_comments(text))


def read_source(path: Path) -> list[str]:
    """Return the lines of a source file, without their ends; raise OSError if it cannot be read.

    A network file names programs, and programs name includes, and errors show lines of all of them.
    """
    text = read_text(path, MOST_SOURCE_BYTES, "utf-8-sig", "replace", endings=P4_ENDINGS)
    return text.split("\n")


def file_digest(path: str) -> str:
    """Return what tells a source file's text from any other, or that it cannot be read."""
    try:
        return hashlib.sha256("\n".join(read_source(Path(path))).encode()).hexdigest()
    except OSError:
        return "none"


def _hide_comments(text: str) -> str:
    """Hide comments in strings of several lines from the preprocessor.

    It takes such strings, which C does not have, for text.
    """

    def hide(match: re.Match[str]) -> str:
        found = match[0]
        if found[0] != '"' or "\n" not in found:
            return found
        for hidden, shown in _HIDDEN:
            found = found.replace(shown, hidden)
        return found

    return _LEXEME.sub(hide, text) if '"' in text else text


def _unended_comment(text: str) -> int:
    """Return the line of a comment that goes on to the end of the file, from 1; 0 if there is none.
    The preprocessor would look for the end of every comment inside it, from each anew."""
    start = text.rfind("/*")
    if start < 0 or text.find("*/", start + 2) >= 0:
        return 0
    for match in _LEXEME.finditer(text):
        if match[0].startswith("/*") and (len(match[0]) < 4 or not match[0].endswith("*/")):
            return text.count("\n", 0, match.start()) + 1
    return 0


def _main_text(source: Path) -> str:
    """Return the program's text; raise `CompileError` if it cannot be P4_16."""

    def refuse(message: str, line: int = 0, text: str = "") -> CompileError:
        return CompileError([Diagnostic(str(source), line, 1, message, text, len(text))])

    try:
        lines = read_source(source)
    except OSError as problem:
        raise refuse(f"cannot read: {problem.strerror or problem}") from None
    for wrong, message in (
        (any("\0" in line for line in lines), "this is not a P4 program but a binary file"),
        (not any(line.strip() for line in lines), "this file is empty"),
        (
            lines[0].lstrip().startswith("{"),
            "this is not P4 but JSON: name the program that it was compiled from ('weft switch' "
            "and 'weft stf' also take BMv2 JSON, in a file whose name ends in .json)",
        ),
    ):
        if wrong:
            raise refuse(message)
    for number, line in enumerate(lines, 1):
        if _OF_P4_14.match(line):
            raise refuse(
                "this is P4_14, and only P4_16 can be compiled (p4test --std p4-14 converts)",
                number,
                line,
            )
    text = "\n".join(lines)
    if number := _unended_comment(text):
        raise refuse(_UNENDED_COMMENT, number, lines[number - 1])
    return text


def preprocess(
    source: Path,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
    text: str | None = None,
) -> Preprocessed:
    """Preprocess the program in `source`, or `text` as if it stood there.

    ``#include "..."`` looks beside the including file, then in `include_dirs`; ``#include <...>``
    only in the latter; Weft's own, as core.p4 and v1model.p4, come last. Raises `CompileError`.
    """
    text = _main_text(source) if text is None else text
    preprocessor = _Preprocessor([*include_dirs, *INCLUDE_FOLDERS])
    preprocessor.files[os.path.abspath(source)] = file_digest(str(source))
    for name, value in (defines or {}).items():
        preprocessor.define(f"{name} {'1' if value is None else value}")
    output = io.StringIO()
    try:
        preprocessor.parse(_hide_comments(text), str(source))
        preprocessor.write(output)
    except RecursionError:
        preprocessor.note_too_deep(str(source))
    except Exception:  # pcpp raises all kinds on malformed directives
        if not preprocessor.diagnostics:
            preprocessor.note_here(
                "the preprocessor cannot read this directive, or what follows it", str(source)
            )
    if preprocessor.diagnostics:
        raise CompileError(preprocessor.diagnostics)
    result = _collect(output.getvalue(), str(source), text)
    result.files = preprocessor.files
    return result


def _collect(output: str, main_file: str, main_text: str) -> Preprocessed:
    """Split the preprocessor's output at its line markers."""
    result = Preprocessed(sources={main_file: main_text.split("\n")})
    file, number = main_file, 1
    for text in output.split("\n"):
        marker = _MARKER.match(text)
        if marker is None:
            for hidden, shown in _HIDDEN:
                text = text.replace(hidden, shown)
            result.lines.append(SourceLine(text, file, number))
            number += 1
        else:
            skipped = int(marker[1]) - number
            if marker[2] == file and 0 < skipped < _LINES_WITHOUT_MARKER:
                result.lines += [SourceLine("", file, number + place) for place in range(skipped)]
            number, file = int(marker[1]), marker[2]
            if file not in result.sources:
                try:
                    result.sources[file] = read_source(Path(file))
                except OSError:
                    result.sources[file] = []
    return result


@lru_cache(maxsize=1024)
def display_name(file: str, folder: Path) -> str:
    """Return a file's name as it is written into outputs: relative to the program's folder if
    inside it.

    So the output does not depend on where a checkout lies.
    """
    path = Path(os.path.abspath(file))
    bases = map(os.path.abspath, (folder, *INCLUDE_FOLDERS))
    inside = [path.relative_to(base) for base in bases if path.is_relative_to(base)]
    return (inside[0] if inside else Path(file)).as_posix()
