"""What theory says of the bytes that an operation puts on each tier of links.

Every message of a unicast algorithm crosses the links of its own way; a multicast shard crosses
every link of its tree once (SC24 paper, arXiv 2408.13356). Control, acknowledgements
and what is sent again are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from agents.collectives.dtypes import dtype_of
from experiments.scenario import Scenario
from experiments.transfers import (
    IntArray,
    Sizing,
    Transfers,
    even_parts,
    payload,
    unicast_rounds,
)
from topo.clos import LINK_TIERS, Topology

ETHERNET, IPV4, UDP, BTH, DETH, IMMEDIATE, ICRC = 14, 20, 8, 12, 8, 4, 4
"""Bytes on the wire; InfiniBand Architecture Specification, volume 1, chapter 9 and annex A17."""
UD_OVERHEAD_BYTES = ETHERNET + IPV4 + UDP + BTH + DETH + IMMEDIATE + ICRC
"""Of a multicast packet (UD SEND ONLY WITH IMMEDIATE)."""
RC_OVERHEAD_BYTES = ETHERNET + IPV4 + UDP + BTH + ICRC
"""Of a middle packet of an RDMA WRITE; the first has 16 bytes more, the last up to 4."""


def tier_model_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """Payload bytes of all of a run's operations by tier and direction (`LINK_TIERS`).

    Raises:
        InputError: nothing is known of the algorithm.
    """
    return _tier_bytes(network, scenario, algorithm, payload)


def tier_model_frame_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """As `tier_model_bytes`, with the headers of all data packets; frames without FCS."""
    return _tier_bytes(network, scenario, algorithm, frames_of(scenario, algorithm))


def parts_of(scenario: Scenario) -> tuple[int, ...]:
    """Bytes of each rank's shard; of Allreduce, of each rank's part of the vector."""
    shards = scenario.shard_sizes
    if scenario.collective != "allreduce":
        return shards
    item_bytes = dtype_of(scenario.dtype).itemsize
    return tuple(even_parts(scenario.size_bytes, len(shards), item_bytes).tolist())


def frame_bytes(size_bytes: IntArray, packet_bytes: int, overhead_bytes: int) -> IntArray:
    """Frame bytes that carry so many payload bytes in packets of at most ``packet_bytes``."""
    return size_bytes + -(-size_bytes // packet_bytes) * overhead_bytes


def frames_of(scenario: Scenario, algorithm: str) -> Sizing:
    """The `Sizing` that counts frames as the algorithm sends them."""
    if algorithm == "multicast":
        packet_bytes = min(scenario.chunk_bytes or scenario.mtu, scenario.mtu)
        return lambda size_bytes: frame_bytes(size_bytes, packet_bytes, UD_OVERHEAD_BYTES)
    return lambda size_bytes: frame_bytes(size_bytes, scenario.mtu, RC_OVERHEAD_BYTES)


def unicast_tier_bytes(
    network: Topology, rounds: Iterable[Transfers], hosts: Sequence[int] | None = None
) -> dict[str, int]:
    """Bytes by tier of messages by shortest ways, as many up as down.

    ``hosts``: the host of each member (rank or server), by number; by default rank r is on host r.
    What stays on a host crosses no link.
    """
    leaves = {switch.name: switch for switch in network.switches_of("leaf")}
    numbers = range(len(network.hosts)) if hosts is None else hosts
    places = [network.hosts[number] for number in numbers]
    host = np.array([place.rank for place in places], np.int64)
    leaf = np.array([leaves[place.leaf].index for place in places], np.int64)
    pod = np.array([leaves[place.leaf].pod or 0 for place in places], np.int64)
    host_bytes = fabric = 0
    for source, destination, size_bytes in rounds:
        # A way turns at the leaf, in the tier above it, or, between pods, at a core switch.
        levels = (leaf[source] != leaf[destination]) * 1 + (pod[source] != pod[destination])
        host_bytes += int((size_bytes * (host[source] != host[destination])).sum())
        fabric += int((size_bytes * levels).sum())
    return dict(zip(LINK_TIERS, (host_bytes, host_bytes, fabric, fabric), strict=True))


def multicast_tier_bytes(network: Topology, shards: Sequence[int]) -> dict[str, int]:
    """Bytes by tier of shards that each go from their rank to all others.

    A tree has a link for every host, for every leaf if there are several, and for every pod if
    there are several. From the source to the tree's root they are crossed upwards, else down.
    """
    ranks = len(network.hosts)
    if ranks < 2:
        return {tier: 0 for tier in LINK_TIERS}
    leaves = len({host.leaf for host in network.hosts})
    pods = len({switch.pod for switch in network.switches_of("leaf")})
    branches = [number for number in (leaves, pods) if number > 1]
    size_bytes = int(np.sum(np.asarray(shards, np.int64)))
    return {
        "host_up": size_bytes,
        "host_down": size_bytes * (ranks - 1),
        "fabric_up": size_bytes * len(branches),
        "fabric_down": size_bytes * sum(number - 1 for number in branches),
    }


def _tier_bytes(
    network: Topology, scenario: Scenario, algorithm: str, sizing: Sizing
) -> dict[str, int]:
    shards = parts_of(scenario)
    if algorithm == "multicast":
        totals = multicast_tier_bytes(network, sizing(np.asarray(shards, np.int64)).tolist())
    else:
        rounds = unicast_rounds(
            scenario.collective,
            algorithm,
            shards,
            root=scenario.root,
            radix=scenario.radix,
            item_bytes=dtype_of(scenario.dtype).itemsize,
            sizing=sizing,
        )
        totals = unicast_tier_bytes(network, rounds)
    return {tier: size_bytes * scenario.operations for tier, size_bytes in totals.items()}
