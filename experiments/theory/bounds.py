"""What theory says of a collective's completion time.

N bytes a rank (n_r of rank r, T of all), P ranks, host links of B bits a second in each direction.
Bounds hold for host links and the order that the algorithm prescribes; where a leaf's uplinks carry
less than its hosts can send, for links between switches too, over which unicast flows are spread as
well as can be. Propagation and the time to add are free.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import FLOWS
from weft.base.errors import InputError
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
    tier_model_bytes,
    tier_model_frame_bytes,
)
from weft.experiments.theory.transfers import (
    Sizing,
    Transfers,
    parent_places,
    payload,
    placed,
    unicast_rounds,
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
    """As `completion_bound_ns`, with the headers of all data packets."""
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
    fabric_ns = fabric_bound_ns(scenario, algorithm, sizing)
    return max(_hosts_ns(scenario, algorithm, sizing, frames=frames), fabric_ns)


def _hosts_ns(scenario: Scenario, algorithm: str, sizing: Sizing, *, frames: bool) -> int:
    """By host links, and by those of the tree whose switches add."""
    if scenario.collective == FSDP:
        fullest = step_bound_bytes(scenario, algorithm, frames=frames)
        return (scenario.layers or 1) * fullest * 8 * 10**9 // scenario.rate_bps
    if scenario.collective == FLOWS:
        return _flows_ns(scenario.flow_graph(algorithm), scenario.rate_bps, sizing)
    shards = scenario.shard_sizes
    if algorithm == "switch":
        traffic = switch_traffic(scenario, frames=frames)
        hosts = member_hosts(scenario)[: len(shards)]
        one = switch_bound_bytes(scenario.network(), traffic, hosts)
        size_bytes = scenario.operations * one
    elif algorithm == "optcast":
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
        block_bytes = scenario.block_bytes or min(1 << 16, -(-max(shards) // 8))
        size_bytes = bound_bytes(
            scenario.collective,
            algorithm,
            shards,
            chains=scenario.chains,
            root=scenario.root,
            radix=scenario.radix,
            block_bytes=-(-block_bytes // scenario.mtu) * scenario.mtu,
            operations=scenario.operations,
            item_bytes=dtype_of(scenario.dtype).itemsize,
            sizing=sizing,
        )
    return size_bytes * 8 * 10**9 // scenario.rate_bps


def _flows_ns(graph: FlowGraph, rate_bps: int, sizing: Sizing) -> int:
    """The least time of flows that wait for each other: what the longest chain of them takes if
    each has its links to itself, and what the fullest host link carries."""
    table = graph.table
    sizes = sizing(table.size_bytes)
    links = fullest_link_bytes(graph.ranks, [Transfers(table.source, table.destination, sizes)])
    chain_ns = replace(graph, size_bytes=tuple(sizes.tolist())).span_ns(rate_bps)
    return max(chain_ns, links * 8 * 10**9 // rate_bps)


def bound_bytes(
    collective: str,
    algorithm: str,
    shards: Sequence[int],
    *,
    chains: int | None = None,
    root: int = 0,
    radix: int = 2,
    block_bytes: int = 1 << 16,
    operations: int = 1,
    item_bytes: int = 1,
    sizing: Sizing = payload,
) -> int:
    """The least completion time in bytes that one link could carry meanwhile.

    Allgather and Reduce-Scatter:

    - multicast, M = P: a rank hears all but its own, so T - min n_r.
    - multicast, M < P chains: at any time some rank only hears, so all roots together send at most
      B: T. Chains that are paced in proportion to their bytes reach it.
    - ring: T - min n_r of the fullest link, and no less than the largest shard's way around.
    - linear: the fullest uplink's (P - 1) n_r, or the fullest downlink's T - n_r.
    - recursive doubling and halving: the critical path of one operation (`critical_path_bytes`),
      or what the fullest link carries of all.

    Broadcast, where blocks are passed on once they are whole:

    - multicast: N.
    - k-nomial: N for each child of the root, (k - 1) log_k P if P is a power of k. Whole copies,
      the largest subtree first, reach it: a child has fewer children than the root still has to
      serve after it.
    - binary tree: 2N of the root's uplink (N if P = 2), and the last block's way further down.
      Every block goes to the first child, then to the second.
    - pipelined ring: N, and P - 2 blocks.

    Allreduce of a vector of T bytes, where parts are n_r = T / P and blocks are passed on as they
    come:

    - ring: twice T - n_r, and no less than a part's way around twice.
    - halving and doubling: what the fullest link carries, twice T (P - 1) / P if P is a power of
      two; else T more, for the rank that stands in for another.
    - double binary tree: what the fullest link carries, 2T from P = 4 on, where some rank has two
      children and a parent in the same tree.
    - direct: what the fullest link carries, twice T - n_r.

    All-to-all: T - n_r. Many-to-one: what the root's link carries, T less the root's shard.

    Several operations, at once or one after the other, are as one of so many times the bytes: a
    rank that has done its part begins the next.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    sizes = sizing(np.asarray(shards, np.int64))
    ranks = len(sizes)
    if ranks == 1:
        return 0
    block = min(int(sizes.max()), int(sizing(np.array([block_bytes], np.int64))[0]))
    total, least, largest = (
        operations * int(size_bytes) for size_bytes in (sizes.sum(), sizes.min(), sizes.max())
    )
    around = largest + (ranks - 2) * block
    if collective == "broadcast":
        if algorithm == "multicast":
            return total
        parents = parent_places(algorithm, ranks, radix)
        if algorithm == "k-nomial":
            return total * int((parents == 0).sum())
        if algorithm == "binary-tree":
            return min(2, ranks - 1) * total + _binary_tail(ranks) * block
        return around
    if algorithm == "multicast":
        return total - least if chains is None or chains >= ranks else total
    if (collective, algorithm) == ("allreduce", "ring"):
        rounds = list(unicast_rounds(collective, algorithm, shards, sizing=sizing))
        twice_around = around + (ranks - 1) * block
        return max(operations * fullest_link_bytes(ranks, rounds), twice_around)
    if algorithm == "ring":
        return max(total - least, around)
    if algorithm == "linear":
        return max((ranks - 1) * largest, total - least)
    rounds = list(
        unicast_rounds(
            collective, algorithm, shards, root=root, item_bytes=item_bytes, sizing=sizing
        )
    )
    if collective == "allreduce" or algorithm == "direct":
        return operations * fullest_link_bytes(ranks, rounds)
    return max(critical_path_bytes(ranks, rounds), operations * fullest_link_bytes(ranks, rounds))


