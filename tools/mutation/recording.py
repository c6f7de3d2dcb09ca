"""Which tests reach which statements, how long they take, and which pass: found by running them.

What was found is kept in the cache for each file of tests, until it or anything that it may
import changes.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.cache import cache_dir
from weft.base.errors import RunError
from weft.tools.mutation.children import Job, Outcome, note, run_all
from weft.tools.mutation.running import Watch, prepare, run_pytest, with_probes
from weft.tools.mutation.subjects import ROOT, Group

LONGEST_TEST_S = {False: 10.0, True: 8.0}
"""Of processor time, by whether in the plain form; a test that takes longer is left out."""
LONGEST_FILE_S = 150.0
"""Of processor time; the tests of a file that have not begun by then are left out."""
IMPORTS_S = 60.0
"""Of processor time, beside that."""
ENDLESS_S = 3000.0
"""On the clock, for a file of tests that wait."""
UNUSED_S = 7 * 24 * 3600
"""After so long a record that nobody has used is removed."""
MOST_BYTES = 256 << 20
PACKAGES = (
    "base", "switch", "agents", "topo", "pytorch", "controller", "experiments",
    "interface", "cli", "tools",
)  # fmt: skip

READ = {
    ".cm", ".css", ".html", ".js", ".json", ".lark", ".p4", ".py", ".stf", ".svg", ".toml", ".txt",
}  # fmt: skip
"""The kinds of files in packages, p4/ and tests/ that code and tests consist of or read."""
TOOLS = {("tools", "attack"), ("tools", "mutation")}

LEFT_OUT = {
    f"test_{name}"
    for name in (
        "architecture", "attack", "bench_progress_engine", "bench_reduction", "bench_switch",
        "benchmarks", "busyness", "cli", "compiler_v1model", "controller_emulated",
        "controller_switches", "emulated_bmv2", "emulated_cleanup", "emulated_machine",
        "emulated_plan", "emulated_world", "endless_inputs", "p4runtime_amounts",
        "p4runtime_local", "packaging", "plots", "progress_engine", "rank_rendezvous",
        "rank_system", "readme", "signals", "simulated_memory", "starter", "storms",
        "switch_command", "switch_log", "system", "udp", "wire_tshark",
    )
}  # fmt: skip
"""Files of tests that start programs, in which no mutant would be, open sockets or measure time."""
COMPILED_ALONE = {
    "topo/worlds/simulated/loop.py",
    "tests/support/collective_group.py",
    "tests/support/server_group.py",
    "tests/support/aggregation_workers.py",
}
"""What runs in compiled form alone, or takes too long in the plain form: kernels in their plain
form are tested without it."""

PLAIN_TOO = {
    f"tests/agents/{name}.py"
    for name in (
        "collectives/test_sums",
        "servers/test_servers",
        "transport/test_transport_aggregation",
        "transport/test_transport_traces",
    )
}
"""Files of tests that are quick enough nevertheless."""

Lines = dict[str, list[int]]
"""Lines of statements by their module's path."""


@dataclass(frozen=True)
class Record:
    """What became of one test."""

    test: str
    seconds: float
    passed: bool
    lines: Lines


@dataclass(frozen=True)
class FileRecord:
    """What became of the tests of one file."""

    file: str
    imported: Lines
    """What is reached before any test runs."""
    tests: list[Record]

    @staticmethod
    def read(text: str) -> FileRecord:
        """From what `asdict` made of it, as JSON. Raises ValueError, KeyError or TypeError."""
        known = json.loads(text)
        tests = [Record(**test) for test in known["tests"]]
        return FileRecord(known["file"], known["imported"], tests)


