"""What reshardings are called: strategies, balancers, and the algorithms that these make together;
for whoever asks for one, without numpy."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec

from weft.base.errors import InputError
from weft.base.registry import Registry
from weft.base.units import shown

RESHARD = "reshard"
"""The collective: a tensor that is sharded over one mesh of devices is brought to another."""


class StrategyFacts(msgspec.Struct):
    """The facts of a strategy are known without its module: they are attributes of
    `weft.experiments.families.resharding.strategy.Strategy`."""

    about: str
    position: int
    multicasts: bool
    colours: tuple[str, str]


STRATEGIES: Registry[Any] = Registry(
    "weft.resharding_strategies",
    "weft.experiments.families.resharding.strategies:STRATEGIES",
    facts=StrategyFacts,
    kind="weft.experiments.families.resharding.strategy:Strategy",
)
"""All strategies: instances of `weft.experiments.families.resharding.strategy.Strategy`."""

AUTO = "auto"
"""In place of a strategy: the one that is best by the model."""
BALANCES = {
    "best": "the better of greedy and dfs",
    "none": "the first replica, in order",
    "least-loaded": "the sender with least to send, in order",
    "greedy": "random sets of tasks that do not meet",
    "dfs": "depth-first search",
    "exact": "by a solver, for few tasks",
}
"""How senders and order of the unit tasks are chosen, each with what help says of it."""
BALANCE = "best"
"""The balancer where none is named."""

DTYPE = "int32"
"""The type of elements where none is named."""
LOCAL_FACTOR = 50.0
"""By default, how many times as fast as its link a host copies between its devices."""


@cache
def strategies() -> tuple[str, ...]:
    """Return the names of all strategies in order, `AUTO` last."""

    def place(name: str) -> tuple[bool, int]:
        return name not in STRATEGIES.own, STRATEGIES.fact(name, "position")

    return (*sorted(STRATEGIES, key=place), AUTO)


@cache
def algorithms() -> tuple[str, ...]:
    """Return what a resharding can be done by: each strategy with each balancer."""
    return tuple(
        algorithm_named(strategy, balance) for balance in BALANCES for strategy in strategies()
    )


def algorithm_named(strategy: str, balance: str) -> str:
    """Return the algorithm of a strategy and a balancer: ``broadcast``, where the balancer is the
    usual one, or ``broadcast/greedy``."""
    return strategy if balance == BALANCE else f"{strategy}/{balance}"


def strategy_and_balance(algorithm: str) -> tuple[str, str]:
    """Return the strategy and the balancer of an algorithm, one of `algorithms`."""
    strategy, _, balance = algorithm.partition("/")
    return strategy, balance or BALANCE


def chosen(
    named: Sequence[str], strategies: Sequence[str], balances: Sequence[str],
    name_of: Callable[[str, str], str],
) -> tuple[str, ...]:  # fmt: skip
    """Return the algorithms of each strategy with each balancer.

    Args:
        named: the algorithms that are asked for by their names, if any.
        name_of: an algorithm's name.

    Raises:
        InputError: others are asked for by name.
    """
    names = tuple(name_of(strategy, balance) for strategy in strategies for balance in balances)
    if tuple(named) not in ((), names):
        raise InputError(
            f"algorithms {shown(', '.join(named))} beside strategy or balance: name "
            "strategies and balances, or algorithms, but not both"
        )
    return names
