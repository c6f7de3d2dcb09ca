"""Simulated networks that sum: the real program, controller, agents and servers, joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, fields, replace
from operator import sub
from typing import Any

from weft.agents.ranks import OperationConfig, RankReport
from weft.controller import Controller, fabric
from weft.controller.aggregation import AggregationJob
from weft.controller.counters import Cell
from weft.experiments.runs.inputs import cast_of, operation_of, plan_of, program_of
from weft.experiments.scenario.scenario import Scenario
from weft.topo.faults import parse_faults
from weft.topo.worlds.simulated.world import SimulatedWorld

VALUES = 16
"""Numbers in a packet. One number for all tests, for each costs a compile of the program."""
SLOTS = 2
"""So few that a short operation goes round them many times."""


@dataclass(frozen=True)
class AggregationCounters:
    """Packets of one job at one switch, since the program was loaded."""

    contributions: int
    """Added to a sum."""
    results: int
    """Sums made (at the root) or passed on downwards."""
    resent_partials: int
    """Stored partial sums sent to the parent once more."""
    resent_results: int
    """Stored results sent to one child once more."""
    duplicates: int
    """Dropped: had been added before."""
    late: int
    """Dropped: of a round whose row had gone to a newer one."""
    other_epoch: int
    """Dropped: of another job that had the address."""
    malformed: int
    """Dropped: wrong length, structure or ICRC."""
    unexpected: int
    """Dropped: from no child, or a result that nothing waited for."""
    saturated: int
    """Additions in which a sum did not fit into 32 bits."""

    def __sub__(self, earlier: AggregationCounters) -> AggregationCounters:
        return AggregationCounters(*map(sub, astuple(self), astuple(earlier)))


def _cells(job: AggregationJob) -> list[Cell]:
    """All cells to read of a job on a switch of its tree, in the order of the figures."""
    names = [field.name for field in fields(AggregationCounters)]
    return [(fabric.name(f"aggregation.{name}"), job.number) for name in names]


def read_aggregation(controller: Controller) -> dict[tuple[str, str], AggregationCounters]:
    """Packets of every job of the plan on every switch of its tree, by (address, switch)."""
    found = {}
    for tree in controller.plan.aggregation:
        cells = _cells(tree.job)
        for switch in tree.nodes:
            counted = controller.session(switch).read_counters(cells)
            figures = AggregationCounters(*(packets for packets, _ in counted))
            found[tree.job.address, switch] = figures
    return found


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
        plan = plan_of(self.scenario, topology, epoch=self._epoch)
        self.controller.apply(plan)
        self._before = self._now or read_aggregation(self.controller)
        self._now = None
        return self.world.run_operation(
            operation,
            cast=cast_of(self.scenario, topology, plan),
            faults=parse_faults(faults, topology),
        )

    def counted(self) -> dict[tuple[str, str], AggregationCounters]:
        """What the switches counted in the last run, by (job's address, switch)."""
        self._now = read_aggregation(self.controller)
        return {place: counters - self._before[place] for place, counters in self._now.items()}

    def check_added_once(self, rounds: int) -> None:
        """Hold the switches to having added one packet of each child in every round."""
        counted = self.counted()
        for tree in self.controller.plan.aggregation:
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
