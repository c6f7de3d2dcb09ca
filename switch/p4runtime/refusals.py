"""Requests that the server refuses, and how gRPC carries the refusals to the client.

P4Runtime specification, section "Error Reporting Messages": an error of a whole RPC is a plain gRPC
status; errors of single elements of a batch are one status UNKNOWN whose details hold one
``p4.v1.Error`` for each element of the batch, in order, OK for those that succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from itertools import islice
from typing import Any

from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from switch.engine import control
from switch.errors import WeftError

DETAILS_METADATA = "grpc-status-details-bin"
"""The trailing metadata in which gRPC carries a serialised google.rpc.Status."""

DETAILS_TEXT_BYTES = 4096
"""Text that the errors of one batch may take together. A gRPC client accepts 8 KiB of metadata
unless told otherwise, and gets no details at all beyond that; the codes matter more."""

MOST_NAMED = 8
"""Names of what there is, in the refusal of what there is not."""


class Refusal(Exception):
    """A request, or one element of a batch, that is refused: a canonical code and a message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def invalid(message: str) -> Refusal:
    """INVALID_ARGUMENT: wrong whatever the state of the switch."""
    return Refusal(code_pb2.INVALID_ARGUMENT, message)


def unimplemented(message: str) -> Refusal:
    """UNIMPLEMENTED: right by the specification, but this server does not do it."""
    return Refusal(code_pb2.UNIMPLEMENTED, message)


def not_found(message: str) -> Refusal:
    """NOT_FOUND: names something that is not there."""
    return Refusal(code_pb2.NOT_FOUND, message)


def denied(message: str) -> Refusal:
    """PERMISSION_DENIED: this client, or any client, may not do it."""
    return Refusal(code_pb2.PERMISSION_DENIED, message)


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


def batch_status(what: str, outcomes: Sequence[Refusal | None]) -> Any:
    """The google.rpc.Status of a batch in which something failed; ``None`` stands for success."""
    failed = sum(outcome is not None for outcome in outcomes)
    status = status_pb2.Status()
    status.code = code_pb2.UNKNOWN
    status.message = f"{failed} of {len(outcomes)} {what} failed"
    room = DETAILS_TEXT_BYTES
    for outcome in outcomes:
        error = p4runtime_pb2.Error()
        if outcome is not None:
            error.canonical_code = outcome.code
            error.message = outcome.message.encode()[:room].decode(errors="ignore")
            room -= len(error.message.encode())
        status.details.add().Pack(error)
    return status


def listed(names: Iterable[str], things: Sized) -> str:
    """The first names of things, and how many more there are; "none" if there are none."""
    left = len(things) - MOST_NAMED
    more = f" and {left} more" if left > 0 else ""
    return (", ".join(islice(names, MOST_NAMED)) or "none") + more
