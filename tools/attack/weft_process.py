"""A ``weft`` command under attack, and what of it must not be left on the machine."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from tests.support.system_support import WEFT, runs_of

from weft.base.cache import CHECKOUT
from weft.tools.attack.kind import MARK, Broken, Trial
from weft.tools.attack.processes import (
    GONE_S,
    clean_up,
    inside,
    interfaces,
    marked,
    network_namespace,
    wait_until,
)
from weft.topo.worlds.emulated.cleanup import kill_all
from weft.topo.worlds.emulated.runs import RUNS, Process, read_record

END_S = 120.0
"""How long a command may take to end once it has to, on a machine that has much else to do."""
TAIL = 3000


class WeftProcess:
    """A command in the background, in a session of its own; what it says goes to files."""

    def __init__(
        self,
        trial: Trial,
        *arguments: str,
        before: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        speaks: bool = False,
    ) -> None:
        """``before``: a command that runs it in its place, as prlimit does. ``speaks``: its stdin
        is a pipe."""
        self.trial = trial
        self.command = " ".join(["weft", *arguments])
        trial.note(" ".join([*before, self.command]))
        self._interfaces = interfaces()
        self._own_namespace = network_namespace(os.getpid())
        self._namespaces: dict[int, int] = {}
        """By inode, open: so that the kernel gives their numbers to no others."""
        self._runs: set[str] = set()
        self._told: dict[int, str] = {}
        own = trial.folder / "tmp"
        own.mkdir(exist_ok=True)
        self._files = (trial.folder / "stdout", trial.folder / "stderr")
        with self._files[0].open("wb") as out, self._files[1].open("wb") as errors:
            self.popen = subprocess.Popen(
                [*before, *WEFT, *arguments],
                cwd=trial.folder,
                env={**os.environ, "PYTHONPATH": str(CHECKOUT), "TMPDIR": str(own),
                     **(environment or {}), MARK: trial.mark},
                stdin=subprocess.PIPE if speaks else subprocess.DEVNULL,
                stdout=out, stderr=errors, start_new_session=True,
            )  # fmt: skip

    @property
    def output(self) -> str:
        """What it has printed to stdout."""
        return self._files[0].read_text(errors="replace")

    @property
    def errors(self) -> str:
        """What it has printed to stderr."""
        return self._files[1].read_text(errors="replace")

    @property
    def stdin(self) -> IO[bytes]:
        """Of one that speaks."""
        assert self.popen.stdin is not None
        return self.popen.stdin

    def runs(self) -> bool:
        """Whether it still does."""
        return self.popen.poll() is None

    def look(self) -> list[Process]:
        """Its processes, itself included, oldest first; remembers what must be gone at the end."""
        found = marked(self.trial.mark)
        for process in found:
            if network_namespace(process.pid) not in (*self._namespaces, self._own_namespace):
                self._hold_namespace(process)
        self._runs |= set(runs_of(self.popen.pid))
        for run_id in self._runs:
            self._told |= {each.pid: each.what for each in read_record(RUNS / run_id)[1]}
        return found

    def _hold_namespace(self, process: Process) -> None:
        try:
            descriptor = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has ended
            return
        inode = os.fstat(descriptor).st_ino
        if inode in (*self._namespaces, self._own_namespace) or not process.is_alive():
            os.close(descriptor)
        else:
            self._namespaces[inode] = descriptor

    def what(self, process: Process) -> str:
        """What a process is: as the run's record calls it, or its command line."""
        if process.pid == self.popen.pid:
            return "the runner"
        return self._told.get(process.pid) or process.what or "a process that has just ended"

    def folders(self) -> list[Path]:
        """Those of its runs."""
        self._runs |= set(runs_of(self.popen.pid))
        return [RUNS / run_id for run_id in self._runs]

    def wait(self, since: str, deadline_s: float = END_S) -> int:
        """Its exit status (negative: the signal that ended it); `Broken` if it does not end."""
        try:
            return self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            said = self.said()
            self.kill()
            raise Broken(f"it still runs {deadline_s:g} s after {since}{said}") from None

    def kill(self) -> None:
        """Kill all of it, and clean up."""
        kill_all(self.look())
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        clean_up()

    def said(self) -> str:
        """The end of what it has printed, to be put behind a message."""
        parts = [
            f"\n{name}:\n{text.rstrip()[-TAIL:]}"
            for name, text in (("stdout", self.output), ("stderr", self.errors))
            if text.strip()
        ]
        return "".join(parts) or "\nit printed nothing"

    def check_speech(self) -> None:
        """`Broken` if it printed a traceback, or failed in a way of which it says so itself."""
        said = self.output + self.errors
        if "Traceback (most recent call last)" in said:
            raise Broken(f"it printed a traceback{self.said()}")
        if "please report this" in said:
            raise Broken(f"its compiler failed{self.said()}")

    def check_nothing_left(self) -> None:
        """`Broken` if something of it is left; which is removed then."""
        try:
            wait_until(lambda: not self.left(), "nothing to be left of it", GONE_S)
        except Broken:
            left = self.left()
            kill_all(marked(self.trial.mark))
            kill_all(inside(set(self._namespaces)))
            clean_up()
            if left:
                raise Broken(f"left behind: {', '.join(left)}{self.said()}") from None
        finally:
            for descriptor in self._namespaces.values():
                os.close(descriptor)
            self._namespaces.clear()

    def left(self) -> list[str]:
        """What of it is there."""
        processes = {each.pid: each for each in marked(self.trial.mark)}
        processes |= {each.pid: each for each in inside(set(self._namespaces))}
        found = [f"process {each.pid} ({each.what})" for each in processes.values()]
        found += [f"the folder {folder}" for folder in self.folders() if folder.exists()]
        found += [f"the interface {name}" for name in interfaces() - self._interfaces]
        found += [f"{path} in TMPDIR" for path in (self.trial.folder / "tmp").iterdir()]
        return found
