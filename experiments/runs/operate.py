"""The sequence of a run, the same in all worlds and for all work.

The switches are programmed, the ranks gathered, what the links have carried is counted, the
operation runs, everything is counted again, and the result is put together.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from weft.agents.ranks import RankReport
from weft.base.errors import RunError
from weft.experiments.results.results import LinkResult, Run
from weft.experiments.runs.inputs import plan_around
from weft.experiments.runs.measured import Counts, assemble, completion_of
from weft.experiments.runs.testbed import Testbed, start_of
from weft.experiments.runs.verdict import verdict
from weft.experiments.runs.waiting import wait_for_code
from weft.topo.network import Topology
from weft.topo.worlds.world import Advance

R = TypeVar("R")


@dataclass(frozen=True)
class Observed(Generic[R]):
    """What came of ranks' work on a network that is up."""

    reports: Sequence[R]
    """What the ranks tell; empty if the work failed."""
    counts: tuple[Counts, Counts]
    """What had been counted before it and after it."""
    failure: RunError | None

    def links(self, network: Topology) -> list[LinkResult]:
        """Return what every direction of every link carried meanwhile."""
        before, after = self.counts
        return after.links_since(before, network)


def observe(
    testbed: Testbed, gathered: AbstractContextManager[Callable[[], Sequence[R]]]
) -> Observed[R]:
    """Have ranks do their work, whatever that is, once switches are as fast as they can be, and
    count what the network does meanwhile.

    Args:
        gathered: brings the ranks together, gives what runs them and returns their reports, and
            ends them. That they come and go is no traffic of their work.

    Raises:
        RunError: a process that the network consists of is gone, so nothing more can be run.
    """
    before: Counts | None = None
    after: Counts | None = None
    failure: RunError | None = None
    reports: Sequence[R] = ()
    wait_for_code(testbed.world)
    try:
        with gathered as run:
            before = _read_counts(testbed)
            try:
                reports = run()
            except RunError as error:
                testbed.world.check_alive()
                failure = error.with_traceback(None)  # whose frames hold the world
            after = _read_counts(testbed)
    except RunError as error:
        testbed.world.check_alive()
        failure = failure or error.with_traceback(None)
    after = after or _read_counts(testbed)
    # Without counts from before, the ranks did not come together, so nothing was sent.
    return Observed(reports, (before or after, after), failure)


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
    scenario, world = testbed.scenario, testbed.world
    topology = world.topology
    names = testbed.controller.names
    epoch = next(testbed.epochs)
    plan, order = start_of(names, scenario, topology, algorithm, repetition, epoch, testbed.failed)

    def lead_around(lost: Sequence[str], without: Sequence[str]) -> None:
        down = [*without, *testbed.failed]
        around = plan_around(names, scenario, topology, down, lost, epoch, algorithm)
        testbed.controller.apply(around)

    @contextmanager
    def gathered() -> Iterator[Callable[[], list[RankReport]]]:
        testbed.controller.apply(plan)
        with world.gathered(replace(order, lead_around=lead_around), advance) as run:
            yield run

    seen = observe(testbed, gathered())
    return assemble(
        scenario,
        algorithm,
        repetition,
        seen.reports,
        seen.links(topology),
        verdict(
            scenario,
            seen.reports,
            seen.counts,
            world.evidence(),
            completion_of(seen.reports),
            # What a random loss costs depends on which packet it hits, so such runs differ.
            None if scenario.lossy or scenario.injected else predicted_ns,
        ),
        load_bin_ns=seen.counts[1].switches.load_bin_ns,
        error=str(seen.failure) if seen.failure else None,
        digest=world.digest,
        predicted_ns=predicted_ns,
    )


def _read_counts(testbed: Testbed) -> Counts:
    """Return what has been counted by now. Raises RunError, which names the missing process, if
    there is nothing left to read."""
    try:
        return Counts.read(testbed.controller, testbed.world)
    except OSError:
        testbed.world.check_alive()
        raise
