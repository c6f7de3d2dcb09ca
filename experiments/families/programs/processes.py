"""The runner's side of the server that forks ranks (`weft.pytorch.fork_server`)."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

import msgspec

from weft.base.children import how_it_ended, python_command
from weft.base.errors import MachineError, RunError, refuse
from weft.base.outputs import killed
from weft.pytorch.fork_server import MOST_BYTES, News, Request, send
from weft.topo.worlds.emulated.runs import RunRecord

READY_S = 600.0
"""How long the server may take to load everything: the first time, code is compiled."""
FORK_S = 60.0
ENDED_S = 10.0


class ForkServer:
    """A server that forks ranks; it ends when it is closed, and they with it.

    Args:
        record: of the run that it belongs to.
        python: the interpreter, which has torch.
        environment: of the server.
        algorithms: those that ranks will use.
    """

    def __init__(
        self,
        record: RunRecord,
        python: str,
        environment: Mapping[str, str],
        algorithms: Sequence[str],
    ) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = python_command("weft.pytorch.fork_server", str(theirs.fileno()), *algorithms)
        command[0] = python
        self._log = record.folder / "fork-server.log"
        with theirs, self._log.open("wb") as log:
            self._process = record.start(
                lambda: subprocess.Popen(
                    command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log,
                    stderr=log, env=dict(environment), start_new_session=True,
                ),
                "the parent of the ranks",
            )  # fmt: skip
        self._socket = ours
        self._news: dict[int, News] = {}
        """The latest of each rank."""

    def wait_ready(self) -> None:
        """Wait until it can fork.

        Raises:
            MachineError: it cannot load torch.
            RunError: it has ended, or is not ready in time.
        """
        self._wait(lambda: -1 in self._news, READY_S, "get ready")
        refuse(
            self._news[-1].error, f"torch cannot be loaded: {self._news[-1].error}", MachineError
        )

    def fork(self, rank: int, program: str, namespaces_of: int) -> "ForkedRank":
        """Fork a rank into the namespaces of a process.

        Args:
            program: the path of a `weft.pytorch.fork_server.Program`.
        """
        self._news.pop(rank, None)
        pipes = [os.pipe(), os.pipe()]
        opened = [
            os.open(f"/proc/{namespaces_of}/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")
        ]
        try:
            send(self._socket, Request(rank, program), [*opened, *(pipe[1] for pipe in pipes)])
        finally:
            for each in (*opened, *(pipe[1] for pipe in pipes)):
                os.close(each)
        files = [os.fdopen(pipe[0], "rb", buffering=0) for pipe in pipes]
        return ForkedRank(self, rank, files[0], files[1])

    def signal(self, rank: int, number: int) -> None:
        """Send a signal to a rank's process."""
        with suppress(OSError):
            send(self._socket, Request(rank, signal=number))

    def status(self, rank: int) -> int | None:
        """Return how a rank's process has ended; None if it has not. One whose server is gone was
        killed."""
        try:
            self._take()
        except RunError:
            return -signal.SIGKILL
        news = self._news.get(rank)
        return None if news is None else news.status

    def close(self) -> None:
        """End the server and all its ranks."""
        self._socket.close()
        try:
            self._process.wait(ENDED_S)
        except subprocess.TimeoutExpired:
            killed(self._process)

    def _take(self) -> None:
        while select.select([self._socket], [], [], 0)[0]:
            data = self._socket.recv(MOST_BYTES)
            if not data:
                raise RunError(f"the parent of the ranks has ended: {self._words()}")
            news = msgspec.json.decode(data, type=News)
            self._news[news.rank] = news

    def _words(self) -> str:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        how = how_it_ended(self._process.returncode or 0)
        lines = self._log.read_text(errors="replace").splitlines()[-8:]
        return "; ".join([how, *lines])

    def _wait(self, done: object, limit_s: float, what: str) -> None:
        assert callable(done)
        end_s = time.monotonic() + limit_s
        self._take()
        while not done():
            refuse(
                time.monotonic() > end_s,
                f"the parent of the ranks did not {what} within {limit_s:g} s",
                RunError,
            )
            select.select([self._socket], [], [], 0.2)
            self._take()


class ForkedRank:
    """A rank's process, as `subprocess.Popen` has one."""

    def __init__(self, server: ForkServer, rank: int, stdout: IO[bytes], stderr: IO[bytes]) -> None:
        self._server = server
        self._rank = rank
        self.stdout = stdout
        self.stderr = stderr

    def poll(self) -> int | None:
        """Return its status if it has ended."""
        return self._server.status(self._rank)

    def send_signal(self, number: int) -> None:
        """Send it a signal."""
        if self.poll() is None:
            self._server.signal(self._rank, number)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout_s: float = ENDED_S) -> int:
        """Wait for its end, and return its status. Raises subprocess.TimeoutExpired."""
        end_s = time.monotonic() + timeout_s
        while (status := self.poll()) is None:
            if time.monotonic() > end_s:
                raise subprocess.TimeoutExpired(f"rank {self._rank}", timeout_s)
            time.sleep(0.01)
        return status
