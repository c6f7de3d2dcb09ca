"""Start and end of a run's processes, which end with the runner, are on record, and are in a
namespace."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from weft.base import files
from weft.base.children import DIE_WITH_PARENT, how_it_ended
from weft.base.effort import Effort, processor_s
from weft.base.errors import RunError
from weft.base.outputs import killed
from weft.base.private_files import open_private
from weft.topo.worlds.emulated.runs import RunRecord

TAIL_LINES = 14
TAIL_BYTES = 1 << 16
"""What is read of each end of a log, and of what a process prints at once."""
LOOK_S = 1.0
"""The time between two looks at a process that is waited for."""
STOP_DEADLINE_S = 2.0
DEATH_S = 1.0
"""How long a process whose connections have ended may take to end itself."""


class RunProcess:
    """A process of a run that was started in a namespace of the run and whose stderr is kept
    in a file."""

    def __init__(
        self,
        run: RunRecord,
        what: str,
        command: Sequence[str],
        *,
        log: Path,
        namespace_pid: int | None = None,
        environment: Mapping[str, str] | None = None,
        speaks: bool = True,
        output: Path | None = None,
        umask: int = -1,
    ) -> None:
        """Start ``command`` in the network namespace of ``namespace_pid``, or in this process's
        own.

        Call it from a thread that lives as long as the run. ``log`` receives stderr. The process
        has a session of its own, so that a Ctrl-C at the terminal does not reach it. Its stdin is a
        pipe that the runner holds. Its stdout is a pipe that the runner reads if the process
        ``speaks``, and otherwise goes to the log; with ``output`` it goes to that file, made anew.
        ``umask`` is the umask of the process, by default the runner's.

        Raises RunError if ``output`` cannot be written.
        """
        self.what = what
        self.log = log
        inside = () if namespace_pid is None else ("mnexec", "-a", str(namespace_pid))
        with ExitStack() as stack:
            errors = stack.enter_context(open_private(log, "wb"))
            stdout: IO[bytes] | int = subprocess.PIPE if speaks else errors
            if output is not None:
                try:
                    stdout = stack.enter_context(open(files.create(output), "wb"))
                except OSError as error:
                    raise RunError(f"{what}: cannot write {output}: {error.strerror}") from None
            self.popen = run.start(
                lambda: subprocess.Popen(
                    [*DIE_WITH_PARENT, *inside, *command],
                    stdin=subprocess.PIPE,
                    stdout=stdout,
                    stderr=errors,
                    env={**run.environment(), **(environment or {})},
                    start_new_session=True,
                    umask=umask,
                ),
                what,
            )

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self.popen.pid

    def tell(self, line: str) -> None:
        """Write a line to the process's stdin; one that has ended is found when it is waited
        for."""
        assert self.popen.stdin is not None
        with suppress(BrokenPipeError):
            os.write(self.popen.stdin.fileno(), f"{line}\n".encode())

    def wait_for_line(self, line: str, limit_s: float) -> None:
        """Wait until the process prints ``line`` to stdout.

        Raises RunError, with the tail of its stderr, if the process ends before; or if it has used
        more processor time than the limit, or done nothing for as long (`Effort`).
        """
        stdout = self.popen.stdout
        assert stdout is not None
        effort = Effort(self.pid, time.monotonic())
        lines: list[bytes] = []
        begun = b""
        while line.encode() not in (*lines, begun):
            if effort.counted_s(time.monotonic()) >= limit_s:
                raise self.late(limit_s)
            if not select.select([stdout], [], [], min(LOOK_S, limit_s / 4))[0]:
                continue
            chunk = os.read(stdout.fileno(), TAIL_BYTES)
            if not chunk:
                with suppress(subprocess.TimeoutExpired):
                    self.popen.wait(STOP_DEADLINE_S)
                raise RunError(f"{self.describe_end()} before it was ready{self.tail()}")
            *lines, begun = (begun[-TAIL_BYTES:] + chunk).split(b"\n")

    def wait_for_socket(self, path: Path, limit_s: float) -> None:
        """Wait until the process accepts connections at a Unix socket; raises the same errors as
        `wait_for_line`."""
        effort = Effort(self.pid, time.monotonic())
        while True:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                if probe.connect_ex(str(path)) == 0:
                    return
            if not self.is_alive():
                raise RunError(f"{self.describe_end()} before it was ready{self.tail()}")
            if effort.counted_s(time.monotonic()) >= limit_s:
                raise self.late(limit_s)
            time.sleep(0.005)

    def late(self, limit_s: float) -> RunError:
        """Return the error to raise when the process runs but was not ready in time."""
        return RunError(
            f"{self.what} (pid {self.pid}) was not ready after {limit_s:g} s{self.tail()}"
        )

    def is_alive(self) -> bool:
        """Return whether the process still runs."""
        return self.popen.poll() is None

    def describe_end(self) -> str:
        """Return a text that says which process ended, and how."""
        status = self.popen.poll()
        who = f"{self.what} (pid {self.pid})"
        return f"{who} runs" if status is None else f"{who} {how_it_ended(status)}"

    def tail(self) -> str:
        """Return the first and last lines of the process's stderr, to be put behind a message."""
        lines = _ends(self.log).strip().splitlines()
        if not lines:
            return "; it printed no error"
        if len(lines) > TAIL_LINES:
            lines = [*lines[:2], "...", *lines[3 - TAIL_LINES :]]
        return "; it printed:\n" + "\n".join(f"    {line}" for line in lines)

    def ask_to_end(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Close the process's stdin and signal it; `wait_for_end` is to follow."""
        for pipe in (self.popen.stdin, self.popen.stdout):
            if pipe is not None:
                pipe.close()
        if self.is_alive():
            self.popen.send_signal(how)

    def wait_for_end(self, deadline_s: float) -> int:
        """Return the process's exit status (negative for the signal that ended it); if the deadline
        passes, the process is killed."""
        try:
            return self.popen.wait(deadline_s)
        except subprocess.TimeoutExpired:
            return killed(self.popen)

    def cpu_seconds(self) -> float:
        """Return the user and system time that the process has used so far; 0 if it has ended."""
        return processor_s(self.pid)


def _ends(log: Path) -> str:
    """Return the beginning and the end of a file, or all of it; nothing if it cannot be read."""
    try:
        with open(log, "rb") as file:
            text = file.read(TAIL_BYTES)
            at = max(len(text), os.fstat(file.fileno()).st_size - TAIL_BYTES)
            if at > len(text):
                text += b"\n"
            file.seek(at)
            text += file.read(TAIL_BYTES)
    except OSError:
        return ""
    return text.decode(errors="replace")


def stop_all(
    processes: Sequence[RunProcess],
    how: signal.Signals = signal.SIGTERM,
    deadline_s: float = STOP_DEADLINE_S,
) -> None:
    """End processes side by side, and kill those that have not ended by the deadline."""
    for process in processes:
        process.ask_to_end(how)
    end = time.monotonic() + deadline_s
    for process in processes:
        process.wait_for_end(max(0.0, end - time.monotonic()))


@contextmanager
def blaming(check_alive: Callable[[], None]) -> Iterator[None]:
    """Name the process of a network that has ended, if the block fails because of that: a RunError
    that names it replaces the RunError that the block raised.

    Args:
        check_alive: raises the RunError that names a process that has ended.
    """
    try:
        yield
    except RunError:
        end = time.monotonic() + DEATH_S
        while True:  # its connections end a moment before it does
            check_alive()
            if time.monotonic() > end:
                raise
            time.sleep(0.01)
