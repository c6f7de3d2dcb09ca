"""Runs in the emulated world: bring it up once, run all that share it, take it down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from weft.base.errors import RunError
from weft.base.progress import Progress
from weft.experiments.results.results import Run
from weft.experiments.runs.emulated import EmulatedTestbed, testbed_of
from weft.experiments.runs.measured import broken_off
from weft.experiments.runs.operate import operate
from weft.experiments.runs.simulation import simulate
from weft.experiments.runs.traces import traced
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.emulated.runs import Run as RunRecord
from weft.topo.worlds.emulated.world import EmulatedWorld

Predictions = dict[tuple[str, int], int | None]
"""Completion times in ns by algorithm and repetition."""


def network_key(scenario: Scenario) -> tuple[object, ...]:
    """What an emulated network is made of: scenarios that agree in it can share one."""
    return tuple(
        row.network(scenario) if callable(row.network) else getattr(scenario, row.field)
        for row in OPTIONS.values()
        if row.network
    )


def emulate(
    points: Sequence[Point],
    program: ProgramFiles,
    record: RunRecord,
    progress: Progress,
    captures: Path | None,
    runs: list[list[Run]],
    notes: list[str],
    folder: Path | None = None,
) -> None:
    """Run points whose networks are the same (`network_key`) on one, one after the other.

    Appends to `runs` a list of runs for each point as it comes. A network that breaks ends this:
    its run has the error, and fewer lists than points are there. `folder`: for a trace, if a
    scenario asks for one.

    Raises:
        RunError: the world could not be brought up, or taken down.
    """
    for point in points:
        scenario = point.scenario
        note = "random() on BMv2 has no seed: this run's losses do not repeat"
        if scenario.switch == "bmv2" and scenario.lossy and note not in notes:
            notes.append(note)
    predictions = [
        _predict(point, program, progress) if point.scenario.predict else {} for point in points
    ]
    first = points[0].scenario
    world = EmulatedWorld(
        first.network(),
        first.switch,
        run=record,
        path_mtu=first.mtu,
        seed=first.seed,
        pcap_dir=captures,
        links=first.link_kind,
    )
    with (
        testbed_of(world, first, program, progress) as testbed,
        traced(world, first.trace, folder, progress, notes),
    ):
        for point, predicted in zip(points, predictions, strict=True):
            if point is not points[0]:
                testbed.turn_to(point.scenario)
            runs.append([])
            if not _run_point(testbed, point, predicted, progress, runs[-1], notes):
                break
    for capture in world.captured:
        if capture.lost:
            why = ": its file is cut short, as on a full disk" if capture.cut else ""
            notes.append(f"the capture at {capture.end} misses {capture.lost} packets{why}")


def _run_point(
    testbed: EmulatedTestbed,
    point: Point,
    predictions: Predictions,
    progress: Progress,
    runs: list[Run],
    notes: list[str],
) -> bool:
    """Run all of a point; whether the network is whole."""
    operations = list(point.scenario.runs())
    for index, (algorithm, repetition, label) in enumerate(operations):
        predicted_ns = predictions.get((algorithm, repetition))
        try:
            with (
                progress.stage(f"{algorithm}_{repetition}", point.heading + label) as advance,
                testbed.world.blaming_the_dead(),
            ):
                run = operate(testbed, algorithm, repetition, advance, predicted_ns)
        except RunError as error:
            # Something that the network consists of is gone: keep what there is, and end.
            runs.append(broken_off(point.scenario, algorithm, repetition, str(error)))
            left = len(operations) - index - 1
            if left:
                notes.append(f"{point.heading}the network broke; {left} runs were not started")
            return False
        runs.append(run)
    return True


def _predict(point: Point, program: ProgramFiles, progress: Progress) -> Predictions:
    """The same runs in the simulated world. Without losses, repetitions are alike."""
    scenario = point.scenario
    predictions: Predictions = {}
    with progress.stage("predict", f"{point.heading}Predict by simulation") as advance:
        for algorithm, repetition, _ in scenario.runs():
            if repetition and not scenario.lossy:
                predictions[algorithm, repetition] = predictions[algorithm, 0]
            else:
                run = simulate(scenario, program, algorithm, repetition, advance)
                predictions[algorithm, repetition] = run.completion_ns
    return predictions
