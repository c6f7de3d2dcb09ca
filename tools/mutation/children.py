"""Work in forked processes, which mutants may spoil: limited, and ended with all that they start.

The process that forks has imported what takes long to import and no module that is mutated.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weft.tools.mutation.ending import leave_signals_to_the_parent, signals_held

MEMORY_BYTES = 12 << 30
"""Of addresses, beyond which a child gets no more; gRPC's threads take some GiB that they do not
fill."""
FILE_BYTES = 256 << 20
LOOK_S = 0.02
PATIENCE_S = 20.0
"""For a child that ends all that it has started; then it is killed."""
_PR_SET_PDEATHSIG = 1
_M_ARENA_MAX = -8


@dataclass(frozen=True)
class Job:
    """What one child does."""

    name: str
    work: Callable[[Path], Any]
    """Is given a folder of its own, in which it is called; what it returns is kept as JSON."""
    limit_s: float
    """After so much time on the clock the child is killed."""
    processor_s: float
    """Of processor time, the same."""


@dataclass(frozen=True)
class Outcome:
    """What became of a job."""

    name: str
    value: Any
    """What its work returned; None if it did not."""
    notes: list[Any]
    """What it noted on its way, as far as it came."""
    status: str
    """``done``, ``out of time``, ``crashed`` (by a signal), ``ended with status`` (by the work
    itself), or ``failed`` with a traceback."""
    elapsed_s: float


@dataclass
class _Child:
    job: Job
    folder: Path
    started: float
    killed: bool = False


def run_all(jobs: Iterable[Job], processes: int) -> Generator[Outcome, None, None]:
    """Run jobs, so many at a time, each in a forked process; outcomes as they come.

    To be closed by whoever does not take all of them: that ends what still runs.
    """
    waiting = iter(jobs)
    children: dict[int, _Child] = {}
    try:
        more = True
        while more or children:
            while more and len(children) < processes:
                job = next(waiting, None)
                if job is None:
                    more = False
                    break
                with signals_held():  # or what has just begun would not be ended
                    folder = Path(tempfile.mkdtemp(prefix="weft-mutate-"))
                    children[_fork(job, folder)] = _Child(job, folder, time.monotonic())
            for pid in list(children):
                with signals_held():
                    if (outcome := _look(pid, children[pid])) is not None:
                        _remove(children.pop(pid).folder)
                if outcome is not None:
                    yield outcome
            time.sleep(LOOK_S)
    finally:
        with signals_held():
            for pid, child in children.items():
                _end(pid)
                os.waitpid(pid, 0)
                _remove(child.folder)


def note(folder: Path, what: Any) -> None:
    """Note something, from within a job."""
    with (folder / "notes").open("a") as file:
        file.write(json.dumps(what) + "\n")


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> None:
    """From now on the calling process gets a signal when the one that forked it ends.

    Args:
        parent: the number of that one; if it has ended already, the caller does so here.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(70)


def end_child(pid: int) -> int:
    """End a child that may have children, by SIGTERM, and wait for it; its status as `os.wait`
    has it. One that has ended already is waited for."""
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(LOOK_S)
    os.kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _fork(job: Job, folder: Path) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 70
    try:
        os.setpgid(0, 0)
        leave_signals_to_the_parent()
        end_with_parent(parent)
        _limit(job.processor_s)
        os.chdir(folder)
        os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = str(folder)
        tempfile.tempdir = str(folder)
        with (folder / "output").open("w") as output:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        value = job.work(folder)
        (folder / "value").write_text(json.dumps(value))
        status = 0
    except BaseException:
        (folder / "traceback").write_text(traceback.format_exc())
    finally:
        os._exit(status)


def _limit(processor_s: float) -> None:
    ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)  # or each thread takes 64 MiB of addresses
    seconds = int(processor_s) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _look(pid: int, child: _Child) -> Outcome | None:
    """What became of a child; None while it runs."""
    elapsed_s = time.monotonic() - child.started
    if not os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        if elapsed_s > child.job.limit_s and not child.killed:
            child.killed = True
            _end(pid)
        return None
    _end(pid)  # what the child has started, too: its number is not anybody else's yet
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    value = child.folder / "value"
    notes = child.folder / "notes"
    return Outcome(
        child.job.name,
        json.loads(value.read_text()) if status == 0 and value.exists() else None,
        [json.loads(line) for line in _whole_lines(notes)] if notes.exists() else [],
        _said(status, child),
        elapsed_s,
    )


def _whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def _said(status: int, child: _Child) -> str:
    if status == 0:
        return "done"
    if child.killed or -status in (signal.SIGPROF, signal.SIGALRM, signal.SIGXCPU):
        return "out of time"
    if status < 0:
        return f"crashed ({signal.Signals(-status).name})"
    told = child.folder / "traceback"
    return f"failed: {told.read_text()}" if told.exists() else f"ended with status {status}"


def _end(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(pid, signal.SIGKILL)  # it has no group of its own yet


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
