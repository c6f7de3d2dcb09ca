"""Why the server refuses requests, or single elements of a batch, and by which status code."""

from collections.abc import Iterable, Sized
from functools import partial
from itertools import islice

from google.rpc import code_pb2

from weft.base.errors import MachineError, WeftError
from weft.base.limits import shortage
from weft.switch.engine.control import errors as control
from weft.switch.engine.program.errors import ProgramError

MOST_MESSAGE = 2000
"""The most bytes of an error's message, which may quote what the client sent."""

MOST_NAMED = 8
"""How many names of known things a refusal lists when something is unknown."""


class Refusal(Exception):
    """A request, or one element of a batch, is refused with a canonical code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


invalid = partial(Refusal, code_pb2.INVALID_ARGUMENT)
"""The request is wrong, whatever the state of the switch."""
out_of_range = partial(Refusal, code_pb2.OUT_OF_RANGE)
"""A value or an index is too large."""
exhausted = partial(Refusal, code_pb2.RESOURCE_EXHAUSTED)
"""There is no room for so much."""
failed_precondition = partial(Refusal, code_pb2.FAILED_PRECONDITION)
"""The request is not possible in this state of the switch."""
already_exists = partial(Refusal, code_pb2.ALREADY_EXISTS)
"""The thing exists already."""
unimplemented = partial(Refusal, code_pb2.UNIMPLEMENTED)
"""The request is right by the specification, but this server cannot do it."""
not_found = partial(Refusal, code_pb2.NOT_FOUND)
"""The request names something that does not exist."""
denied = partial(Refusal, code_pb2.PERMISSION_DENIED)
"""This client, or any client, may not do this."""

_CODES: tuple[tuple[type[WeftError], int], ...] = (
    (control.NoProgram, code_pb2.FAILED_PRECONDITION),
    (control.NotFound, code_pb2.NOT_FOUND),
    (control.AlreadyExists, code_pb2.ALREADY_EXISTS),
    (control.TableFull, code_pb2.RESOURCE_EXHAUSTED),
    (control.InvalidKey, code_pb2.INVALID_ARGUMENT),
    (control.InvalidAction, code_pb2.INVALID_ARGUMENT),
    (control.InvalidValue, code_pb2.INVALID_ARGUMENT),
    (control.StillInUse, code_pb2.FAILED_PRECONDITION),
    (control.NotPermitted, code_pb2.PERMISSION_DENIED),
    (ProgramError, code_pb2.INVALID_ARGUMENT),
    (MachineError, code_pb2.RESOURCE_EXHAUSTED),
)


def as_refusal(error: Exception) -> Refusal:
    """Return what the client is told about an error that came up while its request was served."""
    if isinstance(error, Refusal):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Refusal(code, str(error))
    if lacking := shortage(error):
        return Refusal(code_pb2.RESOURCE_EXHAUSTED, str(lacking))
    return Refusal(code_pb2.INTERNAL, f"{type(error).__name__}: {error}")


def listed(names: Iterable[str], things: Sized) -> str:
    """Return the first names of things, and how many more there are; "none" if there are none."""
    left = len(things) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return (", ".join(islice(names, MOST_NAMED)) or "none") + more


def fitting(text: str, most_bytes: int) -> str:
    """Return the beginning of a text that takes so many bytes at most as the message of a gRPC
    status.

    All characters but those of plain ASCII take three bytes for one there.
    """
    left = most_bytes
    for place, character in enumerate(text[: most_bytes + 1]):
        plain = " " <= character <= "~" and character != "%"
        left -= 1 if plain else 3 * len(character.encode(errors="replace"))
        if left < 0:
            return text[:place]
    return text
