"""One operation on a world that is up: start the ranks, run, and measure what the network did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.drivers.launcher import Launcher
from agents.drivers.messages import OperationConfig, RankConfig
from agents.drivers.messages import RankResult as RankReport
from agents.drivers.rendezvous import Rendezvous, RunProgress
from controller import Controller, LinkCounters
from experiments.bounds import completion_bound_ns
from experiments.results import Fidelity, LinkResult, RankResult, Run, tier_bytes
from experiments.scenario import Scenario
from switch.errors import RunError
from topo.clos import format_ipv4
from topo.emulated import EmulatedWorld
from topo.machine import CpuTimes, read_cpu_times

Advance = Callable[[float], None]


@dataclass(frozen=True)
class Testbed:
    """What an operation runs on."""

    scenario: Scenario
    world: EmulatedWorld
    controller: Controller
    launcher: Launcher
    groups: Sequence[int]
    """Addresses of the multicast groups that the controller installed."""


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
        self._advance(state.fraction)


def operate(testbed: Testbed, algorithm: str, repetition: int, advance: Advance) -> Run:
    """Run one operation and say how the network carried it.

    The ranks are processes of their own run; a run that fails leaves nothing to the next.

    Raises:
        RunError: a process that the network consists of is gone, so nothing more can be run.
    """
    scenario, world = testbed.scenario, testbed.world
    hosts = world.topology.hosts
    # Data and its errors differ from repetition to repetition, and repeat with the scenario.
    seed = scenario.seed + repetition
    path = world.record.folder / f"{algorithm}-{repetition}.sock"
    with Rendezvous(path, [host.name for host in hosts], testbed.launcher) as meeting:
        for host in hosts:
            testbed.launcher.spawn(
                RankConfig(
                    rank=host.rank,
                    host=host.name,
                    addresses=[other.ip for other in hosts],
                    groups=[format_ipv4(group) for group in testbed.groups],
                    rendezvous=meeting.path,
                    path_mtu=scenario.mtu,
                    rate_bps=scenario.rate_bps,
                    seed=seed,
                ),
                namespace=world.host_pid(host.rank),
            )
        before = _Counts.read(testbed)
        watch = _Watch(world, advance)
        error: str | None = None
        reports: list[RankReport] = []
        try:
            meeting.gather()
            world.reset_lateness()
            reports = meeting.run(
                OperationConfig(
                    algorithm=algorithm,
                    shard_bytes=scenario.size_bytes,
                    chains=scenario.chains or 0,
                    cutoff=scenario.cutoff,
                    timeout_ns=round((scenario.timeout_s or 0) * 1e9),
                    seed=seed,
                ),
                watch,
                scenario.rate_bps,
            )
        except RunError as failure:
            world.check_alive()
            error = str(failure)
        after = _Counts.read(testbed)
    return _result(testbed, algorithm, repetition, reports, error, before, after, watch)


@dataclass(frozen=True)
class _Counts:
    """What had been counted at one moment."""

    links: dict[tuple[str, str], LinkCounters]
    queue_drops: dict[tuple[str, int], int | None]
    """By switch and port."""
    switches: dict[str, Any]

    @staticmethod
    def read(testbed: Testbed) -> _Counts:
        return _Counts(
            testbed.controller.read_counters(),
            testbed.world.switch_queue_drops(),
            testbed.world.switch_statistics(),
        )


def _result(
    testbed: Testbed,
    algorithm: str,
    repetition: int,
    reports: Sequence[RankReport],
    error: str | None,
    before: _Counts,
    after: _Counts,
    watch: _Watch,
) -> Run:
    scenario = testbed.scenario
    ranks = [_rank(report) for report in reports]
    failed = [rank for rank in ranks if not rank.verified]
    if failed and error is None:
        error = f"rank {failed[0].rank} ({failed[0].host}): {failed[0].error}"
        if len(failed) > 1:
            error += f" (and {len(failed) - 1} more ranks failed)"
    verified = bool(ranks) and not failed and error is None
    completion_ns = max(rank.completion_ns or 0 for rank in ranks) if verified else None
    received = scenario.size_bytes * (len(testbed.world.topology.hosts) - 1)
    links = _links(testbed, before, after)
    return Run(
        scenario=scenario.to_dict(),
        algorithm=algorithm,
        repetition=repetition,
        verified=verified,
        completion_ns=completion_ns,
        bound_ns=completion_bound_ns(scenario, algorithm),
        goodput_bps=received * 8e9 / completion_ns if completion_ns else None,
        ranks=ranks,
        links=links,
        tiers=tier_bytes(links),
        fidelity=_fidelity(completion_ns, reports, before, after, watch),
        error=error,
    )


def _rank(report: RankReport) -> RankResult:
    return RankResult(
        rank=report.rank,
        host=report.host,
        verified=report.verified,
        completion_ns=report.completion_ns if report.verified else None,
        error=report.error or None,
        retransmitted_packets=report.retransmitted_packets,
        phases_ns=report.phases_ns,
        statistics={
            "received_bytes": report.received_bytes,
            "chunks_multicast": report.chunks_multicast,
            "chunks_fetched": report.chunks_fetched,
            "chunks_duplicate": report.chunks_duplicate,
            "cpu_ns": report.cpu_ns,
            "socket_drops": report.socket_drops,
            **report.statistics,
        },
    )


def _links(testbed: Testbed, before: _Counts, after: _Counts) -> list[LinkResult]:
    links = []
    for direction in testbed.world.topology.directions:
        counted = after.links[direction.ends] - before.links[direction.ends]
        port = (direction.source.node, direction.source.number)
        earlier, later = before.queue_drops.get(port), after.queue_drops.get(port)
        links.append(
            LinkResult(
                from_node=direction.source.node,
                to_node=direction.destination.node,
                tier=direction.tier,
                tx_packets=counted.tx_packets,
                tx_bytes=counted.tx_bytes,
                lost=counted.lost_packets,
                queue_dropped=None if later is None else later - (earlier or 0),
            )
        )
    return links


def _fidelity(
    completion_ns: int | None,
    reports: Sequence[RankReport],
    before: _Counts,
    after: _Counts,
    watch: _Watch,
) -> Fidelity:
    raise NotImplementedError
