"""The interpreter does what the engine does: the same packets through both, of all programs."""

from __future__ import annotations

import random
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.aimed_frames import Aim, RandomController
from tests.support.engine_support import configure, packet
from tests.support.interpreter_twin import Twin, Watched

from weft.base.errors import RunError
from weft.switch.compiler import compile_cached
from weft.switch.engine.switches import Queue
from weft.switch.interpreter.description import Description
from weft.switch.stf import read_test, run_test
from weft.switch.stf import run as stf_run

ROOT = Path(__file__).resolve().parents[3]
PACKET_TESTS = sorted((ROOT / "tests" / "stf").rglob("*.stf"))
FOLDERS = [
    ROOT / "tests" / name for name in ("compiler_programs", "bmv2_programs", "programs", "stf/psa")
]
PROGRAMS = [path for folder in FOLDERS for path in sorted(folder.glob("*.p4"))]
FABRIC = ROOT / "p4" / "fabric.p4"
PORTS = 6
MOST_PASSES = 60
"""Packets that multiply more are left out: they take long, and tell nothing new."""


@lru_cache(maxsize=32)
def program(source: Path) -> str:
    if source.exists():
        return compile_cached(source).json.read_text("utf-8")
    small = {"AGGREGATION_VALUES": "16"} if source.stem == "root" else {}
    return compile_cached(FABRIC, defines=small).json.read_text("utf-8")


@pytest.mark.parametrize("test", PACKET_TESTS, ids=lambda path: path.stem)
def test_a_packet_test_does_the_same_to_both(test: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Watched] = []

    def watched(*arguments: object, **options: object) -> Watched:
        made.append(Watched(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(stf_run, "Dataplane", watched)
    report = run_test(read_test(test), program(test.with_suffix(".p4")))
    assert [failure.lines() for failure in report.failures] == []
    assert [switch.missing() for switch in made] == [{}]
    assert made[0].compared > 1


def compare(source: Path, seed: int, packets: int) -> None:
    """Send aimed frames through both, with more and more entries."""
    rng = random.Random(seed)
    switch = Watched(1, PORTS + 1, packets=256, plain=True, seed=seed)
    for port in range(PORTS):
        switch.set_port(0, port, Queue())
    control = switch.control(0)
    control.load_program(program(source), load="save")
    control.commit_program()
    controller = RandomController(control, rng, PORTS)
    control.publish()
    description = Description(controller.program.document)
    for number in range(packets):
        frame, port = Aim(description, rng).frame(), rng.randrange(PORTS)
        now_ns = number * 1_000_000
        before = Twin(switch, control)
        before.switch.around.most_passes = MOST_PASSES
        try:
            steps = before.steps(port, frame, now_ns)
            if number % 3 == 0:
                controller.learn(steps)
                before = Twin(switch, control)
                before.switch.around.most_passes = MOST_PASSES
                before.steps(port, frame, now_ns)
        except RunError:
            continue
        switch.receive(0, port, [frame], now_ns)
        switch.transmit(now_ns)
        assert switch.missing() == {}


@pytest.mark.parametrize("source", PROGRAMS, ids=lambda path: path.stem)
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_random_packets_and_entries_do_the_same_to_both(source: Path, seed: int) -> None:
    compare(source, seed, 16)


def test_a_router_sends_every_packet_where_the_interpreter_does() -> None:
    switch = Watched(1, 8, packets=256, plain=True)
    for port in range(1, 5):
        switch.set_port(0, port, Queue())
    configure(switch)
    for number in range(60):
        address = ("10.1.0.1", "10.2.0.1", "239.0.0.1", "1.2.3.4")[number % 4]
        frame = packet(address, source_port=number, ttl=number % 3, size=60 + number)
        switch.receive(0, 1 + number % 4, [frame], 0)
        switch.transmit(0)
    assert switch.missing() == {}
    assert switch.compared > 50
