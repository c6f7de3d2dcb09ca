"""The algorithms and path schemes, as objects, that a scenario's names stand for."""

from copy import copy
from dataclasses import fields
from typing import Any

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.registry import algorithm_of
from weft.experiments.fused.names import FUSED_OPERATORS, SWITCH, parts_of_algorithm
from weft.experiments.paths.registry import scheme_of
from weft.experiments.paths.scheme import PathScheme
from weft.experiments.scenario.choices import CARRYING
from weft.experiments.scenario.fsdp_models import parts_of


class _Adding(Algorithm):
    """Flows of which switches add some."""

    adds = True
    heeds = frozenset({"slots", "values"})


def kinds_of(collective: str, name: str) -> tuple[Algorithm, ...]:
    """Return the algorithms that do a collective by a name.

    For FSDP these are the two of which it consists. For flows it is the one that does Allreduces;
    for `GIVEN`, and for those that carry tensors, it is one that says nothing of itself.
    """
    if collective == FUSED_OPERATORS:
        return (_Adding() if parts_of_algorithm(name)[1] == SWITCH else Algorithm(),)
    if collective in CARRYING:
        return (Algorithm(),)
    if collective == FLOWS:
        return (Algorithm() if name == GIVEN else algorithm_of("allreduce", name),)
    return tuple(algorithm_of(*part) for part in parts_of(collective, name))


def scheme_in(asked: Any) -> PathScheme:
    """Return the path scheme that is asked for, with what is asked of its own options."""
    scheme = copy(scheme_of(asked.paths))
    scheme.asked = own_values(asked, scheme)
    return scheme


def own_values(asked: Any, one: Algorithm | PathScheme) -> tuple[tuple[str, Any], ...]:
    """Return what is asked of the options of an algorithm's, or a scheme's, own."""
    own = fields(one.options)
    return tuple((each.name, getattr(asked, each.name, each.default)) for each in own)
