"""What a command is refused with: the words of BMv2's command line, and what is valid instead."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from weft.base.errors import InputError, RunError
from weft.controller.remote import SwitchError


class CommandError(InputError):
    """A command makes no sense: of a wrong name, a wrong number of words, a value that does not
    fit."""


class OperationRefused(RunError):
    """The switch refuses what a command asks for; ``code`` is BMv2's word for the reason."""

    def __init__(self, kind: str, code: str, why: str) -> None:
        self.code = code
        super().__init__(f"Invalid {kind} operation ({code}): {why}")


Codes = Mapping[str, str]
"""BMv2's words for reasons, by the names of gRPC's codes."""

TABLE_CODES: Codes = {
    "ALREADY_EXISTS": "DUPLICATE_ENTRY",
    "RESOURCE_EXHAUSTED": "TABLE_FULL",
    "NOT_FOUND": "INVALID_HANDLE",
    "PERMISSION_DENIED": "DEFAULT_ENTRY_IS_CONST",
    "INVALID_ARGUMENT": "BAD_MATCH_KEY",
}
PROFILE_CODES: Codes = {
    "RESOURCE_EXHAUSTED": "TABLE_FULL",
    "NOT_FOUND": "INVALID_MBR_HANDLE",
    "FAILED_PRECONDITION": "MBR_STILL_USED",
}
GROUP_CODES: Codes = {
    "RESOURCE_EXHAUSTED": "TABLE_FULL",
    "NOT_FOUND": "INVALID_GRP_HANDLE",
    "FAILED_PRECONDITION": "GRP_STILL_USED",
}
REPLICATION_CODES: Codes = {"RESOURCE_EXHAUSTED": "TABLE_FULL", "NOT_FOUND": "INVALID_MGRP_HANDLE"}
CELL_CODES: Codes = {"NOT_FOUND": "INVALID_INDEX", "OUT_OF_RANGE": "INVALID_INDEX"}


@contextmanager
def told_as(kind: str, codes: Codes) -> Iterator[None]:
    """Tell a refusal of the switch within the block as one of an operation of this kind."""
    try:
        yield
    except SwitchError as error:
        if error.code in ("", "UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"):
            raise
        raise OperationRefused(kind, codes.get(error.code, "ERROR"), str(error)) from None
