"""A run's result, made from what was counted and reported in the same way for both worlds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec

from weft.agents.collectives.workload import Workload
from weft.agents.ranks import RankReport
from weft.controller import Controller, LinkCounters
from weft.experiments.results.accuracy import Accuracy
from weft.experiments.results.link_summary import has_few_rows, summarised
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.results.results import (
    Fidelity,
    LinkResult,
    RankResult,
    Run,
    tier_bytes,
)
from weft.experiments.results.telemetry import queue_figures, trimmed
from weft.experiments.runs.inputs import operation_of
from weft.experiments.runs.switch_statistics import QueueStatistics, SwitchProcessStatistics
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.topo.network import HOST_PORT, Topology
from weft.topo.worlds.world import World

UNPLANNED = ("no_program", "no_port", "repeats", "too_long", "priority")
"""The reasons for which a built-in switch may drop what its program would have sent."""


@dataclass(frozen=True)
class Counts:
    """What had been counted at one moment. Ports are (node, number)."""

    links: Mapping[tuple[str, str], LinkCounters]
    queue_drops: Mapping[tuple[str, int], int]
    """Packets for which a sender's queue had no room, whether it is the built-in switch's
    or tbf's."""
    max_queue_bytes: Mapping[tuple[str, int], int]
    """The most that waited in a built-in switch's queue."""
    unplanned: Mapping[str, int]
    """Packets that a switch lost though no queue was full and no fault asked for it, by where."""
    switches: SwitchProcessStatistics
    """The switches' own statistics."""
    queue_depths: Mapping[tuple[str, int], list[tuple[int, int]]]
    """How full a built-in switch's queue was when packets came to it."""
    queues: Mapping[tuple[str, int], Sequence[QueueStatistics]]
    """What the queues of a built-in switch's port have counted, if it has several."""
    loads: Mapping[tuple[str, str], list[int]]
    """What each direction of a link carried in each bin of time."""
    fault_losses: Mapping[tuple[str, str], tuple[int, int]]
    """Packets and bytes that faults by name lost, which no switch counts, by direction."""

    @staticmethod
    def read(controller: Controller, world: World) -> "Counts":
        """Read everything now."""
        statistics = msgspec.convert(world.switch_statistics(), SwitchProcessStatistics)
        queue_drops = dict(world.switch_queue_drops())
        max_queue_bytes = {}
        queue_depths = {}
        queues = {}
        loads = {}
        unplanned: dict[str, int] = {}
        peers = {
            (each.source.node, each.source.number): each.ends for each in world.topology.directions
        }
        hosts_links = {each.ends for each in world.topology.directions_of("host_up")}
        if world.switch_kind == "weft":
            for switch in statistics.switches:
                for port in switch.ports:
                    place = switch.name, port.port
                    queue_drops[place] = port.queue_drops
                    max_queue_bytes[place] = port.queue_peak_bytes
                    queue_depths[place] = port.queue_depths
                    queues[place] = port.queues
                    ends = peers[place]
                    loads[ends] = port.load_bytes
                    if ends[::-1] in hosts_links:
                        loads[ends[::-1]] = port.arrived_load_bytes
                    where = f"port {port.port} of {switch.name}"
                    unplanned |= {
                        f"{where}: not read in time": port.kernel_drops,
                        f"{where}: refused by the kernel": port.send_errors,
                    }
                for why in UNPLANNED if switch.name not in world.topology.unmanaged else ():
                    unplanned[f"{switch.name}: {why}"] = switch.drops.get(why, 0)
            unplanned["the switches: no buffer left"] = statistics.no_buffer_drops
        queue_drops |= {
            (host, HOST_PORT): drops for host, drops in world.host_queue_drops().items()
        }
        return Counts(
            controller.read_counters(), queue_drops, max_queue_bytes, unplanned, statistics,
            queue_depths, queues, loads, world.fault_losses(),
        )  # fmt: skip

    def unplanned_since(self, before: "Counts") -> dict[str, int]:
        """Return, by place, the packets that were lost between two moments and should not have
        been."""
        return {
            where: count - before.unplanned.get(where, 0)
            for where, count in self.unplanned.items()
            if count > before.unplanned.get(where, 0)
        }

    def plain_since(self, before: "Counts") -> dict[str, int]:
        """Return, by switch, how many packets its program has taken in the plain form between two
        moments, if any."""
        earlier = {each.name: each.plain_packets for each in before.switches.switches}
        taken = {
            each.name: each.plain_packets - earlier.get(each.name, 0)
            for each in self.switches.switches
        }
        return {name: count for name, count in taken.items() if count > 0}

    def links_since(self, before: "Counts", topology: Topology) -> list[LinkResult]:
        """Return what every direction of every link carried between two moments."""
        links = []
        for direction in topology.directions:
            counted = self.links[direction.ends] - before.links[direction.ends]
            port = (direction.source.node, direction.source.number)
            earlier, later = before.queue_drops.get(port), self.queue_drops.get(port)
            gone = [
                now - then
                for now, then in zip(
                    self.fault_losses.get(direction.ends, (0, 0)),
                    before.fault_losses.get(direction.ends, (0, 0)),
                    strict=True,
                )
            ]
            # The leaf counts what came of a host's packets; what other links lost has been sent.
            unseen = gone if direction.tier == "host_up" else (0, 0)
            links.append(
                LinkResult(
                    from_node=direction.ends[0],
                    to_node=direction.ends[1],
                    tier=direction.tier,
                    tx_packets=counted.tx_packets + unseen[0],
                    tx_bytes=counted.tx_bytes + unseen[1],
                    lost=counted.lost_packets + gone[0],
                    queue_dropped=None if later is None else later - (earlier or 0),
                    max_queue_bytes=self.max_queue_bytes.get(port),
                    marked=counted.marked_packets,
                    queue_depths=self.queue_depths.get(port, []),
                    load_bytes=self.loads.get(direction.ends, []),
                    queues=_since(before.queues.get(port, []), self.queues.get(port, [])),
                )
            )
        return links