def files_of_tests(groups: Iterable[Group]) -> list[str]:
    """The files of tests that import a module of the groups, themselves or by what they import."""
    found: set[str] = set()
    for group in groups:
        wanted = set(group.files())
        for path in (ROOT / "tests").rglob("test_*.py"):
            file = str(path.relative_to(ROOT))
            imported = _imported(file)
            runs = not group.plain or not imported & COMPILED_ALONE
            if path.stem not in LEFT_OUT and imported & wanted and (runs or file in PLAIN_TOO):
                found.add(file)
    return sorted(found)


@cache
def _imports(file: str) -> frozenset[str]:
    """The checkout's files that a file imports, packages' own included."""
    named: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.Import):
            named |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            named |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    paths: set[str] = set()
    for name in named:
        parts = name.removeprefix("weft.").split(".")
        for count in range(1, len(parts) + 1):
            stem = "/".join(parts[:count])
            paths |= {path for path in (f"{stem}.py", f"{stem}/__init__.py")
                      if (ROOT / path).is_file()}  # fmt: skip
    return frozenset(paths)


def _imported(file: str) -> set[str]:
    found: set[str] = set()
    left = [file]
    while left:
        for path in _imports(left.pop()) - found:
            found.add(path)
            left.append(path)
    return found


def record(
    groups: Iterable[Group], processes: int, said: Callable[[str], None]
) -> dict[bool, list[FileRecord]]:
    """Run the tests of the groups' modules; by form (True: plain) what was found.

    Args:
        said: is told of each file that is run, not of those that are known.
    """
    groups = list(groups)
    found: dict[bool, list[FileRecord]] = {}
    for plain in sorted({group.plain for group in groups}):
        names = files_of_tests(group for group in groups if group.plain == plain)
        known = {name: _kept(_kept_at(name, plain)) for name in names}
        jobs = [_job(name, plain) for name in names if known[name] is None]
        form = ", plain form" if plain else ""
        with contextlib.closing(run_all(jobs, processes)) as outcomes:
            for number, outcome in enumerate(outcomes, 1):
                made = known[outcome.name] = _made_of(outcome)
                if outcome.status == "done":  # another time it may be
                    _keep(made, _kept_at(outcome.name, plain))
                passed = sum(test.passed for test in made.tests)
                said(
                    f"{number} of {len(jobs)}: {outcome.name}{form}: {passed} of "
                    f"{len(made.tests)} tests usable, {outcome.elapsed_s:.0f} s{_ending(outcome)}"
                )
        if jobs:
            _remove_unused()
        found[plain] = [made for made in known.values() if made is not None]
    return found


def _ending(outcome: Outcome) -> str:
    """How a file's tests ended, if not as they should."""
    if outcome.status != "done":
        return f" ({outcome.status.splitlines()[-1]})"
    if outcome.value:
        return f" (the others not within {LONGEST_FILE_S:g} s of processor time)"
    return ""


def _job(file: str, plain: bool) -> Job:
    processor_s = LONGEST_FILE_S + IMPORTS_S
    return Job(file, lambda folder: _run(file, plain, folder), ENDLESS_S, processor_s)


def _run(file: str, plain: bool, folder: Path) -> bool:
    """Run a file's tests; whether there was no time for all of them."""
    from weft.tools.mutation.subjects import GROUPS

    paths = [path for group in GROUPS for path in group.files() if plain or not group.plain]
    sources = {path: with_probes((ROOT / path).read_text("utf-8")) for path in paths}
    reached: dict[str, set[int]] = {path: set() for path in paths}
    started, longest_s = 0.0, LONGEST_TEST_S[plain]

    def taken() -> Lines:
        lines = {path: sorted(found) for path, found in reached.items() if found}
        for each in reached.values():
            each.clear()
        return lines

    def too_long(_signal: int, _frame: object) -> None:
        raise TimeoutError(f"more than {longest_s:g} s")

    def began(_test: str) -> None:
        nonlocal started
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, longest_s)
        signal.setitimer(signal.ITIMER_REAL, 60 * longest_s)

    def ended(test: str, passed: bool) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        seconds = time.process_time() - started
        usable = passed and seconds <= longest_s
        note(folder, asdict(Record(test, round(seconds, 4), usable, taken())))

    signal.signal(signal.SIGPROF, too_long)
    signal.signal(signal.SIGALRM, too_long)

    prepare(sources, reached, plain_form=plain)
    watch = Watch(
        began=began, ended=ended, collected=lambda: note(folder, taken()), longest_s=LONGEST_FILE_S
    )
    status = run_pytest([file], watch, stop=False)
    if status not in (0, 1, 5) and not watch.late:  # passed, failed, has no tests
        raise RunError(f"pytest ended with status {status}")
    return watch.late


