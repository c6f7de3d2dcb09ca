"""What child processes print, read while they run, and no more of it than is to be kept."""

import os
import select
import selectors
import signal
import subprocess
import time
from contextlib import suppress
from io import TextIOWrapper
from typing import IO, Any, cast

from weft.base.units import format_size

MOST_OUTPUT_BYTES = 64 << 20
"""What is kept of the output of a process, both its streams together, unless said otherwise."""
PIECE_BYTES = 1 << 16
KILLED_S = 10.0
"""How long a process may take to end once it has been killed. One that waits for the kernel itself
may take for ever."""


class Unfinished(Exception):
    """A process has not come to its end within its limits: it runs on, and may be killed.

    The message says what the limit was. ``output`` and ``errors`` hold what it had printed.
    """

    def __init__(self, why: str, output: str, errors: str) -> None:
        super().__init__(why)
        self.output = output
        self.errors = errors


class Late(Unfinished):
    """A command that runs for longer than it may."""


class TooMuch(Unfinished):
    """A command that has printed more than is kept."""


def communicate(
    process: "subprocess.Popen[str]",
    input: str | None = None,
    timeout_s: float | None = None,
    most_bytes: int = MOST_OUTPUT_BYTES,
) -> tuple[str, str]:
    """Give a process its input, wait for its end, and return what it printed: as the method of
    `subprocess.Popen` does, for pipes of text, but within a limit.

    Raises `TooMuch` once it has printed more than ``most_bytes``, and `Late` after ``timeout_s``.
    """
    end = None if timeout_s is None else time.monotonic() + timeout_s
    said = {stream: bytearray() for stream in (process.stdout, process.stderr) if stream}

    def text(stream: IO[str] | None) -> str:
        return "" if stream is None else _text(bytes(said[stream]), stream)

    def late() -> Late:
        why = f"took longer than {timeout_s:g} s"
        return Late(why, text(process.stdout), text(process.stderr))

    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        left = _given(process, input)
        if left:
            assert process.stdin is not None
            selector.register(process.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            wait_s = None if end is None else end - time.monotonic()
            if wait_s is not None and wait_s <= 0:
                raise late()
            for key, _ in selector.select(wait_s):
                stream = cast(IO[str], key.fileobj)
                if stream is process.stdin:
                    piece = left = _write(key.fd, left)
                else:
                    piece = os.read(key.fd, PIECE_BYTES)
                    said[stream] += piece
                if not piece:
                    selector.unregister(stream)
                    with suppress(BrokenPipeError):
                        stream.close()
            if sum(map(len, said.values())) > most_bytes:
                why = f"printed more than {format_size(most_bytes)}"
                raise TooMuch(why, text(process.stdout), text(process.stderr))
    try:
        process.wait(None if end is None else max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise late() from None
    return text(process.stdout), text(process.stderr)


def killed(process: "subprocess.Popen[Any]") -> int:
    """Kill a process, wait for its end, and return its status. One that does not end even then is
    left to the kernel."""
    process.kill()
    try:
        return process.wait(KILLED_S)
    except subprocess.TimeoutExpired:
        return -signal.SIGKILL


def kill(process: "subprocess.Popen[str]") -> None:
    """Kill a process, and with it all that it has started if it leads a group of its own; nobody
    reads what they print any more."""
    with suppress(ProcessLookupError):
        if process.returncode is None and os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        killed(process)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()


def _given(process: "subprocess.Popen[str]", input: str | None) -> bytes:
    """Return what is to be written to a process; its input is closed if that is nothing."""
    if process.stdin is None or process.stdin.closed:
        return b""
    with suppress(BrokenPipeError):
        process.stdin.flush()
    if not input:
        with suppress(BrokenPipeError):
            process.stdin.close()
        return b""
    pipe = cast(TextIOWrapper, process.stdin)
    return input.encode(pipe.encoding, pipe.errors or "strict")


def _write(descriptor: int, data: bytes) -> bytes:
    """Write so much of some data as a pipe that has room takes without waiting; return the rest,
    which is nothing if nobody reads it."""
    try:
        return data[os.write(descriptor, data[: select.PIPE_BUF]) :]
    except BrokenPipeError:
        return b""


def _text(data: bytes, stream: IO[str]) -> str:
    pipe = cast(TextIOWrapper, stream)
    text = data.decode(pipe.encoding, pipe.errors or "strict")
    return text.replace("\r\n", "\n").replace("\r", "\n")
