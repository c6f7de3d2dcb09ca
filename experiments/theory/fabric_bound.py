"""The least time that links between switches need, if every flow is spread over all its paths.

In a Clos it exceeds that of the host links only if a leaf's uplinks carry less than its hosts can
send. In any other network those links count that lie on all shortest paths between two hosts, so
that there is no choice.
"""

import numpy as np

from weft.agents.collectives.overheads import write_frames
from weft.agents.collectives.transfers import payload
from weft.controller.clos_paths import ClosPaths
from weft.controller.flows import Flows
from weft.experiments.loads.link_loads import spray_loads
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.lanes import placed_steps
from weft.topo.network import Switch, Topology
from weft.topo.reach import Reach


def fabric_bound_ns(scenario: Scenario, algorithm: str, *, frames: bool) -> int:
    """Return the least time of all of a run's operations, in ns; 0 if the fabric is no bottleneck,
    or if the traffic over it does not consist of unicast flows between ranks.

    Args:
        frames: whether the headers of all data packets count.
    """
    network = scenario.network()
    if network.clos and not is_oversubscribed(network):
        return 0
    steps = placed_steps(scenario, algorithm)
    if not steps:
        return 0
    flows = Flows.together(steps)
    sizing = write_frames(scenario.mtu) if frames else payload
    sized = Flows(flows.source, flows.destination, sizing(flows.size_bytes))
    if not network.clos:
        return round(scenario.operations * _unavoidable_s(network, sized) * 1e9)
    loads = spray_loads(ClosPaths.of(network), sized).by_direction()
    rates = np.array([direction.link.rate_bps for direction in network.directions], np.float64)
    fabric = [direction.tier.startswith("fabric") for direction in network.directions]
    longest_s = float((loads * 8 / rates)[fabric].max())
    return round(scenario.operations * longest_s * 1e9)


def _unavoidable_s(network: Topology, flows: Flows) -> float:
    """Return the longest time that a link needs for the flows that cannot but go over it."""
    reach = Reach(network)
    leaves = [host.leaf for host in network.hosts]
    demand: dict[tuple[str, str], int] = {}
    for source, destination, size_bytes in zip(
        flows.source.tolist(), flows.destination.tolist(), flows.size_bytes.tolist(), strict=True
    ):
        ends = leaves[source], leaves[destination]
        demand[ends] = demand.get(ends, 0) + size_bytes
    loads: dict[tuple[str, str], int] = {}
    for (source, destination), size_bytes in demand.items():
        for link in reach.bridges(source, destination):
            loads[link] = loads.get(link, 0) + size_bytes
    return max(
        (size * 8 / network.direction(*ends).link.rate_bps for ends, size in loads.items()),
        default=0.0,
    )


def is_oversubscribed(network: Topology) -> bool:
    """Return whether the hosts of some leaf of a Clos can send more than its uplinks carry."""

    def rate_bps(leaf: Switch, kind: str) -> int:
        outward = network.outward(leaf.name)
        return sum(each.link.rate_bps for each in outward if each.tier.startswith(kind))

    leaves = network.switches_of("leaf")
    return any(0 < rate_bps(leaf, "fabric") < rate_bps(leaf, "host") for leaf in leaves)
