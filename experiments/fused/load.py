"""Making of a fused operator from what a scenario asks."""

from dataclasses import fields, replace
from functools import lru_cache

from weft.agents.fused.operator import Sizes
from weft.agents.fused.plan import Plan, Way, plan
from weft.agents.fused.registry import operator_named
from weft.base.errors import refuse
from weft.experiments.fused.names import (
    COMMUNICATION,
    COMPUTATION,
    FUSED,
    MULTICAST,
    SWITCH,
    check_algorithm,
    parts_of_algorithm,
)
from weft.experiments.fused.options import FusedOptions


def with_defaults(operator: str, asked: Sizes) -> Sizes:
    """Return sizes with an operator's own where none is asked for.

    Raises:
        InputError: one is asked for that the operator does not have.
    """
    usual = operator_named(operator).defaults
    chosen = {}
    for each in fields(Sizes):
        value, default = getattr(asked, each.name), getattr(usual, each.name)
        if value != each.default:
            can = default != each.default or each.name in ("tile_rows", "imbalance", "dispatch")
            may = (
                each.name == "tile_rows"
                or usual.experts
                or not each.name.startswith(("imbalance", "dispatch"))
            )
            has = ", ".join(
                other.name.replace("_", "-")
                for other in fields(Sizes)
                if getattr(usual, other.name) != other.default
            )
            refuse(
                not (can and may),
                f"{each.name.replace('_', '-')} {value} means nothing for operator {operator}: it "
                f"has {has}; leave it out",
            )
            chosen[each.name] = value
    return replace(usual, **chosen)


@lru_cache(maxsize=32)
def fused_plan(options: FusedOptions) -> Plan:
    """Return the graph of an operator, and what its waits compute.

    Raises:
        InputError: what is asked makes no sense.
    """
    check_algorithm(options.operator, options.algorithm)
    kind, way = parts_of_algorithm(options.algorithm)
    return plan(
        options.operator,
        options.sizes,
        options.ranks,
        options.seed,
        Way(
            kind == FUSED,
            alone=kind if kind in (COMMUNICATION, COMPUTATION) else "",
            multicasts=way == MULTICAST,
            adds_in_switches=way == SWITCH,
            order=options.order,
            slice_bytes=options.slice_bytes,
            senders=options.senders,
        ),
        options.device,
    )
