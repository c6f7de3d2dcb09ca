"""Requests, or single elements of a batch, that the server refuses: why, and by which code."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from functools import partial
from itertools import islice

from google.rpc import code_pb2

from weft.base.errors import WeftError
from weft.switch.engine import control

MOST_MESSAGE = 2000
"""Bytes of an error's message: it may quote what the client sent."""

MOST_NAMED = 8
"""Names of what there is, in the refusal of what there is not."""


class Refusal(Exception):
    """A request, or one element of a batch, that is refused: a canonical code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


invalid = partial(Refusal, code_pb2.INVALID_ARGUMENT)
"""Wrong whatever the state of the switch."""
out_of_range = partial(Refusal, code_pb2.OUT_OF_RANGE)
"""A value, or an index, that is too large."""
exhausted = partial(Refusal, code_pb2.RESOURCE_EXHAUSTED)
"""More than there is room for."""
failed_precondition = partial(Refusal, code_pb2.FAILED_PRECONDITION)
"""Not in this state of the switch."""
already_exists = partial(Refusal, code_pb2.ALREADY_EXISTS)
"""Would be there twice."""
unimplemented = partial(Refusal, code_pb2.UNIMPLEMENTED)
"""Right by the specification, but this server does not do it."""
not_found = partial(Refusal, code_pb2.NOT_FOUND)
"""Names something that is not there."""
denied = partial(Refusal, code_pb2.PERMISSION_DENIED)
"""This client, or any client, may not do it."""

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
    (control.ProgramError, code_pb2.INVALID_ARGUMENT),
)


def as_refusal(error: Exception) -> Refusal:
    """What the client is told about an error that came up while its request was served."""
    if isinstance(error, Refusal):
        return error
    for kind, code in _CODES:
        if isinstance(error, kind):
            return Refusal(code, str(error))
    return Refusal(code_pb2.INTERNAL, f"{type(error).__name__}: {error}")


def listed(names: Iterable[str], things: Sized) -> str:
    """The first names of things, and how many more there are; "none" if there are none."""
    left = len(things) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return (", ".join(islice(names, MOST_NAMED)) or "none") + more


def fitting(text: str, most_bytes: int) -> str:
    """The beginning of a text that takes so many bytes at most as the message of a gRPC status,
    where all but plain ASCII is three bytes for one."""
    left = most_bytes
    for place, character in enumerate(text[: most_bytes + 1]):
        plain = " " <= character <= "~" and character != "%"
        left -= 1 if plain else 3 * len(character.encode(errors="replace"))
        if left < 0:
            return text[:place]
    return text
