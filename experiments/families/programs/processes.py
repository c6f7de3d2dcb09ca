"""The runner's side of the server that forks ranks (`weft.pytorch.fork_server`)."""

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
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
LOOK_S = 0.2
ENDED_S = 10.0
"""How long processes that are killed may take to end."""


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
        end_s = time.monotonic() + READY_S
        while -1 not in self._news:
            if time.monotonic() > end_s:
                raise RunError(f"the parent of the ranks did not get ready within {READY_S:g} s")
            select.select([self._socket], [], [], LOOK_S)
            self._take()
        refuse(
            self._news[-1].error, f"torch cannot be loaded: {self._news[-1].error}", MachineError
        )

    def fork(self, rank: int, program: str, namespaces_of: int) -> list[IO[bytes]]:
        """Fork a rank into the namespaces of a process, and return what it prints and complains.

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
        return [os.fdopen(pipe[0], "rb", buffering=0) for pipe in pipes]

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

    def ended(self, ranks: Collection[int], limit_s: float) -> set[int]:
        """Wait until all of some ranks have ended, for so long at most, and return those that
        have."""
        end_s = time.monotonic() + limit_s
        while True:
            found = {rank for rank in ranks if self.status(rank) is not None}
            if len(found) == len(ranks) or time.monotonic() > end_s:
                return found
            select.select([self._socket], [], [], LOOK_S)

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
