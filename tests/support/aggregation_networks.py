"""Simulated networks that sum: the real program, controller, agents and servers, joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from tests.support.aggregation_counters import AggregationCounters, job_counters
from tests.support.fabric import program_names
from tests.support.fault_lines import parse_faults

from weft.agents.ranks import OperationConfig, RankReport
from weft.controller import Controller
from weft.controller.features.aggregation import trees_of
from weft.experiments.runs.inputs import cast_of, operation_of, plan_of, program_of
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.simulated.world import SimulatedWorld

VALUES = 16
"""Numbers in a packet. One number for all tests, for each costs a compile of the program."""
SLOTS = 2
"""So few that a short operation goes round them many times."""


class Summing:
    """A simulated network for one scenario, on which it is run again and again.

    Every run has agents of its own, so its jobs get a new epoch.
    """

    def __init__(self, scenario: Scenario, world: SimulatedWorld, controller: Controller) -> None:
        self.scenario = scenario
        self.world = world
        self.controller = controller
        self._epoch = 0
        self._before: dict[tuple[str, str], AggregationCounters] = {}
        self._now: dict[tuple[str, str], AggregationCounters] | None = None
        """What the switches have counted, if it was read since the last run."""

    def run(self, faults: Sequence[str] = (), **request: Any) -> list[RankReport]:
        """Run the scenario's operation. ``request``: what of its request is different."""
        operation = operation_of(self.scenario, self.scenario.algorithms[0], self.scenario.seed)
        return self.run_operation(
            replace(operation, request=replace(operation.request, **request)), faults
        )

    def run_operation(
        self, operation: OperationConfig, faults: Sequence[str] = ()
    ) -> list[RankReport]:
        """Run some operation, with faults given as lines."""
        topology = self.world.topology
        self._epoch += 1
        plan = plan_of(program_names(), self.scenario, topology, epoch=self._epoch)
        self.controller.apply(plan)
        self._before = self._now or job_counters(self.controller)
        self._now = None
        return self.world.run_operation(
            operation,
            cast=cast_of(self.scenario, topology, plan),
            faults=parse_faults(faults, topology),
        )

    def counted(self) -> dict[tuple[str, str], AggregationCounters]:
        """What the switches counted in the last run, by (job's address, switch)."""
        self._now = job_counters(self.controller)
        return {place: counters - self._before[place] for place, counters in self._now.items()}

    def check_added_once(self, rounds: int) -> None:
        """Hold the switches to having added one packet of each child in every round."""
        counted = self.counted()
        for tree in trees_of(self.controller.plan):
            for name, node in tree.nodes.items():
                found = counted[tree.job.address, name]
                assert found.contributions == rounds * len(node.children), (name, found)
                assert not found.saturated

    def frames(self) -> int:
        """Frames on all links since the network was made."""
        return self.world.fabric.world.frames


@contextmanager
def summing(algorithm: str, **more: Any) -> Iterator[Summing]:
    """Bring up a network. ``more``: of the scenario; an Allreduce unless it says so."""
    options: dict[str, Any] = {"collective": "allreduce", "world": "simulated", **more}
    if algorithm == "switch":
        options = {"slots": SLOTS, "values": VALUES, **options}
    scenario = Scenario(algorithms=(algorithm,), **options)
    world = SimulatedWorld(scenario.network(), seed=scenario.seed, path_mtu=scenario.mtu)
    with Controller(world.topology, world.switch_addresses, program_of(scenario)) as controller:
        yield Summing(scenario, world, controller)


def check_verified(results: Sequence[RankReport], what: object = "") -> None:
    """Hold all ranks to having the right data."""
    wrong = [f"rank {result.rank}: {result.error}" for result in results if not result.verified]
    assert not wrong, (what, wrong)
