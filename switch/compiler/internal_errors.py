"""What a program is told where the compiler itself fails: one line, with the place.

Nothing is kept for this while the compiler works. The place is read off the frames of what was
raised: the innermost one that has a part of the program in a variable tells it.
"""

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from weft.base.errors import WeftError
from weft.base.limits import shortage
from weft.switch.compiler.diagnostics import NOWHERE, InternalError, Reporter, Span

DEBUG = "WEFT_P4C_DEBUG"
"""The environment variable that shows the traceback, too."""

_COMPILER = Path(__file__).parent


@contextmanager
def telling_where(reporter: Reporter, source: Path) -> Iterator[None]:
    """Let what nobody expected in the block be an `InternalError`, behind all errors that were
    found before it."""
    try:
        yield
    except WeftError:
        raise
    except Exception as error:
        lacking = None if isinstance(error, RecursionError) else shortage(error)
        if lacking is not None:
            raise lacking from error
        if os.environ.get(DEBUG):
            traceback.print_exception(error)
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)][::-1]
        span = next((span for frame in frames for span in _places(frame)), NOWHERE)
        reporter.error(span if span.line else Span(str(source), 0, 0, 0, 0), _message(error))
        found = sorted(reporter.errors, key=lambda item: (item.file, item.line))
        raise InternalError(found) from error


def _message(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "the program is nested too deeply, or too large, here"
    said = " ".join(f": {error}".split()) if str(error) else ""
    return (
        f"the compiler fails here ({type(error).__name__}{said}; {_where(error)}); please report "
        f"this with the program ({DEBUG}=1 shows more)"
    )


def _places(frame: FrameType) -> Iterator[Span]:
    """Yield where the parts of the program stand that a frame's variables hold."""
    if not Path(frame.f_code.co_filename).is_relative_to(_COMPILER):
        return
    for value in list(frame.f_locals.values()):
        span = value if isinstance(value, Span) else getattr(value, "span", None)
        if isinstance(span, Span) and span.line:
            yield span


def _where(error: Exception) -> str:
    """Return the compiler's own file and line that an exception passed last."""
    own = "nowhere"
    for frame, line in traceback.walk_tb(error.__traceback__):
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_COMPILER):
            own = f"{path.relative_to(_COMPILER)}:{line}"
    return own
