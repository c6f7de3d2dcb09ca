"""The side of a fork server that forks: a process that has loaded what many others need, and makes
them of itself. Forking takes milliseconds where importing and loading take up to seconds.

It serves one other process (`weft.base.fork_server`) by a connection. When that closes, or its
process is gone, the server ends, and its children with it: it kills and reaps them, and they die
with it, too.
"""

import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from weft.base.errors import MachineError
from weft.base.garbage import uncollected
from weft.base.libc import die_with_parent

ALL = -1
"""In place of a child's number: the server and all that it has forked."""
MOST_BYTES = 1 << 16
MOST_FILES = 8

Load = Callable[[Sequence[str]], object]
"""Loads what children need; raises MachineError where that cannot be done."""
Work = Callable[[bytes, Sequence[int]], int]
"""Does what a child is forked for, is told what and given open files, and returns its exit
status."""


class Asked(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A child is to be forked, or to get a signal. With the former come files; the first says what
    is to be done."""

    number: int
    signal: int = 0


class News(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A child has begun or ended; or the server is ready, or all children are gone."""

    number: int
    pid: int = 0
    status: int | None = None
    """As os.waitstatus_to_exitcode returns it; None: it has begun."""
    error: str = ""
    """Why the server cannot work."""


class _Forks:
    """The children of a fork server."""

    def __init__(self, connection: socket.socket, work: Work) -> None:
        self._connection, self._work = connection, work
        self._numbers: dict[int, int] = {}
        """Of the children, by process."""
        self._awake, self._wake = socket.socketpair()
        self._awake.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other process's to handle
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def tell(self, news: News) -> None:
        """Send news, if there is anybody who hears it."""
        with suppress(OSError):
            self._connection.send(msgspec.json.encode(news))

    def serve(self) -> None:
        """Serve until the other process is gone."""
        try:
            while self._take():
                with suppress(ChildProcessError):
                    while (found := os.waitpid(-1, os.WNOHANG))[0]:
                        self._ended(*found)
                select.select([self._connection, self._awake], [], [])
                with suppress(BlockingIOError):
                    self._awake.recv(4096)
        finally:
            self._kill_all()

    def _take(self) -> bool:
        """Do what has been asked for; return whether more may come."""
        while select.select([self._connection], [], [], 0)[0]:
            data, files, _, _ = socket.recv_fds(self._connection, MOST_BYTES, MOST_FILES)
            if not data:
                return False
            asked = msgspec.json.decode(data, type=Asked)
            if not asked.signal:
                pid = fork(partial(self._child, files))
                self._numbers[pid] = asked.number
                for each in files:
                    os.close(each)
                self.tell(News(asked.number, pid))
            elif asked.number == ALL:
                self._kill_all()
                self.tell(News(ALL))
            else:
                for pid in (pid for pid, of in self._numbers.items() if of == asked.number):
                    os.kill(pid, asked.signal)
        return True

    def _child(self, files: Sequence[int]) -> int:
        signal.set_wakeup_fd(-1)
        for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(each, signal.SIG_DFL)
        for opened in (self._connection, self._awake, self._wake):
            opened.close()
        told = os.pread(files[0], os.fstat(files[0]).st_size, 0)
        os.close(files[0])
        return self._work(told, files[1:])

    def _kill_all(self) -> None:
        """Kill every child that is left, a stopped one, too, and tell of their ends."""
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in [*self._numbers]:
            self._ended(*os.waitpid(pid, 0))

    def _ended(self, pid: int, status: int) -> None:
        number = self._numbers.pop(pid, ALL)
        self.tell(News(number, pid, os.waitstatus_to_exitcode(status)))


def fork(work: Callable[[], int]) -> int:
    """Fork a child that does something, ends with its exit status, and dies with this process;
    return its process id."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        die_with_parent(parent)
        status = work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(status & 0xFF)


def be_fork_server(load: Load, work: Work) -> None:
    """Be a fork server; the arguments of the process are the descriptor of its connection, and what
    ``load`` is told."""
    descriptor, *arguments = sys.argv[1:]
    die_with_parent(os.getppid())  # it may be 0: one outside of this PID namespace
    forks = _Forks(socket.socket(fileno=int(descriptor)), work)
    try:
        with uncollected():
            load(arguments)
            gc.freeze()  # children share what is loaded instead of copying it at collections
    except MachineError as error:
        forks.tell(News(ALL, error=str(error)))
        return
    forks.tell(News(ALL, os.getpid()))
    forks.serve()
