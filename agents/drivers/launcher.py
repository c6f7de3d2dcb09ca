"""One warmed process that forks the rank processes into their hosts' network namespaces.

Importing the agents and loading compiled kernels takes a third of a second; forking a process that
has done so takes milliseconds. So the runner starts one launcher, early, and asks it for every
rank::

    with Launcher(run_dir) as launcher:
        ...                                    # bring the network up meanwhile
        launcher.wait_warm()
        launcher.spawn(config, namespace=host.pid)

``python -m weft.agents.drivers.launcher FD PID`` is the process. It ends, and kills and reaps
its ranks, when the runner's end of its socket closes, so nothing survives a runner that was killed.
Both the launcher and the ranks also have PR_SET_PDEATHSIG = SIGKILL. That signal comes when the
*thread* that made a process ends, which is why a Launcher is made in the main thread only.
"""

import ctypes
import gc
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from weft.agents.drivers.messages import (
    EndRanks,
    Exited,
    LineChannel,
    RanksEnded,
    Spawn,
    Spawned,
    Warm,
)
from weft.agents.ranks import RankConfig
from weft.base.children import how_it_ended, python_command, python_path
from weft.base.effort import Effort
from weft.base.errors import MachineError, RunError, refuse
from weft.base.forks import Forks
from weft.base.garbage import uncollected
from weft.base.libc import CLONE_NEWNET, die_with_parent, libc, wake_in_time
from weft.base.outputs import killed
from weft.base.private_files import open_private

WARM_LIMIT_S = 600.0
"""How much `Effort` the launcher may take to get warm. The first start on a machine compiles; later
ones take a second or two."""
ANSWER_LIMIT_S = 60.0
"""How much `Effort` the launcher may take from one word to the next, until ranks are forked or
gone."""
LOOK_S = 1.0
"""Between two looks at what the launcher does."""


class Launcher:
    """The runner's side of the launcher starts its process, asks it for ranks, and hears of ranks
    that ended.

    Args:
        environment: of the launcher and all ranks; by default that of this process.
        run_dir: folder for the logs (``launcher.log``, ``rank-<n>.log``); must exist.
        algorithms: those that the launcher warms up for, so that ranks find them in memory; all of
            Weft's if it is not said.

    Raises:
        RunError: not called from the main thread.
    """

    def __init__(
        self,
        run_dir: Path,
        environment: Mapping[str, str] | None = None,
        algorithms: Sequence[str] = (),
    ) -> None:
        refuse(
            threading.current_thread() is not threading.main_thread(),
            "Launcher: make it in the main thread; its processes die with its thread",
            RunError,
        )
        self.run_dir = run_dir
        self.exited: dict[int, Exited] = {}
        """Ranks whose latest process has ended, as far as ``poll`` has seen."""
        self._spawned: dict[int, int] = {}
        """The latest process of each rank."""
        self._asked: dict[int, int] = {}
        """How many forks of each rank have been asked for and not been heard of yet."""
        self._ending = 0
        """How often the end of all ranks has been asked for and not been heard of yet."""
        self._warm = False
        self._heard = 0
        """Words of the launcher so far."""
        ours, theirs = socket.socketpair()
        environment = dict(os.environ if environment is None else environment)
        # A process with threads cannot be forked safely.
        threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
        environment.update(dict.fromkeys(threads, "1"))
        environment["PYTHONPATH"] = python_path(environment.get("PYTHONPATH"))
        with theirs, open_private(run_dir / "launcher.log", "ab") as log:
            self._process = subprocess.Popen(
                python_command("weft.agents.drivers.launcher", str(theirs.fileno()),
                               str(os.getpid()), *algorithms),
                pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=environment, start_new_session=True,
            )  # fmt: skip
        self._channel = LineChannel(ours)

    @property
    def pid(self) -> int:
        """The process id of the launcher."""
        return self._process.pid

    def fileno(self) -> int:
        """Return a descriptor that is readable when ``poll`` has news."""
        return self._channel.fileno()

    def wait_warm(self, limit_s: float = WARM_LIMIT_S) -> None:
        """Wait until compiled code is loaded and forks are quick.

        Raises:
            RunError: the launcher ended; or worked for longer than that, by its processor time, or
                did nothing for as long.
        """
        self._wait(lambda: self._warm, limit_s, "did not get warm")

    def spawn(self, config: RankConfig, namespace: int | str | None = None) -> None:
        """Ask for a rank process; returns at once, and works before the launcher is warm.

        Args:
            namespace: a process in the wanted network namespace, or the namespace's path, or None
                for this
                process's own.
        """
        path = f"/proc/{namespace}/ns/net" if isinstance(namespace, int) else namespace or ""
        config = replace(config, log=config.log or str(self.run_dir / f"rank-{config.rank}.log"))
        self._asked[config.rank] = self._asked.get(config.rank, 0) + 1
        self.exited.pop(config.rank, None)
        self._channel.send(Spawn(namespace=path, config=config))

    def end_ranks(self, limit_s: float = ANSWER_LIMIT_S) -> None:
        """Kill what is left of the ranks asked for so far, and wait until they are gone.

        So a rank that hangs, or was stopped, keeps no socket of its host from the ranks that come
        after it. With a launcher that is gone its ranks are, too.

        Raises:
            RunError: they are not gone within that time.
        """
        if not self._asked or self._channel.closed:
            return
        self._ending += 1
        self._channel.send(EndRanks())
        self._wait(
            lambda: not self._ending, limit_s, "did not end all ranks", even_without_launcher=True
        )

    def poll(self) -> dict[int, Exited]:
        """Take the news without waiting.

        Returns:
            the ranks that have ended so far.

        Raises:
            RunError: the launcher itself is gone.
        """
        self._take_news()
        if self._channel.closed:
            raise RunError(
                f"the launcher of the rank processes (pid {self.pid}) {self._how_it_ended()}"
            )
        return self.exited

    def _how_it_ended(self) -> str:
        """Return all there is to say of it, as its log goes with the run's folder."""
        try:
            how = how_it_ended(self._process.wait(5.0))
        except subprocess.TimeoutExpired:
            how = "has closed its connection"
        words = tail(self.run_dir / "launcher.log")
        return f"{how}; its last words:\n{words}" if words else f"{how}; its log is empty"

    def _take_news(self) -> None:
        for message in self._channel.receive():
            self._heard += 1
            match message:
                case Warm():
                    self._warm = True
                case RanksEnded():
                    self._ending -= 1
                case Spawned(rank=rank, pid=pid):
                    self._spawned[rank] = pid
                    self._asked[rank] -= 1
                case Exited(rank=rank, pid=pid):
                    if self._spawned.get(rank) == pid and not self._asked[rank]:
                        self.exited[rank] = message

    def last_words(self, rank: int) -> str:
        """Return the end of a rank's log; empty if it said nothing."""
        return tail(self.run_dir / f"rank-{rank}.log")

    def _wait(
        self,
        done: Callable[[], bool],
        limit_s: float,
        what: str,
        even_without_launcher: bool = False,
    ) -> None:
        """Wait until something is done; or, if asked for, until the launcher is gone. The limit is
        anew with every word of the launcher."""
        take = self._take_news if even_without_launcher else self.poll
        effort = Effort(self.pid, time.monotonic())
        take()
        heard = self._heard
        while not done() and not self._channel.closed:
            refuse(
                effort.counted_s(time.monotonic()) >= limit_s,
                f"the launcher (pid {self.pid}) {what}: it has worked, or done nothing, for "
                f"{limit_s:.0f} s",
                RunError,
            )
            select.select([self], [], [], min(LOOK_S, limit_s / 4))
            take()
            if self._heard != heard:
                heard, effort = self._heard, Effort(self.pid, time.monotonic())

    def close(self) -> None:
        """End the launcher and all ranks; returns when they are gone."""
        self._channel.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            killed(self._process)

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def tail(path: Path, lines: int = 12) -> str:
    """Return the last lines of a log, or why it cannot be read."""
    try:
        text = path.read_text(errors="replace").splitlines()
    except OSError as error:
        return f"(no log: {error})"
    return "\n".join(text[-lines:])


