"""Whether any test notices a mutant: the tests that reach it, in a forked process of its own."""

from __future__ import annotations

import ast
import contextlib
import difflib
import gc
import hashlib
import io
import itertools
import json
import os
import random
import re
import signal
import traceback
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FunctionType
from typing import TextIO

import pytest

from weft.base import files
from weft.base.errors import RunError
from weft.tools.mutation.children import Job, Outcome, end_child, end_with_parent, note, run_all
from weft.tools.mutation.ending import (
    Ended,
    ending_on_signals,
    leave_signals_to_the_parent,
    signals_held,
)
from weft.tools.mutation.operators import Mutant, mutants_of
from weft.tools.mutation.recording import (
    MOST_BYTES,
    FileRecord,
    Record,
    digest_of,
    history_at,
    mentions,
)
from weft.tools.mutation.running import (
    Watch,
    functions_of_checkout,
    prepare,
    put_in_place,
    run_pytest,
)
from weft.tools.mutation.subjects import ROOT, Group

MOST_S = 20.0
"""Of processor time, as it was without mutants: the tests of one mutant. Half of it is for the
quickest; the other for those that compare whole runs, and see what the quick ones do not."""
WHOLE_RUNS = "tests/project/test_golden.py::"
FIRST_FILES, FIRST_TESTS, FIRST_TEST_S = 3, 40, 0.3
"""Which tests are tried first: quick ones, of the files that have most that reach the mutant."""
KILLED, SURVIVED, NOT_REACHED = "killed", "survived", "not reached"


@dataclass(frozen=True)
class Subject:
    """A mutant, and what decides how it is tried."""

    mutant: Mutant
    group: Group
    source: str
    """Of the module as it is."""

    @property
    def diff(self) -> str:
        """What the mutant changes."""
        before, after = self.source, self.mutant.applied(self.source).replace("\\\n", "")
        lines = difflib.unified_diff(
            before.splitlines(), after.splitlines(), self.mutant.path, self.mutant.path,
            lineterm="", n=1,
        )  # fmt: skip
        return "\n".join(lines)


@dataclass(frozen=True)
class Result:
    """What became of a mutant."""

    subject: Subject
    status: str
    """KILLED, SURVIVED or NOT_REACHED."""
    how: str
    """Of a killed one: the test that failed, or how the process ended."""
    tests: int
    """How many reach it and were to be run."""

    @property
    def killed(self) -> bool:
        """Whether the tests noticed."""
        return self.status == KILLED


def all_subjects(groups: Iterable[Group]) -> list[Subject]:
    """All mutants of the groups' modules, in a fixed order."""
    found = []
    for group in groups:
        for path in group.files():
            source = (ROOT / path).read_text("utf-8")
            found += [Subject(mutant, group, source) for mutant in mutants_of(path, source)]
    return found


def drawn(subjects: Sequence[Subject], count: int, seed: int) -> list[Subject]:
    """So many of them, each as likely as any other; the same for the same seed and sources."""
    if count >= len(subjects):
        return list(subjects)
    return random.Random(seed).sample(subjects, count)


