"""Bounds: what theory says of a collective's completion time.

N is the bytes a rank (n_r of rank r, T of all), P the number of ranks, and B the bits a second of
host links in each direction. Bounds hold for host links and the order that the algorithm
prescribes. If a leaf's uplinks carry less than its hosts can send, they also hold for links between
switches, over which unicast flows are spread as well as can be. Propagation and the time to add
count as 0.
"""

import operator
from dataclasses import replace

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import FLOWS
from weft.agents.collectives.overheads import write_frames
from weft.agents.collectives.transfers import Sizing, Transfers, fullest_link_bytes, payload
from weft.base.entry_points import blamed
from weft.experiments.scenario.fsdp import parts
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.fabric_bound import fabric_bound_ns
from weft.experiments.theory.traffic_model import asked_of


def completion_bound_ns(scenario: Scenario, algorithm: str, *, frames: bool = False) -> int:
    """Return the least completion time of all of a run's operations, in ns.

    If there are several jobs, it is that of one that has the network to itself.

    Args:
        frames: whether the headers of all data packets count, and packets that only acknowledge
            sums. For FSDP interleaving they always count, since what they take decides what can be
            gained there.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    frames = frames or scenario.collective == FSDP
    return max(
        _hosts_ns(scenario, algorithm, frames=frames),
        fabric_bound_ns(scenario, algorithm, frames=frames),
    )


def step_bound_bytes(scenario: Scenario, algorithm: str, *, frames: bool = True) -> int:
    """Return the least time of one step of FSDP interleaving, as the bytes that one link could
    carry in that time: what the fullest link carries in one direction.

    Host links carry both operations. If the network has only one root, the fullest link of the
    sums' tree carries the shards of a leaf's ranks, too: each leaves its leaf at least once.

    Args:
        frames: whether the headers of all data packets count, and packets that only acknowledge
            sums.
    """
    asked = [
        asked_of(part, part.algorithms[0], frames=frames) for part in parts(scenario, algorithm)
    ]
    if scenario.ranks == 1:
        return 0
    (gather, gathered), (scatter, scattered) = (
        (kind, replace(task, operations=1)) for kind, task in asked
    )
    hosts = int((gather.host_bytes(gathered) + scatter.host_bytes(scattered)).max())
    links = scatter.least_bytes(scattered)
    network = scenario.network()
    leaves = len(network.switches_of("leaf"))
    top = max(switch.level for switch in network.switches)
    if leaves > 1 and sum(switch.level == top for switch in network.switches) == 1:
        links += gathered.ranks // leaves * int(gathered.sizes[0])
    return max(hosts, links)


def _hosts_ns(scenario: Scenario, algorithm: str, *, frames: bool) -> int:
    """Return the least time (ns) that the links which an algorithm names need; links between
    switches over which flows are spread are left out."""
    if scenario.collective == FSDP:
        fullest = step_bound_bytes(scenario, algorithm, frames=frames)
        return (scenario.layers or 1) * fullest * 8 * 10**9 // scenario.rate_bps
    if scenario.collective == FLOWS:
        sizing = write_frames(scenario.mtu) if frames else payload
        return _flows_ns(scenario.flow_graph(algorithm), scenario.rate_bps, sizing)
    kind, task = asked_of(scenario, algorithm, frames=frames)
    with blamed(kind, "least_bytes"):
        size_bytes = operator.index(kind.least_bytes(task)) if task.ranks > 1 else 0
    return size_bytes * 8 * 10**9 // scenario.rate_bps


def _flows_ns(graph: FlowGraph, rate_bps: int, sizing: Sizing) -> int:
    """Return the least time of flows that wait for each other: what the longest chain of them takes
    if each has its links to itself, and what the fullest host link carries."""
    table = graph.table
    sizes = sizing(table.size_bytes)
    links = fullest_link_bytes(graph.ranks, [Transfers(table.source, table.destination, sizes)])
    chain_ns = replace(graph, size_bytes=tuple(sizes.tolist())).span_ns(rate_bps)
    return max(chain_ns, links * 8 * 10**9 // rate_bps)
