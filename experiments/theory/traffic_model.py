"""What theory says of the bytes that a run's operations put on each tier of links.

Each algorithm computes them itself (`Algorithm.tier_bytes`), for members whose places are looked up
here. Control, acknowledgements and what is sent again are not counted.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.algorithms.switch_model import (
    SwitchTraffic,
    switch_frames,
    switch_payload,
    switch_tier_bytes,
)
from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import BLOCK_BYTES, BLOCKS_PER_SHARD
from weft.agents.collectives.overheads import UD_OVERHEAD_BYTES, frame_bytes, write_frames
from weft.agents.collectives.places import Places, TierBytes
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers, payload
from weft.agents.collectives.unicast_options import UnicastOptions
from weft.base.entry_points import blamed
from weft.base.errors import InputError
from weft.base.option import own_of
from weft.experiments.scenario.kinds import own_values
from weft.experiments.scenario.scenario import Scenario
from weft.topo.clos import LINK_TIERS, Topology


def tier_model_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """Return the payload bytes of all of a run's operations by tier and direction (`LINK_TIERS`).

    Raises:
        InputError: nothing is known of the algorithm, or the network is no Clos.
    """
    return _tier_bytes(network, scenario, algorithm, frames=False)


def tier_model_frame_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """Return the same as `tier_model_bytes`, but with the headers of all data packets; frames count
    without FCS."""
    return _tier_bytes(network, scenario, algorithm, frames=True)


def asked_of(
    scenario: Scenario, algorithm: str, *, frames: bool, places: Places | None = None
) -> tuple[Algorithm, Task]:
    """Return an algorithm of the scenario's collective, and the task that describes the operations
    to it.

    Args:
        frames: whether the headers of all data packets count.
        places: the places of ranks and servers; by default those of the scenario's first job.
    """
    shards = np.asarray(scenario.shard_sizes, np.int64)
    default_bytes = min(BLOCK_BYTES, -(-int(shards.max()) // BLOCKS_PER_SHARD))
    block_bytes = own_of(scenario, UnicastOptions).block_bytes or default_bytes
    kind = algorithm_of(scenario.collective, algorithm)
    task = Task(
        scenario.collective,
        shards,
        own=own_values(scenario, kind),
        root=scenario.root,
        dtype=scenario.dtype,
        block_bytes=-(-block_bytes // scenario.mtu) * scenario.mtu,
        operations=scenario.operations,
        packet_bytes=scenario.mtu,
        places=places or places_of(scenario.network(), member_hosts(scenario)),
    )
    return kind, replace(task, sizing=kind.frames(task)) if frames else task


def member_hosts(scenario: Scenario, job: int = 0) -> list[int]:
    """Return the numbers of the hosts of a job's ranks, followed by those of the servers."""
    placement = scenario.placement
    return [*placement.jobs[job], *placement.servers]


def places_of(network: Topology, hosts: Sequence[int] | None = None) -> Places:
    """Return the places of members on these hosts, which are given by number; by default member m
    is on host m. In a network that is no Clos all are taken to be below one switch."""
    host = np.arange(len(network.hosts)) if hosts is None else np.asarray(hosts, np.int64)
    if not network.clos:
        return Places(host, np.zeros_like(host), np.zeros_like(host))
    leaves = {switch.name: switch for switch in network.switches_of("leaf")}
    leaf = np.array([leaves[each.leaf].index for each in network.hosts], np.int64)
    pod = np.array([leaves[each.leaf].pod or 0 for each in network.hosts], np.int64)
    return Places(host, leaf[host], pod[host])


def _tier_bytes(
    network: Topology, scenario: Scenario, algorithm: str, *, frames: bool
) -> dict[str, int]:
    if not network.clos:
        raise InputError(
            f"theory knows what the tiers of a Clos carry, and {network.describe()} is none"
        )
    found = list(scenario.family.tier_bytes(network, scenario, algorithm, frames=frames))
    return {tier: sum(getattr(each, tier) for each in found) for tier in LINK_TIERS}


def _graph_bytes(
    scenario: Scenario, graph: FlowGraph, places: Places, *, frames: bool
) -> TierBytes:
    """Return the bytes by tier of flows; a multicast crosses each link of its tree once."""
    table = graph.table
    sizing = write_frames(scenario.mtu) if frames else payload
    alone = table.multicast == NONE
    flows = Transfers(
        table.source[alone], table.destination[alone], sizing(table.size_bytes[alone])
    )
    found = places.unicast_bytes([flows])
    for cast in graph.multicasts:
        members = np.array([cast.source, *cast.destinations])
        own = Places(places.host[members], places.leaf[members], places.pod[members])
        sizes = np.array([cast.size_bytes, *[0] * len(cast.destinations)], np.int64)
        if frames:
            sizes = frame_bytes(sizes, scenario.mtu, UD_OVERHEAD_BYTES)
        more = own.multicast_bytes(sizes)
        found = TierBytes(*(one + other for one, other in zip(found, more, strict=True)))
    for traffic in _sums_of(graph, scenario, frames=frames):
        more = switch_tier_bytes(places, graph.ranks, traffic)
        found = TierBytes(*(one + other for one, other in zip(found, more, strict=True)))
    return found


def _sums_of(graph: FlowGraph, scenario: Scenario, *, frames: bool) -> Iterator[SwitchTraffic]:
    """Yield the traffic of each sum by switches."""
    for each in graph.sums:
        collective = "allreduce" if each.owner == NONE else "reduce-scatter"
        shards = [each.size_bytes * each.gets(rank) for rank in range(graph.ranks)]
        if collective == "allreduce":
            shards = [each.size_bytes]
        if frames:
            traffic = switch_frames(
                collective, shards, values=scenario.program_values, slots=scenario.needs.slots
            )
        else:
            traffic = switch_payload(collective, shards)
        contributors = frozenset(each.contributors) if each.contributors else None
        yield replace(traffic, contributors=contributors)


def graphs_bytes(
    network: Topology, scenario: Scenario, algorithm: str, *, frames: bool
) -> Iterator[TierBytes]:
    """Yield the bytes by tier of each job's flows."""
    for job in range(scenario.jobs):
        places = places_of(network, member_hosts(scenario, job))
        yield _graph_bytes(scenario, scenario.flow_graph(algorithm), places, frames=frames)


def algorithm_bytes(
    network: Topology, scenario: Scenario, algorithm: str, *, frames: bool
) -> Iterator[TierBytes]:
    """Yield the bytes by tier of each job, as the algorithm says them."""
    for job in range(scenario.jobs):
        places = places_of(network, member_hosts(scenario, job))
        kind, task = asked_of(scenario, algorithm, frames=frames, places=places)
        with blamed(kind, "tier_bytes"):
            found = kind.tier_bytes(task)
            if not isinstance(found, TierBytes):
                raise TypeError(f"{found!r} is no TierBytes")
        yield found
