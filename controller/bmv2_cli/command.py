"""A command of the language: its name, what it takes, what it does."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch

Function = Callable[[CommandSwitch, list[str]], Iterable[str]]
"""What a command does with the words behind its name; the lines are what it answers, which come as
they are found."""


@dataclass(frozen=True)
class Command:
    """A command."""

    name: str
    arguments: str
    """What it takes, as help shows it."""
    help: str
    function: Function
    least: int = 0
    """How few words it takes, and how many at ``most``; None: any number."""
    most: int | None = None
    kinds: tuple[str, ...] = ()
    """What the first words name (`weft.controller.bmv2_cli.program.KINDS`), for completion."""

    @property
    def usage(self) -> str:
        """The command as it is written."""
        return f"{self.name} {self.arguments}".rstrip()

    def check(self, words: list[str]) -> None:
        """Raise CommandError for too few or too many words."""
        if len(words) < self.least:
            raise CommandError(f"Error: Insufficient number of args: write {self.usage}")
        if self.most is not None and len(words) > self.most:
            raise CommandError(
                f"Error: Wrong number of args, expected {self.most} but got {len(words)}: write "
                f"{self.usage}"
            )


def exactly(name: str, arguments: str, help: str, function: Function, *kinds: str) -> Command:
    """Return a command that takes as many words as its arguments name in angle brackets."""
    count = arguments.count("<")
    return Command(name, arguments, help, function, count, count, kinds)
