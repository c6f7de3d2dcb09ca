"""The statistics socket: whoever connects gets one JSON document."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import traceback
from typing import Any

from switch.errors import InputError, MachineError, WeftError
from switch.realtime.process import SwitchProcess

CLIENT_WAIT_S = 10.0
"""For a client that neither asks nor ends what it sends, or does not read the answer."""
MOST_REQUEST_BYTES = 1 << 20


class StatisticsSocket:
    """Serves a process's statistics on a Unix socket, from a thread of its own.

    A client may send a line first; it gets a JSON document and the end of the stream. The lines:

    - ``reset``: the statistics of lateness and queues' depths start anew, after the document;
    - ``loads START_NS BIN_NS``: what links carry is counted from that time of CLOCK_MONOTONIC on,
      in bins of that length, until ``loads end``;
    - ``rates [SWITCH PORT BPS] ...``: the links behind these ports go on at these rates;
    - ``link SWITCH PORT up|down``: the patch link at this port comes back, or loses everything;
    - ``trace SWITCH start PACKETS``: so many of a switch's next packets are traced; takes as long
      as compiling its program where that has not been done before;
    - ``trace SWITCH take``: the answer is that of `switch.realtime.traces.Traces.take`;
    - ``trace SWITCH end``: the switch is traced no longer;
    - ``captures end``: the captures inside the process are written out and end; the answer's
      ``captures`` says of each file what it holds and lost.

    Without a line, or with ``reset``, the document is the process's statistics; otherwise it is
    empty, or has an ``error``.
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
        connection.settimeout(CLIENT_WAIT_S)
        request = b""
        with contextlib.suppress(TimeoutError):
            while b"\n" not in request and len(request) < MOST_REQUEST_BYTES:
                part = connection.recv(65536)
                if not part:
                    break
                request += part
        try:
            document = self._done(request.decode("utf-8", "replace").split())
        except WeftError as error:
            document = {"error": str(error)}
        except Exception as error:
            # Whoever asks next is still to be answered.
            traceback.print_exc()
            document = {"error": f"{type(error).__name__}: {error}"}
        connection.sendall(json.dumps(document).encode())

    def _done(self, words: list[str]) -> dict[str, Any]:
        """Do what a request says; the answer. Raises `WeftError`."""
        process = self._process
        if not words or words == ["reset"]:
            document = process.statistics()
            if words:
                process.reset_lateness()
            return document
        try:
            if words == ["loads", "end"]:
                process.end_loads()
            elif words[0] == "loads":
                start_ns, bin_ns = map(int, words[1:])
                process.record_loads(start_ns, bin_ns)
            elif words[0] == "rates":
                triples = zip(*(words[1 + place :: 3] for place in range(3)), strict=True)
                process.set_rates({(name, int(port)): int(bps) for name, port, bps in triples})
            elif words[0] == "link" and words[3:] in (["up"], ["down"]):
                process.set_link(words[1], int(words[2]), up=words[3] == "up")
            elif words[0] == "trace" and words[2:3] == ["start"] and len(words) == 4:
                process.traces.start(words[1], int(words[3]))
            elif words[0] == "trace" and words[2:] == ["take"]:
                return process.traces.take(words[1])
            elif words[0] == "trace" and words[2:] == ["end"]:
                process.traces.end(words[1])
            elif words == ["captures", "end"]:
                return {"captures": process.end_captures()}
            else:
                raise ValueError
        except (ValueError, OverflowError):
            said = " ".join(words)[:80]
            raise InputError(
                f"request {said!r} is not understood: reset, loads START_NS BIN_NS, loads end, "
                "rates [SWITCH PORT BPS] ..., link SWITCH PORT up|down, "
                "trace SWITCH start PACKETS|take|end, or captures end"
            ) from None
        return {}

    def close(self) -> None:
        """Stop serving."""
        self._listener.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)
