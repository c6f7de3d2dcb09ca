"""Running commands: a whole text of them, or one at a time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.base.errors import WeftError, did_you_mean
from weft.controller.bmv2_cli.command import Command
from weft.controller.bmv2_cli.commands import arrays, profiles, replication, switch, tables
from weft.controller.bmv2_cli.program import ProgramView
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.client import Session
from weft.controller.remote import SwitchError

PROMPT = "RuntimeCmd: "
MOST_LINE = 65536


def _help(one: CommandSwitch, words: list[str]) -> Iterator[str]:
    if not words:
        yield "Commands, which 'help COMMAND' explains:"
        yield from (f"  {command.usage}" for command in COMMANDS.values())
    for word in words:
        command = find_command(word)
        yield f"{command.help[:-1]}: {command.usage}"


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in sorted(
        [
            *tables.COMMANDS,
            *profiles.COMMANDS,
            *replication.COMMANDS,
            *arrays.COMMANDS,
            *switch.COMMANDS,
            Command("help", "[command]", "What commands there are.", _help),
        ],
        key=lambda command: command.name,
    )
}
"""All commands by their names."""


@dataclass(frozen=True)
class CommandFailure:
    """A command of a text that failed."""

    file: str
    line: int
    command: str
    error: WeftError

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.command.split()[0]}: {self.error}"


def find_command(name: str) -> Command:
    """Return the command of a name. Raises CommandError if there is none."""
    if name not in COMMANDS:
        near = did_you_mean(name, COMMANDS)
        raise CommandError(f"*** Unknown syntax: {name}{near}; see help")
    return COMMANDS[name]


def commands_of(text: str | Iterable[str]) -> Iterator[tuple[int, str]]:
    """Return the commands of a text, or of its lines, with the numbers of their lines. What begins
    with ``#``, at the beginning of a line or behind a space, is a comment, and so is a line that
    begins with ``//``."""
    for number, line in enumerate(text.splitlines() if isinstance(text, str) else text, 1):
        words = line.split()
        comment = next((at for at, word in enumerate(words) if word.startswith("#")), len(words))
        if words[:comment] and not words[0].startswith("//"):
            yield number, " ".join(words[:comment])


def completions(program: ProgramView, words: Sequence[str], beginning: str) -> list[str]:
    """Return what may stand behind the words of a command, of what begins so: commands, names of
    the program, whole or their last parts, or the ``=>`` behind the keys of an entry."""
    if not words or words[0] == "help":
        return [name for name in COMMANDS if name.startswith(beginning)]
    command, at = COMMANDS.get(words[0]), len(words) - 1
    if command is None or at >= len(command.kinds):
        with suppress(CommandError):
            if words[0] == "table_add" and at == 2 + len(program.table(words[1]).key):
                return ["=>"]
        return []
    names = program.names(command.kinds[at])
    if command.kinds[at] == "action" and command.kinds[0] == "table":
        with suppress(CommandError):
            names = [one.preamble.name for one in program.table(words[1]).actions]
    ends = [name.rpartition(".")[2] for name in names]
    short = [end for end in ends if ends.count(end) == 1]
    return [name for name in dict.fromkeys([*short, *names]) if name.startswith(beginning)]


def run_command(one: CommandSwitch, line: str) -> Iterator[str]:
    """Carry a command out, and return the lines of its answer as they come.

    Raises CommandError for what makes no sense, OperationRefused and SwitchError where the switch
    refuses.
    """
    if line.startswith("!"):
        line = f"shell {line[1:]}"
    name, *words = line.split()
    command = find_command(name)
    if len(line) > MOST_LINE:
        raise CommandError(f"Error: a command has at most {MOST_LINE} characters")
    command.check(words)
    for lines in command.function(one, words):
        yield from lines.split("\n")


def run_commands(
    text: str | Iterable[str],
    session: Session,
    file: str = "commands",
    say: Callable[[str], None] = print,
    *,
    begin: Callable[[], None] = lambda: None,
    fail: Callable[[CommandFailure], None] = lambda failure: None,
) -> Sequence[CommandFailure]:
    """Carry the commands of a text out, one after the other, and return those that failed, in
    their order; what follows them is carried out all the same, unless the switch is gone.

    Args:
        text: the commands, a line each; or their lines, as they come.
        session: a session with the switch.
        file: what failures call the text.
        say: takes the lines of the answers.
        begin: called before each command.
        fail: takes each failure at once.
    """
    failures = []
    one = CommandSwitch(session)
    for number, line in commands_of(text):
        begin()
        try:
            for answer in run_command(one, line):
                say(answer)
        except WeftError as error:
            failures.append(CommandFailure(file, number, line, error))
            fail(failures[-1])
            if isinstance(error, SwitchError) and error.code == "UNAVAILABLE":
                break  # the switch is not there, and all others would fail alike
    return failures
