"""The sequence of a run, the same in both worlds.

The switches are programmed, the ranks gathered, what the links have carried is counted, the
operation runs, everything is counted again, and the result is put together.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from weft.agents.participant import Cast
from weft.agents.ranks import OperationConfig, RankReport
from weft.base.errors import RunError
from weft.controller import Controller
from weft.controller.plan import Plan
from weft.controller.program_names import ProgramNames
from weft.experiments.results.results import Fidelity, Run
from weft.experiments.results.telemetry import first_bin_ns
from weft.experiments.runs.inputs import cast_of, operation_of, plan_around, plan_at_start
from weft.experiments.runs.measured import Counts, World, assemble
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.topo.network import Topology

Advance = Callable[[float], None]
"""A function that is told which part of the work is done, from 0 to 1."""
LONGEST_NAME = 40
"""The most characters of an algorithm in the name of a run's files: a socket's path has 108."""


@dataclass(frozen=True)
class Order:
    """Say what a testbed is to run."""

    name: str
    """The name that tells the run from the others on the same network."""
    operation: OperationConfig
    cast: Cast
    load_bin_ns: int
    """How long the bins of time are at first in which the links' loads are counted."""
    lead_around: Callable[[Sequence[str], Sequence[str]], None]
    """A function that makes the named directions of links lose everything, and leads nothing over
    the named links."""


class Testbed(Protocol):
    """Keep a network up in one of the worlds, with the controller of its switches."""

    @property
    def scenario(self) -> Scenario:
        """Return what the network is to do now."""

    @property
    def world(self) -> World:
        """Return the world that the network is up in."""

    @property
    def controller(self) -> Controller:
        """Return the controller of the network's switches."""

    @property
    def epochs(self) -> Iterator[int]:
        """Return the numbers of the runs on this network, each of which is used once: packets of
        one run are told from those of another by them."""

    failed: Collection[str]
    """The names of links that have failed before, and are known to have."""

    @property
    def digest(self) -> str | None:
        """Return what tells all frames so far from any others; None if time is not virtual."""

    def gathered(
        self, order: Order, advance: Advance
    ) -> AbstractContextManager[Callable[[], list[RankReport]]]:
        """Gather the ranks, and give what runs their operation. They end with the block.

        Raises:
            RunError: a rank ended or did not come.
        """

    def check_alive(self) -> None:
        """Raise RunError if a process that the network consists of is gone."""

    def fidelity(
        self, reports: Sequence[RankReport], before: Counts, after: Counts, predicted_ns: int | None
    ) -> Fidelity:
        """Judge how true the last run was to the network that was asked for."""


@dataclass(frozen=True)
class Start:
    """What a run begins with."""

    name: str
    """Of its files."""
    plan: Plan
    operation: OperationConfig
    cast: Cast


def start_of(
    names: ProgramNames,
    scenario: Scenario,
    topology: Topology,
    algorithm: str,
    repetition: int,
    epoch: int,
    failed: Collection[str] = (),
) -> Start:
    """Return what a run begins with.

    Args:
        epoch: its number on this network.
        failed: the names of links that are known to have failed before.
    """
    plan = plan_at_start(names, scenario, topology, epoch, algorithm, failed)
    return Start(
        f"{re.sub(r'[^A-Za-z0-9.+-]', '_', algorithm)[-LONGEST_NAME:]}-{repetition}",
        plan,
        operation_of(scenario, algorithm, scenario.seed + repetition),
        cast_of(scenario, topology, plan, algorithm, epoch),
    )


def operate(
    testbed: Testbed,
    algorithm: str,
    repetition: int,
    advance: Advance,
    predicted_ns: int | None = None,
) -> Run:
    """Run one operation and return how the network carried it.

    The data and the switches' random() depend on the scenario's seed and the repetition. The ranks
    belong to this run alone; a run that fails leaves nothing to the next.

    Args:
        predicted_ns: the completion time of the same run in the simulated world, if there is one.

    Raises:
        RunError: a process that the network consists of is gone, so nothing more can be run.
    """
    scenario, topology = testbed.scenario, testbed.world.topology
    names = testbed.controller.names
    epoch = next(testbed.epochs)
    start = start_of(names, scenario, topology, algorithm, repetition, epoch, testbed.failed)

    def lead_around(lost: Sequence[str], without: Sequence[str]) -> None:
        down = [*without, *testbed.failed]
        around = plan_around(names, scenario, topology, down, lost, epoch, algorithm)
        testbed.controller.apply(around)

    order = Order(
        start.name,
        start.operation,
        start.cast,
        first_bin_ns(completion_bound_ns(scenario, algorithm)),
        lead_around,
    )
    before: Counts | None = None
    after: Counts | None = None
    error: str | None = None
    reports: list[RankReport] = []
    try:
        testbed.controller.apply(start.plan)
        with testbed.gathered(order, advance) as run:
            # Ranks join their groups before, and leave them after: that is no traffic of the run.
            before = _read_counts(testbed)
            try:
                reports = run()
            except RunError as failure:
                testbed.check_alive()
                error = str(failure)
            after = _read_counts(testbed)
    except RunError as failure:
        testbed.check_alive()
        error = error or str(failure)
    after = after or _read_counts(testbed)
    before = before or after  # the ranks did not come together, so nothing was sent
    return assemble(
        scenario,
        algorithm,
        repetition,
        reports,
        after.links_since(before, topology),
        testbed.fidelity(reports, before, after, predicted_ns),
        load_bin_ns=after.switches.load_bin_ns,
        error=error,
        digest=testbed.digest,
        predicted_ns=predicted_ns,
    )


def _read_counts(testbed: Testbed) -> Counts:
    """Return what has been counted by now. Raises RunError, which names the missing process, if
    there is nothing left to read."""
    try:
        return Counts.read(testbed.controller, testbed.world)
    except OSError:
        testbed.check_alive()
        raise
