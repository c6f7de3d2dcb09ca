"""What theory says of the bytes that an operation puts on each tier of links.

Every message of a unicast algorithm crosses the links of its own way; a multicast shard crosses
every link of its tree once (SC24 paper, arXiv 2408.13356). Control, acknowledgements
and what is sent again are not counted.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from weft.agents.collectives.dtypes import HALF_TYPES, dtype_of, is_float
from weft.agents.collectives.names import FLOWS
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.transfers import Sizing, Task, Transfers, payload, placed
from weft.experiments.scenario.fsdp import parts
from weft.experiments.scenario.fsdp_models import FSDP
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.optcast_model import Optcast, optcast_rounds
from weft.experiments.theory.overheads import RC_OVERHEAD_BYTES, UD_OVERHEAD_BYTES, frame_bytes
from weft.experiments.theory.switch_model import (
    SwitchTraffic,
    switch_frames,
    switch_payload,
    switch_tier_bytes,
)
from weft.topo.clos import LINK_TIERS, Topology


def tier_model_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """Payload bytes of all of a run's operations by tier and direction (`LINK_TIERS`).

    Raises:
        InputError: nothing is known of the algorithm.
    """
    return _tier_bytes(network, scenario, algorithm, frames=False)


def tier_model_frame_bytes(network: Topology, scenario: Scenario, algorithm: str) -> dict[str, int]:
    """Return the same as `tier_model_bytes`, with the headers of all data packets; frames without
    FCS."""
    return _tier_bytes(network, scenario, algorithm, frames=True)


def frames_of(scenario: Scenario, algorithm: str) -> Sizing:
    """The `Sizing` that counts frames as the algorithm sends them."""
    known = scenario.collective not in (FSDP, FLOWS)
    if known and algorithm_of(scenario.collective, algorithm).multicasts:
        packet_bytes = min(scenario.chunk_bytes or scenario.mtu, scenario.mtu)
        return lambda size_bytes: frame_bytes(size_bytes, packet_bytes, UD_OVERHEAD_BYTES)
    return lambda size_bytes: frame_bytes(size_bytes, scenario.mtu, RC_OVERHEAD_BYTES)


def task_of(scenario: Scenario, sizing: Sizing = payload) -> Task:
    """Return what theory is told of a scenario's operations."""
    shards = np.asarray(scenario.shard_sizes, np.int64)
    block_bytes = scenario.block_bytes or min(1 << 16, -(-int(shards.max()) // 8))
    return Task(
        scenario.collective,
        shards,
        root=scenario.root,
        radix=scenario.radix,
        item_bytes=dtype_of(scenario.dtype).itemsize,
        chains=scenario.chains,
        block_bytes=-(-block_bytes // scenario.mtu) * scenario.mtu,
        operations=scenario.operations,
        sizing=sizing,
    )


def member_hosts(scenario: Scenario, job: int = 0) -> list[int]:
    """The hosts, by number, of a job's ranks and then of the servers."""
    placement = scenario.placement
    return [*placement.jobs[job], *placement.servers]


def optcast_of(scenario: Scenario) -> Optcast:
    """Return how a scenario's ranks use reduction servers."""
    return Optcast(
        scenario.servers or 0,
        scenario.split or 0,
        scenario.fan_in or 0,
        scenario.mtu,
        2 if scenario.dtype in HALF_TYPES else 1,
    )


def switch_traffic(scenario: Scenario, *, frames: bool) -> SwitchTraffic:
    """Return what one operation in switches puts on a link."""
    if not frames:
        return switch_payload(scenario.collective, scenario.shard_sizes)
    return switch_frames(
        scenario.collective,
        scenario.shard_sizes,
        values=scenario.program_values,
        slots=scenario.slots or 0,
        item_bytes=dtype_of(scenario.dtype).itemsize,
        floats=is_float(scenario.dtype),
    )


def unicast_tier_bytes(network: Topology, rounds: Iterable[Transfers]) -> dict[str, int]:
    """Return the bytes by tier of messages between hosts by shortest ways, as many up as down."""
    leaves = {switch.name: switch for switch in network.switches_of("leaf")}
    leaf = np.array([leaves[host.leaf].index for host in network.hosts], np.int64)
    pod = np.array([leaves[host.leaf].pod or 0 for host in network.hosts], np.int64)
    hosts = fabric = 0
    for source, destination, size_bytes in rounds:
        # A way turns at the leaf, in the tier above it, or, between pods, at a core switch.
        levels = (leaf[source] != leaf[destination]) * 1 + (pod[source] != pod[destination])
        hosts += int(size_bytes.sum())
        fabric += int((size_bytes * levels).sum())
    return dict(zip(LINK_TIERS, (hosts, hosts, fabric, fabric), strict=True))


def multicast_tier_bytes(
    network: Topology, shards: Sequence[int], hosts: Sequence[int] | None = None
) -> dict[str, int]:
    """Return the bytes by tier of shards that each go from their rank to all others.

    A tree has a link for every rank, for every leaf that has ranks if there are several, and for
    every pod if there are several. From the source to the tree's root they are crossed upwards,
    else down. ``hosts``: the host of each rank, by number; by default rank r is on host r.
    """
    numbers = range(len(network.hosts)) if hosts is None else hosts
    ranks = len(numbers)
    if ranks < 2:
        return {tier: 0 for tier in LINK_TIERS}
    leaves = {network.hosts[number].leaf for number in numbers}
    pods = {network.switch(leaf).pod for leaf in leaves}
    branches = [number for number in (len(leaves), len(pods)) if number > 1]
    size_bytes = int(np.sum(np.asarray(shards, np.int64)))
    return {
        "host_up": size_bytes,
        "host_down": size_bytes * (ranks - 1),
        "fabric_up": size_bytes * len(branches),
        "fabric_down": size_bytes * sum(number - 1 for number in branches),
    }


def _tier_bytes(
    network: Topology, scenario: Scenario, algorithm: str, *, frames: bool
) -> dict[str, int]:
    if scenario.collective == FSDP:
        found = [
            _tier_bytes(network, part, part.algorithms[0], frames=frames)
            for part in parts(scenario, algorithm)
        ]
    else:
        found = [
            _job_tier_bytes(network, scenario, algorithm, job, frames=frames)
            for job in range(scenario.jobs)
        ]
    return {tier: sum(each[tier] for each in found) for tier in LINK_TIERS}


def _job_tier_bytes(
    network: Topology, scenario: Scenario, algorithm: str, job: int, *, frames: bool
) -> dict[str, int]:
    members = member_hosts(scenario, job)
    sizing = frames_of(scenario, algorithm) if frames else payload
    if scenario.collective == FLOWS:
        table = scenario.flow_graph(algorithm).table
        flows = Transfers(table.source, table.destination, sizing(table.size_bytes))
        return unicast_tier_bytes(network, placed([flows], members))
    shards = scenario.shard_sizes
    hosts = members[: len(shards)]
    kind = algorithm_of(scenario.collective, algorithm)
    if kind.serves:
        rounds = optcast_rounds(
            scenario.collective,
            shards,
            optcast_of(scenario),
            operations=scenario.operations,
            sizing=sizing,
        )
        return unicast_tier_bytes(network, placed(rounds, members))
    if kind.multicasts:
        sizes = sizing(np.asarray(shards, np.int64)).tolist()
        totals = multicast_tier_bytes(network, sizes, hosts)
    elif kind.adds:
        totals = switch_tier_bytes(network, switch_traffic(scenario, frames=frames), hosts)
    else:
        rounds = kind.rounds(task_of(scenario, sizing))
        totals = unicast_tier_bytes(network, placed(rounds, hosts))
    return {tier: size_bytes * scenario.operations for tier, size_bytes in totals.items()}
