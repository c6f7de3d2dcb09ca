"""What PSA's specification says: the engine's two forms, the interpreter and psa_switch do it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.support.bmv2_support import require_bmv2, run_bmv2
from tests.support.interpreter_twin import Twin
from tests.support.psa_sentences import (
    COMMANDS,
    ELSEWHERE,
    EXTERNS,
    IN_PORT,
    PAGE,
    PORTS,
    PROGRAM,
    REFUSED,
    ROOT,
    Case,
    Refused,
    cases,
    page,
    switch,
)
from tests.support.random_psa import RandomSwitch, checked, compiled_text

from weft.switch.commands.stf import load_program
from weft.switch.compiler import CompileError, compile_program
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane

Both = tuple[Dataplane, SwitchControl]


@pytest.fixture(scope="module")
def text() -> str:
    return load_program(PROGRAM, [], {})


@pytest.fixture(scope="module")
def both(text: str) -> Both:
    return switch(text)


def sent(dataplane: Dataplane, frame: bytes) -> list[tuple[int, str]]:
    dataplane.receive(0, IN_PORT, [frame], 0)
    return sorted((one.port, one.frame.hex()) for one in dataplane.transmit(0))


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{int(case.packet[:2], 16)}")
def test_a_packet_leaves_as_the_sentence_says(both: Both, case: Case) -> None:
    frame = bytes.fromhex(case.packet)
    assert sent(both[0], frame) == case.leaves, case.text
    twin = sorted((port, data.hex()) for port, data in Twin(*both).sent(IN_PORT, frame))
    assert twin == case.leaves, case.text
    assert both[0].context.free_packet_count == 64


def test_the_compiled_form_sends_the_same(text: str) -> None:
    dataplane, control = switch(text, plain=False)
    for case in cases():
        assert sent(dataplane, bytes.fromhex(case.packet)) == case.leaves, case.text
    del control


def test_psa_switch_sends_the_same(text: str, tmp_path: Path) -> None:
    require_bmv2("psa_switch")
    known = [case for case in cases() if case.psa_switch]
    wanted = Counter(tuple(one) for case in known for one in case.leaves)
    arrivals = {IN_PORT: [(at, bytes.fromhex(case.packet)) for at, case in enumerate(known)]}
    found = run_bmv2(
        tmp_path, text, arrivals, wanted.total(), COMMANDS, range(PORTS), target="psa_switch"
    )
    assert (
        Counter((port, data.hex()) for port, frames in found.items() for data in frames) == wanted
    )


@pytest.mark.parametrize("seed", [1, 6, 11, 23])
def test_a_random_program_is_the_same_to_the_interpreter(seed: int, tmp_path: Path) -> None:
    assert checked(seed, tmp_path) == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 6])
def test_a_random_program_is_the_same_in_compiled_form(seed: int, tmp_path: Path) -> None:
    assert checked(seed, tmp_path, compiled=True) == ""


@pytest.mark.parametrize("seed", [1, 4, 6, 23])
def test_a_random_program_does_what_it_does_on_psa_switch(seed: int, tmp_path: Path) -> None:
    require_bmv2("psa_switch")
    random = RandomSwitch(seed, tame=True)
    text = compiled_text(random, tmp_path)
    dataplane, control = switch(text)
    wanted = Counter(each for frame in random.frames for each in sent(dataplane, frame))
    del control
    arrivals = {IN_PORT: list(enumerate(random.frames))}
    found = run_bmv2(
        tmp_path, text, arrivals, wanted.total(), COMMANDS, range(PORTS), target="psa_switch"
    )
    assert (
        Counter((port, data.hex()) for port, data_of in found.items() for data in data_of) == wanted
    )


@pytest.mark.parametrize("one", REFUSED, ids=lambda one: one.text)
def test_a_program_that_may_not_be_is_refused(one: Refused, tmp_path: Path) -> None:
    text = one.source.read_text()
    assert one.change[0] in text
    (source := tmp_path / "wrong.p4").write_text(text.replace(*one.change))
    with pytest.raises(CompileError, match=one.message):
        compile_program(source, include_dirs=[EXTERNS.parent])


def test_the_page_lists_the_sentences_and_all_tests_that_it_names_are_there() -> None:
    assert PAGE.read_text() == page()
    for _, _, test in ELSEWHERE:
        file, name = test.split("::")
        assert f"def {name}(" in (ROOT / "tests" / file).read_text(), test
    assert len({case.packet for case in cases()}) == len(cases())
