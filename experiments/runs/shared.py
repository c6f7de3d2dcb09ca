"""Runs that can share a network: it is brought up once, everything is run, and it is taken down."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from weft.base.errors import RunError, refuse
from weft.base.progress import Progress
from weft.experiments.results.results import Run
from weft.experiments.runs.events import of_run
from weft.experiments.runs.inputs import operation_of
from weft.experiments.runs.measured import broken_off
from weft.experiments.runs.operate import operate
from weft.experiments.runs.predictions import Predictions, predict_point
from weft.experiments.runs.testbed import Testbed, make_testbed
from weft.experiments.runs.traces import traced
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles
from weft.topo.switch_kinds import has
from weft.topo.worlds.registry import WORLDS
from weft.topo.worlds.world import NetworkOptions, World


def network_of(scenario: Scenario, **more: Any) -> World:
    """Return the network of a scenario, which comes up when it is entered.

    Args:
        more: further `NetworkOptions`.

    Raises:
        InputError, MachineError: it could not be brought up here.
    """
    options = NetworkOptions(
        scenario.switch, scenario.mtu, scenario.seed, scenario.link_kind, **more
    )
    return WORLDS[scenario.world].network(scenario.network(), options)


def algorithms_of(scenario: Scenario) -> tuple[str, ...]:
    """Return what ranks load before they are asked to run a scenario: all algorithms in it."""
    operations = (operation_of(scenario, name, scenario.seed) for name in scenario.algorithms)
    return tuple(sorted({kind.algorithm for each in operations for kind in each.kinds}))


def check(scenario: Scenario) -> None:
    """Raise InputError or MachineError if a scenario's network could not be brought up here."""
    network_of(scenario, pcap=Path() if scenario.pcap else None)


def network_key(scenario: Scenario) -> tuple[object, ...]:
    """Return what a network is made of: scenarios with equal keys can share one."""
    return tuple(row.of_network(scenario) for row in OPTIONS.values() if row.network)


def run_shared(
    points: Sequence[Point],
    program: ProgramFiles,
    progress: Progress,
    captures: Path | None,
    arrived: Callable[[Point, list[Run]], None],
    notes: list[str],
    folder: Path | None = None,
    known: Mapping[Point, Predictions] | None = None,
) -> None:
    """Run points that can share a network (`network_key`), one after the other on the same one.

    A network that breaks ends this: the run that broke it has the error, and fewer points arrive
    than there are.

    Args:
        arrived: is given the runs of each point as it is done.
        folder: takes a trace, if a scenario asks for one.
        known: predictions that were computed before; others are while the network comes up.

    Raises:
        RunError: the world could not be brought up, or taken down.
    """
    note = "random() on BMv2 has no seed: this run's losses do not repeat"
    drawn = any(
        each.scenario.lossy and not has(each.scenario.switch, "seeded random numbers")
        for each in points
    )
    if drawn and note not in notes:
        notes.append(note)
    predictions: list[Predictions] = []

    def predict() -> None:
        predictions.extend(
            known[point]
            if known is not None and point in known
            else predict_point(point, program, progress)
            if point.scenario.predict
            else {}
            for point in points
        )

    first = points[0].scenario
    world = network_of(first, pcap=captures, algorithms=algorithms_of(first), meanwhile=predict)
    with (
        make_testbed(world, first, program, progress) as testbed,
        traced(world, first.trace, folder, progress, notes),
    ):
        for point, predicted in zip(points, predictions, strict=True):
            if point is not points[0]:
                testbed.turn_to(point.scenario)
            runs: list[Run] = []
            whole = _run_point(testbed, point, predicted, progress, runs, notes)
            arrived(point, runs)
            if not whole:
                break
    notes += world.doubts()


def _run_point(
    testbed: Testbed,
    point: Point,
    predictions: Predictions,
    progress: Progress,
    runs: list[Run],
    notes: list[str],
) -> bool:
    """Run everything of a point; return whether the network is whole."""
    operations = list(point.scenario.runs())
    alone_ns: dict[str, int] = {}
    for index, (algorithm, repetition, label) in enumerate(operations):
        predicted_ns = predictions.get((algorithm, repetition))
        try:
            with (
                progress.stage(f"{algorithm}_{repetition}", point.heading + label) as advance,
                testbed.world.blaming_the_dead(),
            ):
                run = operate(testbed, algorithm, repetition, advance, predicted_ns)
                took_ns = partial(_took_ns, testbed, run, alone_ns)
                run = point.scenario.family.compared(run, point.scenario, took_ns)
        except RunError as error:
            # Something that the network consists of is gone: keep what there is, and end.
            runs.append(broken_off(point.scenario, algorithm, repetition, str(error)))
            progress.tell("run", **of_run(runs[-1]))
            left = len(operations) - index - 1
            if left:
                notes.append(f"{point.heading}the network broke; {left} runs were not started")
            return False
        runs.append(run)
        progress.tell("run", **of_run(run))
    return True


def _took_ns(testbed: Testbed, run: Run, known_ns: dict[str, int], algorithm: str) -> int:
    """Return how long another algorithm takes on this machine, with which a run is compared.

    Args:
        known_ns: what was measured before, by algorithm.

    Raises:
        RunError: it did not verify.
    """
    if algorithm not in known_ns:
        took_ns = operate(testbed, algorithm, run.repetition, lambda _: None).completion_ns
        refuse(took_ns is None, f"{algorithm} of {run.algorithm} alone failed", RunError)
        known_ns[algorithm] = took_ns or 0
    return known_ns[algorithm]
