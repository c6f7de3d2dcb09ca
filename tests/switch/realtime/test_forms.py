"""People are told once for all switches in which form programs run, and of each that cannot be
compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from weft.base.errors import RunError
from weft.switch.engine.codegen.loading import Pipeline
from weft.switch.realtime import forms
from weft.switch.realtime.forms import Forms

BEGIN = (
    "programs run in the plain form, as Python, which takes some thousand packets a second, until "
    "their machine code is made"
)
END = "all programs run as machine code from here on"


class Compiler:
    """What has programs compiled, as the test says."""

    def __init__(
        self, made: Callable[[Pipeline, int], None], failed: Callable[[Pipeline, str], None]
    ) -> None:
        self.made, self.failed = made, failed

    def wait(self) -> None:
        """Return at once."""


class Switches:
    """Switches in one process, and what people are told of them."""

    def __init__(self) -> None:
        self.programs: dict[str, Pipeline] = {}
        self.notes: list[str] = []
        self.said: list[str] = []
        self.forms = Forms(
            lambda: list(self.programs.items()),
            Pipeline.run_machine_code,
            self.said.append,
            self.notes.append,
        )
        self.compiler: Any = self.forms._compiling

    def load(self, program: Pipeline, *names: str) -> None:
        """Let switches run a program."""
        for name in names:
            self.programs[name] = program
            self.forms.tell(name, program)


@pytest.fixture
def switches(monkeypatch: pytest.MonkeyPatch) -> Switches:
    monkeypatch.setattr(forms, "Compiling", Compiler)
    return Switches()


def program(*, compiled: bool = False) -> Pipeline:
    return Pipeline(None, None, 0, compiled, None)  # type: ignore[arg-type]


def test_programs_that_are_compiled_are_no_news(switches: Switches) -> None:
    switches.load(program(compiled=True), "leaf0", "leaf1")
    assert switches.notes == switches.said == []


def test_a_program_of_several_switches_is_noted_once_and_once_again(switches: Switches) -> None:
    fabric = program()
    switches.load(fabric, "leaf0", "leaf1", "spine0")
    assert switches.notes == [BEGIN]
    switches.compiler.made(fabric, 1)
    assert switches.notes == [BEGIN, END]


def test_several_programs_are_noted_once_all_have_machine_code(switches: Switches) -> None:
    one, other = program(), program()
    switches.load(one, "leaf0")
    switches.load(other, "leaf1")
    switches.compiler.made(one, 1)
    assert switches.notes == [BEGIN]
    switches.compiler.made(other, 1)
    assert switches.notes == [BEGIN, END]
    switches.load(program(), "leaf0")
    assert switches.notes == [BEGIN, END, BEGIN]


def test_a_program_that_cannot_be_compiled_is_told_of_with_its_switches(
    switches: Switches,
) -> None:
    good, bad = program(), program()
    switches.load(bad, "leaf0", "leaf1")
    switches.load(good, "spine0")
    switches.compiler.failed(bad, "no room")
    (said,) = switches.said
    assert said.startswith("leaf0, leaf1: the program runs in the plain form")
    assert said.endswith("cannot be compiled: no room")
    assert switches.notes == [BEGIN]
    switches.compiler.made(good, 1)
    assert switches.notes == [BEGIN, "all other programs run as machine code from here on"]
    with pytest.raises(RunError, match=r"leaf0, leaf1: .*could not be compiled"):
        switches.forms.wait()
    switches.load(bad, "leaf2")
    assert switches.said[1].startswith("leaf2: the program runs in the plain form")


def test_where_nothing_can_be_compiled_nothing_runs_as_machine_code(switches: Switches) -> None:
    bad = program()
    switches.load(bad, "leaf0")
    switches.compiler.failed(bad, "no room")
    assert switches.notes == [BEGIN]
