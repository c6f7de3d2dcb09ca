"""Errors of calls that make no sense, as programs of PyTorch expect them: a ValueError, too."""

from weft.base.errors import InputError


class BadCallError(InputError, ValueError):
    """An argument of a collective makes no sense."""


def refuse(condition: object, message: str, error: type[Exception] = BadCallError) -> None:
    """Raise `BadCallError`, or another error, if a condition holds."""
    if condition:
        raise error(message)
