"""A network that is up in one of the worlds, joined with the controller of its switches."""

import itertools
import re
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from weft.base.progress import Progress
from weft.controller import Controller
from weft.controller.client import LoadableProgram
from weft.controller.plan import Plan
from weft.controller.program_names import ProgramNames
from weft.experiments.results.telemetry import first_bin_ns
from weft.experiments.runs.inputs import (
    cast_of,
    operation_of,
    own_programs,
    plan_at_start,
    plan_of,
)
from weft.experiments.runs.waiting import wait_for_code
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.switch.compiler import ProgramFiles
from weft.topo.network import Topology
from weft.topo.worlds.world import Order, World

LONGEST_NAME = 40
"""The most characters of an algorithm in the name of a run's files: a socket's path has 108."""


@dataclass
class Testbed:
    """A network that is up, and what it is to do now."""

    scenario: Scenario
    """What it is to do; it changes from point to point."""
    world: World
    controller: Controller
    """That of the network's switches."""
    epochs: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    """The numbers of the runs on this network, each of which is used once: packets of one run are
    told from those of another by them."""
    failed: Collection[str] = ()
    """The names of links that have failed before, and are known to have."""

    def turn_to(self, scenario: Scenario) -> None:
        """Make the switches of the same network do what another scenario wants."""
        plan = plan_of(self.controller.names, scenario, self.world.topology)
        with self.world.blaming_the_dead():
            self.controller.apply(plan)
        self.scenario = scenario


def start_of(
    names: ProgramNames,
    scenario: Scenario,
    topology: Topology,
    algorithm: str,
    repetition: int,
    epoch: int,
    failed: Collection[str] = (),
) -> tuple[Plan, Order]:
    """Return what a run begins with: the switches' plan, and what the ranks are to run.

    Args:
        epoch: its number on this network.
        failed: the names of links that are known to have failed before.
    """
    plan = plan_at_start(names, scenario, topology, epoch, algorithm, failed)
    order = Order(
        f"{re.sub(r'[^A-Za-z0-9.+-]', '_', algorithm)[-LONGEST_NAME:]}-{repetition}",
        operation_of(scenario, algorithm, scenario.seed + repetition),
        cast_of(scenario, topology, plan, algorithm, epoch),
        first_bin_ns(completion_bound_ns(scenario, algorithm)),
        scenario.injected,
        scenario.notice_delay_ns,
    )
    return plan, order


@contextmanager
def make_testbed(
    world: World, scenario: Scenario, program: ProgramFiles, progress: Progress
) -> Iterator[Testbed]:
    """Yield a testbed that is up: its switches are programmed, and the ranks of its first run are
    on their way."""
    stack = ExitStack()
    try:
        with progress.stage("bring_up", f"Bring up {world.topology.describe()}"):
            stack.enter_context(world)
            loaded = LoadableProgram.read(program)
            algorithm, repetition, _ = next(scenario.runs())
            _, first = start_of(loaded.names, scenario, world.topology, algorithm, repetition, 1)
            world.expect(first)
            with world.blaming_the_dead():
                controller = stack.enter_context(
                    Controller(
                        world.topology,
                        world.switch_addresses,
                        loaded,
                        others=own_programs(world.topology),
                    )
                )
                controller.apply(plan_of(controller.names, scenario, world.topology))
        with world.blaming_the_dead():
            wait_for_code(world, progress)
        yield Testbed(scenario, world, controller)
    finally:
        with progress.stage("take_down", "Take down"):
            stack.close()
