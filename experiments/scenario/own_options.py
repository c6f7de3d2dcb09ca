"""Options that algorithms, path schemes, networks and workloads have of their own, made a part of
the table of all."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import field, fields, replace
from typing import Any, TypeVar, get_type_hints

from weft.agents.collectives.names import ALGORITHMS
from weft.base.errors import refuse
from weft.base.registry import Registry
from weft.base.units import listed
from weft.experiments.option import GROUPS, Option
from weft.experiments.paths.names import SCHEMES
from weft.experiments.scenario.networks import described_networks, network_shape
from weft.experiments.workloads.workload import described_workloads, workload_of

T = TypeVar("T")


def having_options(registry: Registry) -> Iterator[str]:
    """Yield the names of those that have options of their own."""
    return (name for name in registry.names() if registry.fact(name, "options"))


def with_own_options(table: type[T]) -> type[T]:
    """Give a class whose fields are options one for each that an algorithm, a path scheme, a
    network or a workload has of its own, before it is made a dataclass.

    Options that cannot be used are left out, and standard error says why.
    """
    owners: dict[Any, list[str]] = {}
    for registry in (ALGORITHMS, SCHEMES):
        for name in having_options(registry):
            owners.setdefault(registry.options_of(name), []).append(name)
    for name in described_networks():
        if fields(network_shape(name).options):
            owners.setdefault(network_shape(name).options, []).append(name)
    for name in described_workloads():
        if fields(workload_of(name).options):
            owners.setdefault(workload_of(name).options, []).append(name)
    for options, names in owners.items():
        try:
            hints = get_type_hints(options)
            for each in fields(options):
                row = _checked(each.name, each.metadata.get("option"), table)
                own = replace(
                    row, heeded=_heeding(options), who=f"it is for {listed(names, 'and')}"
                )
                table.__annotations__[each.name] = hints[each.name]
                setattr(table, each.name, field(default=each.default, metadata={"option": own}))
        except (TypeError, ValueError) as error:
            print(f"weft: options of {', '.join(names)} are left out: {error}", file=sys.stderr)
    return table


def _checked(name: str, row: object, table: type) -> Option:
    """Return the row of an option. Raises TypeError or ValueError where it cannot be used."""
    refuse(hasattr(table, name), f"there is a {name!r} already: give it another name", ValueError)
    if not isinstance(row, Option):
        raise TypeError(f"{name} is not made by weft.experiments.option.option")
    known = ", ".join(GROUPS)
    refuse(row.group not in GROUPS, f"{name}: group {row.group!r} is none of {known}", ValueError)
    return row


def _heeding(options: type) -> Callable[[Any], bool]:
    """Return whether a scenario's algorithms, its path scheme, its network or its workload have
    these options, as a function of it."""
    return lambda asked: any(each.options is options for each in asked.owners())
