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
from weft.base.outputs import MOST_OUTPUT_BYTES, Unfinished, communicate, kill
from weft.base.units import parse_size

END_S = 5.0
"""How long a command that is told to end may take before it is killed."""
SHOWN_CHARACTERS = 2000
MOST_TIMEOUT_S = 24 * 3600.0


@dataclass(frozen=True)
class Completed:
    """What came of a command."""

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
    """A command that runs on a host. It ends with the network at the latest."""

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

    def wait(
        self,
        timeout: float | None = None,
        input: str | None = None,
        most_output: "str | int" = MOST_OUTPUT_BYTES,
    ) -> Completed:
        """Wait for its end and return what came of it.

        Raises RunError, and kills it with all that it has started, if that takes longer than
        ``timeout`` seconds, or if it prints more than ``most_output``: a number of bytes, or a text
        like ``"256MiB"``; let it write to a file what is more than memory should hold.
        """
        most_bytes = parse_size(most_output, "most_output")
        if timeout is not None:
            timeout = seconds("timeout", timeout, MOST_TIMEOUT_S)
        if input is not None:
            input = text("input", input, "'yes'")
        try:
            output, errors = communicate(self.process, input, timeout, most_bytes)
        except Unfinished as limit:
            kill(self.process)
            said = (limit.errors or limit.output)[-SHOWN_CHARACTERS:].strip()
            raise RunError(
                f"{self.host}: {shlex.join(self.command)!r} {limit}, and was killed; until then it "
                f"said: {said}"
            ) from None
        except BaseException:
            kill(self.process)
            raise
        return Completed(self.host, self.command, self.process.returncode, output, errors)

    def stop(self) -> Completed:
        """Tell it to end (SIGTERM), kill it if it does not, with all that it has started, and
        return what came of it."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        try:
            output, errors = communicate(self.process, None, END_S)
        except Unfinished as limit:
            kill(self.process)
            output, errors = limit.output, limit.errors
        return Completed(self.host, self.command, self.process.returncode, output, errors)


def started(host: str, command: list[str], begin: Callable[..., Any]) -> Running:
    """Start a command on a host by ``begin`` (`weft.topo.worlds.world.World.popen`).

    Raises InputError if there is no such command.
    """
    refuse(
        shutil.which(command[0]) is None,
        f"{host}: command {command[0]!r}: there is no such program, neither on PATH nor by this "
        "path; hosts have the machine's own files",
    )
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return Running(host, command, begin(host, command, text=True, errors="replace", **pipes))
