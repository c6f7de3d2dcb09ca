"""The statistics socket: whoever connects gets one JSON document."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import traceback
from typing import Any

from weft.base.errors import InputError, MachineError, WeftError
from weft.base.private_files import keep_private
from weft.switch.realtime import requests
from weft.switch.realtime.process import SwitchProcess

CLIENT_WAIT_S = 10.0
"""The time that a client has to end its request, and again to read the answer."""
MOST_REQUEST_BYTES = 1 << 20
MOST_READ_BYTES = 16 << 20
"""The most bytes that are read of a client that sends more than a request."""
READ_BYTES = 1 << 16
LEAST_WAIT_S = 1e-3
MOST_CLIENTS = 64
"""The most clients at the same time; if more come, the one that has been sending its request for
longest is cut off."""
RETRY_S = 0.1
"""The pause before the next client is taken, if this process has no descriptor for one."""


class StatisticsSocket:
    """Answers requests (`weft.switch.realtime.requests`) on a Unix socket, from threads of its own.

    A client sends one line, or none and the end of its stream; it gets a JSON document and the end
    of the stream. The document is the request's answer, or has an ``error``. Requests are done one
    after the other; clients that are slow to ask, or to read, keep no other from it.
    """

    def __init__(self, process: SwitchProcess, path: str) -> None:
        self._process = process
        self._path = path
        self._turn = threading.Lock()
        self._asking: dict[socket.socket, None] = {}
        """Clients that are sending their requests, in the order in which they came."""
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_CLIENTS)
        self._closed = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._listener.bind(path)
            keep_private(path)
            self._listener.listen(socket.SOMAXCONN)
        except OSError as error:
            raise MachineError(f"statistics socket {path}: {error}") from None
        threading.Thread(target=self._serve, name="statistics", daemon=True).start()

    def _serve(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                self._closed.wait(RETRY_S)
                continue
            self._make_room()
            with self._lock:
                self._asking[connection] = None
            try:
                threading.Thread(
                    target=self._attend, args=(connection,), name="statistics", daemon=True
                ).start()
            except RuntimeError:  # there are no more threads
                self._leave(connection)

    def _make_room(self) -> None:
        """Wait until there are fewer clients than the most."""
        if self._room.acquire(blocking=False):
            return
        with self._lock, contextlib.suppress(OSError):
            for connection in list(self._asking)[:1]:
                connection.shutdown(socket.SHUT_RD)  # it is answered what it has asked by now
        self._room.acquire()

    def _attend(self, connection: socket.socket) -> None:
        try:
            try:
                document = self._done(_request(connection))
            except InputError as error:
                document = {"error": str(error)}
            with self._lock:
                self._asking.pop(connection, None)
            connection.settimeout(CLIENT_WAIT_S)
            connection.sendall(json.dumps(document).encode())
            _pass_over(connection)
        except OSError:
            pass  # the client has gone
        finally:
            self._leave(connection)

    def _leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._asking.pop(connection, None)
        connection.close()
        self._room.release()

    def _done(self, line: bytes) -> dict[str, Any]:
        """Do what a line asks for, and return the answer."""
        try:
            with self._turn:
                return requests.done(self._process, line)
        except WeftError as error:
            return {"error": str(error)}
        except Exception as error:
            # Whoever asks next is still to be answered.
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}

    def close(self) -> None:
        """Stop serving."""
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for the next client
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)


def _request(connection: socket.socket) -> bytes:
    """Return the line that a client sends, or nothing if it ends its stream without a line.

    Raises InputError for what is no whole line.
    """
    until = time.monotonic() + CLIENT_WAIT_S
    line, size, newline = bytearray(), 0, b""
    while not newline and size < MOST_READ_BYTES:
        connection.settimeout(max(until - time.monotonic(), LEAST_WAIT_S))
        try:
            part = connection.recv(READ_BYTES)
        except TimeoutError:
            raise InputError(
                f"the request has not ended after {CLIENT_WAIT_S:g} s: send a line, or nothing and "
                "the end of the stream"
            ) from None
        if not part:
            break
        head, newline, _ = part.partition(b"\n")
        size += len(head)
        line += head[: max(0, MOST_REQUEST_BYTES - len(line))]
    if size > MOST_REQUEST_BYTES:
        raise InputError(
            f"the request has {size} bytes or more: a line has at most {MOST_REQUEST_BYTES}"
        )
    if line and not newline:
        raise InputError("the request is cut short: a line ends with a newline")
    return bytes(line)


def _pass_over(connection: socket.socket) -> None:
    """Read what else a client has sent; unread, it would end the client's stream with an error."""
    connection.setblocking(False)
    size = 0
    with contextlib.suppress(BlockingIOError):
        while size < MOST_READ_BYTES and (part := connection.recv(READ_BYTES)):
            size += len(part)
