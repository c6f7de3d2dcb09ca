"""The algorithms and path schemes, as objects, that a scenario's names stand for."""

from copy import copy
from dataclasses import fields
from typing import Any

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.transport.congestion.control import CongestionControl
from weft.experiments.paths.registry import scheme_of
from weft.experiments.paths.scheme import PathScheme
from weft.experiments.scenario.family import family_of


def kinds_of(collective: str, name: str) -> tuple[Algorithm, ...]:
    """Return the algorithms that do a collective by a name.

    For what consists of several collectives these are all of them; for flows that belong to none it
    is one that says nothing of itself.
    """
    return family_of(collective).kinds(collective, name)


def scheme_in(asked: Any) -> PathScheme:
    """Return the path scheme that is asked for, with what is asked of its own options."""
    scheme = copy(scheme_of(asked.paths))
    scheme.asked = own_values(asked, scheme)
    return scheme


def own_values(
    asked: Any, one: Algorithm | PathScheme | CongestionControl
) -> tuple[tuple[str, Any], ...]:
    """Return what is asked of options of one's own."""
    own = fields(one.options)
    return tuple((each.name, getattr(asked, each.name, each.default)) for each in own)
