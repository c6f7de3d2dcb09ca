"""Collectives as parts of a `FlowGraph`: they are the steps of
`weft.experiments.theory.flow_steps`, and each flow waits for what its source has received in the
steps before."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from weft.agents.collectives.flow_graph import DONE, RECEIVED
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.names import algorithms
from weft.agents.collectives.registry import algorithm_of
from weft.controller.flows import Flows
from weft.experiments.theory.flow_steps import has_steps, steps_of

Events = tuple[tuple[int, int], ...]
"""The events that a rank's next task waits for."""


def algorithm_for(collective: str, algorithm: str) -> str:
    """Return the algorithm of a collective in a workload whose Allreduces are done by
    `algorithm`."""
    wanted = algorithm_of("allreduce", algorithm).counterparts.get(collective, algorithm)
    names = (wanted, *algorithms()[collective])
    return next(name for name in names if has_steps(collective, name))


def add_collective(
    builder: GraphBuilder,
    collective: str,
    algorithm: str,
    group: Sequence[int],
    size_bytes: int,
    after: Mapping[int, Events],
    *,
    root: int = 0,
) -> dict[int, Events]:
    """Add one collective of a group of ranks.

    Args:
        algorithm: an algorithm of `weft.experiments.theory.flow_steps`.
        group: the ranks, in order.
        size_bytes: as `weft.experiments.theory.flow_steps.steps_of` takes it.
        after: by rank, the events that its part waits for.
        root: the root's place in the group.

    Returns:
        by rank, the events that say that its part is done.
    """
    state = {rank: tuple(after.get(rank, ())) for rank in group}
    for step in _steps(collective, algorithm, len(group), size_bytes, root):
        before = {rank: _gathered(builder, rank, events) for rank, events in state.items()}
        come: dict[int, list[tuple[int, int]]] = {}
        columns = (step.source.tolist(), step.destination.tolist(), step.size_bytes.tolist())
        for source, destination, amount in zip(*columns, strict=True):
            one, other = group[source], group[destination]
            flow = builder.flow(one, other, amount, before[one])
            come.setdefault(other, []).append((flow, RECEIVED))
        # What a rank sends later waits for what has come, and for what it waited for before.
        state = {rank: (*before[rank], *come.get(rank, ())) for rank in group}
    return state


def _gathered(builder: GraphBuilder, rank: int, events: Events) -> Events:
    """Take several events together as the end of one wait, so that dependencies stay few."""
    return events if len(events) < 2 else ((builder.wait(rank, after=events), DONE),)


@lru_cache(maxsize=64)
def _steps(collective: str, algorithm: str, ranks: int, size_bytes: int, root: int) -> list[Flows]:
    return steps_of(collective, algorithm, ranks, size_bytes, root=root)
