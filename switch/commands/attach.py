"""``weft debug --attach``: this terminal, or this editor, at the other end of a running switch's
debugger."""

import os
import select
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from weft.base import documents
from weft.base.errors import InputError, RunError

MOST_ANSWER = 1 << 16
READ_BYTES = 1 << 16


def attach(path: Path, switch: str, *, dap: bool) -> None:
    """Debug a switch of the process that answers at a socket, until it, this process's standard
    input or whoever reads its output ends.

    Raises InputError for what the process refuses, and where none answers.
    """
    kind = "dap" if dap else "terminal" if sys.stdin.isatty() else "commands"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        _begin(connection, path, f"debug {quote(switch)} {kind} {quote(str(Path.cwd()))}\n")
        sys.stdout.flush()
        _join(connection, sys.stdin.fileno(), sys.stdout.fileno(), ends_with_input=dap)


def _begin(connection: socket.socket, path: Path, request: str) -> None:
    try:
        connection.connect(os.fspath(path))
        connection.sendall(request.encode())
        with connection.makefile("rb", buffering=0) as unbuffered:
            answer = unbuffered.readline(MOST_ANSWER)
    except OSError as error:
        raise InputError(
            f"no switch process answers at {str(path)!r} ({error.strerror or error}): one of weft "
            "switch does with --debug-socket SOCKET, and every network that is up"
        ) from None
    if not answer:
        raise RunError(f"the switch process at {str(path)!r} has ended")
    document = documents.decoded(dict[str, Any], answer, f"the answer of {str(path)!r}")
    if "error" in document:
        raise InputError(document["error"])


def _join(
    connection: socket.socket, incoming: int, outgoing: int, *, ends_with_input: bool
) -> None:
    """Carry bytes both ways, until the switch's end is closed."""

    def forward() -> bool:
        data = os.read(incoming, READ_BYTES)
        if data:
            connection.sendall(data)
        elif not ends_with_input:
            connection.shutdown(socket.SHUT_WR)  # what the commands come to is yet to be said
        return bool(data)

    def back() -> bool:
        data = connection.recv(READ_BYTES)
        view = memoryview(data)
        while view:
            view = view[os.write(outgoing, view) :]
        return bool(data)

    ways: dict[int, Callable[[], bool]] = {incoming: forward, connection.fileno(): back}
    try:
        while connection.fileno() in ways:
            for ready in select.select([*ways], [], [])[0]:
                if not ways[ready]():
                    del ways[ready]
                    if ready == incoming and ends_with_input:
                        return
    except OSError:
        return  # the switch has ended, or nobody reads what it says
