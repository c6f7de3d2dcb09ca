"""The compiler's steps put together, its outputs as files, and their cache."""

import hashlib
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf import json_format

from weft.base.cache import cache_dir
from weft.base.errors import InputError
from weft.base.files import write_whole
from weft.base.garbage import uncollected
from weft.switch.compiler import syntax
from weft.switch.compiler.check.checker import Checker
from weft.switch.compiler.check.flow import FlowChecker
from weft.switch.compiler.check.unused import warn_of_unused
from weft.switch.compiler.diagnostics import Abandon, Diagnostic, Reporter, Span
from weft.switch.compiler.emit.bmv2_json import Emitter
from weft.switch.compiler.emit.p4info import InfoEmitter, info_text
from weft.switch.compiler.emit.primitives import SourceNotes
from weft.switch.compiler.lower.lower import lower
from weft.switch.compiler.parse.parser import parse_annotation_expressions, parse_program
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


@dataclass(frozen=True)
class CompiledProgram:
    """What a program compiles to. The same source always gives the same text, byte for byte."""

    bmv2_json: str
    p4info: Any
    p4info_text: str
    warnings: tuple[Diagnostic, ...] = ()


@dataclass(frozen=True)
class ProgramFiles:
    """A compiled program on disk."""

    json: Path
    p4info: Path


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
    reporter = Reporter(text.sources)
    try:
        return run_deep(lambda: _steps(source, text, reporter))
    except Abandon:
        reporter.finish()
        raise AssertionError("an error was not reported") from None
    except RecursionError:
        reporter.error(Span(str(source), 0, 0, 0, 0), "the program is nested too deeply")
        reporter.finish()
        raise


def _steps(source: Path, text: Preprocessed, reporter: Reporter) -> CompiledProgram:
    program = parse_program(text, reporter)
    checker = Checker(reporter)
    checker.check(program)
    reporter.finish()
    warn_of_unused(program, reporter)
    FlowChecker(reporter).check(program)

    def parse_annotation(annotation: syntax.Annotation) -> list[syntax.Expression]:
        return [
            checker.expressions.check(item, checker.context.globals)
            for item in parse_annotation_expressions(annotation, reporter)
        ]

    lowered = lower(program, checker.context, parse_annotation)
    reporter.finish()
    json_text = Emitter(lowered, reporter, SourceNotes(reporter, source.parent)).text(source.name)
    info = InfoEmitter(lowered, reporter, parse_annotation).message()
    reporter.finish()
    return CompiledProgram(json_text, info, info_text(info), tuple(reporter.sorted_warnings()))


def write_outputs(program: CompiledProgram, stem: str, folder: Path) -> ProgramFiles:
    """Write ``<stem>.json`` and ``<stem>.p4info.txtpb`` into a folder, which is made if need be.

    Raises `InputError` where they cannot be written.
    """
    files = ProgramFiles(folder / f"{stem}.json", folder / f"{stem}.p4info.txtpb")
    try:
        write_whole(files.json, program.bmv2_json, folders=True, keep=True)
        write_whole(files.p4info, program.p4info_text, folders=True, keep=True)
    except OSError as error:
        raise InputError(
            f"cannot write {files.json.name} and {files.p4info.name} to {str(folder)!r}: "
            f"{error.strerror}; name a folder that you may write to"
        ) from None
    return files


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


P4INFO_ENDINGS = (".txtpb", ".txt", ".bin", ".pb", ".json")


def p4info_bytes(program: CompiledProgram, name: str) -> bytes:
    """Return a program's P4Info in the format that the ending of the file's name says.

    ``.txtpb`` and ``.txt`` are protobuf's text form, ``.bin`` and ``.pb`` its wire form, ``.json``
    its JSON form. Raises `InputError` for any other ending.
    """
    match Path(name).suffix:
        case ".txtpb" | ".txt":
            return program.p4info_text.encode()
        case ".bin" | ".pb":
            return bytes(program.p4info.SerializeToString(deterministic=True))
        case ".json":
            return f"{json_format.MessageToJson(program.p4info)}\n".encode()
    raise InputError(
        f"--p4info {name!r} has no ending that says in which format P4Info is to be written: "
        f"let it end in {', '.join(P4INFO_ENDINGS)}"
    )


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, making its folder if need be; raises `InputError`."""
    try:
        write_whole(path, content, folders=True)
    except OSError as error:
        raise InputError(
            f"cannot write {str(path)!r}: {error.strerror}; name a file that you may write to"
        ) from None
