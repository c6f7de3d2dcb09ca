"""Simulations of flows for other programs: a line of JSON for each request, and one in answer."""

import os
import socket
import stat
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from weft.base.errors import InputError, WeftError
from weft.base.units import shown
from weft.interface.flows.flow import Flow, FlowResult
from weft.interface.flows.simulation import Simulation

LINE_BYTES = 1 << 24
"""The longest line that is read."""
Id = str | int


class OneFlow(msgspec.Struct, forbid_unknown_fields=True):
    """A flow, as a line has it."""

    id: Id
    source: str
    destination: str
    size_bytes: int
    after: list[Id] = []
    start_ns: int = 0


class Request(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a line asks for: one of these, or flows and then another."""

    flow: OneFlow | None = None
    """A flow to add."""
    flows: list[OneFlow] | None = None
    """Flows to add together: they may wait for each other."""
    advance: int | None = None
    """Go on until flows end, at the latest to this time."""
    run: bool | None = None
    """Go on until all flows have ended."""


def answer(simulation: Simulation, line: bytes) -> bytes:
    """Do what a line asks for, and return the answer: a line, too, of what has ended, the time and
    the number of flows that have not ended; or of an ``error``, and then nothing was added."""
    try:
        found = _done(simulation, line)
    except WeftError as error:
        found = {"error": str(error)}
    return msgspec.json.encode(found) + b"\n"


def _done(simulation: Simulation, line: bytes) -> Mapping[str, Any]:
    try:
        asked = msgspec.json.decode(line, type=Request)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        text = line[:200].decode(errors="replace").strip()
        raise InputError(
            f"line {shown(text)}: {error}; a line is "
            '{"flow": {"id": ..., "source": ..., "destination": ..., "size_bytes": ...}}, '
            '{"flows": [...]}, {"advance": NS} or {"run": true}'
        ) from None
    flows = [*([asked.flow] if asked.flow else []), *(asked.flows or [])]
    simulation.add(
        Flow(each.id, each.source, each.destination, each.size_bytes, each.after, each.start_ns)
        for each in flows
    )
    ended: Mapping[Hashable, FlowResult] = {}
    if asked.advance is not None:
        ended = simulation.advance(asked.advance)
    elif asked.run:
        ended = simulation.run()
    elif not flows:
        raise InputError(
            f"line {shown(line[:200].decode(errors='replace').strip())} asks for nothing: it has "
            "flow, flows, advance or run"
        )
    told = simulation.skipped
    skipped = {"skipped_ns": told.skipped_ns, "largest_error": round(told.largest_error, 6)}
    return {
        "ended": [
            {
                "id": each,
                "start_ns": one.start_ns,
                "end_ns": one.end_ns,
                "retransmitted_packets": one.retransmitted_packets,
            }
            for each, one in ended.items()
        ],
        "now_ns": simulation.now_ns,
        "unfinished": simulation.unfinished,
        **(skipped if simulation.fast_forward else {}),
    }


def converse(simulation: Simulation, lines: BinaryIO, write: Callable[[bytes], object]) -> None:
    """Answer lines until there are no more. A line that is too long is the last."""
    while line := lines.readline(LINE_BYTES + 1):
        if len(line) > LINE_BYTES:
            told = {"error": f"a line of more than {LINE_BYTES} bytes: send flows in several"}
            write(msgspec.json.encode(told) + b"\n")
            return
        if line.strip():
            write(answer(simulation, line))


def listen(path: Path, make: Callable[[], Simulation], say: Callable[[str], None]) -> None:
    """Serve programs that connect to a Unix socket, one after the other, until interrupted; each
    has a simulation of its own. Only the socket's owner may connect.

    Raises InputError where there can be no socket.
    """
    with closing(_listener(path)) as listener:
        try:
            say(f"listening at {path}")
            while True:
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as lines, suppress(ConnectionError):
                    converse(make(), lines, connection.sendall)
        finally:
            with suppress(OSError):
                path.unlink()


def _listener(path: Path) -> socket.socket:
    """Return a socket that listens; what a killed one has left there is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISSOCK(path.lstat().st_mode) and not _is_served(path):
                path.unlink()
        mask = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
        listener.listen()
    except OSError as error:
        listener.close()
        why = error.strerror or str(error)  # a path that is too long has no number
        raise InputError(
            f"--listen {shown(str(path))}: {why}; name a socket that is not there, in a folder "
            "that you may write to"
        ) from None
    return listener


def _is_served(path: Path) -> bool:
    """Return whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
    return True