class Chooser:
    """Which tests reach a mutant."""

    def __init__(self, records: Sequence[FileRecord], sources: Mapping[str, str]) -> None:
        self._records = records
        self._mentions = mentions(sources)
        self._texts: dict[str, set[str]] = {}

    def tests_of(self, mutant: Mutant) -> list[Record]:
        """The tests that reach a mutant, as many as `MOST_S` allows.

        What runs when its module is imported reaches every test of a file that imports it. Of a
        constant those are chosen that reach a statement with its name, or have it in their file.
        """
        wanted: dict[str, set[int]] = {mutant.path: {mutant.statement}}
        for name in mutant.names:
            for path, lines in self._mentions.get(name, {}).items():
                wanted.setdefault(path, set()).update(lines)
        found: dict[str, Record] = {}
        for record in self._records:
            early = mutant.statement in record.imported.get(mutant.path, ())
            named = early and self._names_one(record.file, mutant.names)
            for test in record.tests:
                if test.passed and (named or _reaches(test, wanted)):
                    found[test.test] = test
        if not found:
            found = {
                test.test: test
                for record in self._records
                if mutant.statement in record.imported.get(mutant.path, ())
                for test in record.tests
                if test.passed
            }
        quickest = sorted(found.values(), key=lambda each: (each.seconds, each.test))
        whole = [test for test in quickest if test.test.startswith(WHOLE_RUNS)]
        chosen: dict[str, Record] = {}
        sum_s = 0.0
        for most_s, tests in ((MOST_S / 2, quickest), (MOST_S, [*whole, *quickest])):
            for test in tests:
                if test.test in chosen:
                    continue
                if chosen and sum_s + test.seconds > most_s:
                    break
                chosen[test.test] = test
                sum_s += test.seconds
        return list(chosen.values())

    def is_early(self, mutant: Mutant) -> bool:
        """Whether a mutant takes effect, for some file of tests, when modules are imported."""
        return mutant.early or any(
            mutant.statement in record.imported.get(mutant.path, ()) for record in self._records
        )

    def _names_one(self, file: str, names: Sequence[str]) -> bool:
        if not names:
            return False
        if file not in self._texts:
            tree = ast.parse((ROOT / file).read_text("utf-8"))
            named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            named |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
            named |= {node.arg for node in ast.walk(tree)
                      if isinstance(node, ast.keyword) and node.arg}  # fmt: skip
            self._texts[file] = named
        return not self._texts[file].isdisjoint(names)


def _reaches(test: Record, wanted: Mapping[str, set[int]]) -> bool:
    return any(not lines.isdisjoint(test.lines.get(path, ())) for path, lines in wanted.items())


def batches(tests: Sequence[Record]) -> list[list[Record]]:
    """The tests to try first, and the others."""
    counts: dict[str, int] = {}
    for test in tests:
        if test.seconds <= FIRST_TEST_S:
            file = test.test.partition("::")[0]
            counts[file] = counts.get(file, 0) + 1
    best = sorted(counts, key=lambda file: -counts[file])[:FIRST_FILES]
    first = [
        test
        for test in tests
        if test.seconds <= FIRST_TEST_S and test.test.partition("::")[0] in best
    ][:FIRST_TESTS]
    others = [test for test in tests if test not in first]
    return [batch for batch in (first, others) if batch]


def limit_s(test: Record) -> float:
    """After how much processor time a test with a mutant is given up."""
    return 2.0 + 4 * test.seconds


def _try_afresh(trial: _Trial, folder: Path) -> str:
    """Import everything with the mutant in it; the test that failed, or nothing."""
    prepare({trial.subject.mutant.path: trial.source}, plain_form=trial.subject.group.plain)
    for batch in batches(trial.tests):
        watch = _watch(batch)
        watch.began = lambda test: note(folder, test)
        status = run_pytest(_files_of(batch), watch, stop=True)
        if watch.failed:
            return watch.failed
        if status not in (0, 5):  # 5: its tests have other names now
            return f"pytest ended with status {status}"
    return ""


@dataclass(frozen=True)
class _Trial:
    number: int
    subject: Subject
    tests: list[Record]
    changed: bool = True
    """False for a control, with the module as it is."""

    @property
    def source(self) -> str:
        """Of the module, as it is tried."""
        source = self.subject.source
        return self.subject.mutant.applied(source) if self.changed else source

    @property
    def name(self) -> str:
        """Of its job."""
        return f"{self.number}" if self.changed else f"control {self.number}"

    def job(self, work: Callable[[_Trial, Path], str | None]) -> Job:
        """As a job of that work, which is given a folder, too."""
        processor_s = 30 + 3 * sum(test.seconds for test in self.tests)
        return Job(self.name, lambda folder: work(self, folder), 30 * processor_s, processor_s)


def _watch(
    tests: Sequence[Record], loop: Callable[[list[pytest.Item]], None] | None = None
) -> Watch:
    limits_s = {test.test: limit_s(test) for test in tests}
    return Watch(limits_s.keys(), limits_s, loop=loop)


