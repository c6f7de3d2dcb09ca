"""What theory says of FSDP interleaving."""

from dataclasses import replace

from weft.experiments.families.fsdp.interleaving import parts
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.traffic_model import asked_of


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
    if not network.clos:
        return max(hosts, links)
    leaves = len({network.hosts[host].leaf for host in scenario.placement.jobs[0]})
    top = max(switch.level for switch in network.switches)
    if leaves > 1 and sum(switch.level == top for switch in network.switches) == 1:
        links += gathered.ranks // leaves * int(gathered.sizes[0])
    return max(hosts, links)
