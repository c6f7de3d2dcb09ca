"""Operations that run in virtual time, with their agents, buffers and results."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.bare_results import find_wrong_results
from weft.agents.collectives.coverage import Held
from weft.agents.collectives.dropped import DroppedResults, compare_all
from weft.agents.collectives.series import BoundRequest, Series
from weft.agents.participant import Cast, Introductions, Participant
from weft.agents.ranks import OperationConfig, RankReport, report_of
from weft.agents.transport.endpoint import Endpoint
from weft.base.errors import RunError
from weft.topo.faults import Fault
from weft.topo.network import slowest_bps
from weft.topo.worlds.simulated.fabric import Fabric
from weft.topo.worlds.simulated.rules import FaultPlan

SETTLE_NS = 5_000_000_000
"""How long after an operation the network is given to come to rest."""
LIMIT_SLACK_NS = 10_000_000_000
"""What is added to an operation's own time limit: an operation that exceeds both has agents at
fault."""


@dataclass(frozen=True)
class SimulatedProgress:
    """How far an operation is."""

    received_bytes: int
    """Frame bytes that the transports of all ranks have taken in."""
    expected_bytes: int
    """How many bytes of others' data all ranks receive in all operations."""
    finished_ranks: int
    now_ns: int
    """Virtual time since the operation began."""

    @property
    def fraction(self) -> float:
        """Return, from 0 to 1, which part of the data has about arrived."""
        return min(1.0, self.received_bytes / self.expected_bytes) if self.expected_bytes else 1.0


