"""The parent of the ranks' processes: it loads torch and Weft's compiled code once, and forks a
process into each host's namespaces.

``python -m weft.pytorch.fork_server FD PID ALGORITHM...`` is that process. It ends, and its ranks
with it, when the runner's end of its socket closes.
"""

import contextlib
import ctypes
import importlib
import os
import random
import signal
import socket
import sys
import traceback
from pathlib import Path

import msgspec

from weft.agents.drivers.launcher import die_with_parent

_CLONE_NEWNS = 0x00020000
_CLONE_NEWNET = 0x40000000
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
    import gc
    import select

    awake, wake = socket.socketpair()
    awake.setblocking(False)
    wake.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the runner's to handle
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    gc.collect()
    gc.freeze()
    ranks: dict[int, int] = {}
    """Ranks by their processes."""
    try:
        while True:
            select.select([connection, awake], [], [])
            with contextlib.suppress(BlockingIOError):
                awake.recv(4096)
            while select.select([connection], [], [], 0)[0]:
                data, files, _, _ = socket.recv_fds(connection, MOST_BYTES, FILES)
                if not data:
                    return
                request = msgspec.json.decode(data, type=Request)
                if request.program:
                    pid = _fork(request, files, [connection, awake, wake])
                    ranks[pid] = request.rank
                    send(connection, News(request.rank, pid))
                else:
                    for pid, rank in ranks.items():
                        if rank == request.rank:
                            os.kill(pid, request.signal)
            with contextlib.suppress(ChildProcessError):
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    pid, status = found
                    exit_status = os.waitstatus_to_exitcode(status)
                    send(connection, News(ranks.pop(pid, -1), pid, exit_status))
    finally:
        for pid in ranks:
            os.kill(pid, signal.SIGKILL)


def _fork(request: Request, files: list[int], close_in_child: list[socket.socket]) -> int:
    server = os.getpid()
    pid = os.fork()
    if pid:
        for each in files:
            os.close(each)
        return pid
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        die_with_parent(server)
        for open_socket in close_in_child:
            open_socket.close()
        program = msgspec.json.decode(Path(request.program).read_bytes(), type=Program)
        _enter(program, files)
        status = _be_rank(program)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
        with contextlib.suppress(Exception):
            sys.stderr.flush()
        os._exit(status & 0xFF)


def _enter(program: Program, files: list[int]) -> None:
    """Move this process into a host's namespaces, with its own names of hosts."""
    network, mounts, output, errors = files
    os.dup2(output, 1)
    os.dup2(errors, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    libc = ctypes.CDLL(None, use_errno=True)

    def call(what: str, result: int) -> None:
        if result:
            raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")

    call("entering a host's network", libc.setns(network, _CLONE_NEWNET))
    call("entering a host's mounts", libc.setns(mounts, _CLONE_NEWNS))
    call("mounts of its own", libc.unshare(_CLONE_NEWNS))
    call("private mounts", libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None))
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
