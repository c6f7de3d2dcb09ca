"""One operation on a world that is up: start the ranks, run, and measure what the network did."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from weft.agents.drivers.launcher import Launcher
from weft.agents.drivers.rendezvous import Rendezvous, RunProgress
from weft.agents.participant import Cast
from weft.agents.ranks import OperationConfig, RankConfig, RankReport
from weft.base.errors import RunError
from weft.controller import Controller
from weft.experiments.results.results import Fidelity, Run
from weft.experiments.results.telemetry import first_bin_ns
from weft.experiments.runs.fidelity import judge
from weft.experiments.runs.inputs import cast_of, operation_of, plan_around, plan_at_start
from weft.experiments.runs.measured import Counts, assemble, completion_of
from weft.experiments.scenario.outages import Network, Outages
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.topo.worlds.emulated.machine import CpuTimes, cpu_use, read_cpu_times
from weft.topo.worlds.emulated.world import EmulatedWorld

Advance = Callable[[float], None]

FRAME_OVERHEAD_BYTES = 70
"""Headers and ICRC of a multicast chunk's frame."""

QUANTILES = ("p50", "p99", "max")


@dataclass(frozen=True)
class Testbed:
    """What an operation runs on."""

    scenario: Scenario
    world: EmulatedWorld
    controller: Controller
    launcher: Launcher
    epochs: Iterator[int]
    """Numbers of the aggregation jobs on this network, each used once."""


class _Watch:
    """Watches an operation from the runner: moves the bar, samples processors, misses the dead."""

    def __init__(self, world: EmulatedWorld, advance: Advance) -> None:
        self._world = world
        self._advance = advance
        self.start: CpuTimes = read_cpu_times()
        self.end: CpuTimes | None = None
        self._running = False

    def __call__(self, state: RunProgress) -> None:
        self._world.check_alive()
        if not self._running and not state.finished_ranks:
            # Before the first word of a running rank came filling buffers, which is no part of it.
            self._running = True
            self.start = read_cpu_times()
        if state.finished_ranks == len(state.received_bytes):
            self.end = read_cpu_times()
            self._world.end_loads()
        self._advance(state.fraction)


@contextmanager
def gathered_ranks(
    testbed: Testbed, name: str, operation: OperationConfig, cast: Cast
) -> Iterator[Rendezvous]:
    """The ranks, each in its host's namespace, met and connected for an operation; they end with
    the block.

    Raises:
        RunError: a rank ended or did not come.
    """
    scenario, world = testbed.scenario, testbed.world
    hosts = world.topology.hosts
    path = world.record.folder / f"{name}.sock"
    with ExitStack() as stack:
        stack.callback(testbed.launcher.end_ranks)
        names = [hosts[host].name for host, _ in cast.roles]
        ranks = [cast.rank_of(process) for process in range(len(names))]
        meeting = stack.enter_context(
            Rendezvous(
                path,
                names,
                testbed.launcher,
                ranks=sum(rank is not None for rank in ranks),
                teams=len(cast.teams),
            )
        )
        for process, (host, members) in enumerate(cast.roles):
            testbed.launcher.spawn(
                RankConfig(
                    rank=process,
                    host=names[process],
                    teams=list(cast.teams),
                    rendezvous=meeting.path,
                    members=list(members),
                    processes=len(names),
                    partners=sorted(cast.partners(process, operation.kinds)),
                    lanes={
                        peer: list(chosen) for peer, chosen in cast.lanes.get(process, {}).items()
                    },
                    transport=cast.transport,
                    workers=operation.request.workers,
                    path_mtu=scenario.mtu,
                    rate_bps=scenario.rate_bps,
                    seed=operation.seed,
                ),
                namespace=world.host_pid(host),
            )
        meeting.gather()
        yield meeting


