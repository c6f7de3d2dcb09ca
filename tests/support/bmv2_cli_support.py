"""A switch of this process for the tests of BMv2's command line, and what commands answer."""

from __future__ import annotations

from pathlib import Path

from tests.support.p4runtime_support import compiled, make_dataplane

from weft.controller.bmv2_cli.run import CommandFailure, run_commands
from weft.controller.client import LoadableProgram, Session
from weft.switch.engine.switches import Dataplane
from weft.switch.p4runtime.local import LocalSwitch


def local_session(source: Path) -> Session:
    """A session with a switch that runs a program."""
    return session_with(make_dataplane(), source)


def session_with(dataplane: Dataplane, source: Path) -> Session:
    """A session with the first switch, which runs a program."""
    session = Session("s1", 1, LocalSwitch(dataplane.control(0, "s1"), 1))
    session.connect()
    session.push_program(LoadableProgram.read(compiled(source)))
    return session


def answers(session: Session, text: str) -> list[str]:
    """What commands answer, none of which may fail."""
    lines, failures = outcome(session, text)
    assert [str(failure) for failure in failures] == []
    return lines


def refusals(session: Session, text: str) -> list[str]:
    """Why commands fail, a line for each that does."""
    return [str(failure) for failure in outcome(session, text)[1]]


def outcome(session: Session, text: str) -> tuple[list[str], list[CommandFailure]]:
    lines: list[str] = []
    failures = run_commands(text, session, "commands.txt", lines.append)
    return lines, list(failures)
