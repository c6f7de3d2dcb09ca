"""Whether a machine can take an operator."""

from weft.base.errors import MachineError
from weft.base.option import own_of
from weft.base.units import format_size
from weft.experiments.families.fused.asked import FusedAsked
from weft.experiments.families.fused.load import memory_bytes
from weft.experiments.families.fused.resolve import plan_of
from weft.experiments.scenario.scenario import Scenario
from weft.topo.worlds.registry import WORLDS


def check_operator(scenario: Scenario, available: int | None) -> int:
    """Return how much memory an operator takes. Raises MachineError for more than there is."""
    ranks = scenario.ranks
    world = WORLDS[scenario.world]
    processes = ranks if world.has_real_time else 1
    needed = ranks * world.rank_bytes + max(
        memory_bytes(plan_of(scenario, each, ranks), processes) for each in scenario.algorithms
    )
    operator = own_of(scenario, FusedAsked).operator
    if available is not None and needed > available:
        raise MachineError(
            f"operator {operator} takes {format_size(needed)} of memory on {ranks} ranks, "
            f"and {format_size(available or 0)} are free: choose smaller sizes, like --batch-size "
            "and --width, or fewer hosts"
        )
    return needed