def enter_network_namespace(path: str) -> None:
    """Move this thread into a network namespace (os.setns comes with Python 3.12 only).

    Raises:
        MachineError: there is no such namespace, or no right to enter it.
    """
    try:
        with open(path, "rb") as namespace:
            failed = libc.setns(namespace.fileno(), CLONE_NEWNET)
    except OSError as error:
        raise MachineError(
            f"network namespace {path}: {error.strerror}; is its host running?"
        ) from error
    reason = os.strerror(ctypes.get_errno())
    refuse(failed, f"network namespace {path}: {reason}; entering one needs root", MachineError)


def _rank_process(spawn: Spawn) -> int:
    """Do what the forked child does; return its exit status."""
    from weft.agents.drivers.rank import run_rank

    wake_in_time()
    config = spawn.config
    if config.log:
        with open_private(Path(config.log), "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    if spawn.namespace:
        enter_network_namespace(spawn.namespace)
    return run_rank(config)


def serve(channel: LineChannel, algorithms: Sequence[str]) -> None:
    """Be the launcher process: warm up for the algorithms, fork on request, report exits, until the
    runner is gone."""

    def ended(rank: int, pid: int, status: int) -> None:
        channel.send(Exited(rank=rank, pid=pid, status=status))

    forks = Forks(channel.socket, ended)

    def take() -> bool:
        for message in channel.receive():
            if isinstance(message, Spawn):
                rank = message.config.rank
                pid = forks.fork(rank, partial(_rank_process, message))
                channel.send(Spawned(rank=rank, pid=pid))
            elif isinstance(message, EndRanks):
                forks.kill_all()
                channel.send(RanksEnded())
        return not channel.closed

    with uncollected():
        from weft.agents.drivers.rank import warm_up

        warm_up(algorithms or None)
        gc.freeze()  # the forked children share what is loaded instead of copying it at collections
    channel.send(Warm())
    forks.serve(take)


def main() -> None:
    """Be the launcher process; its arguments are the descriptor of its socket, the process id of
    the runner, and algorithms."""
    descriptor, runner, *algorithms = sys.argv[1:]
    die_with_parent(int(runner))
    serve(LineChannel(socket.socket(fileno=int(descriptor))), algorithms)


if __name__ == "__main__":
    main()
