"""The runner's side of the meeting with its rank processes (the messages are in ``messages.py``).

    with Launcher(run_dir) as launcher, \\
         Rendezvous(run_dir / "rendezvous.sock", hosts=["h0", "h1"], exits=launcher) as meeting:
        for rank, host in enumerate(hosts):
            launcher.spawn(RankConfig(rank, ..., rendezvous=meeting.path), namespace=host.pid)
        meeting.gather()
        request = Request(0, "allgather", "multicast", 1 << 20)
        results = meeting.run(OperationConfig(request), progress=print)
        results = meeting.run(OperationConfig(replace(request, algorithm="ring")))

An operation that fails on the network is a result: every rank's ``RankReport.error`` says what it
waited for. A rank process that dies, or stands still for too long (``patience.py``), is a
``RunError`` that names rank, host and phase; the other ranks are told to stop.
"""

import contextlib
import select
import selectors
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from weft.agents.collectives.workload import Workload
from weft.agents.drivers.messages import (
    Abort,
    Close,
    Connected,
    Finished,
    Hello,
    LineChannel,
    Message,
    Peers,
    Prepare,
    ProgressMessage,
    RankFailed,
    Ready,
    Result,
    Start,
    Verify,
    Working,
)
from weft.agents.drivers.patience import Patience, silence_s
from weft.agents.participant import Introductions
from weft.agents.ranks import OperationConfig, RankReport
from weft.base.children import how_it_ended
from weft.base.errors import InputError, ProtocolError, RunError, refuse
from weft.base.forks import News
from weft.base.private_files import keep_private

GATHER_S = 0.02
"""The ranks report at nearly the same time: once one has, the reports of others may gather, since
each time that the runner wakes is time that the ranks and switches do not have."""
START_LEAD_NS = 30_000_000
"""From sending the start time until that time, so that every rank has read it."""
LOOK_S = 1.0
"""Between two looks at who stands still, if nothing comes."""
CLOSE_TIMEOUT_S = 2.0
WORD_TIMEOUT_S = 60.0
"""How long to wait until the launcher says how a rank ended that has closed its connection."""

Collected = TypeVar("Collected", Hello, Connected, Ready, Finished, Result)


class ExitSource(Protocol):
    """An exit source knows which rank processes ended, as the Launcher does."""

    def fileno(self) -> int:
        """Return a descriptor that can be read when `poll` has news."""

    def poll(self) -> Mapping[int, News]:
        """Return the processes that have ended so far, by rank."""

    def last_words(self, rank: int) -> str:
        """Return the end of a rank's log."""


@dataclass(frozen=True)
class RunProgress:
    """How far an operation is, for a progress bar."""

    received_bytes: list[int]
    """The bytes that each rank has received."""
    expected_bytes: list[int]
    """The bytes of others' data that each rank receives in all operations."""
    finished_ranks: int
    elapsed_s: float

    @property
    def fraction(self) -> float:
        """Return the part of all the bytes that all ranks wait for, 0 to 1."""
        total = sum(self.expected_bytes)
        return min(1.0, sum(self.received_bytes) / total) if total else 1.0


