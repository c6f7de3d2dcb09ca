"""What the whole-system tests share: the command, and what a run could leave on the machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from switch.cache import CHECKOUT
from topo.runs import RUNS, read_record

WEFT = [sys.executable, "-m", "experiments"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}


def weft(*arguments: str, cwd: Path, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """The command run to its end in a folder."""
    return subprocess.run(
        [*WEFT, *arguments],
        cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=timeout_s, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@dataclass
class Machine:
    """What of a run could be left on the machine. Other runs may be up at the same time."""

    interfaces: set[str] = field(default_factory=lambda: set(os.listdir("/sys/class/net")))
    dead_runs: set[str] = field(default_factory=lambda: dead_runs())
    named: str = field(
        default_factory=lambda: (
            subprocess.run(
                ["ip", "netns", "list"], capture_output=True, text=True, check=True
            ).stdout
        )
    )


def dead_runs() -> set[str]:
    """Runs that left a folder though their runner has ended."""
    found = set()
    for folder in RUNS.iterdir() if RUNS.exists() else ():
        runner, _ = read_record(folder)
        if folder.exists() and (runner is None or not runner.is_alive()):
            found.add(folder.name)
    return found


def runs_of(pid: int) -> list[str]:
    """The ids of the runs that are on record as a process's."""
    found = []
    for folder in RUNS.iterdir() if RUNS.exists() else ():
        runner, _ = read_record(folder)
        if runner is not None and runner.pid == pid:
            found.append(folder.name.lstrip(".").partition(".")[0])
    return found


@contextmanager
def left_as_it_was() -> Iterator[Machine]:
    """Holds what is done inside to leaving the machine as it was."""
    before = Machine()
    yield before
    wait_until(lambda: Machine() == before, 10, "the machine to be as it was")


def wait_until(true: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until it is true; fails the test after so many seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
        time.sleep(0.02)
