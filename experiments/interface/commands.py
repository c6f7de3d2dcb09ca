"""Commands on hosts of the emulated world: run to their end, or started and left running."""

import shlex
import shutil
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from weft.base.arguments import seconds, text
from weft.base.children import how_it_ended
from weft.base.errors import InputError, RunError, refuse

END_S = 5.0
"""How long a command that is told to end may take before it is killed."""
SHOWN_CHARACTERS = 2000
MOST_TIMEOUT_S = 24 * 3600.0


@dataclass(frozen=True)
class Completed:
    """Hold what came of a command."""

    host: str
    command: tuple[str, ...]
    status: int
    """Its exit status; negative for the signal that ended it."""
    output: str
    errors: str

    def check(self) -> "Completed":
        """Return this; raise RunError, with what the command said, if its status is not 0."""
        said = (self.errors.strip() or self.output.strip())[-SHOWN_CHARACTERS:]
        if self.status:
            raise RunError(
                f"{self.host}: {shlex.join(self.command)!r} {how_it_ended(self.status)}"
                + (f": {said}" if said else " and said nothing")
            )
        return self


def words_of(command: tuple[object, ...]) -> list[str]:
    """Return the words of a command: the first argument is split as a shell does, the others are
    words each. Raises InputError for none."""
    first, *others = command or ("",)
    try:
        words = shlex.split(str(first))
    except ValueError as error:
        words, why = [], f": {error}"
    else:
        why = ""
    if not words:
        raise InputError(
            f"command {str(first)!r} has no words{why}: write one like 'ping -c 1', ip"
        )
    return [*words, *map(str, others)]


class Running:
    """Hold a command that runs on a host. It ends with the network at the latest."""

    def __init__(self, host: str, command: list[str], process: "subprocess.Popen[str]") -> None:
        self.host = host
        self.command = tuple(command)
        self.process = process
        """The process itself, with pipes for its three files."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it still runs."""
        return self.process.poll() is None

    def wait(self, timeout: float | None = None, input: str | None = None) -> Completed:
        """Wait for its end and return what came of it.

        Raises RunError, and kills it, if that takes longer than ``timeout`` seconds.
        """
        if timeout is not None:
            timeout = seconds("timeout", timeout, MOST_TIMEOUT_S)
        if input is not None:
            input = text("input", input, "'yes'")
        try:
            output, errors = self.process.communicate(input, timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, errors = self.process.communicate()
            raise RunError(
                f"{self.host}: {shlex.join(self.command)!r} took longer than {timeout:g} s, and "
                f"was killed; until then it said: {(errors or output).strip()[-SHOWN_CHARACTERS:]}"
            ) from None
        except BaseException:
            self.process.kill()
            raise
        return Completed(self.host, self.command, self.process.returncode, output, errors)

    def stop(self) -> Completed:
        """Tell it to end (SIGTERM), kill it if it does not, and return what came of it."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(END_S)
        if self.running:
            self.process.kill()
        return self.wait()


def started(host: str, command: list[str], begin: Callable[..., Any]) -> Running:
    """Start a command by ``begin``, which is called as `subprocess.Popen` is.

    Raises InputError if there is no such command.
    """
    refuse(
        shutil.which(command[0]) is None,
        f"{host}: command {command[0]!r}: there is no such program, neither on PATH nor by this "
        "path; hosts have the machine's own files",
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return Running(host, command, begin(command, text=True, errors="replace", **pipes))
