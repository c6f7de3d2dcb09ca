"""Where chance has a part in a scenario: whatever a seed, or the machine, decides."""

from collections import Counter

from weft.experiments.paths.registry import scheme_of
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import Topology
from weft.topo.reach import Reach
from weft.topo.worlds.registry import has_real_time


def chances(scenario: Scenario) -> list[str]:
    """Return in words what in a run of the scenario is drawn, or differs from run to run. The list
    is empty if nothing does, so that another seed changes only the data and no time.

    Paths count as drawn wherever a scheme draws them and there is more than one: control messages
    take them, too.
    """
    by_chance = scheme_of(scenario.paths).by_chance
    drawn = {
        "the machine": has_real_time(scenario.world),
        "losses": scenario.lossy,
        "where ranks are": scenario.rank_placement == "random",
        f"paths by {scenario.paths}": by_chance and _has_choice(scenario.network()),
    }
    return [what for what, is_drawn in drawn.items() if is_drawn]


def _has_choice(network: Topology) -> bool:
    """Return whether a switch has more than one way up; in a network that is no Clos, more than
    one shortest path to a host."""
    if not network.clos:
        reach = Reach(network)
        return any(
            len(ports) > 1 for end in network.edge for ports in reach.ports(end.name).values()
        )
    ups = Counter(direction.source.node for direction in network.directions_of("fabric_up"))
    return max(ups.values(), default=0) > 1