def _files_of(tests: Iterable[Record]) -> list[str]:
    return list(dict.fromkeys(test.test.partition("::")[0] for test in tests))


def _run_in_place(
    trials: Sequence[_Trial], processes: int, *, plain: bool
) -> Generator[Outcome, None, None]:
    """Try mutants in children of a process that has imported all tests: nothing is imported anew.

    That process is a child of this one, which so stays without them; outcomes come by a pipe.
    """
    if not trials:
        return
    reading, writing = os.pipe()
    pid = status = 0
    try:
        with signals_held():
            pid = _fork_server(trials, processes, plain, (reading, writing))
        with open(reading) as outcomes:
            for line in outcomes:
                yield Outcome(**json.loads(line))
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    finally:
        if pid:
            with signals_held():
                status = end_child(pid)
    if status:
        raise RunError("the process that has imported the tests has failed; its message is above")


def _fork_server(
    trials: Sequence[_Trial], processes: int, plain: bool, pipe: tuple[int, int]
) -> int:
    reading, writing = pipe
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid
    status = 1
    try:
        os.close(reading)
        leave_signals_to_the_parent()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # it comes to the parent, too
        end_with_parent(parent, signal.SIGTERM)
        with open(writing, "w") as outcomes:
            _serve(trials, processes, plain, outcomes)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _serve(trials: Sequence[_Trial], processes: int, plain: bool, outcomes: TextIO) -> None:
    prepare({}, plain_form=plain)
    tests = [test for trial in trials for test in trial.tests]
    done = 0

    def serve(items: list[pytest.Item]) -> None:
        nonlocal done
        by_name = {item.nodeid: item for item in items}
        functions = functions_of_checkout()
        gc.collect()
        gc.freeze()

        def work(trial: _Trial, folder: Path) -> str | None:
            watch.began = lambda test: note(folder, test)
            return _try_in_place(trial, functions, by_name, watch)

        jobs = [trial.job(work) for trial in trials]
        try:
            with ending_on_signals(), contextlib.closing(run_all(jobs, processes)) as found:
                for outcome in found:
                    outcomes.write(json.dumps(asdict(outcome)) + "\n")
                    outcomes.flush()
                    done += 1
        except Ended as ended:
            os._exit(ended.status)  # pytest would go on

    watch = _watch(tests, serve)
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        run_pytest(_files_of(tests), watch, stop=False)
    if done < len(trials):  # pytest keeps the error to itself
        raise RunError(f"only {done} of {len(trials)} mutants were tried: {told.getvalue()}")


def _try_in_place(
    trial: _Trial,
    functions: Mapping[str, list[FunctionType]],
    items: Mapping[str, pytest.Item],
    watch: Watch,
) -> str | None:
    """The test that failed, or nothing; None for a mutant that has to be imported."""
    mutant = trial.subject.mutant
    watch.failed = ""  # what could not be imported is not run
    if trial.changed:
        try:
            put_in_place(functions.get(mutant.path, []), mutant.path, trial.source)
        except LookupError:
            return None
    names = [test.test for batch in batches(trial.tests) for test in batch]
    chosen = [items[name] for name in names if name in items]
    for item, following in itertools.zip_longest(chosen, chosen[1:]):
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        if watch.failed:
            break
    return watch.failed


class History:
    """Which test killed a mutant, as long as neither that file of tests nor the code is changed.

    What was killed once is not tried again; PIT calls the same incremental analysis.
    """

    def __init__(self) -> None:
        self._path = history_at()
        self._known: dict[str, tuple[str, str]] = {}
        text = ""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            text = files.read_text(self._path, MOST_BYTES, endings=None)
        self._torn = bool(text) and not text.endswith("\n")
        for line in text.splitlines():
            with contextlib.suppress(ValueError, KeyError, TypeError):  # half a line
                known = json.loads(line)
                self._known[str(known["mutant"])] = (str(known["how"]), str(known["file"]))

    def killer_of(self, subject: Subject) -> str | None:
        """How a mutant was killed; None if it was not, or that may be no longer so."""
        how, digest = self._known.get(_named(subject), ("", ""))
        file = _file_in(how)
        with contextlib.suppress(OSError):  # the file is gone
            return how if file and digest == digest_of(file) else None
        return None

    def add(self, result: Result) -> None:
        """Take up a result."""
        file = _file_in(result.how)
        if result.killed and file:
            known = {"mutant": _named(result.subject), "how": result.how, "file": digest_of(file)}
            begin, self._torn = "\n" if self._torn else "", False
            with contextlib.suppress(OSError), self._path.open("a") as history:
                history.write(f"{begin}{json.dumps(known)}\n")


