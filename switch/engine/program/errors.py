"""What is wrong with a program."""

from weft.base.errors import InputError


class ProgramError(InputError):
    """BMv2 JSON is malformed or uses what the engine does not support (INVALID_ARGUMENT)."""
