"""What a scenario's ranks do, and what its switches hold."""

from __future__ import annotations

from collections.abc import Sequence

from agents.collectives.dtypes import dtype_of
from agents.collectives.requests import Request
from agents.datagrams import ipv4_text
from agents.drivers.messages import OperationConfig
from agents.participant import Cast
from controller import Plan, fabric_plan
from experiments.scenario import Fault, Scenario
from topo.network import Topology

MAX_GROUPS = 16
"""Multicast groups of a run. Linux lets a socket join 20 (net.ipv4.igmp_max_memberships)."""


def operation_of(scenario: Scenario, algorithm: str, seed: int) -> OperationConfig:
    """What a run of the scenario does. ``seed``: of its data."""
    item_bytes = dtype_of(scenario.dtype).itemsize
    sizes = scenario.sizes_bytes and scenario.shard_sizes
    request = Request(
        0,
        scenario.collective,
        algorithm,
        tuple(size // item_bytes for size in sizes) or scenario.size_bytes // item_bytes,
        dtype=scenario.dtype,
        op=scenario.op,
        root=scenario.root,
        radix=scenario.radix,
        block_bytes=scenario.block_bytes or 0,
        chains=scenario.chains or 0,
        workers=scenario.workers,
        chunk_bytes=scenario.chunk_bytes or 0,
        batch=scenario.batch,
        cutoff=scenario.cutoff,
        timeout_ns=round((scenario.timeout_s or 0) * 1e9),
    )
    return OperationConfig(request, seed, scenario.operations, scenario.at_once)


def cast_of(scenario: Scenario, network: Topology, groups: Sequence[int]) -> Cast:
    """What runs on which host of a scenario's network. ``groups``: multicast addresses."""
    return Cast.of_one_team(
        [host.ip for host in network.hosts], [ipv4_text(group) for group in groups]
    )


def plan_of(scenario: Scenario, network: Topology, more: Sequence[Fault] = ()) -> Plan:
    """All the entries of a scenario, with multicast groups of all hosts: one for each top switch,
    and as many for each worker.

    ``more``: links that lose packets now, beside those of the scenario.
    """
    everybody = [host.name for host in network.hosts]
    top = max(switch.level for switch in network.switches)
    roots = sum(switch.level == top for switch in network.switches)
    groups = min(roots, len(everybody), MAX_GROUPS)
    groups = max(1, groups // scenario.workers) * scenario.workers
    return fabric_plan(
        network,
        seed=scenario.seed,
        loss=scenario.loss,
        faults=[*scenario.losses, *more],
        groups=[everybody] * groups,
    )
