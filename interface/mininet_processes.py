"""The processes behind the switches of a Mininet script, which die with it."""

import importlib.util
import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.cache import CHECKOUT
from weft.base.children import (
    DIE_WITH_PARENT,
    how_it_ended,
    last_words,
    python_command,
    python_path,
    run_tool,
)
from weft.base.errors import InputError, MachineError, RunError

START_LIMIT_S = 60.0
"""How long BMv2 may take to listen."""
COMPILING_LIMIT_S = 600.0
LOOK_S = 0.05
END_LIMIT_S = 10.0
MOST_WORDS = 2000
"""The most bytes of what a process said that an error repeats."""
LISTENING = "0A"
"""A listening socket's state in /proc/net/tcp."""


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


def _in_namespace(pid: int | None) -> list[str]:
    return [] if pid is None else ["mnexec", "-a", str(pid)]


def _environment() -> dict[str, str]:
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
            *_in_namespace(namespace_pid),
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
                env=_environment(),
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
            _end(self._process)
            os.close(self._said)

    def _last_words(self) -> str:
        _end(self._process)
        size = os.fstat(self._said).st_size
        said = os.pread(self._said, MOST_WORDS, max(size - MOST_WORDS, 0))
        return said.decode(errors="replace").strip() or how_it_ended(self._process.returncode)


def _end(process: "subprocess.Popen[Any]") -> None:
    """Wait for the end of a process that is told to end, and kill it if it does not."""
    try:
        process.wait(END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def compiled_for_bmv2(program: Path, log_file: str) -> Path:
    """Return a program as BMv2 takes it: P4 source is compiled, beside the log file. Raises
    InputError for a program that does not compile."""
    if program.suffix != ".p4":
        return program
    compiled = Path(log_file).with_suffix(".json")
    done = run_tool(
        weft_command("p4c", str(program), "-o", str(compiled)),
        environment=_environment(),
        timeout_s=COMPILING_LIMIT_S,
        what="weft p4c",
    )
    if done.returncode != 0:
        raise InputError(f"program {str(program)!r}: {done.stderr.strip() or last_words(done)}")
    return compiled


class Bmv2Process:
    """A process of BMv2 with one switch, which is killed when its script dies."""

    def __init__(
        self,
        program: str,
        options: Sequence[str],
        target: Sequence[str],
        *,
        thrift_port: int,
        port: int,
        log_file: str,
        namespace_pid: int | None,
    ) -> None:
        """Start it, with its options and its target's. It is ready once it listens at ``port``.
        Raises MachineError if it is not installed."""
        if shutil.which(program) is None:
            raise MachineError(
                f"{program!r} (BMv2) is not on PATH, and is no program: install p4lang's package "
                "p4lang-bmv2, name it by sw_path, or leave switch='bmv2' out"
            )
        told = run_tool([program, "--help"])
        has_thrift = "--thrift-port" in told.stdout + told.stderr
        thrift = ["--thrift-port", str(thrift_port)] if has_thrift else []
        self._command = [
            *DIE_WITH_PARENT, *_in_namespace(namespace_pid), program, *thrift, *options, *target,
        ]  # fmt: skip
        self._port = port
        self._log_file = log_file
        with files.told_as_input(f"cannot write the log {log_file!r}"):
            log = files.create(Path(log_file))
        try:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        finally:
            os.close(log)

    def __str__(self) -> str:
        return shlex.join(self._command)

    def wait_until_ready(self) -> None:
        """Return once it listens. Raises RunError if it ends before, or does not."""
        end = time.monotonic() + START_LIMIT_S
        while not listens(self._process.pid, self._port):
            if self._process.poll() is not None or time.monotonic() > end:
                why = "does not listen"
                if self._process.returncode is not None:
                    why = how_it_ended(self._process.returncode)
                self.stop("")
                raise RunError(f"{self} {why}; its log is {self._log_file}")
            time.sleep(LOOK_S)

    def stop(self, name: str) -> None:
        """End it."""
        self._process.terminate()
        _end(self._process)


def listens(pid: int, port: int) -> bool:
    """Return whether anybody listens at a TCP port in the network namespace of a process."""
    for family in ("tcp", "tcp6"):
        with suppress(OSError), open(f"/proc/{pid}/net/{family}") as table:
            for line in table:
                _, local, _, state, *_ = line.split()
                if state == LISTENING and int(local.rpartition(":")[2], 16) == port:
                    return True
    return False
