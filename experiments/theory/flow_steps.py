"""The flows of a unicast collective, step by step: those of a step are known, and may leave, at the
same time.

Steps are those of the textbook: a rank sends in a step what came in the steps before. The agents
send blocks, and pass each on as soon as they can, so that steps overlap on the wire; who sends how
many bytes to whom is the same.
"""

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import VECTORS, algorithms
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers, even_parts
from weft.base.entry_points import blamed
from weft.base.errors import refuse
from weft.controller.flows import Flows
from weft.experiments.scenario.kinds import own_values
from weft.experiments.scenario.scenario import Scenario

Own: TypeAlias = tuple[tuple[str, Any], ...]


def steps_of(
    collective: str,
    algorithm: str,
    ranks: int,
    size_bytes: int,
    *,
    dtype: str = "uint8",
    root: int = 0,
    own: Own = (),
) -> list[Flows]:
    """Return all steps of one operation, in order, none of them empty.

    Flows go from rank to rank by their numbers; `Flows.placed` makes flows between hosts of them. A
    step of P ranks has a flow for each message, so all-to-all and linear have P (P - 1) in one.
    Flows of a source are in the order in which it sends them.

    Args:
        size_bytes: as in a scenario: what each rank contributes; for Broadcast, all; for
            Reduce-Scatter, what each ends with; for Allreduce and All-to-all, the vector.
        dtype: the type of elements, which stay whole where a vector is cut.
        own: as `Task.own`.

    Raises:
        InputError: there is no such unicast algorithm.
    """
    return steps_of_shards(
        collective,
        algorithm,
        shards_of(collective, ranks, size_bytes, dtype_of(dtype).itemsize),
        dtype=dtype,
        root=root,
        own=own,
    )


def counted_steps_of(
    collective: str, algorithm: str, ranks: int, size_bytes: int, *, root: int = 0
) -> Iterator[tuple[Flows, int]]:
    """Yield the same steps as `steps_of`, each with how many there are of it: steps that are known
    to be alike come once."""
    sizes = np.asarray(shards_of(collective, ranks, size_bytes), np.int64)
    task = Task(collective, sizes, root)
    kind = algorithm_of(collective, algorithm)
    with blamed(kind, "counted_steps"):
        for step, times in kind.counted_steps(task):
            flows = Flows(*_sent(step))
            if len(flows):
                yield flows, times


def has_steps(collective: str, algorithm: str) -> bool:
    """Return whether an algorithm consists of unicast flows between ranks, so that `steps_of` knows
    it."""
    known = algorithm in algorithms().get(collective, ())
    return known and algorithm_of(collective, algorithm).unicast


def shards_of(collective: str, ranks: int, size_bytes: int, item_bytes: int = 1) -> tuple[int, ...]:
    """Return the bytes of every rank's shard; for `VECTORS`, of every part of the vector."""
    if collective in VECTORS:
        return tuple(even_parts(size_bytes, ranks, item_bytes).tolist())
    return (size_bytes,) * ranks


def steps_of_shards(
    collective: str,
    algorithm: str,
    shards: Sequence[int],
    *,
    dtype: str = "uint8",
    root: int = 0,
    own: Own = (),
) -> list[Flows]:
    """Return the same as `steps_of`, of shards of any sizes (of Broadcast the root's counts).

    ``own``: as `Task.own`.
    """
    sizes = np.asarray(shards, np.int64)
    refuse(len(sizes) < 1, f"{collective} by {algorithm} of no ranks: one at least is valid")
    task = Task(collective, sizes, root, dtype, own=own)
    kind = algorithm_of(collective, algorithm)
    with blamed(kind, "steps"):
        flows = [Flows(*_sent(each)) for each in kind.steps(task)]
    return [each for each in flows if len(each)]


def steps_of_scenario(scenario: Scenario, algorithm: str) -> list[Flows]:
    """Return the same of a scenario's collective; the list is empty for algorithms that do not
    consist of unicast flows between ranks."""
    if not has_steps(scenario.collective, algorithm):
        return []
    return steps_of_shards(
        scenario.collective,
        algorithm,
        scenario.shard_sizes,
        dtype=scenario.dtype,
        root=scenario.root,
        own=own_values(scenario, algorithm_of(scenario.collective, algorithm)),
    )


def steps_of_graph(graph: FlowGraph) -> list[Flows]:
    """Return the flows of a workload in steps, by numbers of ranks.

    A flow is in step n if the longest chain of flows that must be done before it, one after the
    other, has n flows. What is multicast is left out, since it takes no path of a flow's.
    """
    flow = graph.table.source != graph.table.destination
    place = np.zeros(len(flow), np.int64)
    place[list(graph.ends_ns(10**9))] = np.arange(len(flow))
    # Of what waits for some of several events, those that come later do not count.
    before = place[graph.table.cause] < place[graph.table.waiting]
    cause, waiting = graph.table.cause[before], graph.table.waiting[before]
    level = np.zeros(len(flow), np.int64)
    while True:
        least = np.zeros_like(level)
        np.maximum.at(least, waiting, level[cause] + flow[cause])
        if np.array_equal(least, level):
            break
        level = least
    unicast = flow & (graph.table.multicast == NONE)
    steps = [unicast & (level == step) for step in range(int(level.max()) + 1)]
    columns = graph.table.source, graph.table.destination, graph.table.size_bytes
    return [Flows(*(column[chosen] for column in columns)) for chosen in steps if chosen.any()]


def _sent(transfers: Transfers) -> Transfers:
    """Return the transfers that have bytes."""
    sent = transfers.size_bytes > 0
    return Transfers(*(column[sent] for column in transfers))
