"""The statistics socket: whoever connects asks something of a switch process by one line.

The lines, each of which is checked whole before anything is done:

- ``reset``: the statistics of lateness and queues' depths start anew, after the document;
- ``loads START_NS BIN_NS``: what links carry is counted from that time of CLOCK_MONOTONIC on,
  in bins of that length, until ``loads end``;
- ``rates [SWITCH PORT BPS] ...``: the links behind these ports go on at these rates;
- ``figures [SWITCH PORT out|in BPS DELAY_NS JITTER_NS LOSS] ...``: the links behind these ports
  go on with these figures in the direction that leaves the port, or that comes in there; of 2^32
  frames LOSS are lost;
- ``link SWITCH PORT up|down``: the patch link at this port comes back, or loses everything;
- ``trace SWITCH start PACKETS``: so many of a switch's next packets are traced; takes as long
  as compiling its program if that has not been done before;
- ``trace SWITCH take``: the answer is that of `weft.switch.realtime.traces.Traces.take`;
- ``trace SWITCH end``: the switch is traced no longer;
- ``debug SWITCH terminal|commands|dap FOLDER``, quoted as in URLs: a switch is debugged at the
  other end of the stream, until its end (`weft.switch.realtime.debugging`); the answer, a line, is
  empty;
- ``code``: the answer comes once all programs have been compiled (`ProcessConfig.at_once`);
- ``captures end``: the captures inside the process are written out and end; the answer's
  ``captures`` says of each file what it holds and lost.

Without a line, or with ``reset``, the answer is the process's statistics; otherwise it is empty.
"""

import contextlib
import json
import os
import socket
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from weft.base.errors import InputError, MachineError, WeftError, refuse
from weft.base.private_files import keep_private
from weft.switch.engine.switches import CERTAIN, Queue
from weft.switch.realtime.process import MOST_RATE_BPS, SwitchProcess

if TYPE_CHECKING:
    from weft.switch.realtime.debugging import Debugging

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
REQUESTS = (
    "reset, loads START_NS BIN_NS, loads end, rates [SWITCH PORT BPS] ..., "
    "figures [SWITCH PORT out|in BPS DELAY_NS JITTER_NS LOSS] ..., "
    "link SWITCH PORT up|down, trace SWITCH start PACKETS|take|end, debug SWITCH KIND FOLDER, "
    "code, or captures end"
)
DEBUG_WORDS = 4
FIGURES = 7
"""The words that say how a direction of a link goes on."""
MOST_DELAY_NS = 10**9
SHOWN = 80
"""The most characters of a request, or of a word of it, that an error shows."""
MOST_DIGITS = 19
"""The digits of the largest number of 64 bits."""


class StatisticsSocket:
    """A Unix socket on which requests are answered, in threads of its own.

    A client sends one line, or none and the end of its stream; it gets a JSON document and the end
    of the stream. The document is the answer of `done`, or has an ``error``. Requests are done one
    after the other; a client that is slow to ask or to read keeps no other client waiting.
    """

    def __init__(self, process: SwitchProcess, path: str) -> None:
        self._process = process
        self._path = path
        self._turn = threading.Lock()
        self._asking: dict[socket.socket, None] = {}
        """The clients that are sending their requests, in the order in which they came."""
        self._lock = threading.Lock()
        self._room = threading.Semaphore(MOST_CLIENTS)
        self._closed = threading.Event()
        self._debugging: Debugging | None = None
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
        """Wait until there is room for one more client."""
        if self._room.acquire(blocking=False):
            return
        with self._lock, contextlib.suppress(OSError):
            for connection in list(self._asking)[:1]:
                connection.shutdown(socket.SHUT_RD)  # it is answered what it has asked by now
        self._room.acquire()

    def _attend(self, connection: socket.socket) -> None:
        try:
            try:
                line = _request(connection)
                if line.split()[:1] == [b"debug"]:
                    self._debug(connection, line)
                    return
                document = self._done(line)
            except WeftError as error:
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

    def _debug(self, connection: socket.socket, line: bytes) -> None:
        """Let a switch be debugged by whoever is at the other end, until that has gone.

        Raises WeftError.
        """
        from weft.switch.realtime.debugging import Debugging  # which few runs need

        words = line.decode(errors="replace").split()
        if len(words) != DEBUG_WORDS:
            raise InputError(f"request {_shown(repr(' '.join(words)))}: debug SWITCH KIND FOLDER")
        with self._lock:
            self._asking.pop(connection, None)
            self._debugging = self._debugging or Debugging(self._process)
        try:
            self._debugging.serve(connection, *map(unquote, words[1:]))
        except (OSError, WeftError):
            raise
        except Exception:  # the other switches go on
            traceback.print_exc()

    def _leave(self, connection: socket.socket) -> None:
        with self._lock:
            self._asking.pop(connection, None)
        connection.close()
        self._room.release()

    def _done(self, line: bytes) -> dict[str, Any]:
        """Do what a line asks for, and return the answer."""
        try:
            if line.split() == [b"code"]:  # it may take long, and others are to be answered
                self._process.forms.wait()
                return {}
            with self._turn:
                return done(self._process, line)
        except WeftError as error:
            return {"error": str(error)}
        except Exception as error:
            # Whoever asks next is still to be answered.
            traceback.print_exc()
            return {"error": f"{type(error).__name__}: {error}"}

    def close(self) -> None:
        """Stop serving."""
        self._closed.set()
        if self._debugging is not None:
            self._debugging.close()
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
    refuse(
        size > MOST_REQUEST_BYTES,
        f"the request has {size} bytes or more: a line has at most {MOST_REQUEST_BYTES}",
    )
    refuse(line and not newline, "the request is cut short: a line ends with a newline")
    return bytes(line)


