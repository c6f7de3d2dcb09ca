"""All kinds of work, by the collectives that scenarios name.

Each is a folder of `weft.experiments.families` with a module ``family``, which has a `FAMILY`, or
comes from another package by an entry point in the group ``weft.families``. What a scenario is made
of is found here; who has a scenario asks `weft.experiments.scenario.family`.
"""

from collections.abc import Iterable
from functools import cache, partial
from typing import Any

from weft.base.entry_points import brought
from weft.base.errors import refuse
from weft.base.registry import check_kind, in_folders

GROUP = "weft.families"


@cache
def families() -> tuple[Any, ...]:
    """Return all kinds of work, each a `weft.experiments.scenario.family.Family`, in order; those
    of other packages are last."""
    own = in_folders("weft.experiments.families", "family", "FAMILY")
    own.sort(key=lambda each: (each.position is None, each.position or 0, each.name))
    taken = tuple(each.name for each in own)
    others = brought(
        GROUP, "algorithms", "options", taken=taken, check=partial(_check, taken=_names_of(own))
    )
    return (*own, *others.values())


def _names_of(some: Iterable[Any]) -> frozenset[str]:
    return frozenset(collective for each in some for collective in each.algorithms())


def _check(one: Any, taken: frozenset[str]) -> None:
    """Raise an error if a kind of work of another package cannot be used."""
    check_kind(one, "weft.experiments.scenario.family:Family")
    for collective, names in one.algorithms().items():
        refuse(collective in taken, f"there is a collective {collective!r} already", ValueError)
        refuse(not names, f"{collective!r} has no algorithms: name one at least", ValueError)


@cache
def choices() -> dict[str, tuple[str, ...]]:
    """Return the algorithms of each collective; a scenario that names none runs the first two."""
    return {
        collective: names for each in families() for collective, names in each.algorithms().items()
    }


@cache
def family_named(collective: str) -> Any:
    """Return the kind of work of a collective, one of `choices`."""
    return next(each for each in reversed(families()) if collective in each.algorithms())