def critical_path_bytes(ranks: int, rounds: Iterable[Transfers]) -> int:
    """The least time of rounds of pairwise exchanges, in bytes that one link could carry meanwhile.

    A rank may send in a round when it has all that comes to it in the rounds before. Its uplink
    carries its messages since then one after the other; its downlink has carried all that came.
    """
    ready = np.zeros(ranks, np.int64)
    busy = np.zeros(ranks, np.int64)
    received = np.zeros(ranks, np.int64)
    for each in rounds:
        sent = each.size_bytes > 0
        source, destination, size_bytes = (column[sent] for column in each)
        begin = ready[source]
        busy[source] = np.maximum(busy[source], begin) + size_bytes
        received[destination] += size_bytes
        arrived = np.maximum(begin + size_bytes, received[destination])
        ready[destination] = np.maximum(ready[destination], arrived)
    return int(max(busy.max(), ready.max()))


def fullest_link_bytes(hosts: int, rounds: Iterable[Transfers]) -> int:
    """The most that any host's link carries in one direction."""
    links = np.zeros((2, hosts), np.int64)
    for source, destination, size_bytes in rounds:
        np.add.at(links[0], source, size_bytes)
        np.add.at(links[1], destination, size_bytes)
    return int(links.max())


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
    """How many times as fast as a ring a large Allreduce of elements of 4 bytes can be.

    Optcast: 2 (P - 1) / P, as each rank sends and receives its vector once. Switch: that, times the
    share of elements in its packets over their share in the ring's.

    Raises:
        InputError: nothing is known of the algorithm.
    """
    speedup = 2 * (ranks - 1) / ranks
    if algorithm == "optcast":
        return speedup
    if algorithm != "switch":
        raise InputError(
            f"{algorithm!r} has no ideal speed-up over a ring: choose optcast or switch"
        )
    size_bytes = VALUE_BYTES * values
    efficiency = size_bytes / (size_bytes + SWITCH_OVERHEAD_BYTES)
    return speedup * efficiency * (mtu + RC_OVERHEAD_BYTES) / mtu


def _binary_tail(ranks: int) -> int:
    """Blocks for which the slowest rank waits longer than the root's uplink is busy.

    A first child has a block one block after its parent, a second child two: after the leading 1,
    a place's digits of (place + 1) to base 2 say which child each is. The root's own last two are
    in its 2N.
    """
    if ranks == 2:
        return 0
    return max(place.bit_length() + place.bit_count() for place in range(2, ranks + 1)) - 4