def _pass_over(connection: socket.socket) -> None:
    """Read what else a client has sent; unread, it would end the client's stream with an error."""
    connection.setblocking(False)
    size = 0
    with contextlib.suppress(BlockingIOError):
        while size < MOST_READ_BYTES and (part := connection.recv(READ_BYTES)):
            size += len(part)


def done(process: SwitchProcess, line: bytes) -> dict[str, Any]:
    """Do what a line asks for, or what an empty line does, and return the answer.

    Raises `WeftError`.
    """
    try:
        words = line.decode().split()
    except UnicodeDecodeError:
        raise InputError(f"request {_shown(repr(line)[1:])} is no text in UTF-8") from None
    match words:
        case [] | ["reset"]:
            document = process.statistics()
            if words:
                process.reset_lateness()
            return document
        case ["loads", "end"]:
            process.end_loads()
        case ["loads", start, length]:
            process.record_loads(_number("START_NS", start), _number("BIN_NS", length))
        case ["rates", *rest] if len(rest) % 3 == 0:
            triples = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
            process.set_rates(
                {(name, _number("PORT", port)): _number("BPS", bps) for name, port, bps in triples}
            )
        case ["figures", *rest] if len(rest) % FIGURES == 0:
            process.set_figures(
                [_figures(*rest[i : i + FIGURES]) for i in range(0, len(rest), FIGURES)]
            )
        case ["link", name, port, "up" | "down" as state]:
            process.set_link(name, _number("PORT", port), up=state == "up")
        case ["trace", name, "start", packets]:
            process.traces.start(name, _number("PACKETS", packets))
        case ["trace", name, "take"]:
            return process.traces.take(name)
        case ["trace", name, "end"]:
            process.traces.end(name)
        case ["captures", "end"]:
            return {"captures": process.end_captures()}
        case _:
            said = _shown(repr(" ".join(words)))
            raise InputError(f"request {said} is not understood: {REQUESTS}")
    return {}


def _number(what: str, word: str) -> int:
    """Return the whole number that a word is; the process checks whether it makes sense."""
    if not (word.isascii() and word.isdecimal() and len(word) <= MOST_DIGITS):
        raise InputError(
            f"{what} {_shown(repr(word))} is no whole number of at most {MOST_DIGITS} digits"
        )
    return int(word)


def _figures(
    name: str, port: str, way: str, bps: str, delay: str, jitter: str, loss: str
) -> tuple[str, int, bool, Queue]:
    """Return what `SwitchProcess.set_figures` takes for the words of one link's direction."""
    if way not in ("in", "out"):
        raise InputError(f"direction {_shown(repr(way))}: it is in or out")
    queue = Queue(
        _bounded("BPS", bps, MOST_RATE_BPS),
        _bounded("DELAY_NS", delay, MOST_DELAY_NS),
        loss=_bounded("LOSS", loss, CERTAIN) / CERTAIN,
        jitter_ns=_bounded("JITTER_NS", jitter, MOST_DELAY_NS),
    )
    return name, _number("PORT", port), way == "in", queue


def _bounded(what: str, word: str, most: int) -> int:
    """Return a whole number of at most so much."""
    number = _number(what, word)
    refuse(number > most, f"{what} {number}: it is 0 to {most}")
    return number


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
