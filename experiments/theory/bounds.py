"""What theory says of a collective's completion time.

N bytes a rank (n_r of rank r, T of all), P ranks, host links of B bits a second in each direction.
Bounds hold for host links and the order that the algorithm prescribes; where a leaf's uplinks carry
less than its hosts can send, for links between switches too, over which unicast flows are spread as
well as can be. Propagation and the time to add are free.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import FLOWS
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.transfers import (
    Sizing,
    Transfers,
    fullest_link_bytes,
    payload,
    placed,
)
from weft.base.errors import refuse
from weft.experiments.scenario.fsdp import parts
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.fabric_bound import fabric_bound_ns
from weft.experiments.theory.optcast_model import Optcast, contributions, optcast_rounds
from weft.experiments.theory.overheads import RC_OVERHEAD_BYTES, SWITCH_OVERHEAD_BYTES
from weft.experiments.theory.switch_model import VALUE_BYTES, switch_bound_bytes
from weft.experiments.theory.traffic_model import (
    frames_of,
    member_hosts,
    optcast_of,
    switch_traffic,
    task_of,
    tier_model_bytes,
    tier_model_frame_bytes,
)

__all__ = [
    "completion_bound_ns",
    "expected_ns",
    "ideal_speedup",
    "step_bound_bytes",
    "tier_model_bytes",
    "tier_model_frame_bytes",
]


def completion_bound_ns(scenario: Scenario, algorithm: str) -> int:
    """The least completion time of all of a run's operations, in ns, if packets had no headers.

    Of several jobs, of one that has the network to itself. Of FSDP interleaving headers count, and
    what only acknowledges sums: there, what they take decides what is to be gained.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    return _time_ns(scenario, algorithm, frames=scenario.collective == FSDP)


def expected_ns(scenario: Scenario, algorithm: str) -> int:
    """Return the same as `completion_bound_ns`, with the headers of all data packets."""
    return _time_ns(scenario, algorithm, frames=True)


def step_bound_bytes(scenario: Scenario, algorithm: str, *, frames: bool = True) -> int:
    """The least time of one step of FSDP interleaving, in bytes that one link could carry
    meanwhile: what the fullest carries in one direction.

    Host links, and those of the tree whose switches add: there a leaf's uplink has the sums of all
    blocks, so that multicast takes other roots, where there are any.

    Args:
        frames: with the headers of all data packets, and with packets that only acknowledge sums.
    """
    gather, scatter = parts(scenario, algorithm)
    shard, ranks = gather.shard_sizes[0], gather.ranks
    if ranks == 1:
        return 0
    sizing = frames_of(gather, gather.algorithms[0]) if frames else payload
    size_bytes = int(sizing(np.array([shard], np.int64))[0])
    if algorithm == "ring":
        return 2 * (ranks - 1) * size_bytes
    network = scenario.network()
    sums = switch_traffic(scatter, frames=frames)
    up, down = size_bytes + sums.up([0]), (ranks - 1) * size_bytes + sums.down([0])
    tree = switch_bound_bytes(network, sums, member_hosts(scenario))
    leaves = len(network.switches_of("leaf"))
    top = max(switch.level for switch in network.switches)
    if leaves > 1 and sum(switch.level == top for switch in network.switches) == 1:
        tree += ranks // leaves * size_bytes
    return max(up, down, tree)


def _time_ns(scenario: Scenario, algorithm: str, *, frames: bool) -> int:
    sizing = frames_of(scenario, algorithm) if frames else payload
    return max(
        _hosts_ns(scenario, algorithm, sizing, frames=frames),
        fabric_bound_ns(scenario, algorithm, sizing),
    )


