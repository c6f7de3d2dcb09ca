"""The side of a fork server that asks for children (`weft.base.forks` is the other one)."""

import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from weft.base.children import how_it_ended, python_command
from weft.base.effort import Effort
from weft.base.errors import MachineError, RunError, refuse
from weft.base.forks import ALL, MOST_BYTES, Asked, News
from weft.base.outputs import killed
from weft.base.private_files import open_private

READY_LIMIT_S = 600.0
"""How much `Effort` a server may take to get ready. The first start on a machine compiles; later
ones take a second or two."""
ANSWER_LIMIT_S = 60.0
"""How much `Effort` a server may take from one word to the next, until children are forked or gone;
and how long it may take in nothing."""
LOOK_S = 1.0
"""Between two looks at what the server does."""
END_LIMIT_S = 10.0
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""The environment of a server: a process with threads cannot be forked safely."""

Start = Callable[[Callable[[], "subprocess.Popen[bytes]"]], "subprocess.Popen[bytes]"]


class ForkServer:
    """A process that forks others when it is asked to; they end when it is closed, and when either
    of the two processes ends.

    Children have numbers. One may be forked anew when the last of its number has ended.

    Args:
        name: what messages call it.
        module: what is run; it calls `weft.base.forks.be_fork_server`.
        arguments: what it is to load.
        log: where it writes what it has to say.
        environment: of the server, and so of its children.
        python: the interpreter.
        start: starts the process.
    """

    def __init__(
        self,
        name: str,
        module: str,
        arguments: Sequence[str],
        log: Path,
        environment: Mapping[str, str],
        *,
        python: str = sys.executable,
        start: Start = lambda begin: begin(),
    ) -> None:
        self._name, self._log = name, log
        self.exited: dict[int, News] = {}
        """Children whose latest process has ended, as far as is known."""
        self._forked: dict[int, int] = {}
        """The latest process of each child."""
        self._asked: dict[int, int] = {}
        """How many forks of each child have been asked for and not been heard of yet."""
        self._ending = 0
        """How often the end of all children has been asked for and not been heard of yet."""
        self._ready: News | None = None
        self._heard = 0
        """Words of the server so far."""
        self._is_gone = False
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(ANSWER_LIMIT_S)
        command = python_command(module, str(theirs.fileno()), *arguments)
        with theirs, open_private(log, "ab") as file:
            self._process = start(
                lambda: subprocess.Popen(
                    [python, *command[1:]], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=file, stderr=file, env=dict(environment), start_new_session=True,
                )
            )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._process.pid

    def fileno(self) -> int:
        """Return a descriptor that is readable when ``poll`` has news."""
        return self._socket.fileno()

    def wait_ready(self, limit_s: float = READY_LIMIT_S) -> None:
        """Wait until everything is loaded and forks are quick.

        Raises:
            MachineError: it cannot be loaded.
            RunError: the server ended; or worked for longer than that, by its processor time, or
                did nothing for as long.
        """
        self._wait(lambda: self._ready is not None, limit_s, "did not get ready")
        if self._ready is not None and self._ready.error:
            raise MachineError(self._ready.error)

    def fork(self, number: int, work: bytes, files: Sequence[int] = ()) -> None:
        """Ask for a child; returns at once, and works before the server is ready.

        Args:
            work: what it is to do.
            files: open files that it gets.
        """
        self._asked[number] = self._asked.get(number, 0) + 1
        self.exited.pop(number, None)
        told = os.memfd_create("work")
        try:
            os.pwrite(told, work, 0)
            self._send(Asked(number), [told, *files])
        finally:
            os.close(told)

    def signal(self, number: int, sent: int) -> None:
        """Send a signal to a child."""
        self._send(Asked(number, sent))

    def end_all(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        """Kill what is left of the children asked for so far, and wait until they are gone; with a
        server that is gone they are, too.

        Raises:
            RunError: they are not gone within that time.
        """
        if not self._asked or self._is_gone:
            return
        self._ending += 1
        self.signal(ALL, signal.SIGKILL)
        self._wait(
            lambda: not self._ending, limit_s, "did not end all its children", even_if_gone=True
        )

    def poll(self) -> Mapping[int, News]:
        """Take the news without waiting.

        Returns:
            the children that have ended so far.

        Raises:
            RunError: the server itself is gone.
        """
        self._take_news()
        if self._is_gone:
            raise RunError(f"{self._name} (pid {self.pid}) {self._how_it_ended()}")
        return self.exited

    def _how_it_ended(self) -> str:
        """Return all there is to say of it, as its log goes with the run's folder."""
        try:
            how = how_it_ended(self._process.wait(5.0))
        except subprocess.TimeoutExpired:
            how = "has closed its connection"
        words = tail(self._log)
        return f"{how}; its last words:\n{words}" if words else f"{how}; its log is empty"

    def _send(self, asked: Asked, files: Sequence[int] = ()) -> None:
        with suppress(OSError):  # it is gone, or takes nothing, which is seen where it is heard
            socket.send_fds(self._socket, [msgspec.json.encode(asked)], files)

    def _take_news(self) -> None:
        while not self._is_gone and select.select([self._socket], [], [], 0)[0]:
            data = b""
            with suppress(ConnectionResetError):
                data = self._socket.recv(MOST_BYTES)
            if not data:
                self._is_gone = True
                return
            self._heard += 1
            news = msgspec.json.decode(data, type=News)
            number, asked = news.number, self._asked.get(news.number, 0)
            if number == ALL and self._ready is None:
                self._ready = news
            elif number == ALL:
                self._ending -= news.status is None
            elif news.status is None:
                self._forked[number], self._asked[number] = news.pid, asked - 1
            elif self._forked.get(number) == news.pid and not asked:
                self.exited[number] = news

    def _wait(
        self, done: Callable[[], bool], limit_s: float, what: str, even_if_gone: bool = False
    ) -> None:
        """Wait until something is done; or, if asked for, until the server is gone. The limit is
        anew with every word of the server."""
        take = self._take_news if even_if_gone else self.poll
        effort = Effort(self.pid, time.monotonic())
        take()
        heard = self._heard
        while not done() and not self._is_gone:
            refuse(
                effort.counted_s(time.monotonic()) >= limit_s,
                f"{self._name} (pid {self.pid}) {what}: it has worked, or done nothing, for "
                f"{limit_s:.0f} s",
                RunError,
            )
            select.select([self], [], [], min(LOOK_S, limit_s / 4))
            take()
            if self._heard != heard:
                heard, effort = self._heard, Effort(self.pid, time.monotonic())

    def close(self) -> None:
        """End the server and all its children; returns when they are gone."""
        self._is_gone = True
        self._socket.close()
        try:
            self._process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            killed(self._process)


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, or why it cannot be read."""
    try:
        text = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text[-lines:])
