"""The model of a strategy's time, and the strategy that is best by it."""

from collections.abc import Sequence

from weft.experiments.resharding.names import AUTO, STRATEGIES, strategies
from weft.experiments.resharding.plan import Plan
from weft.experiments.resharding.strategy import Need, Strategy

MOST_GROUPS = 4096
"""The most multicast groups that a switch's table holds (``multicast_route`` of p4/fabric.p4)."""


def needs_of(plan: Plan, number: int) -> tuple[Need, ...]:
    """Return the hosts that a unit task's slice goes to over the network."""
    return tuple(Need(host, len(devices)) for host, devices in plan.tasks[number].remote.items())


def time_bytes(plan: Plan, strategy: Strategy, block_bytes: int) -> float:
    """Return how long a resharding takes by the model, in bytes that a link carries meanwhile.

    A task takes the links of its sender and of its receivers, both directions of those that pass
    something on, for as long as it would take alone (MLSys 2023, arXiv 2211.05322, section 3).
    """
    free: dict[tuple[int, str], float] = {}
    for number in plan.order:
        sender = plan.senders.get(number)
        if sender is None:
            continue
        needs, size_bytes = needs_of(plan, number), plan.tasks[number].size_bytes
        links = [(sender.host, "out"), *((need.host, "in") for need in needs)]
        links += [(host, "out") for host in strategy.passed_on_bytes(size_bytes, needs)]
        end = max(free.get(link, 0.0) for link in links)
        end += strategy.time_bytes(size_bytes, needs, block_bytes)
        free |= dict.fromkeys(links, end)
    return max(free.values(), default=0.0)


def groups_of(plan: Plan) -> int:
    """Return how many multicast groups the plan needs if it is carried out by multicast."""
    return len(
        {
            (sender.host, frozenset(plan.tasks[number].remote))
            for number, sender in plan.senders.items()
            if len(plan.tasks[number].remote) > 1
        }
    )


def best_strategy(plan: Plan, block_bytes: int) -> Strategy:
    """Return the strategy that takes least time by the model, of equals the first."""
    able: Sequence[Strategy] = [STRATEGIES.get(name) for name in strategies() if name != AUTO]
    if groups_of(plan) > MOST_GROUPS:
        able = [each for each in able if not each.multicasts]
    return min(able, key=lambda strategy: time_bytes(plan, strategy, block_bytes))


def strategy_named(name: str, plan: Plan, block_bytes: int) -> Strategy:
    """Return the strategy of a name; for `AUTO`, the one that is best for the plan by the model."""
    found: Strategy = best_strategy(plan, block_bytes) if name == AUTO else STRATEGIES.get(name)
    return found
