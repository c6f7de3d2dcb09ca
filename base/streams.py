"""Standard output and error of a command: what happens when nobody can or will read them.

A reader that has gone away (``weft run | head``) changes nothing about a command: what is left of
its output goes nowhere, and its exit status is the one it would have had. Output that cannot be
written (``> /dev/full``) is an error.

Control characters in what is written, which may be of a name or a file that others chose, are shown
as ``\\x1b`` and not obeyed by the terminal. What is meant to have them, as the output of a program
that runs on a host, goes through `raw`.
"""

import io
import os
import re
import sys
from typing import Any, TextIO, cast

from weft.base.errors import RunError

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but for tabs and line feeds; those that turn the direction of writing or end a
line; and bytes of names that are no text."""


def escaped(text: str, *, one_line: bool = False) -> str:
    """Return text as a terminal may show it: control characters are written as in Python.

    With `one_line`, as for a name, tabs and line feeds are, too.
    """
    shown = _CONTROLS.sub(_written, text)
    return shown.replace("\n", "\\n").replace("\t", "\\t") if one_line else shown


def raw(stream: TextIO) -> TextIO:
    """Return what writes to a stream whatever it is given, control characters and all."""
    return cast(TextIO, _Raw(stream)) if isinstance(stream, _Shown) else stream


def _written(found: re.Match[str]) -> str:
    character = found[0]
    if "\udc80" <= character <= "\udcff":  # a byte, as names of files have them
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape", "surrogatepass").decode()


class _Descriptor(io.FileIO):
    """A file descriptor leads nowhere once it takes no more."""

    def __init__(self, descriptor: int, name: str, *, must_be_written: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._label = name
        self._must_be_written = must_be_written

    def write(self, data: object, /) -> int:
        try:
            return super().write(data)  # type: ignore[arg-type]
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self._must_be_written and not isinstance(error, BrokenPipeError):
                raise RunError(
                    f"{self._label} cannot be written: {error.strerror}; not all of the output is "
                    "there"
                ) from None
            return memoryview(data).nbytes  # type: ignore[arg-type]


class _Shown(io.TextIOWrapper):
    """A stream whose control characters are shown, and not obeyed."""

    def write(self, text: str, /) -> int:
        super().write(escaped(text))
        return len(text)

    def write_raw(self, text: str) -> int:
        """Write text as it is."""
        return super().write(text)


class _Raw:
    """A stream that shows is written to without that."""

    def __init__(self, stream: _Shown) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        return self._stream.write_raw(text)

    def writelines(self, lines: list[str], /) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def open_closed() -> None:
    """Let those of the three standard descriptors lead nowhere that whoever started the process has
    closed: what is opened next would take their place, and be what its own processes write to."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def guard() -> None:
    """Make the process's own ``sys.stdout`` and ``sys.stderr`` behave as said above."""
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        sys.stdout = _stream(sys.__stdout__, "standard output", must_be_written=True)
    if sys.stderr is not None and sys.stderr is sys.__stderr__:
        sys.stderr = _stream(sys.__stderr__, "standard error", must_be_written=False)


def flush() -> None:
    """Write what is still buffered. Raises `RunError` where standard output takes no more."""
    if sys.stdout is not None:
        sys.stdout.flush()


def _stream(stream: io.TextIOBase, name: str, *, must_be_written: bool) -> io.TextIOWrapper:
    stream.flush()
    descriptor = _Descriptor(stream.fileno(), name, must_be_written=must_be_written)
    return _Shown(
        io.BufferedWriter(descriptor),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=not must_be_written or descriptor.isatty(),
    )
