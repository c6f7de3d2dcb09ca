"""Standard output and error of a command: what happens when nobody can or will read them.

A reader that has gone away (``weft run | head``) changes nothing about a command: what is left of
its output goes nowhere, and its exit status is the one it would have had. Output that cannot be
written (``> /dev/full``) is an error.
"""

import io
import os
import sys

from weft.base.errors import RunError


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
    raw = _Descriptor(stream.fileno(), name, must_be_written=must_be_written)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=not must_be_written or raw.isatty(),
    )
