"""Operations in virtual time, each on a fresh network in this process: runs of worlds whose time is
virtual, and predictions of others."""

from weft.base.progress import Progress
from weft.controller import Controller
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import own_programs
from weft.experiments.runs.operate import operate
from weft.experiments.runs.testbed import Testbed
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.registry import PREDICTING, WORLDS
from weft.topo.worlds.world import Advance, NetworkOptions

Predictions = dict[tuple[str, int], int | None]
"""Completion times in ns by algorithm and repetition."""


def simulate(
    scenario: Scenario, program: ProgramFiles, algorithm: str, repetition: int, advance: Advance
) -> Run:
    """Run one operation on a network of its own, in the scenario's world or, if time is real there,
    in the one that predicts; the same scenario gives the same run, bit for bit."""
    kind = WORLDS[scenario.world]
    if kind.has_real_time:
        kind = WORLDS[PREDICTING]
    options = NetworkOptions(path_mtu=scenario.mtu, seed=scenario.seed + repetition)
    with kind.network(scenario.network(), options) as world:
        others = own_programs(world.topology)
        addresses = world.switch_addresses
        with Controller(world.topology, addresses, program, others=others) as controller:
            return operate(Testbed(scenario, world, controller), algorithm, repetition, advance)


def predict_point(point: Point, program: ProgramFiles, progress: Progress) -> Predictions:
    """Simulate the same runs as an emulated point's, and return their completion times.

    Without losses, repetitions are alike, so one is enough.
    """
    scenario = point.scenario
    predictions: Predictions = {}
    with progress.stage("predict", f"{point.heading}Predict by simulation") as advance:
        for algorithm, repetition, _ in scenario.runs():
            if repetition and not scenario.lossy:
                predictions[algorithm, repetition] = predictions[algorithm, 0]
            else:
                predictions[algorithm, repetition] = simulate(
                    scenario, program, algorithm, repetition, advance
                ).completion_ns
    return predictions
