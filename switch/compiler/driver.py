"""The compiler as a function, and the cache of what it has compiled."""

import contextlib
import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import msgspec

from weft.base.cache import cache_dir, keep_bounded, mark_used
from weft.base.files import working_folder, write_whole
from weft.base.garbage import uncollected
from weft.switch.compiler.diagnostics import Abandon, Reporter
from weft.switch.compiler.internal_errors import telling_where
from weft.switch.compiler.outputs import CompiledProgram, ProgramFiles, write_outputs
from weft.switch.compiler.parse.preprocess import (
    Preprocessed,
    display_name,
    file_digest,
    preprocess,
)

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
    return _compile(Path(source), _preprocessed(Path(source), include_dirs, defines))


def _preprocessed(
    source: Path, include_dirs: Sequence[Path], defines: Mapping[str, str | None] | None
) -> Preprocessed:
    with telling_where(Reporter({}), source):
        return preprocess(source, include_dirs, defines)


def _compile(source: Path, text: Preprocessed) -> CompiledProgram:
    from weft.switch.compiler.steps import compile_text  # slow to import, and the cache has no need

    reporter = Reporter(text.sources)
    with telling_where(reporter, source):
        try:
            return run_deep(lambda: compile_text(source, text, reporter))
        except Abandon:
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
    line of it came from, and by the compiler itself. Preprocessing takes longer than all the rest
    of finding a program there: beside the programs, notes say what came of which files. Raises
    `CompileError`.
    """
    source, programs = Path(source), cache_dir() / "p4"
    macros = sorted((defines or {}).items())
    asked = compiler_version(), working_folder(), str(source), list(map(str, include_dirs)), macros
    note = programs / f"{hashlib.sha256(repr(asked).encode()).hexdigest()[:32]}.json"
    files = _noted(note)
    if files is not None:
        mark_used(note, files.json, files.p4info)
        return files
    text = _preprocessed(source, include_dirs, defines)
    digest = hashlib.sha256(f"{compiler_version()}\0{source.name}\0".encode())
    for line in text.lines:
        place = f"{display_name(line.file, source.parent)}:{line.number}"
        digest.update(f"{place}\0{line.text}\n".encode())
    folder = programs / digest.hexdigest()[:32]
    files = ProgramFiles(folder / f"{source.stem}.json", folder / f"{source.stem}.p4info.txtpb")
    if files.json.is_file() and files.p4info.is_file():
        mark_used(files.json, files.p4info)
    else:
        files = write_outputs(_compile(source, text), source.stem, folder)
        keep_bounded(files.json)
    noted = _Note(text.files, str(files.json), str(files.p4info))
    with contextlib.suppress(OSError):  # as on a full disk: it is found more slowly the next time
        write_whole(note, msgspec.json.encode(noted), folders=True, keep=True)
    return files


class _Note(msgspec.Struct):
    """What came of a program the last time that it was asked for."""

    files: dict[str, str]
    """See `Preprocessed.files`."""
    json: str
    p4info: str


def _noted(path: Path) -> ProgramFiles | None:
    """Return the compiled program that a note names if nothing has changed since, else None."""
    try:
        note = msgspec.json.decode(path.read_bytes(), type=_Note)
    except (OSError, msgspec.MsgspecError):
        return None
    files = ProgramFiles(Path(note.json), Path(note.p4info))
    same = all(file_digest(file) == digest for file, digest in note.files.items())
    return files if same and files.json.is_file() and files.p4info.is_file() else None
