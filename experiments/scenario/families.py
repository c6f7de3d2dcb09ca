"""All kinds of work, by the collectives that scenarios name.

Each is a folder of `weft.experiments.families` with a module ``family``, which has a `FAMILY`, or
comes from another package by an entry point in the group ``weft.families``. What a scenario is made
of is found here; who has a scenario asks `weft.experiments.scenario.family`.
"""

from functools import cache
from typing import Any

from weft.base.errors import refuse
from weft.base.registry import Registry
from weft.experiments.scenario.part import Part


def _check(one: Any) -> None:
    """Raise an error if a kind of work of another package cannot be used."""
    taken = {collective for name in FAMILIES.own for collective in FAMILIES[name].algorithms()}
    for collective, names in one.algorithms().items():
        refuse(collective in taken, f"there is a collective {collective!r} already", ValueError)
        if not names:
            raise ValueError(f"{collective!r} has no algorithms: name one at least")


FAMILIES: Registry[Any] = Registry(
    "weft.families",
    "weft.experiments.families:family.FAMILY",
    needs=("algorithms", "options"),
    kind="weft.experiments.scenario.family:Family",
    check=_check,
)
"""All kinds of work, each a `weft.experiments.scenario.family.Family`."""


@cache
def families() -> tuple[Any, ...]:
    """Return all kinds of work in order; those of other packages are last."""

    def place(each: Any) -> tuple[bool, bool, int]:
        return each.name not in FAMILIES.own, each.position is None, each.position or 0

    return tuple(sorted(FAMILIES.values(), key=place))


@cache
def result_parts() -> dict[str, type[Part]]:
    """Return by key what kinds of work add to results, in the order in which documents have it."""
    return {part.key: part for family in families() for part in family.adds}


def table_names() -> list[str]:
    """Return the names of the flat tables of results: first those that all kinds of work have."""
    own = (part.table for part in result_parts().values() if part.table)
    return ["runs", "ranks", "links", *own]


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
