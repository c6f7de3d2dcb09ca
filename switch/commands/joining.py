"""``weft switch --join``: switches of one command line that run in the process of another one."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from weft.base.errors import InputError, MachineError, RunError, WeftError
from weft.base.libc import CLONE_FS, CLONE_NEWNET, check_call, libc
from weft.base.private_files import keep_private
from weft.switch.p4runtime.addresses import MAX_UNIX_PATH_BYTES

MOST_BYTES = 1 << 17
"""The most bytes of a command line, and of an answer."""
_DESCRIPTORS = 4
"""What comes with a command line: its standard output and error, its folder and its network."""
_CREDENTIALS = struct.Struct("3i")

Host = Callable[[Sequence[str], TextIO, TextIO, threading.Event], None]
"""A function that runs the switches of a command line until an event is set, and tells of them in
two files. It raises WeftError."""


class Joinable:
    """A Unix socket by which others join this process; only its owner, and root, may.

    Each guest has a thread, which is in the guest's folder and network namespace, and so are the
    threads that it starts. A guest ends when its side of the connection does.
    """

    def __init__(self, path: Path, host: Host) -> None:
        """Listen at once. Raises MachineError if nobody can listen there."""
        self._path, self._host = path, host
        self._guests: list[tuple[threading.Thread, socket.socket]] = []
        self._closing = False
        self._lock = threading.Lock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            _remove_if_left_over(path)
            self._listener.bind(os.fspath(path))
            keep_private(path)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise MachineError(
                f"--joinable {str(path)!r}: cannot listen there: {error.strerror or error}"
            ) from None
        threading.Thread(target=self._accept, name="joinable", daemon=True).start()

    def close(self) -> None:
        """Let nobody join any more, and end all guests."""
        with self._lock:
            self._closing = True
            guests = list(self._guests)
        self._path.unlink(missing_ok=True)
        self._listener.close()
        for _, connection in guests:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RD)
        for thread, _ in guests:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=[connection], daemon=True)
                with self._lock:
                    if self._closing:
                        return
                    self._guests = [each for each in self._guests if each[0].is_alive()]
                    self._guests.append((thread, connection))
                    thread.start()

    def _serve(self, connection: socket.socket) -> None:
        """Run a guest's switches until it ends, and answer with what went wrong, if anything."""
        answer: dict[str, str] = {}
        with connection:
            try:
                self._run(connection)
                if self._closing:
                    answer = {"RunError": "the process that was joined has ended"}
            except WeftError as error:
                answer = {type(error).__name__: str(error)}
            except (OSError, ValueError) as error:
                answer = {"MachineError": f"the switch cannot run in another process: {error}"}
            with suppress(OSError):
                connection.send(json.dumps(answer).encode()[:MOST_BYTES])

    def _run(self, connection: socket.socket) -> None:
        if _user(connection) not in (0, os.geteuid()):
            raise InputError("only the user who started the process that is joined may join it")
        request, descriptors, _, _ = socket.recv_fds(connection, MOST_BYTES, _DESCRIPTORS)
        try:
            if len(descriptors) != _DESCRIPTORS:
                raise ValueError("it has not sent its files")
            _enter(folder=descriptors[2], network=descriptors[3])
        finally:
            for descriptor in descriptors[2:]:
                os.close(descriptor)
        ended = threading.Event()
        with _lines(descriptors[0]) as out, _lines(descriptors[1]) as errors:
            threading.Thread(target=_await_end, args=[connection, ended], daemon=True).start()
            self._host(json.loads(request), out, errors, ended)


def join(path: Path, arguments: Sequence[str]) -> None:
    """Have another process run the switches of a command line until a signal ends this one.

    Raises InputError if nobody listens at the path, and what the other process refuses or fails
    with.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        if len(os.fsencode(path)) > MAX_UNIX_PATH_BYTES:
            raise InputError(
                f"--join {str(path)!r}: a Unix socket's path has at most {MAX_UNIX_PATH_BYTES} "
                "bytes"
            )
        try:
            connection.connect(os.fspath(path))
        except OSError as error:
            raise InputError(
                f"--join {str(path)!r}: no weft switch can be joined there ({error.strerror}); "
                f"start the first one with --joinable {path}"
            ) from None
        sys.stdout.flush()
        folder, network = os.open(".", os.O_PATH), os.open("/proc/self/ns/net", os.O_RDONLY)
        files = [sys.stdout.fileno(), sys.stderr.fileno(), folder, network]
        socket.send_fds(connection, [json.dumps(list(arguments)).encode()], files)
        os.close(folder)
        os.close(network)
        try:
            answer = connection.recv(MOST_BYTES)
        except SystemExit:  # a signal: its switches end, and have said so, before this process does
            connection.shutdown(socket.SHUT_WR)
            connection.recv(MOST_BYTES)
            raise
    if not answer:
        raise RunError("the process that was joined has died")
    kinds: dict[str, type[WeftError]] = {"InputError": InputError, "MachineError": MachineError}
    for kind, message in json.loads(answer).items():
        raise kinds.get(kind, RunError)(message)


def _remove_if_left_over(path: Path) -> None:
    """Remove a socket at which nobody listens any more."""
    if not path.is_socket():
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)


def _user(connection: socket.socket) -> int:
    """Return the number of the user at the other end."""
    options = socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(*options))
    return int(user)


def _enter(*, folder: int, network: int) -> None:
    """Bring this thread alone into a folder, and into a network namespace unless it is there."""
    check_call(libc.unshare(CLONE_FS), "a folder of its own: ")
    os.fchdir(folder)
    if not os.path.sameopenfile(network, own := os.open("/proc/thread-self/ns/net", os.O_RDONLY)):
        check_call(libc.setns(network, CLONE_NEWNET), "its network namespace: ")
    os.close(own)


def _lines(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", buffering=1, encoding="utf-8", errors="replace")


def _await_end(connection: socket.socket, ended: threading.Event) -> None:
    with suppress(OSError):
        connection.recv(1)
    ended.set()