def _named(subject: Subject) -> str:
    changed = f"{subject.mutant.path} {subject.mutant.applied(subject.source)}"
    return hashlib.sha256(changed.encode()).hexdigest()


def _file_in(how: str) -> str:
    """The file of the test that failed with a mutant; empty if none did: time that ran out, or a
    crash, may come from what else the machine did."""
    named = re.match(r"\S+\.py(?=::)", how)
    return named[0] if named else ""


def try_all(
    subjects: Sequence[Subject],
    records: Mapping[bool, Sequence[FileRecord]],
    processes: int,
    controls: int,
    said: Callable[[Result], None],
) -> tuple[list[Result], list[str]]:
    """Try mutants; what became of each, in their order, and which tests fail without a mutant.

    Args:
        controls: of so many mutants the tests are run with nothing changed, too.
        said: is told of each result as it comes.
    """
    sources = {subject.mutant.path: subject.source for subject in subjects}
    sources |= {
        path: (ROOT / path).read_text("utf-8")
        for found in records.values()
        for record in found
        for test in record.tests
        for path in test.lines
        if path not in sources
    }
    choosers = {plain: Chooser(found, sources) for plain, found in records.items()}
    history = History()
    results: dict[int, Result] = {}
    trials: dict[str, list[_Trial]] = {"afresh": [], "compiled": [], "plain": []}
    for number, subject in enumerate(subjects):
        chooser = choosers[subject.group.plain]
        tests = chooser.tests_of(subject.mutant)
        if not tests:
            results[number] = Result(subject, NOT_REACHED, "", 0)
            said(results[number])
            continue
        form = "plain" if subject.group.plain else "compiled"
        place = "afresh" if chooser.is_early(subject.mutant) else form
        if number < controls:
            trials[place].append(_Trial(number, subject, tests, changed=False))
        if killer := history.killer_of(subject):
            results[number] = Result(subject, KILLED, killer, len(tests))
            said(results[number])
        else:
            trials[place].append(_Trial(number, subject, tests))
    by_name = {trial.name: trial for found in trials.values() for trial in found}
    failed: list[str] = []
    with contextlib.closing(_outcomes(trials, processes)) as outcomes:
        for outcome in outcomes:
            trial = by_name[outcome.name]
            if outcome.status == "done" and outcome.value is None:
                trials["afresh"].append(trial)
                continue
            result = _result(trial.subject, len(trial.tests), outcome)
            if trial.changed:
                results[trial.number] = result
                history.add(result)
                said(result)
            elif result.killed:
                failed.append(f"{trial.subject.mutant.path}: {result.how}")
    return [results[number] for number in range(len(subjects))], failed


def _outcomes(
    trials: Mapping[str, Sequence[_Trial]], processes: int
) -> Generator[Outcome, None, None]:
    """Outcomes as they come; those afresh last, and of the trials that are there by then."""
    yield from _run_in_place(trials["plain"], processes, plain=True)
    yield from _run_in_place(trials["compiled"], processes, plain=False)
    yield from run_all([trial.job(_try_afresh) for trial in trials["afresh"]], processes)


def _result(subject: Subject, count: int, outcome: Outcome) -> Result:
    if outcome.status == "done":
        return Result(subject, KILLED if outcome.value else SURVIVED, outcome.value, count)
    if outcome.status.startswith("failed"):
        raise RunError(f"{subject.mutant.key} could not be tried: {outcome.status}")
    test = f" {outcome.notes[-1]}" if outcome.notes else ""
    return Result(subject, KILLED, f"{outcome.status}:{test}", count)
