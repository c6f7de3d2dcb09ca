"""The runner's side of the server that forks ranks (`weft.pytorch.fork_server`)."""

import os
import select
import signal
import time
from collections.abc import Collection, Mapping, Sequence
from typing import IO

import msgspec

from weft.base.errors import RunError
from weft.base.fork_server import ForkServer
from weft.pytorch.fork_server import RankScript
from weft.topo.worlds.emulated.runs import RunRecord

LOOK_S = 0.2
ENDED_S = 10.0
"""How long processes that are killed may take to end."""


class RankServer(ForkServer):
    """A server that forks ranks.

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
        name = "the parent of the ranks"
        super().__init__(
            name, "weft.pytorch.fork_server", algorithms, record.folder / "fork-server.log",
            environment, python=python, start=lambda begin: record.start(begin, name),
        )  # fmt: skip

    def begin(self, rank: int, program: RankScript, namespaces_of: int) -> list[IO[bytes]]:
        """Fork a rank into the namespaces of a process, and return what it prints and complains."""
        pipes = [os.pipe(), os.pipe()]
        opened = [
            os.open(f"/proc/{namespaces_of}/ns/{kind}", os.O_RDONLY) for kind in ("net", "mnt")
        ]
        opened += [writing for _, writing in pipes]
        try:
            self.fork(rank, msgspec.json.encode(program), opened)
        finally:
            for each in opened:
                os.close(each)
        return [os.fdopen(reading, "rb", buffering=0) for reading, _ in pipes]

    def status(self, rank: int) -> int | None:
        """Return how a rank's process has ended; None if it has not. One whose server is gone was
        killed."""
        try:
            news = self.poll().get(rank)
        except RunError:
            return -signal.SIGKILL
        return None if news is None else news.status

    def ended(self, ranks: Collection[int], limit_s: float) -> set[int]:
        """Wait until all of some ranks have ended, for so long at most, and return those that
        have."""
        end_s = time.monotonic() + limit_s
        while True:
            found = {rank for rank in ranks if self.status(rank) is not None}
            if len(found) == len(ranks) or time.monotonic() > end_s:
                return found
            select.select([self], [], [], LOOK_S)
