"""Entries as commands of BMv2's command line, a line each."""

from pathlib import Path

from weft.base.errors import InputError
from weft.controller.bmv2_cli.refusals import CommandError
from weft.controller.bmv2_cli.run import commands_of, find_command, run_commands
from weft.controller.client import LoadableProgram
from weft.controller.handles.switch import SwitchHandle
from weft.topo.switch_kinds import SwitchKind

MOST_SHOWN = 5


class CommandsFile:
    """The content of such a file."""

    def __init__(self, path: Path, text: str) -> None:
        self._path, self._text = path, text

    def check(self, name: str, program: LoadableProgram, kind: SwitchKind) -> None:
        """See `weft.controller.entry_files.entry_file.EntryFile.check`: what is seen are the words
        of commands, and how many each takes."""
        for line, command in commands_of(self._text):
            word, *words = command.split()
            try:
                find_command(word).check(words)
            except CommandError as error:
                raise InputError(f"{self._path}:{line}: {name}: {error}") from None

    def apply(self, switch: SwitchHandle) -> None:
        """See `weft.controller.entry_files.entry_file.EntryFile.apply`."""
        failures = run_commands(self._text, switch.session, str(self._path), lambda _answer: None)
        if failures:
            shown = [str(each) for each in failures[:MOST_SHOWN]]
            more = len(failures) - len(shown)
            raise InputError("\n".join([*shown, *([f"and {more} more commands"] if more else [])]))
