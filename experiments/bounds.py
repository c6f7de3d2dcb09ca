"""What theory says of a collective: its least time, and the bytes it puts on each tier of links.

N bytes a rank, P ranks, links of B bits a second (SC24 paper, arXiv 2408.13356, and
facts of the design: see docs/ARCHITECTURE.md). Headers are not counted.
"""

from __future__ import annotations

from experiments.scenario import Scenario
from topo.clos import LINK_TIERS, Host, Topology


def completion_bound_ns(scenario: Scenario, algorithm: str) -> int:
    """The least completion time of an Allgather, in ns.

    Every receiver takes in N(P-1) bytes: N(P-1)/B for ring, and for multicast with all ranks
    sending at once. With M < P chains some rank only receives at any time, so the ranks together
    send at most B: the longest chain's steps take N M ceil(P/M) / B, which is NP/B where M divides
    P.
    """
    ranks = len(scenario.network().hosts)
    chains = scenario.chains or ranks
    shards = ranks - 1
    if algorithm == "multicast" and chains < ranks:
        shards = chains * -(-ranks // chains)
    return shards * scenario.size_bytes * 8 * 10**9 // scenario.rate_bps


def tier_model_bytes(network: Topology, size_bytes: int, algorithm: str) -> dict[str, int]:
    """Payload bytes of an Allgather by tier and direction, without headers or control.

    Ring: each rank's link carries N(P-1) up and down; a hop between neighbouring ranks that are on
    different leaves crosses the fabric. Multicast: each shard goes up once and down to the P-1
    others, and crosses each fabric link of its tree once.
    """
    hosts = network.hosts
    ranks = len(hosts)
    totals: dict[str, int] = dict.fromkeys(LINK_TIERS, 0)
    if ranks < 2:
        return totals
    if algorithm == "ring":
        crossed = sum(
            _fabric_levels(network, host, hosts[(host.rank + 1) % ranks]) for host in hosts
        )
        totals["host_up"] = totals["host_down"] = ranks * (ranks - 1) * size_bytes
        totals["fabric_up"] = totals["fabric_down"] = crossed * (ranks - 1) * size_bytes
        return totals
    leaves = len({host.leaf for host in hosts})
    pods = len({switch.pod for switch in network.switches_of("leaf")})
    tree_links = 0 if leaves == 1 else leaves + (pods if pods > 1 else 0)
    up = 0 if leaves == 1 else 2 if pods > 1 else 1
    totals["host_up"] = ranks * size_bytes
    totals["host_down"] = ranks * (ranks - 1) * size_bytes
    totals["fabric_up"] = ranks * up * size_bytes
    totals["fabric_down"] = ranks * (tree_links - up) * size_bytes
    return totals


def _fabric_levels(network: Topology, source: Host, destination: Host) -> int:
    """How many fabric links lead up on the way between two hosts (and as many down)."""
    if source.leaf == destination.leaf:
        return 0
    return 1 if network.switch(source.leaf).pod == network.switch(destination.leaf).pod else 2
