"""The prompt of ``weft cli`` at a terminal."""

import cmd
from contextlib import suppress

from weft.base.errors import WeftError
from weft.controller.bmv2_cli.run import PROMPT, commands_of, completions, run_command
from weft.controller.bmv2_cli.switch import CommandSwitch
from weft.controller.client import Session


class SwitchPrompt(cmd.Cmd):
    """A prompt for the commands of one switch, which ends with Ctrl-D or ``exit``."""

    prompt = PROMPT
    identchars = cmd.IDENTCHARS + "!"

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._switch = CommandSwitch(session)
        self.intro: str | None = f"Commands of {session.where}; help lists them, and Ctrl-D ends."

    def onecmd(self, line: str) -> bool:
        """Carry a command out, and say what it answers or why it fails; return whether this was the
        last one."""
        if line.strip() in ("EOF", "exit", "quit"):
            print()
            return True
        self._switch.forget()  # others may have changed something meanwhile
        try:
            for _, command in commands_of(line):
                for answer in run_command(self._switch, command):
                    print(answer, flush=True)
        except WeftError as error:
            print(error, flush=True)
        except KeyboardInterrupt:
            print()
        return False

    def run(self) -> None:
        """Read commands to the end; Ctrl-C drops the line that is being written."""
        while True:
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                print()
                self.intro = None
            else:
                return

    def completenames(self, text: str, *ignored: object) -> list[str]:
        """Return the commands that begin so."""
        return self._offered([], text)

    def completedefault(self, text: str, line: str, begin: int, end: int) -> list[str]:
        """Return the names that may stand there."""
        before, _, word = line[:end].rpartition(" ")
        # readline has what goes before `text`: it ends words at a "-", too
        return [one[len(word) - len(text) :] for one in self._offered(before.split(), word)]

    complete_help = completedefault

    def _offered(self, words: list[str], beginning: str) -> list[str]:
        with suppress(WeftError):
            return completions(self._switch.program, words, beginning)
        return []
