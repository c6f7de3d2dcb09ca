"""The sequence of a run, the same in both worlds.

The switches are programmed, the ranks gathered, what the links have carried is counted, the
operation runs, everything is counted again, and the result is put together.
"""

from collections.abc import Sequence
from dataclasses import replace

from weft.agents.ranks import RankReport
from weft.base.errors import RunError
from weft.experiments.results.results import Run
from weft.experiments.runs.inputs import plan_around
from weft.experiments.runs.measured import Counts, assemble, completion_of
from weft.experiments.runs.testbed import Testbed, start_of
from weft.experiments.runs.verdict import verdict
from weft.topo.worlds.world import Advance


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

    before: Counts | None = None
    after: Counts | None = None
    error: str | None = None
    reports: list[RankReport] = []
    try:
        testbed.controller.apply(plan)
        with world.gathered(replace(order, lead_around=lead_around), advance) as run:
            # Ranks join their groups before, and leave them after: that is no traffic of the run.
            before = _read_counts(testbed)
            try:
                reports = run()
            except RunError as failure:
                world.check_alive()
                error = str(failure)
            after = _read_counts(testbed)
    except RunError as failure:
        world.check_alive()
        error = error or str(failure)
    after = after or _read_counts(testbed)
    before = before or after  # the ranks did not come together, so nothing was sent
    return assemble(
        scenario,
        algorithm,
        repetition,
        reports,
        after.links_since(before, topology),
        verdict(
            scenario,
            reports,
            (before, after),
            world.evidence(),
            completion_of(reports),
            # What a random loss costs depends on which packet it hits, so such runs differ.
            None if scenario.lossy or scenario.injected else predicted_ns,
        ),
        load_bin_ns=after.switches.load_bin_ns,
        error=error,
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