class SimulatedOperations:
    """The operations of one run, with their agents, buffers and results."""

    def __init__(
        self,
        fabric: Fabric,
        path_mtu: int,
        memory: Callable[[int], npt.NDArray[np.uint8]],
        operation: OperationConfig,
        progress: Callable[[SimulatedProgress], None] | None,
        cast: Cast,
    ) -> None:
        """Make the agents.

        Args:
            memory: gives room for all ranks' buffers.
        """
        self._topology = topology = fabric.topology
        self._fabric = fabric
        self._memory = memory
        self.faults_done: dict[str, int] = {}
        """How many packets each packet fault was done to, by its line."""
        self._operation = operation
        self._progress = progress
        hosts = topology.hosts
        self._hosts = [host for host, _ in cast.roles]
        """The host of each process."""
        rate_bps = [topology.outward(hosts[host].name)[0].link.rate_bps for host in self._hosts]
        self._participants = [
            Participant(
                Endpoint(
                    hosts[host].address,
                    path_mtu,
                    rate_bps[process],
                    seed=operation.seed * len(cast.roles) + process,
                    options=cast.transport,
                    epoch=cast.teams[0].epoch,
                ),
                cast.teams,
                members,
                cast.partners(process, operation.kinds),
                cast.lanes.get(process),
            )
            for process, (host, members) in enumerate(cast.roles)
        ]
        introductions: Introductions = {
            key: each
            for participant in self._participants
            for key, each in participant.introductions().items()
        }
        for participant in self._participants:
            participant.connect(introductions)
        ranks = (cast.rank_of(process) for process in range(len(cast.roles)))
        self._ranks = [rank for rank in ranks if rank is not None]
        """(team, rank of the team) of each process that is a rank."""
        self._process_at = {host: process for process, host in enumerate(self._hosts)}
        sizes = [len(team.addresses) for team in cast.teams]
        limited = operation.limited(max(sizes), slowest_bps(topology))
        self._workloads = [
            limited.workloads(number, team, keep=True) for number, team in enumerate(cast.teams)
        ]
        """The workloads of each team."""
        self._dropped = [
            [DroppedResults(workload, sizes[number]) for workload in workloads]
            for number, workloads in enumerate(self._workloads if fabric.landings.whole else ())
        ]
        """The results of each team's operations, where they are not kept."""
        if self._dropped:
            rows = [each.expected() for some in self._dropped for each in some]
            fabric.landings.expect(np.concatenate(rows))
        self._jobs: list[list[BoundRequest]] = []
        """The jobs of each process that is a rank, in order."""
        self._series: list[Series] = []
        self._limit_ns = limited.limit_ns + LIMIT_SLACK_NS
        self._ended: set[int] = set()
        self._killed: dict[int, int] = {}
        self._started_ns = 0

    def run(
        self,
        faults: Sequence[Fault],
        load_bin_ns: int,
        notice_after_ns: int | None,
        noticed: Callable[[Sequence[str]], None] | None,
    ) -> list[RankReport]:
        """Run everything to its end, and return one result a rank; the arguments are those of
        `weft.topo.worlds.simulated.world.SimulatedWorld.run_operation`."""
        self._prepare()
        fabric = self._fabric
        self._started_ns = fabric.now_ns
        if load_bin_ns:
            fabric.record_loads(load_bin_ns)
        plan = FaultPlan(fabric, faults, self._started_ns, self._kill, notice_after_ns, noticed)
        try:
            agents = zip(self._hosts, self._participants, strict=True)
            fabric.landings.forget()
            fabric.attach({host: participant.machine for host, participant in agents})
            for rank, series in enumerate(self._series):
                series.start(self._started_ns)
                fabric.wake(self._hosts[rank])
                self._attended(self._hosts[rank])
            self._go_on(plan, self._started_ns + self._limit_ns, self._all_ended)
            fabric.dataplane.end_loads()
            self._check_ended()
            self._pause()
            self._go_on(plan, fabric.now_ns + SETTLE_NS, None)
            return [self._result(rank) for rank in range(len(self._ranks))]
        finally:
            self.faults_done = plan.done()
            plan.close()
            fabric.detach()

    def _go_on(self, plan: FaultPlan, limit_ns: int, until: Callable[[], bool] | None) -> None:
        """Run up to a time, and carry out outages at theirs."""
        fabric = self._fabric
        while until is None or not until():
            outage_ns = plan.next_ns
            due = outage_ns is not None and outage_ns <= limit_ns
            stop_ns = outage_ns - 1 if outage_ns is not None and due else limit_ns

            def enough(known_ns: int | None = outage_ns) -> bool:
                # Packets may have set off an outage, and with that the time of its end.
                return plan.next_ns != known_ns or (until is not None and until())

            going = fabric.run(
                stop_ns=stop_ns,
                until=enough,
                attended=self._attended,
                pause=self._pause,
                triggered=plan.triggered,
            )
            if until is not None and until():
                return
            if plan.next_ns != outage_ns:
                continue
            if outage_ns is not None and due:
                plan.go_on_to(outage_ns)
            elif not going or fabric.now_ns >= limit_ns:
                return

    def _check_ended(self) -> None:
        if self._all_ended():
            return
        waiting = [rank for rank in range(len(self._ranks)) if rank not in self._ended]
        raise RunError(
            f"{len(waiting)} ranks, the first of them rank {waiting[0]}, have not ended "
            f"{self._fabric.now_ns - self._started_ns} ns after the start of the operation, "
            "beyond their own time limit"
        )

    def _kill(self, host: int) -> None:
        process = self._process_at.get(host, len(self._ranks))
        if process < len(self._ranks) and process not in self._ended:
            self._killed[process] = self._fabric.now_ns - self._started_ns

    def _prepare(self) -> None:
        """Make every rank's arrays and fill in what the rank contributes."""
        needed = (
            0
            if self._dropped
            else sum(
                workload.buffer_bytes(rank)
                for team, rank in self._ranks
                for workload in self._workloads[team]
            )
        )
        memory = self._memory(needed)
        start = 0
        for team, rank in self._ranks:
            jobs = []
            for number, workload in enumerate(self._workloads[team]):
                if self._dropped:
                    kept = self._dropped[team][number].buffer(rank).view(workload.request.dtype)
                    jobs.append(BoundRequest(workload.request, kept, None))
                    continue
                part = memory[start : start + workload.buffer_bytes(rank)]
                start += len(part)
                output = workload.empty_output(rank)
                if self._fabric.carries_bytes:
                    for _ in chain(workload.fill(rank, part), workload.clear(output)):
                        pass
                buffer = part.view(workload.request.dtype)
                jobs.append(BoundRequest(workload.request, buffer, output))
            self._jobs.append(jobs)
        self._series = [
            Series(
                self._participants[process].rank_agent,
                jobs,
                self._operation.at_once,
                self._operation.waits,
            )
            for process, jobs in enumerate(self._jobs)
        ]

    def _all_ended(self) -> bool:
        return len(self._ended) + len(self._killed) >= len(self._ranks)

    def _attended(self, host: int) -> bool:
        """Take what a host's agent tells; return whether the host's rank has ended by that."""
        process = self._process_at[host]
        if process >= len(self._ranks) or process in self._ended or process in self._killed:
            return False
        if not self._participants[process].rank_agent.has_event():
            return False
        series = self._series[process]
        series.take(self._fabric.now_at(host))
        if series.ended:
            self._ended.add(process)
            return True
        self._fabric.wake(host)  # the next operation has begun
        return self._attended(host)

    def _pause(self) -> None:
        self._compare()
        if self._progress is None:
            return
        received = sum(
            each.endpoint.state.statistics.received_bytes
            for each in self._participants[: len(self._ranks)]
        )
        expected = sum(
            workload.received_bytes(rank)
            for team, rank in self._ranks
            for workload in self._workloads[team]
        )
        spent_ns = self._fabric.now_ns - self._started_ns
        self._progress(SimulatedProgress(received, expected, len(self._ended), spent_ns))

    def _compare(self) -> None:
        """Compare what has come since the last time, where results are not kept."""
        if not self._dropped:
            return
        landings = self._fabric.landings
        dropped = [each for some in self._dropped for each in some]
        compare_all(dropped, landings.rows, landings.unlike)
        landings.start_over()
        for participant in self._participants:
            participant.endpoint.state.last_landings[:] = 0

    def _result(self, rank: int) -> RankReport:
        """Compare every byte with what it must be, and return a rank's result."""
        series = self._series[rank]
        endpoint = self._participants[rank].endpoint
        team = self._ranks[rank][0]
        report = report_of(
            rank,
            team,
            self._topology.hosts[self._hosts[rank]].name,
            series,
            series.report(self._fabric.now_ns),
            {
                **asdict(endpoint.statistics),
                "socket_drops": 0,
                "refused_frames": int(self._fabric.hosts["refused"][self._hosts[rank]]),
            },
            self._started_ns,
        )
        error = (
            series.error or self._difference(rank)
            if rank in self._ended
            else f"killed {self._killed.get(rank, 0)} ns after the start"
        )
        return report.checked(error, self._workloads[team])  # of which this rank's were the last

    @cached_property
    def _uncovered(self) -> dict[int, str]:
        """What is wrong with ranks' results, where data travelled without bytes."""
        held, ranks = [], []
        for rank, (team, member) in enumerate(self._ranks):
            for workload, job in zip(self._workloads[team], self._jobs[rank], strict=True):
                output = None if job.output is None else job.output.ctypes.data
                held.append(Held(workload, member, job.buffer.ctypes.data, output))
                ranks.append(rank)
        landings = self._fabric.landings
        wrong = find_wrong_results(landings.rows, landings.sums or (), held)
        return {ranks[number]: wrong[number] for number in sorted(wrong, reverse=True)}

    @cached_property
    def _unlike(self) -> list[list[dict[int, str]]]:
        """What is wrong with results that are not kept, by team and operation, of each rank."""
        self._compare()
        return [[each.wrong() for each in some] for some in self._dropped]

    def _difference(self, rank: int) -> str:
        """Return where a rank's data is wrong; empty if it is right."""
        if not self._fabric.carries_bytes:
            return self._uncovered.get(rank, "")
        team, member = self._ranks[rank]
        if self._dropped:
            return next((each[member] for each in self._unlike[team] if member in each), "")
        wrong = (
            workload.check(member, job.buffer, job.output)
            for workload, job in zip(self._workloads[team], self._jobs[rank], strict=True)
        )
        return next(filter(None, wrong), "")
