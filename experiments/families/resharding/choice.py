"""The strategy that is best for a plan: the one whose flows are over first by a model."""

from collections.abc import Sequence

from weft.experiments.families.resharding.carrier import MOST_GROUPS, Carrier
from weft.experiments.families.resharding.names import AUTO, STRATEGIES, strategies
from weft.experiments.families.resharding.plan import ReshardingPlan
from weft.experiments.families.resharding.strategy import Strategy
from weft.experiments.families.resharding.timing import Links, span_ns


def time_ns(plan: ReshardingPlan, strategy: Strategy, carrier: Carrier, links: Links) -> float:
    """Return how long a resharding takes by the model of
    `weft.experiments.families.resharding.timing`.

    Args:
        carrier: one like it carries the resharding, alone.
    """
    alone = carrier.empty()
    alone.add(plan, strategy)
    return span_ns(alone.carried().graph, links)


def groups_of(plan: ReshardingPlan) -> int:
    """Return how many multicast groups the plan needs if it is carried out by multicast."""
    return len(
        {
            (sender.host, frozenset(plan.tasks[number].remote))
            for number, sender in plan.senders.items()
            if len(plan.tasks[number].remote) > 1
        }
    )


def best_strategy(plan: ReshardingPlan, carrier: Carrier, links: Links) -> Strategy:
    """Return the strategy that takes least time by the model, of equals the first. Args: as
    `time_ns`."""
    able: Sequence[Strategy] = [STRATEGIES[name] for name in strategies() if name != AUTO]
    if groups_of(plan) > MOST_GROUPS:
        able = [each for each in able if not each.multicasts]
    if not plan.senders:  # nothing is sent
        return able[0]
    return min(able, key=lambda strategy: time_ns(plan, strategy, carrier, links))


def strategy_named(name: str, plan: ReshardingPlan, carrier: Carrier, links: Links) -> Strategy:
    """Return the strategy of a name; for `AUTO`, the one that is best for the plan by the model.
    Args: as `time_ns`."""
    found: Strategy = best_strategy(plan, carrier, links) if name == AUTO else STRATEGIES[name]
    return found
