"""Options that kinds of work, algorithms, path schemes, congestion controls, networks and workloads
have of their own, made a part of the table of all."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import cache
from typing import Any, TypeVar, get_type_hints

from weft.agents.collectives.names import ALGORITHMS
from weft.agents.congestion import CONTROLS
from weft.base.errors import refuse
from weft.base.option import GROUPS, Option
from weft.base.registry import Registry
from weft.base.units import listed
from weft.experiments.paths.names import SCHEMES
from weft.experiments.scenario.families import families, family_named
from weft.experiments.scenario.networks import NETWORKS

T = TypeVar("T")
IT_IS_FOR = "it is for "
"""How a row says who uses it."""


def with_own_options(algorithms: str, families: str) -> Callable[[type[T]], type[T]]:
    """Return what gives a class whose fields are options one for each that a kind of work, an
    algorithm, a path scheme, a congestion control, a network or a workload has of its own, before
    it is made a dataclass.

    Options that cannot be used are left out, and standard error says why.

    Args:
        algorithms, families: the fields before which those of algorithms, and those of kinds of
            work, stand; all others are last.
    """

    def decorated(table: type[T]) -> type[T]:
        owners = {algorithms: _of_registries(ALGORITHMS), families: _of_families()}
        hints = dict(table.__annotations__)
        table.__annotations__.clear()
        for name, hint in hints.items():
            _add(table, owners.get(name, {}))
            table.__annotations__[name] = hint
        _add(table, _other_owners())
        return table

    return decorated


def _of_families() -> dict[Any, list[str]]:
    """Return, by the options, the kinds of work that scenarios name, and so say options of."""
    return {family.options: [family.name] for family in families() if family.algorithms()}


def _of_registries(*registries: Registry[Any]) -> dict[Any, list[str]]:
    owners: dict[Any, list[str]] = {}
    for registry in registries:
        for name, options in registry.options():
            owners.setdefault(options, []).append(name)
    return owners


def _other_owners() -> dict[Any, list[str]]:
    """Return, by the options, who has them beside kinds of work and algorithms."""
    owners = _of_registries(SCHEMES, CONTROLS, NETWORKS)
    for family in families():
        for one in family.having_options():
            owners.setdefault(one.options, []).append(one.name)
    return owners


def _add(table: type, owners: Mapping[Any, list[str]]) -> None:
    """Give a table the options of owners. Those of the same field are one."""
    known: dict[str, list[tuple[Option, str]]] = {}
    for options, names in owners.items():
        try:
            hints = get_type_hints(options)
            for each in fields(options):
                shared = known.setdefault(each.name, [])
                row = _checked(each.name, each.metadata.get("option"), () if shared else dir(table))
                words, s = listed(names, "and"), "s" if len(names) > 1 else ""
                who = row.who.replace("{names}", words).replace("{s}", s)
                shared.append((replace(row, who=who), words))
                own = replace(_together(shared), used=_using(each.name, row.used))
                table.__annotations__[each.name] = hints[each.name]
                setattr(table, each.name, field(default=each.default, metadata={"option": own}))
        except (TypeError, ValueError) as error:
            print(f"weft: options of {', '.join(names)} are left out: {error}", file=sys.stderr)


def _together(shared: Sequence[tuple[Option, str]]) -> Option:
    """Return the row of an option that several have, each of which says in its own row what it
    means there: the first one's, with the words of all."""
    (first, _), *_ = shared
    helps = dict.fromkeys(row.help.removesuffix(".") for row, _ in shared if row.help)
    usual = dict.fromkeys(row.default_text for row, _ in shared if row.default_text)
    whose = list(dict.fromkeys(row.who.removeprefix(IT_IS_FOR) or name for row, name in shared))
    who = ", and ".join(whose) if any(row.who for row, _ in shared) else listed(whose, "and")
    return replace(
        first,
        help=f"{'; '.join(helps)}." if len(shared) > 1 else first.help,
        default_text="; ".join(usual) if len(shared) > 1 else first.default_text,
        who=f"{IT_IS_FOR}{who}",
    )


def _checked(name: str, row: object, taken: Collection[str]) -> Option:
    """Return the row of an option. Raises TypeError or ValueError where it cannot be used."""
    refuse(name in taken, f"there is a {name!r} already: give it another name", ValueError)
    if not isinstance(row, Option):
        raise TypeError(f"{name} is not made by weft.base.option.option")
    known = ", ".join(GROUPS)
    refuse(row.group not in GROUPS, f"{name}: group {row.group!r} is none of {known}", ValueError)
    return row


def _using(name: str, where: Callable[[Any], bool] | None) -> Callable[[Any], bool]:
    """Return whether a scenario's kind of work, its algorithms, its path scheme, its congestion
    control, its network or its workload have an option, and use it, as a function of the scenario.

    Args:
        where: says whether the option means anything there; None: it always does.
    """

    def used(asked: Any) -> bool:
        if where is not None and not where(asked):
            return False
        if name in own_names(family_named(asked.collective)):
            return bool(family_named(asked.collective).uses(asked, name))
        return any(name in own_names(owner) for owner in asked.owners())

    return used


def own_names(owner: Any) -> tuple[str, ...]:
    """Return the names of the fields of an owner's options."""
    return _names_of(owner.options)


@cache
def _names_of(options: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(options))
