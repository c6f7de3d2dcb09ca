"""Runs in the emulated world: it is brought up once, everything that shares it is run, and it is
taken down.

Ranks are processes, each in its host's namespace.
"""

import itertools
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from weft.agents.drivers.launcher import Launcher
from weft.agents.drivers.rendezvous import Rendezvous, RunProgress
from weft.agents.participant import Cast
from weft.agents.ranks import OperationConfig, RankConfig, RankReport
from weft.base.errors import RunError, refuse
from weft.base.progress import Progress
from weft.controller import Controller
from weft.controller.client import LoadableProgram
from weft.experiments.results.results import Fidelity, Run
from weft.experiments.runs.events import of_run
from weft.experiments.runs.inputs import operation_of, own_programs, plan_of
from weft.experiments.runs.measured import Counts, broken_off, completion_of
from weft.experiments.runs.operate import Advance, Order, operate, start_of
from weft.experiments.runs.simulation import Predictions, simulate
from weft.experiments.runs.traces import traced
from weft.experiments.runs.verdict import verdict
from weft.experiments.scenario.asked import OPTIONS
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles
from weft.topo.network import slowest_bps
from weft.topo.switch_kinds import has
from weft.topo.worlds.emulated.machine import CpuTimes, read_cpu_times
from weft.topo.worlds.emulated.outages import Network, Outages
from weft.topo.worlds.emulated.runs import RunRecord
from weft.topo.worlds.emulated.world import EmulatedWorld

CHECK_S = 0.1
"""The least time between two looks at the processes that a network consists of."""


def check(scenario: Scenario) -> None:
    """Raise InputError or MachineError if the emulated world could not be brought up here."""
    EmulatedWorld(
        scenario.network(),
        scenario.switch,
        path_mtu=scenario.mtu,
        pcap_dir=Path() if scenario.pcap else None,
        links=scenario.link_kind,
    )


class _Watch:
    """Watch an operation from the runner: move the progress bar, sample the processors, and notice
    processes that have died."""

    def __init__(self, world: EmulatedWorld, advance: Advance) -> None:
        self._world = world
        self._advance = advance
        self.start: CpuTimes = read_cpu_times()
        self.end: CpuTimes | None = None
        self._running = False
        self._checked_s = 0.0

    def __call__(self, state: RunProgress) -> None:
        now_s = time.monotonic()
        if now_s - self._checked_s >= CHECK_S:  # all ranks report at about the same time
            self._checked_s = now_s
            self._world.check_alive()
        if not self._running and not state.finished_ranks:
            # Before the first word of a running rank came filling buffers, which is no part of it.
            self._running = True
            self.start = read_cpu_times()
        if state.finished_ranks == len(state.received_bytes):
            self.end = read_cpu_times()
            self._world.end_loads()
        self._advance(state.fraction)


class EmulatedTestbed:
    """Hold an emulated world that is up, its switches' controller, and the launcher that forks the
    ranks."""

    digest = None

    def __init__(
        self,
        scenario: Scenario,
        world: EmulatedWorld,
        controller: Controller,
        launcher: Launcher,
        early: "_Gathering | None" = None,
    ) -> None:
        self.scenario = scenario
        """What the network is to do now; it changes from point to point."""
        self.world = world
        self.controller = controller
        self.launcher = launcher
        self.epochs: Iterator[int] = itertools.count(1)
        self.failed: Collection[str] = ()
        self._early = early
        """The ranks of the first run, which came up while the switches were programmed."""
        self._watch = _Watch(world, lambda _: None)

    def turn_to(self, scenario: Scenario) -> None:
        """Make the switches of the same network do what another scenario wants."""
        plan = plan_of(self.controller.names, scenario, self.world.topology)
        with self.world.blaming_the_dead():
            self.controller.apply(plan)
        self.scenario = scenario

    def check_alive(self) -> None:
        """See `Testbed.check_alive`."""
        self.world.check_alive()

    @contextmanager
    def gathered(self, order: Order, advance: Advance) -> Iterator[Callable[[], list[RankReport]]]:
        """See `Testbed.gathered`."""
        scenario, world, cast = self.scenario, self.world, order.cast
        self._watch = watch = _Watch(world, advance)
        with self.ranks(order.name, order.operation, cast) as meeting, ExitStack() as stack:
            world.reset_lateness()
            outages = Outages(
                scenario.injected,
                Network(
                    world.topology,
                    order.lead_around,
                    world.set_rates,
                    {host: meeting.pids[process] for process, (host, _) in enumerate(cast.roles)},
                ),
                scenario.notice_delay_ns,
            )
            stack.callback(outages.end)

            def begin(start_ns: int) -> None:
                outages.begin(start_ns)
                world.record_loads(start_ns, order.load_bin_ns)

            yield lambda: meeting.run(order.operation, watch, slowest_bps(world.topology), begin)

    @contextmanager
    def ranks(self, name: str, operation: OperationConfig, cast: Cast) -> Iterator[Rendezvous]:
        """Start the ranks, each in its host's namespace, and give the meeting at which all are
        connected for an operation. They end with the block.

        Raises:
            RunError: a rank ended or did not come.
        """
        early, self._early = self._early, None
        wanted = self.scenario, name, operation, cast
        if early is not None and early.wanted != wanted:
            early.close()
            early = None
        with early or _Gathering(self.world, self.launcher, *wanted) as meeting:
            meeting.gather()
            yield meeting

    def fidelity(
        self, reports: Sequence[RankReport], before: Counts, after: Counts, predicted_ns: int | None
    ) -> Fidelity:
        """See `Testbed.fidelity`."""
        scenario, watch = self.scenario, self._watch
        # What a random loss costs depends on which packet it hits, so such runs differ.
        differs = scenario.lossy or scenario.injected
        return verdict(
            scenario, reports, (before, after), (watch.start, watch.end or read_cpu_times()),
            completion_of(reports), None if differs else predicted_ns,
        )  # fmt: skip


