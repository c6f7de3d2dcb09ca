"""Who attacks when: kinds share the time, some at once, each in a process that is looked after."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.children import DIE_WITH_PARENT
from weft.tools.attack.kind import MARK, Broken, Named
from weft.tools.attack.processes import kill_marked

LAST = 1 << 40
"""No trial has a higher number."""
START_S = 300.0
"""For a process to load what it attacks, on a machine that has much else to do."""
TAIL_LINES = 40


@dataclass
class Failure:
    """A trial that failed."""

    kind: str
    seed: int
    trial: int
    text: str
    notes: list[str] = field(default_factory=list)

    @property
    def repeat(self) -> str:
        """The command that makes this trial again, and no other."""
        draw = f"--seed {self.seed} --trial {self.trial}"
        return f"python -m weft.tools.attack --only {self.kind} {draw}"


@dataclass
class Tally:
    """What came of a kind's trials."""

    kind: str
    trials: int = 0
    failures: list[Failure] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    """How often came what of trials that did not fail."""
    seconds: float = 0.0
    skipped: str = ""
    """Why there were none."""


@dataclass
class Attack:
    """All that is asked for, and what came of it so far."""

    kinds: Sequence[Named]
    seed: int
    seconds: float
    at_once: int = 1
    only_trial: int | None = None
    failed: Callable[[Failure], None] = lambda failure: None
    """Is told of failures as they come, from any thread."""
    mark: str = field(default_factory=lambda: os.urandom(4).hex())
    tallies: dict[str, Tally] = field(init=False)
    _stopped: threading.Event = field(init=False, default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.tallies = {kind.name: Tally(kind.name) for kind in self.kinds}

    def start(self) -> list[threading.Thread]:
        """Begin; the threads end when all is done."""
        threads = [
            threading.Thread(target=self._take_turns, args=(lane,), daemon=True)
            for lane in lanes(self.kinds, self.at_once)
        ]
        for thread in threads:
            thread.start()
        return threads

    def stop(self) -> None:
        """Have all end at once, and leave nothing."""
        self._stopped.set()

    def _take_turns(self, lane: Sequence[Named]) -> None:
        """Kinds one after the other; what one does not use of its time, the next ones get."""
        end = time.monotonic() + self.seconds
        for index, named in enumerate(lane):
            left = sum(each.kind.SHARE for each in lane[index:])
            seconds = max(0.0, end - time.monotonic()) * named.kind.SHARE / left
            if not self._stopped.is_set():
                self._attack(named, seconds)

    def _attack(self, named: Named, seconds: float) -> None:
        tally = self.tallies[named.name]
        started = time.monotonic()
        first = self.only_trial or 0
        last = LAST if self.only_trial is None else self.only_trial
        while first <= last and not self._stopped.is_set():
            worker = Worker(named, self.seed, first, last, started + seconds, self.mark)
            number = self._watch(worker, tally)
            try:
                worker.end()
            except Broken as broken:
                self._note(tally, Failure(named.name, self.seed, number, str(broken)))
            tally.seconds = time.monotonic() - started
            first = number + 1
            if worker.finished or time.monotonic() > started + seconds:
                break

    def _watch(self, worker: Worker, tally: Tally) -> int:
        """Take in what a worker tells until it has ended, or must be; the last trial's number."""
        name, number = worker.named.name, worker.first - 1
        running = False
        while (facts := worker.next(self._stopped)) is not None:
            if "begun" in facts:
                number, running = facts["begun"], True
            elif "ended" in facts:
                running = False
                tally.trials += 1
                if facts["failure"]:
                    self._note(tally, Failure(
                        name, self.seed, number, facts["failure"], facts["notes"]
                    ))  # fmt: skip
                else:
                    tally.outcomes[facts["outcome"]] += 1
        if self._stopped.is_set() or worker.finished:
            return number
        if not running:
            number += 1  # it ended, or hung, where no trial was under way
        tally.trials += 1
        self._note(tally, Failure(name, self.seed, number, worker.describe_end()))
        return number

    def _note(self, tally: Tally, failure: Failure) -> None:
        tally.failures.append(failure)
        self.failed(failure)


class Worker:
    """A process that makes trials, from its start to its end."""

    def __init__(
        self, named: Named, seed: int, first: int, last: int, end: float, mark: str
    ) -> None:
        """``end``: when no further trial is to begin, of time.monotonic()."""
        self.named = named
        self.first = first
        self.finished = False
        """Whether it has made all that it was asked for."""
        self._mark = f"{mark}.{named.name}."
        self._deadline = time.monotonic() + START_S + named.kind.DEADLINE_S
        self._hangs = False
        self._said = b""
        self._folder = tempfile.TemporaryDirectory(prefix="attack-")
        self._log = Path(self._folder.name, "log")
        path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
        with self._log.open("wb") as log:
            self._popen = subprocess.Popen(
                [*DIE_WITH_PARENT, sys.executable, "-m", "weft.tools.attack.worker", named.module,
                 *map(str, (seed, first, last, max(0.0, end - time.monotonic())))],
                env={**os.environ, MARK: self._mark, "PYTHONPATH": path,
                     "TMPDIR": self._folder.name},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                start_new_session=True,
            )  # fmt: skip

    def next(self, stopped: threading.Event) -> dict[str, Any] | None:
        """What it tells next; None if it has ended, is stopped, or lets a deadline pass."""
        assert self._popen.stdout is not None
        while b"\n" not in self._said:
            if stopped.is_set():
                return None
            if time.monotonic() > self._deadline:
                self._hangs = True
                return None
            if select.select([self._popen.stdout], [], [], 0.2)[0]:
                data = os.read(self._popen.stdout.fileno(), 65536)
                if not data:
                    return None
                self._said += data
        line, _, self._said = self._said.partition(b"\n")
        facts: dict[str, Any] = json.loads(line)
        self._deadline = time.monotonic() + self.named.kind.DEADLINE_S
        self.finished = self.finished or "finished" in facts
        return facts

    def describe_end(self) -> str:
        """How it ended where it should not have, with what it printed last."""
        if self._hangs:
            said = f"it hangs: no end within {self.named.kind.DEADLINE_S:g} s; it was ended"
            self._popen.send_signal(signal.SIGUSR1)  # faulthandler prints where it is
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(1.0)
        else:
            status = self._popen.wait()
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            said = f"the process that made it ended with {how}"
        lines = self._log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([said, *lines])

    def end(self) -> None:
        """Leave nothing of it: neither the process nor what its trials started."""
        if not self.finished:
            kill_marked(self._mark)
        if self._popen.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(60.0 if self.finished else 5.0)
            self._popen.kill()
            self._popen.wait()
        assert self._popen.stdout is not None
        self._popen.stdout.close()
        self._folder.cleanup()


def lanes(kinds: Sequence[Named], at_once: int) -> list[list[Named]]:
    """Kinds dealt to so many lanes that go on side by side, so that their shares are about equal;
    the same kinds are dealt alike. Those whose trials take long come last: what one takes beyond
    its time is nobody else's."""
    dealt: list[list[Named]] = [[] for _ in range(max(1, min(at_once, len(kinds))))]
    for named in sorted(kinds, key=lambda each: -each.kind.SHARE):
        min(dealt, key=lambda lane: sum(each.kind.SHARE for each in lane)).append(named)
    return [sorted(lane, key=lambda each: each.kind.DEADLINE_S) for lane in dealt if lane]
