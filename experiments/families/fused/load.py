"""Making of a fused operator from what a scenario asks."""

from dataclasses import fields, replace
from functools import lru_cache

from weft.agents.fused.plan import FusedPlan, Way, operator_for, plan
from weft.agents.operators.computation import operator_of
from weft.agents.operators.operator import ITEM_BYTES, Operator, Sizes
from weft.agents.operators.registry import operator_named
from weft.base.errors import InputError
from weft.experiments.families.fused.names import (
    COMMUNICATION,
    COMPUTATION,
    FUSED,
    MULTICAST,
    SWITCH,
    check_algorithm,
    parts_of_algorithm,
)
from weft.experiments.families.fused.options import FusedOptions


def with_defaults(operator: str, asked: Sizes) -> Sizes:
    """Return sizes with an operator's own where none is asked for.

    Raises:
        InputError: one is asked for that the operator does not have.
    """
    usual = operator_named(operator).defaults
    names = [each.name for each in fields(Sizes) if _has(usual, each.name)]
    chosen = {}
    for each in fields(Sizes):
        value = getattr(asked, each.name)
        if value != each.default:
            if each.name not in names:
                raise InputError(
                    f"{each.name.replace('_', '-')} {value} means nothing for operator {operator}: "
                    f"it has {', '.join(names).replace('_', '-')}; leave it out"
                )
            chosen[each.name] = value
    return replace(usual, **chosen)


def memory_bytes(made: FusedPlan, processes: int) -> int:
    """Return how much memory an operator takes, roughly, on ranks in so many processes: what they
    send and receive, their results once more, and what these are made of."""
    computation, graph = made.computation, made.graph
    ranks = range(computation.ranks)
    operator = operator_of(
        computation.operator, computation.sizes, computation.ranks, computation.seed
    )
    moved = sum(graph.buffer_bytes(rank) + graph.output_bytes(rank) for rank in ranks)
    kept = processes * operator.kept_numbers() * ITEM_BYTES
    return moved + sum(map(operator.result_bytes, ranks)) + kept


def _has(usual: Sizes, name: str) -> bool:
    """Return whether an operator of such usual sizes has one of a name."""
    if name in ("imbalance", "dispatch"):
        return bool(usual.experts)
    return name == "tile_rows" or bool(getattr(usual, name))


def fused_operator(options: FusedOptions) -> Operator:
    """Return an operator without its graph, which takes longer.

    Raises:
        InputError: what is asked makes no sense.
    """
    asked = options.operator, options.sizes, options.ranks, options.seed
    return operator_for(*asked, _way_of(options), options.device)


@lru_cache(maxsize=8)
def fused_plan(options: FusedOptions) -> FusedPlan:
    """Return the graph of an operator, and what its waits compute.

    Raises:
        InputError: what is asked makes no sense, or makes too many tasks.
    """
    asked = options.operator, options.sizes, options.ranks, options.seed
    return plan(*asked, _way_of(options), options.device)


def _way_of(options: FusedOptions) -> Way:
    check_algorithm(options.operator, options.algorithm)
    kind, way = parts_of_algorithm(options.algorithm)
    return Way(
        kind == FUSED,
        alone=kind if kind in (COMMUNICATION, COMPUTATION) else "",
        multicasts=way == MULTICAST,
        adds_in_switches=way == SWITCH,
        order=options.order,
        slice_bytes=options.slice_bytes,
        senders=options.senders,
    )