def operate(
    testbed: Testbed,
    algorithm: str,
    repetition: int,
    advance: Advance,
    predicted_ns: int | None = None,
) -> Run:
    """Run one operation and say how the network carried it.

    ``predicted_ns``: the completion time of the same run in the simulated world, if there is one.
    The ranks are processes of their own run; a run that fails leaves nothing to the next.

    Raises:
        RunError: a process that the network consists of is gone, so nothing more can be run.
    """
    scenario, world = testbed.scenario, testbed.world
    # Data and its errors differ from repetition to repetition, and repeat with the scenario.
    operation = operation_of(scenario, algorithm, scenario.seed + repetition)
    epoch = next(testbed.epochs)
    plan = plan_at_start(scenario, world.topology, epoch, algorithm)
    cast = cast_of(scenario, world.topology, plan, algorithm)
    before: Counts | None = None
    after: Counts | None = None
    watch = _Watch(world, advance)
    error: str | None = None
    reports: list[RankReport] = []
    try:
        with ExitStack() as stack:
            testbed.controller.apply(plan)
            name = f"{algorithm}-{repetition}"
            meeting = stack.enter_context(gathered_ranks(testbed, name, operation, cast))
            # Ranks join their groups before, and leave them after: that is no traffic of the run.
            before = _read_counts(testbed)
            world.reset_lateness()
            outages = Outages(
                scenario.injected,
                Network(
                    world.topology,
                    lambda lost, without: testbed.controller.apply(
                        plan_around(scenario, world.topology, without, lost, epoch, algorithm)
                    ),
                    world.set_rates,
                    {host: meeting.pids[process] for process, (host, _) in enumerate(cast.roles)},
                ),
                scenario.notice_delay_ns,
            )
            stack.callback(outages.end)
            bin_ns = first_bin_ns(completion_bound_ns(scenario, algorithm))

            def begin(start_ns: int) -> None:
                outages.begin(start_ns)
                world.record_loads(start_ns, bin_ns)

            try:
                reports = meeting.run(
                    operation,
                    watch,
                    scenario.rate_bps,
                    begin,
                )
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
        after.links_since(before, world.topology),
        _fidelity(scenario, reports, before, after, watch, predicted_ns),
        load_bin_ns=after.switches.get("load_bin_ns", 0),
        error=error,
        predicted_ns=predicted_ns,
    )


def _read_counts(testbed: Testbed) -> Counts:
    """What has been counted by now. Raises RunError, naming it, if what is to be read is gone."""
    try:
        return Counts.read(testbed.controller, testbed.world)
    except OSError:
        testbed.world.check_alive()
        raise


def _fidelity(
    scenario: Scenario,
    reports: Sequence[RankReport],
    before: Counts,
    after: Counts,
    watch: _Watch,
    predicted_ns: int | None,
) -> Fidelity:
    end = watch.end or read_cpu_times()
    use = cpu_use(watch.start, end)
    capacity_s = (end.total - watch.start.total) / os.sysconf("SC_CLK_TCK")
    cpu_s = {
        "switches": after.switches["cpu_seconds"] - before.switches["cpu_seconds"],
        "ranks": sum(report.cpu_ns for report in reports) / 1e9,
    }
    # The built-in switch knows how late it was. BMv2 does not, but its links are shaped by tbf.
    lateness_ns = {
        f"{who}_{quantile}": after.switches[what][quantile]
        for who, what in (("switch", "lateness_ns"), ("spacing", "spacing_ns"))
        for quantile in QUANTILES
        if what in after.switches
    }
    for quantile in QUANTILES:
        late = [report.wake_lateness_ns.get(quantile, 0) for report in reports]
        lateness_ns[f"rank_{quantile}"] = max(late, default=0)
    lost = after.unplanned_since(before)
    for report in reports:
        for what in ("receive_errors", "send_errors"):
            if report.statistics.get(what):
                lost[f"{report.host}: {what}"] = report.statistics[what]
        if report.socket_drops:
            lost[f"the socket of {report.host}: not read in time"] = report.socket_drops
        if report.statistics.get("bad_icrc"):
            lost[f"{report.host}: wrong ICRC"] = report.statistics["bad_icrc"]
    return judge(
        completion_ns=completion_of(reports),
        # What a random loss costs depends on which packet it hits, so such runs differ.
        predicted_ns=None if scenario.lossy or scenario.injected else predicted_ns,
        cpu_busy=use.busy,
        cpu_stolen=use.steal,
        cpu_own=min(sum(cpu_s.values()) / capacity_s, use.busy) if capacity_s else 0.0,
        cpu_s=cpu_s,
        lateness_ns=lateness_ns,
        frame_ns=(scenario.mtu + FRAME_OVERHEAD_BYTES) * 8 * 10**9 // scenario.rate_bps,
        unplanned_losses=lost,
    )
