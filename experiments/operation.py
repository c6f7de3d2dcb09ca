"""One operation on a world that is up: start the ranks, run, and measure what the network did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agents.drivers.launcher import Launcher
from agents.drivers.messages import OperationConfig, RankConfig
from agents.drivers.messages import RankResult as RankReport
from agents.drivers.rendezvous import Rendezvous, RunProgress
from controller import Controller, LinkCounters
from experiments.bounds import completion_bound_ns
from experiments.fidelity import judge
from experiments.results import Fidelity, LinkResult, RankResult, Run, tier_bytes
from experiments.scenario import Scenario
from switch.errors import RunError
from topo.clos import format_ipv4
from topo.emulated import EmulatedWorld
from topo.machine import CpuTimes, cpu_use, read_cpu_times
from topo.network import HOST_PORT

Advance = Callable[[float], None]

QUANTILES = ("p50", "p99", "max")


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


@contextmanager
def gathered_ranks(testbed: Testbed, name: str, seed: int) -> Iterator[Rendezvous]:
    """The ranks, each in its host's namespace, met and connected; they end with the block.

    Raises:
        RunError: a rank ended or did not come.
    """
    scenario, world = testbed.scenario, testbed.world
    hosts = world.topology.hosts
    path = world.record.folder / f"{name}.sock"
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
        meeting.gather()
        yield meeting


def operate(testbed: Testbed, algorithm: str, repetition: int, advance: Advance) -> Run:
    """Run one operation and say how the network carried it.

    The ranks are processes of their own run; a run that fails leaves nothing to the next.

    Raises:
        RunError: a process that the network consists of is gone, so nothing more can be run.
    """
    scenario, world = testbed.scenario, testbed.world
    # Data and its errors differ from repetition to repetition, and repeat with the scenario.
    seed = scenario.seed + repetition
    before = _Counts.read(testbed)
    watch = _Watch(world, advance)
    error: str | None = None
    reports: list[RankReport] = []
    try:
        with gathered_ranks(testbed, f"{algorithm}-{repetition}", seed) as meeting:
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
    """What had been counted at one moment. Ports are (node, number)."""

    links: Mapping[tuple[str, str], LinkCounters]
    queue_drops: Mapping[tuple[str, int], int]
    """Packets that a sender's queue had no room for; the built-in switch's, or tbf's."""
    max_queue_bytes: Mapping[tuple[str, int], int]
    """The most that waited in a built-in switch's queue since the lateness was reset."""
    unread: Mapping[tuple[str, int], int]
    """Packets that the kernel dropped because the built-in switch did not read them in time."""
    switches: Mapping[str, Any]
    """The switches' own statistics."""

    @staticmethod
    def read(testbed: Testbed) -> _Counts:
        world = testbed.world
        statistics = world.switch_statistics()
        queue_drops = dict(world.switch_queue_drops())
        max_queue_bytes = {}
        unread = {}
        for switch in statistics["switches"]:
            for port in switch["ports"]:
                if world.switch_kind == "weft":
                    queue_drops[switch["name"], port["port"]] = port["queue_drops"]
                    max_queue_bytes[switch["name"], port["port"]] = port["queue_peak_bytes"]
                    unread[switch["name"], port["port"]] = port["kernel_drops"]
        for host, drops in world.host_queue_drops().items():
            queue_drops[host, HOST_PORT] = drops
        counters = testbed.controller.read_counters()
        return _Counts(counters, queue_drops, max_queue_bytes, unread, statistics)


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
                max_queue_bytes=after.max_queue_bytes.get(port),
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
    use = cpu_use(watch.start, watch.end or read_cpu_times())
    cpu_s = {
        "switches": after.switches["cpu_seconds"] - before.switches["cpu_seconds"],
        "ranks": sum(report.cpu_ns for report in reports) / 1e9,
    }
    # The built-in switch knows how late it was. BMv2 does not, but its links are shaped by tbf.
    lateness_ns = {
        f"switch_{quantile}": after.switches["lateness_ns"][quantile]
        for quantile in QUANTILES
        if "lateness_ns" in after.switches
    }
    for quantile in QUANTILES:
        late = [report.wake_lateness_ns.get(quantile, 0) for report in reports]
        lateness_ns[f"rank_{quantile}"] = max(late, default=0)
    drops = {
        f"port {number} of {node}": count - before.unread.get((node, number), 0)
        for (node, number), count in after.unread.items()
    }
    drops |= {f"the socket of {report.host}": report.socket_drops for report in reports}
    return judge(
        completion_ns=completion_ns,
        cpu_busy=use.busy,
        cpu_stolen=use.steal,
        cpu_s=cpu_s,
        lateness_ns=lateness_ns,
        kernel_drops=drops,
    )
