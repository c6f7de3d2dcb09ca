"""Why the control side of a switch refuses what is asked of it; P4Runtime's code of each."""

from weft.base.errors import WeftError


class ControlError(WeftError):
    """The switch refuses a request; the subclass says why, and the message names the object."""


class NoProgram(ControlError):
    """No program is loaded (P4Runtime: FAILED_PRECONDITION)."""


class NotFound(ControlError):
    """The named entry, member, group, table, counter or index does not exist (NOT_FOUND)."""


class AlreadyExists(ControlError):
    """An entry, member or group with this identity exists already (ALREADY_EXISTS)."""


class TableFull(ControlError):
    """The table or action profile holds as many entries as its size, or there are as many
    replicas as a switch takes (RESOURCE_EXHAUSTED)."""


class InvalidKey(ControlError):
    """The match key does not fit the table: kinds, widths, priority (INVALID_ARGUMENT)."""


class InvalidAction(ControlError):
    """The action or its parameters do not fit the table or profile (INVALID_ARGUMENT)."""


class InvalidValue(ControlError):
    """A port, an id, a counter's index is out of range (INVALID_ARGUMENT, OUT_OF_RANGE)."""


class StillInUse(ControlError):
    """A member or group that something refers to cannot be deleted (FAILED_PRECONDITION)."""


class NotPermitted(ControlError):
    """The program forbids it: const entries, a const default action (PERMISSION_DENIED)."""
