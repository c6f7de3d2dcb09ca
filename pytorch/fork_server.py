"""The parent of the ranks' processes: it loads torch and Weft's compiled code once, and forks a
process into each host's namespaces.

``python -m weft.pytorch.fork_server FD ALGORITHM...`` is that process, a fork server
(`weft.base.forks`). Each rank gets files of the network and the mount namespace, and those that
become standard output and standard error.
"""

import contextlib
import gc
import importlib
import os
import random
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from weft.base.errors import MachineError
from weft.base.forks import be_fork_server
from weft.base.libc import CLONE_NEWNET, CLONE_NEWNS, check_call, libc

_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
USUAL = ("torch.distributed.fsdp", "torch.distributed.tensor", "torch._dynamo")
"""What most programs load sooner or later, optimizers included: once is quicker than in each
rank."""


class RankScript(msgspec.Struct, frozen=True):
    """What a rank runs."""

    command: list[str]
    """A script, or ``-m`` and a module, and its arguments."""
    environment: dict[str, str]
    folder: str
    """Where it runs."""
    names: str
    """The folder with the ``hosts`` that it sees in ``/etc``."""


def _load(algorithms: Sequence[str]) -> None:
    """Load what all ranks need."""
    try:
        import torch
        import torch.distributed
        import torch.optim.optimizer

        from weft.agents.drivers.rank import warm_up
        from weft.pytorch import backend  # noqa: F401
        from weft.pytorch.fused import operators  # noqa: F401
    except ImportError as error:
        raise MachineError(f"torch cannot be loaded: {error}") from error

    for name in USUAL:
        with contextlib.suppress(Exception):
            importlib.import_module(name)

    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    warm_up(algorithms or None)
    gc.collect()


def _rank_process(told: bytes, files: Sequence[int]) -> int:
    """Do what the forked child does; return its exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = msgspec.json.decode(told, type=RankScript)
    _enter(program, files)
    return _be_rank(program)


def _enter(program: RankScript, files: Sequence[int]) -> None:
    """Move this process into a host's namespaces, with its own names of hosts."""
    network, mounts, output, errors = files
    os.dup2(output, 1)
    os.dup2(errors, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    check_call(libc.setns(network, CLONE_NEWNET), "entering a host's network: ")
    check_call(libc.setns(mounts, CLONE_NEWNS), "entering a host's mounts: ")
    check_call(libc.unshare(CLONE_NEWNS), "mounts of its own: ")
    check_call(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts: ")
    if Path("/etc/hosts").exists():
        libc.mount(f"{program.names}/hosts".encode(), b"/etc/hosts", None, _MS_BIND, None)
    for each in (*files, null):
        os.close(each)
    os.chdir(program.folder)


def _be_rank(program: RankScript) -> int:
    """Run a rank's program, as a process of its own would."""
    import numpy as np

    from weft.pytorch import launch

    os.environ.clear()
    os.environ.update(program.environment)
    random.seed()
    np.random.seed(None)
    sys.argv = ["weft.pytorch.launch", *program.command]
    return launch.run()


if __name__ == "__main__":
    be_fork_server(_load, _rank_process)