def _hosts_ns(scenario: Scenario, algorithm: str, sizing: Sizing, *, frames: bool) -> int:
    """Return the least time (ns) on host links, and on those of the tree whose switches add."""
    if scenario.collective == FSDP:
        fullest = step_bound_bytes(scenario, algorithm, frames=frames)
        return (scenario.layers or 1) * fullest * 8 * 10**9 // scenario.rate_bps
    if scenario.collective == FLOWS:
        return _flows_ns(scenario.flow_graph(algorithm), scenario.rate_bps, sizing)
    shards = scenario.shard_sizes
    kind = algorithm_of(scenario.collective, algorithm)
    if kind.adds:
        traffic = switch_traffic(scenario, frames=frames)
        hosts = member_hosts(scenario)[: len(shards)]
        size_bytes = scenario.operations * switch_bound_bytes(scenario.network(), traffic, hosts)
    elif kind.serves:
        size_bytes = optcast_bound_bytes(
            scenario.collective,
            shards,
            optcast_of(scenario),
            hosts=member_hosts(scenario),
            block_bytes=scenario.block_bytes or 0,
            operations=scenario.operations,
            sizing=sizing,
        )
    else:
        size_bytes = kind.least_bytes(task_of(scenario, sizing)) if len(shards) > 1 else 0
    return size_bytes * 8 * 10**9 // scenario.rate_bps


def _flows_ns(graph: FlowGraph, rate_bps: int, sizing: Sizing) -> int:
    """The least time of flows that wait for each other: what the longest chain of them takes if
    each has its links to itself, and what the fullest host link carries."""
    table = graph.table
    sizes = sizing(table.size_bytes)
    links = fullest_link_bytes(graph.ranks, [Transfers(table.source, table.destination, sizes)])
    chain_ns = replace(graph, size_bytes=tuple(sizes.tolist())).span_ns(rate_bps)
    return max(chain_ns, links * 8 * 10**9 // rate_bps)


def optcast_bound_bytes(
    collective: str,
    shards: Sequence[int],
    optcast: Optcast,
    *,
    hosts: Sequence[int] = (),
    block_bytes: int = 0,
    operations: int = 1,
    sizing: Sizing = payload,
) -> int:
    """The least completion time on reduction servers, in bytes that one link could carry meanwhile.

    What the fullest host link carries. And after the last contribution, the last block's way to the
    root of its tree and down to the ranks.

    Args:
        shards: bytes of every rank's part of the result; of Allreduce, parts of the vector.
        hosts: the host, by number, of every rank and then of every server; by default each is on
            its own.
        block_bytes: of a chunk that is summed up and sent on by itself; 0: one packet.
    """
    if len(shards) == 1:
        return 0  # its sum is what it has
    hosts = hosts or range(len(shards) + optcast.servers)
    number = max(hosts) + 1
    rounds = list(optcast_rounds(collective, shards, optcast, operations=operations, sizing=sizing))
    fullest = fullest_link_bytes(number, placed(rounds, hosts))
    if not fullest:
        return 0
    brought = [
        contributions(collective, shards, optcast, cursor=done * optcast.pieces, sizing=sizing)
        for done in range(operations)
    ]
    gathered = fullest_link_bytes(number, placed(brought, hosts))
    block = block_bytes or optcast.packet_bytes
    parts = optcast.parts(collective, shards)
    last = sizing(np.array([((parts[parts > 0] - 1) % block + 1).min()]))
    hops = 2 * optcast.levels(len(shards)) - 1
    return max(fullest, gathered + hops * int(last[0]))


def ideal_speedup(algorithm: str, ranks: int, *, values: int = 256, mtu: int = 4096) -> float:
    """Return how many times as fast as a ring a large Allreduce of elements of 4 bytes can be.

    Optcast: 2 (P - 1) / P, as each rank sends and receives its vector once. Switch: that, times the
    share of elements in its packets over their share in the ring's.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    speedup = 2 * (ranks - 1) / ranks
    if algorithm == "optcast":
        return speedup
    refuse(
        algorithm != "switch",
        f"{algorithm!r} has no ideal speed-up over a ring: choose optcast or switch",
    )
    size_bytes = VALUE_BYTES * values
    efficiency = size_bytes / (size_bytes + SWITCH_OVERHEAD_BYTES)
    return speedup * efficiency * (mtu + RC_OVERHEAD_BYTES) / mtu
