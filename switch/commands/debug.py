"""``weft debug``: P4 programs stopped and looked at, packet by packet."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from weft.base.command_line import macros
from weft.base.errors import InputError
from weft.switch.commands.stf import load_program
from weft.switch.debugger.adapter.adapter import Adapter
from weft.switch.debugger.debugger import Debugger
from weft.switch.debugger.packets import DebuggedTest, frame_of
from weft.switch.debugger.places import Places
from weft.switch.debugger.terminal import DebuggerPrompt
from weft.switch.engine.program.errors import ProgramError
from weft.switch.priority_queues import check_priority_queues
from weft.switch.stf import read_test


def load(
    program: Path,
    test: Path | None,
    packets: Sequence[str],
    include: Sequence[Path],
    defines: Mapping[str, str | None],
    priority_queues: int = 1,
) -> tuple[DebuggedTest, Debugger]:
    """Return a debugger of a program, with the packets of a test and single ones before it.
    Raises InputError."""
    single = [frame_of(text.replace(":", " ", 1)) for text in packets]
    text = load_program(program, include, defines)
    try:
        source = DebuggedTest(read_test(test) if test else None, text, priority_queues)
    except ProgramError as error:
        raise InputError(f"{program}: {error}") from None
    for port, frame in single:
        source.send(port, frame)
    places = Places(source.program.document, program.absolute().parent)
    return source, Debugger(source.program, places, source.steps())


def debug_at_terminal(source: DebuggedTest, debugger: Debugger, commands: TextIO) -> int:
    """Read commands until they end. Return 0, or 1 if the test has failed."""
    prompt = DebuggerPrompt(source, debugger, commands)
    if prompt.use_rawinput:
        prompt.intro = "break PLACE, continue, step, print NAME; help lists all commands."
    prompt.cmdloop()
    return int(bool(source.report and source.report.failures))


def serve_editor(
    incoming: BinaryIO, outgoing: BinaryIO, program: Path | None, include: Sequence[Path]
) -> None:
    """Speak the debug adapter protocol. An editor's arguments to launch are ``program``, and
    perhaps ``test``, ``packets``, ``include``, ``defines``, ``priorityQueues``, ``stopOnEntry``;
    ``program`` here stands in for its own."""

    def launch(asked: Mapping[str, Any]) -> tuple[DebuggedTest, Debugger]:
        named = asked.get("program") or program
        if not isinstance(named, (str, Path)):
            raise InputError("launch needs a 'program', a .p4 or .json file")
        queues = asked.get("priorityQueues", 1)
        check_priority_queues(queues)
        test = asked.get("test")
        return load(
            Path(str(named)),
            Path(str(test)) if test else None,
            [str(text) for text in asked.get("packets") or ()],
            [*include, *(Path(str(folder)) for folder in asked.get("include") or ())],
            macros([str(text) for text in asked.get("defines") or ()]),
            queues,
        )

    Adapter(incoming, outgoing, launch).serve()


def run(source: DebuggedTest, debugger: Debugger) -> int:
    """Debug at the terminal that this process has."""
    return debug_at_terminal(source, debugger, sys.stdin)
