"""The workloads of `weft paths`: their flows step by step, without a run."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import algorithms
from weft.agents.collectives.registry import algorithm_of
from weft.base.errors import refuse
from weft.controller.flows import Flows
from weft.experiments.scenario.choices import choose
from weft.experiments.theory.flow_steps import counted_steps_of, steps_of_graph

MOST_FLOWS = 1 << 23
"""The most flows of an exchange between all ranks; more are not told apart, but counted by pairs of
leaves."""

PERMUTATION = "permutation"


@dataclass(frozen=True, eq=False)
class Step:
    """Flows that leave together, and how often they do so."""

    flows: Flows | None
    """The flows between ranks; None means that every rank sends as much to every other."""
    times: int
    size_bytes: int = 0
    """If `flows` is None: the bytes of each flow."""

    def number_of_flows(self, ranks: int) -> int:
        """Return how many flows the step has each time."""
        return ranks * (ranks - 1) if self.flows is None else len(self.flows)


def workloads() -> dict[str, tuple[str, ...]]:
    """Return the names of workloads, each with its algorithms."""
    found = {
        collective: tuple(name for name in names if algorithm_of(collective, name).unicast)
        for collective, names in algorithms().items()
    }
    return {**found, PERMUTATION: ("direct",)}


def static_steps(
    workload: str, algorithm: str, ranks: int, size_bytes: int, *, root: int = 0, seed: int = 1
) -> list[Step]:
    """Return the steps of a workload between so many ranks.

    ``size_bytes`` is as in a scenario; for a permutation it is what each rank sends to the next one
    in a circle drawn by ``seed``. Raises InputError for an unknown workload or algorithm.
    """
    known = workloads()
    choose("workload", workload, tuple(known))
    choose(f"{workload} algorithm", algorithm, known[workload])
    refuse(ranks < 2, "1 rank sends nothing to others: choose a network of 2 hosts or more")
    if workload == PERMUTATION:
        circle = np.random.default_rng(seed).permutation(ranks)
        return [Step(Flows(circle, np.roll(circle, -1), np.full(ranks, size_bytes)), 1)]
    exchanges = algorithm_of(workload, algorithm).exchanges.get(workload, 0)
    if exchanges and ranks * (ranks - 1) > MOST_FLOWS:
        shard_bytes, rest = divmod(size_bytes, ranks)
        refuse(
            rest,
            f"size {size_bytes} of {ranks} ranks: of so many flows all are equal; choose a "
            f"multiple of {ranks}",
        )
        return [Step(None, exchanges, shard_bytes)]
    return _counted(counted_steps_of(workload, algorithm, ranks, size_bytes, root=root))


def graph_steps(graph: FlowGraph) -> list[Step]:
    """Return the steps of a workload of flows, which is a file's or a model's."""
    return _counted((flows, 1) for flows in steps_of_graph(graph))


def most_sent(steps: Iterable[Step], ranks: int) -> int:
    """Return the bytes that the busiest sender among the ranks sends in all steps together."""
    sent = np.zeros(ranks, np.int64)
    for step in steps:
        if step.flows is not None:
            np.add.at(sent, step.flows.source, step.flows.size_bytes * step.times)
    return int(sent.max(initial=0))


def _counted(steps: Iterable[tuple[Flows, int]]) -> list[Step]:
    """Return the steps, with those that follow each other and are alike put together."""
    found: list[Step] = []
    for flows, times in steps:
        last = found[-1] if found else None
        if last is not None and last.flows is not None and _alike(last.flows, flows):
            found[-1] = Step(flows, last.times + times)
        else:
            found.append(Step(flows, times))
    return found


def _alike(one: Flows, other: Flows) -> bool:
    columns = ("source", "destination", "size_bytes")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)