class _Gathering:
    """Ranks that have been started, each in its host's namespace, and where they meet. They end
    with the block."""

    def __init__(
        self,
        world: EmulatedWorld,
        launcher: Launcher,
        scenario: Scenario,
        name: str,
        operation: OperationConfig,
        cast: Cast,
    ) -> None:
        self.wanted = scenario, name, operation, cast
        hosts = world.topology.hosts
        names = [hosts[host].name for host, _ in cast.roles]
        ranks = [cast.rank_of(process) for process in range(len(names))]
        with ExitStack() as stack:
            stack.callback(launcher.end_ranks)
            self.meeting = stack.enter_context(
                Rendezvous(
                    world.record.folder / f"{name}.sock",
                    names,
                    launcher,
                    ranks=sum(rank is not None for rank in ranks),
                    teams=len(cast.teams),
                )
            )
            for process, (host, members) in enumerate(cast.roles):
                launcher.spawn(
                    RankConfig(
                        rank=process,
                        host=names[process],
                        teams=list(cast.teams),
                        rendezvous=self.meeting.path,
                        members=list(members),
                        processes=len(names),
                        partners=sorted(cast.partners(process, operation.kinds)),
                        lanes={
                            peer: list(chosen)
                            for peer, chosen in cast.lanes.get(process, {}).items()
                        },
                        transport=cast.transport,
                        workers=operation.request.workers,
                        path_mtu=scenario.mtu,
                        rate_bps=world.topology.outward(names[process])[0].link.rate_bps,
                        seed=operation.seed,
                        algorithms=sorted({kind.algorithm for kind in operation.kinds}),
                    ),
                    namespace=world.host_pid(host),
                )
            self._stack = stack.pop_all()

    def __enter__(self) -> Rendezvous:
        return self.meeting

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the ranks."""
        self._stack.close()


@contextmanager
def testbed_of(
    world: EmulatedWorld, scenario: Scenario, program: ProgramFiles, progress: Progress
) -> Iterator[EmulatedTestbed]:
    """Yield a testbed that is up: its switches are programmed, and its launcher is ready to fork
    ranks."""
    stack = ExitStack()
    try:
        record = world.record
        operations = (operation_of(scenario, name, scenario.seed) for name in scenario.algorithms)
        launcher = stack.enter_context(
            Launcher(
                record.folder,
                record.environment(),
                sorted({kind.algorithm for each in operations for kind in each.kinds}),
            )
        )
        with progress.stage("bring_up", f"Bring up {world.topology.describe()}"):
            stack.enter_context(world)
            loaded = LoadableProgram.read(program)
            algorithm, repetition, _ = next(scenario.runs())
            first = start_of(loaded.names, scenario, world.topology, algorithm, repetition, 1)
            launcher.wait_warm()  # until then it takes nothing, and could not be ended at once
            early = _Gathering(world, launcher, scenario, first.name, first.operation, first.cast)
            stack.callback(early.close)
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
        yield EmulatedTestbed(scenario, world, controller, launcher, early)
    finally:
        with progress.stage("take_down", "Take down"):
            stack.close()


def network_key(scenario: Scenario) -> tuple[object, ...]:
    """Return what an emulated network is made of: scenarios with equal keys can share one."""
    return tuple(row.of_network(scenario) for row in OPTIONS.values() if row.network)


def emulate(
    points: Sequence[Point],
    program: ProgramFiles,
    record: RunRecord,
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
    world = EmulatedWorld(
        first.network(),
        first.switch,
        run=record,
        path_mtu=first.mtu,
        seed=first.seed,
        pcap_dir=captures,
        links=first.link_kind,
        meanwhile=predict,
    )
    with (
        testbed_of(world, first, program, progress) as testbed,
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
    notes += [each.doubt for each in world.captured if each.doubt]


def _run_point(
    testbed: EmulatedTestbed,
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


def _took_ns(testbed: EmulatedTestbed, run: Run, known_ns: dict[str, int], algorithm: str) -> int:
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