def _since(
    earlier: Sequence[QueueStatistics], later: Sequence[QueueStatistics]
) -> list[PriorityQueueCounts]:
    """Return what the queues of a port counted between two moments, by priority."""
    return [
        PriorityQueueCounts(
            now.priority,
            now.taken_packets - then.taken_packets,
            now.taken_bytes - then.taken_bytes,
            now.drops - then.drops,
            now.peak_bytes,
        )
        for then, now in zip(earlier, later, strict=True)
    ]


def completion_of(reports: Sequence[RankReport]) -> int | None:
    """Return the slowest rank's time in ns; None unless all ranks verified."""
    if not reports or not all(report.verified for report in reports):
        return None
    return max(report.completion_ns for report in reports)


def assemble(
    scenario: Scenario,
    algorithm: str,
    repetition: int,
    reports: Sequence[RankReport],
    links: list[LinkResult],
    fidelity: Fidelity,
    *,
    load_bin_ns: int = 0,
    error: str | None = None,
    digest: str | None = None,
    predicted_ns: int | None = None,
) -> Run:
    """Return a run's result, made from what its ranks reported and its links carried.

    `load_bin_ns` is how long the links' bins of time are.
    """
    if error is not None and not reports:
        hosts = scenario.network().hosts
        reports = [
            RankReport(number, hosts[host].name, algorithm, False, error)
            for number, host in enumerate(chain(*scenario.placement.jobs))
        ]
    failed = [report for report in reports if not report.verified]
    if failed and error is None:
        error = f"rank {failed[0].rank} ({failed[0].host}): {failed[0].error}"
        if len(failed) > 1:
            more = len(failed) - 1
            error += f" (and {more} more rank{'s' if more > 1 else ''} failed)"
    completion_ns = None if error else completion_of(reports)
    received = _received_bytes(scenario, algorithm)
    links, load_bin_ns = trimmed(links, load_bin_ns, completion_ns)
    rows = summarised(links) if has_few_rows(scenario) else links
    return Run(
        scenario=scenario.to_dict(),
        algorithm=algorithm,
        repetition=repetition,
        verified=completion_ns is not None,
        completion_ns=completion_ns,
        bound_ns=completion_bound_ns(scenario, algorithm),
        goodput_bps=received * 8e9 / completion_ns if completion_ns else None,
        ranks=[_rank(report) for report in reports],
        links=rows,
        tiers=tier_bytes(links),
        fidelity=fidelity if completion_ns is not None else fidelity.of_failed(),
        error=error,
        digest=digest,
        predicted_ns=predicted_ns,
        queues=queue_figures(links),
        load_bin_ns=load_bin_ns,
        accuracy=accuracy_of(reports),
        parts={part.key: part for part in scenario.family.result(scenario, algorithm, reports)},
    )


def accuracy_of(reports: Sequence[RankReport]) -> Accuracy | None:
    """Return, figure by figure, how far the worst rank's sums are off; None if a rank's were not
    measured."""
    figures = [report.accuracy for report in reports]
    if not figures or not all(figures):
        return None
    return Accuracy(**{name: max(each[name] for each in figures) for name in figures[0]})


def _received_bytes(scenario: Scenario, algorithm: str) -> int:
    """Return the bytes that the goodput is computed from: others' data, at the rank that receives
    most."""
    operation = operation_of(scenario, algorithm, 0)
    total = 0
    for request in operation.kinds:
        workload = Workload(request, scenario.ranks, 0, data=operation.data)
        # Of Reduce-Scatter, what it has that others need: sums take the room of one of their terms.
        total += max(
            workload.buffer_bytes(rank) - shard
            if request.collective == "reduce-scatter"
            else workload.received_bytes(rank)
            for rank, shard in enumerate(scenario.shard_sizes)
        )
    return operation.operations * total


def broken_off(scenario: Scenario, algorithm: str, repetition: int, error: str) -> Run:
    """Return the result of a run whose network broke; nothing else is known of it."""
    fidelity = Fidelity("invalid", ["the run broke off"], 0.0, 0.0, {}, {}, 0)
    return assemble(scenario, algorithm, repetition, [], [], fidelity, error=error)


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
            "blocks_saturated": report.blocks_saturated,
            "flow_count": report.flow_count,
            "cpu_ns": report.cpu_ns,
            "socket_drops": report.socket_drops,
            **report.statistics,
        },
        spans_ns=[(begun, ended) for begun, ended in report.spans_ns],
    )
