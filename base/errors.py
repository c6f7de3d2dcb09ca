"""The family of errors that Weft reports to its user, with the exit status each ends with."""

from collections.abc import Callable, Collection


class WeftError(Exception):
    """The user is told of this in one message, without a traceback.

    The message names the thing, shows the value, says what is valid and what to do next.
    """

    exit_status = 1


class InputError(WeftError):
    """A scenario, topology, option or program makes no sense (exit status 2)."""

    exit_status = 2


class MachineError(WeftError):
    """The machine lacks what was asked for: root, a tool, a kernel feature (exit status 2)."""

    exit_status = 2


class RunError(WeftError):
    """A run started and could not be completed or verified (exit status 1)."""

    exit_status = 1


class ProtocolError(RunError):
    """A peer broke a protocol: its message is malformed or impossible."""


class Ended(SystemExit):
    """A signal ends the process, with status 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__(128 + number)


def refuse(condition: object, message: str, error: Callable[[str], Exception] = InputError) -> None:
    """Raise an error with the message if the condition is true.

    The message is made in any case, so it calls nothing but ``len``, and this is not for what is
    checked for every packet: write ``if bad: raise`` there.
    """
    if condition:
        raise error(message)


def did_you_mean(name: object, known: Collection[str]) -> str:
    """Return `` (did you mean NAME?)``, of the known name that is nearest; empty if none is, and
    for what is no text."""
    from difflib import get_close_matches  # nothing but a wrong name waits for it

    near = get_close_matches(name, known, n=1) if isinstance(name, str) else []
    return f" (did you mean {near[0]}?)" if near else ""
