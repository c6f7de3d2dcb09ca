"""The side of a fork server that forks: a process that has loaded what many others need, and makes
them of itself. Forking takes milliseconds where importing and loading take up to seconds.

It serves one other process, by a connection. When that closes, or its process is gone, the server
ends, and its children with it: it kills and reaps them, and they die with it, too.
"""

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

from weft.base.libc import die_with_parent


class Forks:
    """The children of a fork server, each with the number that it was asked for by.

    Args:
        connection: to the process that is served.
        ended: told of each child that has ended: its number, process id and exit status, negative
            for a signal.
    """

    def __init__(self, connection: socket.socket, ended: Callable[[int, int, int], None]) -> None:
        self._connection = connection
        self._ended = ended
        self._numbers: dict[int, int] = {}
        """Of the children, by process."""
        self._awake, self._wake = socket.socketpair()
        self._awake.setblocking(False)
        self._wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other process's to handle
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)

    def serve(self, take: Callable[[], bool]) -> None:
        """Serve until nothing more can come.

        Args:
            take: takes what has come by the connection, and returns whether more may come.
        """
        try:
            more = True
            while more:
                select.select([self._connection, self._awake], [], [])
                with suppress(BlockingIOError):
                    self._awake.recv(4096)
                more = take()
                self._reap()
        finally:
            self.kill_all()

    def fork(self, number: int, work: Callable[[], int]) -> int:
        """Fork a child, and return its process id.

        Args:
            work: what it does; returns its exit status.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        pid = os.fork()
        if pid:
            self._numbers[pid] = number
            return pid
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
                signal.signal(each, signal.SIG_DFL)
            for opened in (self._connection, self._awake, self._wake):
                opened.close()
            die_with_parent(server)
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

    def send_signal(self, number: int, sent: int) -> None:
        """Send a signal to the children of a number."""
        for pid, of in self._numbers.items():
            if of == number:
                os.kill(pid, sent)

    def kill_all(self) -> None:
        """Kill every child that is left, a stopped one, too, and tell of their ends."""
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)
        for pid in [*self._numbers]:
            self._tell(*os.waitpid(pid, 0))

    def _reap(self) -> None:
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                self._tell(*found)

    def _tell(self, pid: int, status: int) -> None:
        self._ended(self._numbers.pop(pid, -1), pid, os.waitstatus_to_exitcode(status))
