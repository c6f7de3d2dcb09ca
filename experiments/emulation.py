"""The runs of a scenario in the emulated world: bring it up once, run, take it down."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from agents.drivers.launcher import Launcher
from controller import Controller
from experiments.measured import broken_off
from experiments.operation import Testbed, operate
from experiments.plan import plan_of
from experiments.progress import Progress
from experiments.results import Results
from experiments.scenario import Scenario
from experiments.simulation import simulate
from switch.compiler import ProgramFiles
from switch.errors import RunError
from topo.emulated import EmulatedWorld
from topo.runs import Run as RunRecord

Predictions = dict[tuple[str, int], int | None]
"""Completion times in ns by algorithm and repetition."""


def check(scenario: Scenario) -> None:
    """Raise InputError or MachineError if the emulated world could not be brought up here."""
    EmulatedWorld(
        scenario.network(),
        scenario.switch,
        path_mtu=scenario.mtu,
        pcap_dir=Path() if scenario.pcap else None,
    )


def emulate(
    scenario: Scenario,
    program: ProgramFiles,
    record: RunRecord,
    results: Results,
    progress: Progress,
    captures: Path | None,
) -> None:
    """Run everything, and append it to `results` as it comes.

    Raises:
        RunError: the world could not be brought up, or broke.
    """
    if scenario.switch == "bmv2" and scenario.lossy:
        results.notes.append("random() on BMv2 has no seed: this run's losses do not repeat")
    predictions = _predict(scenario, program, progress) if scenario.predict else {}
    world = EmulatedWorld(
        scenario.network(),
        scenario.switch,
        run=record,
        path_mtu=scenario.mtu,
        seed=scenario.seed,
        pcap_dir=captures,
    )
    with testbed_of(world, scenario, program, progress) as testbed:
        operations = list(scenario.operations())
        for index, (algorithm, repetition, label) in enumerate(operations):
            predicted_ns = predictions.get((algorithm, repetition))
            try:
                with progress.stage(f"{algorithm}_{repetition}", label) as advance:
                    run = operate(testbed, algorithm, repetition, advance, predicted_ns)
            except RunError as error:
                # Something that the network consists of is gone: keep what there is, and end.
                results.runs.append(broken_off(scenario, algorithm, repetition, str(error)))
                left = len(operations) - index - 1
                if left:
                    results.notes.append(f"the network broke; {left} runs were not started")
                break
            results.runs.append(run)
    for capture in world.captured:
        if capture.lost:
            results.notes.append(f"the capture at {capture.end} misses {capture.lost} packets")


def _predict(scenario: Scenario, program: ProgramFiles, progress: Progress) -> Predictions:
    """The same runs in the simulated world. Without losses, repetitions are alike."""
    predictions: Predictions = {}
    with progress.stage("predict", "Predict by simulation") as advance:
        for algorithm, repetition, _ in scenario.operations():
            if repetition and not scenario.lossy:
                predictions[algorithm, repetition] = predictions[algorithm, 0]
            else:
                run = simulate(scenario, program, algorithm, repetition, advance)
                predictions[algorithm, repetition] = run.completion_ns
    return predictions


@contextlib.contextmanager
def testbed_of(
    world: EmulatedWorld, scenario: Scenario, program: ProgramFiles, progress: Progress
) -> Iterator[Testbed]:
    """A world that is up, its switches programmed, and a launcher that is ready to fork ranks."""
    stack = contextlib.ExitStack()
    try:
        record = world.record
        launcher = stack.enter_context(Launcher(record.folder, record.environment()))
        with progress.stage("bring_up", f"Bring up {world.topology.describe()}"):
            stack.enter_context(world)
            controller = stack.enter_context(
                Controller(world.topology, world.switch_addresses, program)
            )
            plan = plan_of(scenario, world.topology)
            controller.apply(plan)
            launcher.wait_warm()
        groups = [group.address for group in plan.groups]
        yield Testbed(scenario, world, controller, launcher, groups)
    finally:
        with progress.stage("take_down", "Take down"):
            stack.close()
