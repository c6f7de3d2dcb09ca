"""A P4 text as the compiler sees it: what is wrong with it, and its checked tree."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.switch.compiler import CompileError, Diagnostic, syntax
from weft.switch.compiler.check.checker import Checker
from weft.switch.compiler.diagnostics import Abandon, Reporter
from weft.switch.compiler.driver import run_deep
from weft.switch.compiler.internal_errors import telling_where
from weft.switch.compiler.parse.preprocess import preprocess
from weft.switch.compiler.steps import check_text, compile_tree


@dataclass(frozen=True)
class Analysis:
    """What is known of a text. There is no tree if the preprocessor cannot read it."""

    path: Path
    text: str
    diagnostics: tuple[Diagnostic, ...] = ()
    program: syntax.SourceProgram | None = None
    checker: Checker | None = None

    @property
    def lines(self) -> list[str]:
        """Return the lines of the text."""
        return self.text.split("\n")

    def is_of(self, file: str) -> bool:
        """Return whether a file is that of the text, rather than one that it includes."""
        return os.path.abspath(file) == os.path.abspath(self.path)


def analyse(
    path: Path, text: str, include_dirs: Sequence[Path] = (), *, whole: bool = True
) -> Analysis:
    """Compile a text as if it stood in a file. Without `whole` it is only parsed and checked, which
    is all that questions about it need."""
    reporter = Reporter({})
    try:
        with telling_where(reporter, path):
            return run_deep(lambda: _analyse(path, text, include_dirs, whole))
    except CompileError as error:
        return Analysis(path, text, error.diagnostics)


def _analyse(path: Path, text: str, include_dirs: Sequence[Path], whole: bool) -> Analysis:
    if not text.strip():
        return Analysis(path, text)
    prepared = preprocess(path, include_dirs, text=text)
    reporter = Reporter(prepared.sources)
    program, checker = check_text(prepared, reporter)
    found: Sequence[Diagnostic] = ()
    try:
        if whole:
            found = compile_tree(path, program, checker).warnings
    except CompileError as error:
        found = (*error.diagnostics, *reporter.sorted_warnings())
    except Abandon:
        found = (*reporter.errors, *reporter.sorted_warnings())
    return Analysis(path, text, tuple(found), program, checker)
