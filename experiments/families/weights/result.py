"""What a move of weights adds to the result of a run."""

from typing import Any

from weft.experiments.families.weights.load import plan_of
from weft.experiments.families.weights.part import WeightsMoved
from weft.experiments.families.weights.resolve import carried_of, options_of

Scenario = Any


def moved_by(scenario: Scenario, algorithm: str) -> WeightsMoved:
    """Return what each host sends and gets, and what it needs."""
    options = options_of(scenario, algorithm)
    plan, graph = plan_of(options), carried_of(scenario, algorithm).graph
    out, come, needed = ([0] * len(options.hosts) for _ in range(3))
    for flow in graph.sent_once.tolist():
        out[graph.source[flow]] += graph.size_bytes[flow]
    for flow in graph.flows.tolist():
        come[graph.destination[flow]] += graph.size_bytes[flow]
    for bucket in plan.buckets:
        for host in bucket.remote:
            needed[host] += bucket.size_bytes
    trainers = [options.hosts[host] for host in plan.sources]
    return WeightsMoved(
        plan.model_bytes, len(plan.buckets), trainers, [*options.hosts], out, come, needed
    )
