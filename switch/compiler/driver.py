"""The compiler as a function, and the cache of what it has compiled."""

import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from weft.base.cache import cache_dir
from weft.base.garbage import uncollected
from weft.switch.compiler.diagnostics import Abandon, Reporter, Span
from weft.switch.compiler.outputs import CompiledProgram, ProgramFiles, write_outputs
from weft.switch.compiler.parse.preprocess import Preprocessed, display_name, preprocess

MAXIMUM_CALLS = 60_000
STACK_BYTES = 256 << 20
"""The size of the stack. It is virtual memory, of which only what is used takes up room."""

Result = TypeVar("Result")

_turn = threading.Lock()


def run_deep(function: Callable[[], Result]) -> Result:
    """Call a function in a thread with a large stack; what it raises is raised here."""
    with _turn, ThreadPoolExecutor(1, "p4c") as pool:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(max(limit, MAXIMUM_CALLS))
        try:
            future = pool.submit(function)
            threading.stack_size(size)  # other threads need no such stack
            return future.result()
        finally:
            sys.setrecursionlimit(limit)


@uncollected()
def compile_program(
    source: Path,
    *,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> CompiledProgram:
    """Compile a P4_16 program for v1model.

    `include_dirs` are searched before Weft's own core.p4 and v1model.p4; `defines` are macros, None
    for one without a value. Raises `CompileError` with everything that is wrong with the program.
    """
    return _compile(Path(source), preprocess(Path(source), include_dirs, defines))


def _compile(source: Path, text: Preprocessed) -> CompiledProgram:
    from weft.switch.compiler.steps import compile_text  # slow to import, and the cache has no need

    reporter = Reporter(text.sources)
    try:
        return run_deep(lambda: compile_text(source, text, reporter))
    except Abandon:
        reporter.finish()
        raise AssertionError("an error was not reported") from None
    except RecursionError:
        reporter.error(Span(str(source), 0, 0, 0, 0), "the program is nested too deeply")
        reporter.finish()
        raise


@lru_cache(maxsize=1)
def compiler_version() -> str:
    """Return a hash of the compiler's own files."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".py", ".lark", ".p4"):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


@uncollected()
def compile_cached(
    source: Path,
    *,
    include_dirs: Sequence[Path] = (),
    defines: Mapping[str, str | None] | None = None,
) -> ProgramFiles:
    """Compile a program, or find it compiled in the cache folder.

    The cache is keyed by the preprocessed text (so by every included file and macro), by where each
    line of it came from, and by the compiler itself. Raises `CompileError`.
    """
    source = Path(source)
    text = preprocess(source, include_dirs, defines)
    digest = hashlib.sha256(f"{compiler_version()}\0{source.name}\0".encode())
    for line in text.lines:
        place = f"{display_name(line.file, source.parent)}:{line.number}"
        digest.update(f"{place}\0{line.text}\n".encode())
    folder = cache_dir() / "p4" / digest.hexdigest()[:32]
    files = ProgramFiles(folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb")
    if files.json.is_file() and files.p4info.is_file():
        return files
    return write_outputs(_compile(source, text), source.stem, folder)
