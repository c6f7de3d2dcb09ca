"""What a scenario's switches hold."""

from __future__ import annotations

from collections.abc import Sequence

from controller import Plan, fabric_plan
from experiments.scenario import Fault, Scenario
from topo.network import Topology

MAX_GROUPS = 16
"""Multicast groups of a run. Linux lets a socket join 20 (net.ipv4.igmp_max_memberships)."""


def plan_of(scenario: Scenario, network: Topology, more: Sequence[Fault] = ()) -> Plan:
    """All the entries of a scenario, with a multicast group of all hosts for each top switch.

    ``more``: links that lose packets now, beside those of the scenario.
    """
    everybody = [host.name for host in network.hosts]
    top = max(switch.level for switch in network.switches)
    roots = sum(switch.level == top for switch in network.switches)
    return fabric_plan(
        network,
        seed=scenario.seed,
        loss=scenario.loss,
        faults=[*scenario.losses, *more],
        groups=[everybody] * min(roots, len(everybody), MAX_GROUPS),
    )
