"""One warmed process that forks the rank processes into their hosts' network namespaces.

Importing the agents and loading compiled kernels takes a third of a second; forking a process that
has done so takes milliseconds. So the runner starts one launcher, early, and asks it for every
rank::

    with Launcher(run_dir) as launcher:
        ...                                    # bring the network up meanwhile
        launcher.wait_ready()
        launcher.spawn(config, namespace=host.pid)

``python -m weft.agents.drivers.launcher FD ALGORITHM...`` is the process, a fork server
(`weft.base.forks`): nothing survives a runner that was killed. PR_SET_PDEATHSIG, by which launcher
and ranks die, comes when the *thread* that made a process ends, which is why a Launcher is made in
the main thread only.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from weft.base.children import python_path
from weft.base.errors import RunError, refuse
from weft.base.fork_server import ONE_THREAD, ForkServer, tail
from weft.base.forks import be_fork_server
from weft.base.libc import enter_network_namespace, wake_in_time
from weft.base.private_files import open_private

if TYPE_CHECKING:  # a launcher may be started before the runner has imported what ranks are
    from weft.agents.ranks import RankConfig


class _Spawn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a rank process is told by the runner."""

    namespace: str
    """The path of the network namespace. If it is empty, the process stays in the launcher's
    own."""
    config: msgspec.Raw
    """A `RankConfig`."""


_SPAWNS = msgspec.json.Decoder(_Spawn)


@cache
def _configs() -> "msgspec.json.Decoder[RankConfig]":
    from weft.agents.ranks import RankConfig

    return msgspec.json.Decoder(RankConfig)


class Launcher(ForkServer):
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
        environment = dict(os.environ if environment is None else environment)
        path = {"PYTHONPATH": python_path(environment.get("PYTHONPATH"))}
        super().__init__(
            "the launcher of the rank processes", "weft.agents.drivers.launcher", algorithms,
            run_dir / "launcher.log", {**environment, **ONE_THREAD, **path},
        )  # fmt: skip

    def spawn(self, config: "RankConfig", namespace: int | str | None = None) -> None:
        """Ask for a rank process; returns at once, and works before the launcher is ready.

        Args:
            namespace: a process in the wanted network namespace, or the namespace's path, or None
                for this process's own.
        """
        from weft.agents.drivers.messages import ENCODER

        path = f"/proc/{namespace}/ns/net" if isinstance(namespace, int) else namespace or ""
        config = replace(config, log=config.log or str(self.run_dir / f"rank-{config.rank}.log"))
        spawn = _Spawn(path, msgspec.Raw(ENCODER.encode(config)))
        self.fork(config.rank, msgspec.json.encode(spawn))

    def last_words(self, rank: int) -> str:
        """Return the end of a rank's log; empty if it said nothing."""
        return tail(self.run_dir / f"rank-{rank}.log")

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _load(algorithms: Sequence[str]) -> None:
    from weft.agents.drivers.rank import warm_up

    warm_up(algorithms or None)
    _configs()


def _be_rank(told: bytes, files: Sequence[int]) -> int:
    """Do what the forked child does; return its exit status."""
    from weft.agents.drivers.rank import run_rank

    wake_in_time()
    spawn = _SPAWNS.decode(told)
    config = _configs().decode(spawn.config)
    if config.log:
        with open_private(Path(config.log), "ab") as log:
            os.dup2(log.fileno(), 1)
            os.dup2(log.fileno(), 2)
    if spawn.namespace:
        enter_network_namespace(spawn.namespace)
    return run_rank(config)


if __name__ == "__main__":
    be_fork_server(_load, _be_rank)
