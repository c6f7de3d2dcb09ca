"""A process of ``weft switch`` that others start, in whatever Python they run: only light parts of
Weft are imported here."""

import importlib.util
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.children import how_it_ended, python_command, python_path
from weft.base.errors import MachineError, RunError

END_LIMIT_S = 10.0
MOST_WORDS = 2000
"""The most bytes of what a process said that an error repeats."""


def weft_command(*arguments: str) -> list[str]:
    """Return a command of ``weft`` in a Python that has what Weft needs: this one, or that of
    Weft's checkout. Raises MachineError if neither has it."""
    command = python_command("weft", *arguments)
    if importlib.util.find_spec("numba") is None:
        python = CHECKOUT / ".venv" / "bin" / "python"
        if not python.exists():
            raise MachineError(
                f"{sys.executable} lacks packages that Weft needs, and there is no {python}: run "
                f"'{CHECKOUT}/weft setup' once, or start the script with '{CHECKOUT}/weft python'"
            )
        command[0] = str(python)
    return command


def in_namespace(pid: int | None) -> list[str]:
    return [] if pid is None else ["mnexec", "-a", str(pid)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(os.environ.get("PYTHONPATH"))}


class SwitchGroup:
    """A process of ``weft switch`` with several switches, whose end is that of the socket by which
    it is told what to do: it does not outlive the script."""

    def __init__(self, switches: Mapping[str, Sequence[str]], namespace_pid: int | None) -> None:
        """Start switches, each with its options, in this namespace or in that of a process."""
        self._left = set(switches)
        self._said = os.memfd_create("said")
        ours, theirs = socket.socketpair()
        options = chain.from_iterable(
            ("--switch", name, *words) for name, words in switches.items()
        )
        self._command = [
            *in_namespace(namespace_pid),
            *weft_command("switch", f"--control-fd={theirs.fileno()}", *options),
        ]
        with theirs:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # Ctrl-C at Mininet's prompt is not for it
                env=environment(),
            )
        self._socket = ours
        self._lines = ours.makefile("r", encoding="utf-8")

    def __str__(self) -> str:
        return shlex.join(self._command)

    def wait_until_ready(self) -> None:
        """Return once all switches are ready. Raises RunError if the process ends before."""
        waiting = {f"ready {name}" for name in self._left}
        while waiting:
            line = self._lines.readline()
            if not line:
                raise RunError(f"the P4 switches did not start: {self._last_words()}")
            waiting.discard(line.strip())

    def stop(self, name: str) -> None:
        """End one switch; the process ends with the last one."""
        self._left.discard(name)
        with suppress(OSError):  # it has ended already
            self._socket.sendall(f"stop {name}\n".encode())
            while self._lines.readline() not in ("", f"stopped {name}\n"):
                continue
        if not self._left:
            self._lines.close()
            self._socket.close()
            end(self._process)
            os.close(self._said)

    def _last_words(self) -> str:
        end(self._process)
        size = os.fstat(self._said).st_size
        said = os.pread(self._said, MOST_WORDS, max(size - MOST_WORDS, 0))
        return said.decode(errors="replace").strip() or how_it_ended(self._process.returncode)


def end(process: "subprocess.Popen[Any]") -> None:
    """Wait for the end of a process that is told to end, and kill it if it does not."""
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
