"""The statistics socket: whoever connects gets one JSON document."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading

from switch.errors import MachineError
from switch.realtime.process import SwitchProcess

REQUEST_WAIT_S = 0.1


class StatisticsSocket:
    """Serves a process's statistics on a Unix socket, from a thread of its own.

    A client may send the line ``reset`` first (the lateness statistics then start anew, after the
    document was made), or nothing; it gets a JSON document and the end of the stream.
    """

    def __init__(self, process: SwitchProcess, path: str) -> None:
        self._process = process
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            self._listener.bind(path)
            self._listener.listen(8)
        except OSError as error:
            raise MachineError(f"statistics socket {path}: {error}") from None
        threading.Thread(target=self._serve, name="statistics", daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(REQUEST_WAIT_S)
        request = b""
        with contextlib.suppress(TimeoutError):
            while b"\n" not in request and len(request) < 64:
                part = connection.recv(64)
                if not part:
                    break
                request += part
        document = self._process.statistics()
        if request.strip() == b"reset":
            self._process.reset_lateness()
        connection.settimeout(5.0)
        connection.sendall(json.dumps(document).encode())

    def close(self) -> None:
        """Stop serving."""
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