class Rendezvous:
    """A rendezvous listens on a Unix socket, brings the ranks together, starts operations and
    collects results.

    Args:
        path: of the socket to make; its folder must exist.
        hosts: name of every process's host, in their order, for messages.
        ranks: how many of the processes are ranks (the first), in teams of equal size; by default
            all. The others are reduction servers.
        teams: how many teams the ranks are.
        exits: who reports ended processes; without it a death shows as a closed connection.
        patience_s: how long a process may stand still before it is given up; twice that when they
            meet. By default, what `patience.silence_s` says of so many.
    """

    def __init__(
        self,
        path: Path,
        hosts: Sequence[str],
        exits: ExitSource | None = None,
        *,
        ranks: int = 0,
        teams: int = 1,
        patience_s: float | None = None,
    ) -> None:
        self._patience_s = silence_s(len(hosts)) if patience_s is None else patience_s
        self._path = path
        self._hosts = list(hosts)
        self._number_of_ranks = ranks or len(hosts)
        self._team_size = self._number_of_ranks // teams
        self._exits = exits
        self._ranks: dict[int, LineChannel] = {}
        self._newcomers: list[LineChannel] = []
        self._hello: dict[int, Hello] = {}
        self._phase = "connecting"
        self._operations = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
            keep_private(path)
        except OSError as error:
            self._listener.close()
            raise InputError(f"rendezvous socket {path}: {error.strerror or error}") from error
        self._listener.listen(len(hosts))
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        if exits is not None:
            self._selector.register(exits.fileno(), selectors.EVENT_READ)

    @property
    def path(self) -> str:
        """The path of the socket at which ranks meet."""
        return str(self._path)

    @property
    def pids(self) -> dict[int, int]:
        """Return the process ids, by rank, of the ranks that have said hello."""
        return {rank: hello.pid for rank, hello in self._hello.items()}

    def gather(self) -> None:
        """Wait for all ranks, tell each the queue pairs of its peers, wait until all are connected.

        Raises:
            RunError: a rank ended, or did not come and no other came for some time.
        """
        self._phase = "connecting to the rendezvous"
        hellos = self._collect(Hello, meeting=True)
        everything: Introductions = {
            key: words for hello in hellos.values() for key, words in hello.queue_pairs.items()
        }
        for rank, hello in hellos.items():
            ends = (tuple(key.split(":")) for key in hello.queue_pairs)
            theirs = [f"{team}:{peer}:{member}" for team, member, peer in ends]
            known = {key: everything[key] for key in theirs if key in everything}
            self._send(Peers(known), (rank,))
        self._phase = "connecting its queue pairs"
        self._collect(Connected, meeting=True)

    def run(
        self,
        operation: OperationConfig,
        progress: Callable[[RunProgress], None] | None = None,
        rate_bps: int = 100_000_000,
        started: Callable[[int], None] | None = None,
    ) -> list[RankReport]:
        """Run one operation on all ranks.

        Args:
            progress: called a few times a second while the operation runs.
            started: called with the common start, in ns of CLOCK_MONOTONIC, shortly before it.
            rate_bps: of the hosts' links; sets the default of the operation's timeout.

        Returns:
            one result per rank, in order; ``verified`` is false and ``error`` set where it failed.

        Raises:
            RunError: a rank process ended or did not answer.
        """
        ranks, size = self._number_of_ranks, self._team_size
        operation = operation.limited(size, rate_bps, self._operations)
        request = operation.request
        self._operations += operation.count
        workloads = [
            Workload(each, size, operation.seed, data=operation.data) for each in operation.kinds
        ]
        self._phase = "preparing its buffer"
        self._send(Prepare(operation), range(ranks))
        self._collect(Ready, ranks=ranks)

        self._phase = f"running {request.collective.title()} by {request.algorithm}"
        start_ns = time.monotonic_ns() + START_LEAD_NS
        self._send(Start(start_ns), range(ranks))
        if started is not None:
            started(start_ns)
        received = [0] * ranks
        expected = [
            operation.operations * sum(each.received_bytes(rank % size) for each in workloads)
            for rank in range(ranks)
        ]
        finished: set[int] = set()

        def watch(rank: int, message: Message) -> None:
            if isinstance(message, ProgressMessage):
                received[rank] = message.received_bytes
            elif isinstance(message, Finished):
                finished.add(rank)
                received[rank] = received[rank] if message.error else expected[rank]
            if progress is not None:
                elapsed_s = max(0, time.monotonic_ns() - start_ns) / 1e9
                progress(RunProgress(list(received), expected, len(finished), elapsed_s))

        # Until then a rank may wait for its peers, and ends its operation by itself.
        until_s = (start_ns + operation.limit_ns) / 1e9
        self._collect(Finished, watch, ranks, until_s=until_s)

        self._phase = "verifying its data"
        self._send(Verify(), range(ranks))
        results = self._collect(Result, ranks=ranks)
        return [results[rank].result for rank in range(ranks)]

    def abort(self, reason: str) -> None:
        """Tell every rank to give up and end."""
        self._send(Abort(reason), self._ranks)

    def close(self) -> None:
        """Let the ranks end, wait until they have (2 s at most), and remove the socket."""
        self._send(Close(), self._ranks)
        patience = time.monotonic() + CLOSE_TIMEOUT_S
        while not all(channel.closed for channel in self._ranks.values()):
            with contextlib.suppress(ProtocolError):
                self._news()
            left = patience - time.monotonic()
            if left <= 0:
                break
            self._selector.select(min(left, 0.05))
        for channel in [*self._ranks.values(), *self._newcomers]:
            channel.close()
        self._selector.close()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def __enter__(self) -> "Rendezvous":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self, message: Message, ranks: Iterable[int]) -> None:
        for rank in ranks:
            self._ranks[rank].send(message)

    def _collect(
        self,
        wanted: type[Collected],
        watch: Callable[[int, Message], None] | None = None,
        ranks: int = 0,
        *,
        meeting: bool = False,
        until_s: float = 0.0,
    ) -> dict[int, Collected]:
        """Wait for one message of a kind from every process, or from the first `ranks`; what else
        comes goes to ``watch``. Who stands still is given up, but nobody before ``until_s``.
        ``meeting``: they come one after the other."""
        found: dict[int, Collected] = {}
        expected = ranks or len(self._hosts)
        patience_s = self._patience_s * (2 if meeting else 1)
        patience = Patience(
            range(expected), patience_s, time.monotonic(), together=meeting, until_s=until_s
        )
        while patience.waiting:
            self._check_alive(found)
            now_s = time.monotonic()
            self._selector.select(min(LOOK_S, patience_s / 4))
            self._accept()
            news = self._news()
            if news and all(isinstance(message, ProgressMessage) for _, message in news):
                time.sleep(GATHER_S)
                news += self._news()
            self._check_faults(news)
            for rank, message in news:
                match message:
                    case wanted():
                        found[rank] = message
                        patience.ended(rank)
                    case ProgressMessage(received_bytes=received_bytes):
                        patience.reported(rank, "received bytes", received_bytes)
                    case Working(slices=slices):
                        patience.reported(rank, "slices", slices)
                if watch is not None:
                    watch(rank, message)
            for rank in patience.waiting:
                if rank in self._ranks:
                    patience.reported(rank, "bytes of a message", self._ranks[rank].partial_bytes)
            overdue = patience.overdue(now_s)  # and what had come by then has been read
            if overdue:
                names = ", ".join(self._name(rank) for rank in overdue[:4])
                more = f" and {len(overdue) - 4} more" if len(overdue) > 4 else ""
                self._give_up(
                    f"{names}{more}: no answer and no progress for {patience_s:.3g} s while "
                    f"{self._phase}"
                )
        return found

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            channel = LineChannel(connection)
            self._newcomers.append(channel)
            self._selector.register(channel, selectors.EVENT_READ)

    def _news(self) -> list[tuple[int, Message]]:
        """Return what has arrived, by rank; a connection belongs to the rank that says hello on
        it."""
        news: list[tuple[int, Message]] = []
        for channel in list(self._newcomers):
            messages = channel.receive()
            if messages and isinstance(messages[0], Hello):
                hello = messages[0]
                refuse(
                    hello.rank in self._ranks or not 0 <= hello.rank < len(self._hosts),
                    f"a second or impossible rank {hello.rank} said hello",
                    ProtocolError,
                )
                self._ranks[hello.rank] = channel
                self._hello[hello.rank] = hello
                self._newcomers.remove(channel)
                news += [(hello.rank, message) for message in messages]
            elif channel.closed:
                self._newcomers.remove(channel)
                self._selector.unregister(channel)
        for rank, channel in self._ranks.items():
            if not channel.closed:
                news += [(rank, message) for message in channel.receive()]
                if channel.closed:
                    self._selector.unregister(channel)
        return news

    def _check_faults(self, news: Sequence[tuple[int, Message]]) -> None:
        for rank, message in news:
            if isinstance(message, RankFailed):
                self._give_up(f"{self._name(rank)}: {message.error} (while {self._phase})")

    def _check_alive(self, found: Mapping[int, object]) -> None:
        exited = self._exits.poll() if self._exits is not None else {}
        gone = [rank for rank in range(len(self._hosts)) if rank in exited and rank not in found]
        if not gone:
            gone = [
                rank
                for rank, channel in self._ranks.items()
                if channel.closed and rank not in found
            ]
            if gone and self._exits is not None:  # the launcher's word on it is on its way
                patience = time.monotonic() + WORD_TIMEOUT_S
                while gone[0] not in exited and time.monotonic() < patience:
                    select.select([self._exits], [], [], 0.2)
                    exited = self._exits.poll()
        if gone:
            self._check_faults(self._news())  # it may have said why
            end = exited.get(gone[0])
            how = how_it_ended(end.status or 0) if end is not None else "closed its connection"
            words = self._exits.last_words(gone[0]) if self._exits is not None else ""
            self._give_up(
                f"{self._name(gone[0])}: the process {how} while {self._phase}"
                + (f"; its last words:\n{words}" if words else "")
            )

    def _give_up(self, reason: str) -> None:
        self.abort(reason)
        raise RunError(reason)

    def _name(self, rank: int) -> str:
        hello = self._hello.get(rank)
        pid = f", pid {hello.pid}" if hello is not None else ""
        server = rank - self._number_of_ranks
        what = f"rank {rank}" if server < 0 else f"reduction server {server}"
        return f"{what} (host {self._hosts[rank]}{pid})"
