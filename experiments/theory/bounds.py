"""Bounds: what theory says of a collective's completion time.

N is the bytes a rank (n_r of rank r, T of all), P the number of ranks, and B the bits a second of
host links in each direction; where these differ, what every rank's link carries takes its own time.
Bounds hold for host links and the order that the algorithm
prescribes. If a leaf's uplinks carry less than its hosts can send, they also hold for links between
switches, over which unicast flows are spread as well as can be. Propagation and the time to add
count as 0.
"""

import operator

import numpy as np

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.overheads import write_frames
from weft.agents.collectives.transfers import (
    IntArray,
    Sizing,
    Transfers,
    link_bytes,
    payload,
)
from weft.base.entry_points import blamed
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.fabric_bound import fabric_bound_ns
from weft.experiments.theory.traffic_model import asked_of


def completion_bound_ns(scenario: Scenario, algorithm: str, *, frames: bool = False) -> int:
    """Return the least completion time of all of a run's operations, in ns.

    If there are several jobs, it is that of one that has the network to itself.

    Args:
        frames: whether the headers of all data packets count, and packets that only acknowledge
            sums. They always count for a kind of work of which they decide what can be gained.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    frames = frames or scenario.family.fills_links
    return max(
        scenario.family.bound_ns(scenario, algorithm, frames=frames),
        fabric_bound_ns(scenario, algorithm, frames=frames),
    )


def algorithm_ns(scenario: Scenario, algorithm: str, *, frames: bool) -> int:
    """Return the least time (ns) that the links which an algorithm names need; links between
    switches over which flows are spread are left out."""
    rates_bps = host_rates_bps(scenario)
    fastest_bps = int(rates_bps.max())
    kind, task = asked_of(scenario, algorithm, frames=frames)
    if task.ranks == 1:
        return 0
    with blamed(kind, "least_bytes"):
        size_bytes = operator.index(kind.least_bytes(task))
    least_ns = size_bytes * 8 * 10**9 // fastest_bps
    if (rates_bps == fastest_bps).all():
        return least_ns
    with blamed(kind, "host_bytes"):
        own = task.operations * kind.host_bytes(task)
    return max(least_ns, int((own * 8e9 / rates_bps[: task.ranks]).max()))


def host_rates_bps(scenario: Scenario) -> IntArray:
    """Return the rates of the links of the hosts of a job's ranks, int64 [ranks]; of several jobs,
    the fastest one's for each rank."""
    network = scenario.network()
    if network.clos:
        return np.full(scenario.ranks, scenario.rate_bps, np.int64)
    rates: IntArray = np.array(
        [
            [network.outward(network.hosts[host].name)[0].link.rate_bps for host in hosts]
            for hosts in scenario.placement.jobs
        ],
        np.int64,
    )
    return np.asarray(rates.max(axis=0), np.int64)


def sizing_of(scenario: Scenario, *, frames: bool) -> Sizing:
    """Return what makes the bytes that count of those that flows carry."""
    return write_frames(scenario.mtu) if frames else payload


def flows_ns(graph: FlowGraph, rate_bps: int, sizing: Sizing) -> int:
    """Return the least time of flows that wait for each other: what the longest chain of them takes
    if each has its links to itself, and what the fullest host link carries."""
    table = graph.table
    sizes = sizing(table.size_bytes)
    ends = Transfers(table.source, table.destination, sizes)
    once = Transfers(*(each[graph.sent_once] for each in ends))
    # What leaves a host, where a multicast leaves but once, and what comes to it.
    up, down = link_bytes(graph.ranks, [once])[0], link_bytes(graph.ranks, [ends])[1]
    for each in graph.sums:
        added = int(sizing(np.array([each.size_bytes], np.int64))[0])
        up = up + np.array([added * each.sends(rank) for rank in range(graph.ranks)])
        down = down + np.array([added * each.gets(rank) for rank in range(graph.ranks)])
    links = max(int(up.max()), int(down.max()))
    chain_ns = graph.span_ns(rate_bps, sizes.tolist())
    return max(chain_ns, links * 8 * 10**9 // rate_bps)
