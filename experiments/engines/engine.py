"""What an engine is: somebody else's way of running functions elsewhere, as an Executor."""

import sys
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from dataclasses import dataclass

from weft.base.errors import InputError, MachineError


@dataclass(frozen=True)
class Need:
    """What a sweep needs of an engine."""

    points: int
    """How many points there are to run at a time, at most."""
    memory_bytes: int = 0
    """What the largest of them takes, roughly."""
    machines: bool = False
    """Whether some are emulated: each takes a whole machine, and root there."""


@dataclass(frozen=True)
class Workers:
    """An engine's workers that are ready.

    An executor runs what it is given in processes that have this version of Weft. If a process
    dies, the engine runs what is lost elsewhere, or the future has a `BrokenExecutor`. Its workers
    end with the engine's context, whatever they are doing.
    """

    executor: Executor
    """Run functions on cores."""
    count: Callable[[], int]
    """Return how many run at a time, as of now."""
    machines: Executor | None = None
    """Run functions, each on a whole machine as root; None: the machine is this one, and emulated
    points are run by the caller."""
    machine_count: Callable[[], int] = lambda: 1
    gone: Callable[[], str] = lambda: ""
    """Return why no result can come any more; empty as long as some can."""


class Engine:
    """What runs points of sweeps, for ``weft run --on NAME...``.

    A package names an instance of a subclass by an entry point in the group ``weft.engines``.
    """

    name: str
    forms: tuple[str, ...]
    """How ``--on`` names it, and where it is: ``("dask:local", "dask://HOST:PORT")``."""

    def check(self, where: str) -> None:
        """Raise InputError if `where` is none of the engine's forms, and MachineError if the engine
        is not installed.

        Args:
            where: what follows the engine's name: ``://host:8786``.
        """
        raise NotImplementedError

    def is_here(self, where: str) -> bool:
        """Return whether workers are on this machine, so that it must have what they need."""
        return False

    def is_worth(self, where: str, need: Need) -> bool:
        """Return whether workers do better than the process that asks for them."""
        return True

    def open(self, where: str, need: Need) -> AbstractContextManager[Workers]:
        """Return workers that are ready within the block.

        Raises:
            MachineError: nobody answers, or workers are not what is needed.
        """
        raise NotImplementedError


def check_port(on: str) -> None:
    """Raise InputError if the port at the end of an address is none.

    Args:
        on: what ``--on`` says: ``dask://host:8786``.
    """
    port = on.rpartition(":")[2]
    if not 1 <= int(port) <= 65535:
        raise InputError(f"--on {on}: port {port} is out of range: 1 to 65535")


def warn_unless(encrypted: bool, on: str, how: str) -> None:
    """Say on standard error what others may do with an engine whose connections are not encrypted.

    Args:
        on: what ``--on`` says.
        how: what to do about it.
    """
    if not encrypted:
        print(
            f"weft: warning: --on {on}: connections to it are not encrypted, and it asks nobody "
            "who they are: whoever can reach it runs code on its workers with their rights, and on "
            f"this machine with yours; {how}, or let nobody else into its network (docs/sweeps.md)",
            file=sys.stderr,
        )


def check_versions(told: dict[str, str], mine: str) -> None:
    """Raise MachineError for workers of another version of Weft.

    Args:
        told: by worker, the version that it tells, or why it tells none.
        mine: the version of this process.
    """
    wrong = {worker: version for worker, version in told.items() if version != mine}
    if wrong:
        worker, version = next(iter(wrong.items()))
        more = f", and {len(wrong) - 1} more do not fit" * (len(wrong) > 1)
        raise MachineError(
            f"worker {worker} has Weft {version}, and this is Weft {mine}{more}: install this "
            "version there, or stop that worker"
        )