def _made_of(outcome: Outcome) -> FileRecord:
    if not outcome.notes:
        return FileRecord(outcome.name, {}, [])
    imported, *tests = outcome.notes
    return FileRecord(outcome.name, imported, [Record(**each) for each in tests])


def _folder() -> Path:
    folder = cache_dir() / "mutation"
    folder.mkdir(exist_ok=True)
    return folder


def _kept_at(file: str, plain: bool) -> Path:
    form = "plain" if plain else "compiled"
    return _folder() / f"{Path(file).stem}-{form}-{digest_of(file)}.json"


def history_at() -> Path:
    """Where it is kept how mutants of this code were killed."""
    return _folder() / f"killed-{digest_of()}.jsonl"


def _kept(path: Path) -> FileRecord | None:
    """A record that is kept, and from now on counts as used; None if it is not, or is damaged."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        made = FileRecord.read(files.read_text(path, MOST_BYTES, endings=None))
        os.utime(path)
        return made
    return None


def _keep(made: FileRecord, path: Path) -> None:
    with contextlib.suppress(OSError):  # of a full disk: then it is made anew another time
        files.write_whole(path, json.dumps(asdict(made)), keep=True)


def _remove_unused() -> None:
    """Remove what was found of code that has changed since, but nothing that another run needs."""
    for path in _folder().glob("*.json*"):
        with contextlib.suppress(OSError):
            if path != history_at() and time.time() - path.stat().st_mtime > UNUSED_S:
                path.unlink()


def digest_of(file: str = "") -> str:
    """A digest of a file of tests and of all that it may import; without one, of the latter."""
    data = (ROOT / file).read_bytes() if file else b""
    return hashlib.sha256(_digest().encode() + data).hexdigest()[:16]


@cache
def _digest() -> str:
    """Of all that tests may import or read, but files of tests and the tools that run for long."""
    digest = hashlib.sha256()
    for folder in (*PACKAGES, "p4", "tests"):
        for path in sorted((ROOT / folder).rglob("*")):
            name = path.relative_to(ROOT)
            left_out = name.parts[:2] in TOOLS or name.match("test_*.py")
            if path.suffix in READ and not left_out:
                digest.update(f"{name} ".encode() + path.read_bytes())
    return digest.hexdigest()


def mentions(sources: Mapping[str, str]) -> dict[str, dict[str, set[int]]]:
    """By name, the statements within functions that mention it: lines by path."""
    found: dict[str, dict[str, set[int]]] = {}
    for path, source in sources.items():
        for function in ast.walk(ast.parse(source)):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                for statement in function.body:
                    _add_mentions(statement, path, found)
    return found


def _add_mentions(statement: ast.stmt, path: str, found: dict[str, dict[str, set[int]]]) -> None:
    for node in ast.iter_child_nodes(statement):
        if isinstance(node, ast.stmt):
            _add_mentions(node, path, found)
        elif isinstance(node, (ast.ExceptHandler, ast.match_case)):
            for inner in node.body:
                _add_mentions(inner, path, found)
        else:
            for part in ast.walk(node):
                for name in _names(part):
                    found.setdefault(name, {}).setdefault(path, set()).add(statement.lineno)


def _names(node: ast.AST) -> list[Any]:
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [node.attr]
    return [node.arg] if isinstance(node, ast.keyword) and node.arg else []
