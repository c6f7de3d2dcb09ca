"""The algorithms, as objects, that a scenario's names stand for."""

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.registry import algorithm_of
from weft.experiments.scenario.fsdp_models import parts_of


def kinds_of(collective: str, name: str) -> tuple[Algorithm, ...]:
    """Return the algorithms that do a collective by a name: of FSDP the two of which it consists;
    of flows the one that does Allreduces, or for `GIVEN` one that says nothing of itself."""
    if collective == FLOWS:
        return (Algorithm() if name == GIVEN else algorithm_of("allreduce", name),)
    return tuple(algorithm_of(*part) for part in parts_of(collective, name))
