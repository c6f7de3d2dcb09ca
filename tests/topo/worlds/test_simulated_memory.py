"""A simulated run leaves nothing behind: its world goes by reference counting when it has ended."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import weft
from weft import Scenario
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate
from weft.switch.compiler import compile_cached
from weft.switch.engine.control.state import SwitchControl
from weft.switch.engine.switches import Dataplane
from weft.switch.engine.trace.tracer import Tracer
from weft.topo.faults import Fault
from weft.topo.worlds.simulated import fabric as simulated_fabric
from weft.topo.worlds.simulated import world as simulated_world
from weft.topo.worlds.simulated.world import SimulatedWorld

ROOT = Path(__file__).resolve().parents[3]

SMALL: dict[str, Any] = {
    "world": "simulated", "topology": "single", "hosts_per_leaf": 4, "size_bytes": 16384,
}  # fmt: skip
NETWORK: dict[str, Any] = {"world": "simulated", "leaves": 2, "spines": 2, "hosts_per_leaf": 2}
CLOS: dict[str, Any] = {**NETWORK, "size_bytes": 16384}
KILL = Fault.parse("h1:kill,at=1ms")

ENDS_WELL = [
    Scenario(**SMALL, collective="allgather", algorithms=("ring", "multicast")),
    Scenario(**SMALL, collective="allgather", algorithms=("multicast",), operations=3, at_once=2),
    Scenario(**CLOS, collective="allgather", algorithms=("multicast",), loss=0.02, seed=5),
    Scenario(**CLOS, collective="allgather", algorithms=("ring",), notice="at-once",
             faults=(Fault.parse("leaf0-spine1:fail,at=1ms,for=5ms"),)),
    Scenario(**CLOS, collective="allgather", algorithms=("multicast",),
             faults=(Fault.parse("h0>leaf0:lose=2,opcode=chunk"),)),
    Scenario(**CLOS, collective="allreduce", algorithms=("switch", "optcast")),
    Scenario(**CLOS, collective="allreduce", algorithms=("optcast",), server_placement="ranks",
             servers=2),
    Scenario(**CLOS, collective="alltoall", paths="reps"),
    Scenario(**NETWORK, collective="flows", workload="gpt-7b", layers=1, rate_bps=10**9),
]  # fmt: skip
FAILS = [
    Scenario(**CLOS, collective="allgather", algorithms=("ring", "multicast"), faults=(KILL,)),
    Scenario(**CLOS, collective="allreduce", algorithms=("switch", "optcast"), faults=(KILL,)),
    Scenario(**CLOS, collective="allreduce", algorithms=("optcast",), server_placement="ranks",
             servers=2, faults=(KILL,)),
    Scenario(**SMALL, collective="allgather", algorithms=("ring", "multicast"), timeout_s=0.001),
]  # fmt: skip


def _cases(scenarios: list[Scenario]) -> list[Any]:
    return [
        pytest.param(scenario, algorithm, id=f"{number}-{scenario.collective}-{algorithm}")
        for number, scenario in enumerate(scenarios)
        for algorithm in scenario.algorithms
    ]


@pytest.fixture(scope="module")
def compiled() -> None:
    """What adds is compiled by now: compiling leaves cycles, which hold its callers."""
    for scenario, algorithm in ((ENDS_WELL[5], "optcast"), (ENDS_WELL[6], "optcast")):
        simulate(scenario, program_of(scenario), algorithm, 0, lambda fraction: None)


@pytest.fixture
def uncollected(compiled: None) -> Iterator[None]:
    """What is in cycles stays, until the test looks for it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def _of_ours_in_cycles() -> list[str]:
    """The types of objects of this project that reference counting alone did not free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    names = {f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage}
    gc.garbage.clear()
    return sorted(name for name in names if name.split(".")[0] == weft.__name__)


def _leaves(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, algorithm: str
) -> tuple[Run, list[str]]:
    """A run, which the caller holds, and what of its world is there still."""
    made: list[tuple[str, weakref.ref[Any]]] = []

    def watched(*arguments: Any, **options: Any) -> SimulatedWorld:
        world = SimulatedWorld(*arguments, **options)
        made.append(("world", weakref.ref(world)))
        made.append(("dataplane", weakref.ref(world.fabric.dataplane)))
        made.append(("packet buffers", weakref.ref(world.fabric.dataplane.memory.buffers)))
        return world

    program = program_of(scenario)
    gc.collect()
    monkeypatch.setattr(simulated_world, "SimulatedWorld", watched)
    run = simulate(scenario, program, algorithm, 0, lambda fraction: None)
    assert made
    left = [what for what, reference in made if reference() is not None]
    return run, left + _of_ours_in_cycles()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(("scenario", "algorithm"), _cases(ENDS_WELL))
def test_a_world_is_gone_when_its_run_has_ended_without_a_collection(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, algorithm: str
) -> None:
    run, left = _leaves(monkeypatch, scenario, algorithm)
    assert run.verified, run.error
    assert left == []


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(("scenario", "algorithm"), _cases(FAILS))
def test_a_world_is_gone_when_its_run_has_failed_without_a_collection(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario, algorithm: str
) -> None:
    run, left = _leaves(monkeypatch, scenario, algorithm)
    assert run.error
    assert left == []


@pytest.mark.usefixtures("uncollected")
def test_a_world_is_gone_when_its_network_broke(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated_fabric, "STUCK_CALLS", -1)
    run, left = _leaves(monkeypatch, ENDS_WELL[0], "ring")
    assert "time stands still" in str(run.error)
    assert left == []


@pytest.mark.usefixtures("uncollected")
def test_a_switch_that_is_traced_goes_with_its_last_user() -> None:
    dataplane = Dataplane(1, 8, plain=True)
    control: SwitchControl | None = dataplane.control(0, "s1")
    assert control is not None
    program = compile_cached(ROOT / "tests" / "stf" / "basic.p4")
    control.load_program(program.json.read_text("utf-8"), load="save")
    control.commit_program()
    tracer: Tracer | None = Tracer(control)
    assert tracer is not None
    dataplane.start_trace(tracer)
    gone = weakref.ref(dataplane)
    del dataplane, control, tracer
    assert gone() is None


REPEATS = """
import sys
from weft import Scenario, run

def resident_mib() -> int:
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) >> 10

def repeat(count: int) -> None:
    found = run(Scenario(world="simulated", topology="single", hosts_per_leaf=4, repeat=count,
                         collective="allgather", algorithms=("multicast",), size_bytes=65536))
    assert found.verified
    kept.append(found)

kept = []
repeat(5)
before = resident_mib()
repeat(60)
print(resident_mib() - before)
"""


def test_repeats_take_no_more_memory_than_a_few_of_them() -> None:
    """A world is some 40 MiB and more, and 60 of them ran."""
    told = subprocess.run(
        [sys.executable, "-c", REPEATS], cwd=ROOT, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr
    assert int(told.stdout) < 120
