"""The parent of the ranks' processes: it loads torch and Weft's compiled code once, and forks a
process into each host's namespaces.

``python -m weft.pytorch.fork_server FD PID ALGORITHM...`` is that process. It ends, and its ranks
with it, when the runner's end of its socket closes.
"""

import contextlib
import gc
import importlib
import os
import random
import select
import signal
import socket
import sys
from functools import partial
from pathlib import Path

import msgspec

from weft.base.forks import Forks
from weft.base.libc import CLONE_NEWNET, CLONE_NEWNS, check_call, die_with_parent, libc

_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
USUAL = ("torch.distributed.fsdp", "torch.distributed.tensor", "torch._dynamo")
"""What most programs load sooner or later, optimizers included: once is quicker than in each
rank."""
MOST_BYTES = 1 << 16
FILES = 4
"""What is sent with each request to fork: files of the network and the mount namespace, and those
that become standard output and standard error."""


class Program(msgspec.Struct, frozen=True):
    """What a rank runs, in a file."""

    command: list[str]
    """A script, or ``-m`` and a module, and its arguments."""
    environment: dict[str, str]
    folder: str
    """Where it runs."""
    names: str
    """The folder with the ``hosts`` that it sees in ``/etc``."""


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The runner wants something of the server."""

    rank: int
    program: str = ""
    """The path of the `Program` of a rank that is to be forked."""
    signal: int = 0
    """A signal for the rank's process."""


class News(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server says that it is ready (rank -1), or that a rank has been forked or has ended."""

    rank: int
    pid: int = 0
    status: int | None = None
    """As os.waitstatus_to_exitcode returns it; None: it has begun."""
    error: str = ""
    """Why the server cannot work."""


def send(
    connection: socket.socket, message: msgspec.Struct, files: list[int] | None = None
) -> None:
    """Send a message, with files."""
    socket.send_fds(connection, [msgspec.json.encode(message)], files or [])


def main() -> None:
    """Be the server; arguments: the descriptor of its socket, the runner's process id, and the
    algorithms to get ready for."""
    descriptor, *algorithms = sys.argv[1:]
    connection = socket.socket(fileno=int(descriptor))
    die_with_parent(os.getppid())
    try:
        _load(algorithms)
    except ImportError as error:
        send(connection, News(-1, error=str(error)))
        return
    send(connection, News(-1, os.getpid()))
    _serve(connection)


def _load(algorithms: list[str]) -> None:
    """Load what all ranks need."""
    import torch
    import torch.distributed
    import torch.optim.optimizer

    from weft.agents.drivers.rank import warm_up
    from weft.pytorch import backend  # noqa: F401
    from weft.pytorch.fused import operators  # noqa: F401

    for name in USUAL:
        with contextlib.suppress(Exception):
            importlib.import_module(name)

    torch.set_num_threads(max(1, int(os.environ.get("OMP_NUM_THREADS", "1"))))
    warm_up(algorithms or None)


def _serve(connection: socket.socket) -> None:
    def ended(rank: int, pid: int, status: int) -> None:
        with contextlib.suppress(OSError):  # the runner is gone
            send(connection, News(rank, pid, status))

    forks = Forks(connection, ended)

    def take() -> bool:
        while select.select([connection], [], [], 0)[0]:
            data, files, _, _ = socket.recv_fds(connection, MOST_BYTES, FILES)
            if not data:
                return False
            request = msgspec.json.decode(data, type=Request)
            if request.program:
                pid = forks.fork(request.rank, partial(_rank_process, request.program, files))
                for each in files:
                    os.close(each)
                send(connection, News(request.rank, pid))
            else:
                forks.send_signal(request.rank, request.signal)
        return True

    gc.collect()
    gc.freeze()
    forks.serve(take)


def _rank_process(path: str, files: list[int]) -> int:
    """Do what the forked child does; return its exit status."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    program = msgspec.json.decode(Path(path).read_bytes(), type=Program)
    _enter(program, files)
    return _be_rank(program)


def _enter(program: Program, files: list[int]) -> None:
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


def _be_rank(program: Program) -> int:
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
    main()
