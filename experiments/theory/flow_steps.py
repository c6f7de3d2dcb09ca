"""The flows of a unicast collective, step by step: what is known, and may leave, at the same time.

Steps are those of the textbook: a rank sends in a step what came in the steps before. The agents
send blocks, and pass each on as soon as they can, so that steps overlap on the wire; who sends how
many bytes to whom is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.names import ALGORITHMS, OFFLOADED, VECTORS
from weft.base.errors import InputError
from weft.controller.flows import Flows
from weft.experiments.theory.transfers import (
    IntArray,
    Transfers,
    even_parts,
    in_order_parents,
    parent_places,
    unicast_rounds,
)


def steps_of(
    collective: str,
    algorithm: str,
    ranks: int,
    size_bytes: int,
    *,
    item_bytes: int = 1,
    root: int = 0,
    radix: int = 2,
) -> list[Flows]:
    """All steps of one operation, in order, none of them empty.

    Flows are in numbers of ranks; `Flows.placed` makes those of hosts of them. A step of P ranks
    has a flow for each message, so all-to-all and linear have P (P - 1) in one. Flows of a source
    are in the order in which it sends them.

    Args:
        size_bytes: as of a scenario: what each rank contributes; of Broadcast, all; of
            Reduce-Scatter, what each ends with; of Allreduce and All-to-all, of the vector.
        item_bytes: elements of so many bytes stay whole where a vector is cut.

    Raises:
        InputError: there is no such unicast algorithm.
    """
    return steps_of_shards(
        collective,
        algorithm,
        shards_of(collective, ranks, size_bytes, item_bytes),
        item_bytes=item_bytes,
        root=root,
        radix=radix,
    )


def has_steps(collective: str, algorithm: str) -> bool:
    """Whether an algorithm consists of unicast flows between ranks, so that `steps_of` knows it."""
    unicast = algorithm not in ("multicast", *OFFLOADED)
    return unicast and algorithm in ALGORITHMS.get(collective, ())


def shards_of(collective: str, ranks: int, size_bytes: int, item_bytes: int = 1) -> tuple[int, ...]:
    """Bytes of every rank's shard; of `VECTORS`, of every part of the vector."""
    if collective in VECTORS:
        return tuple(even_parts(size_bytes, ranks, item_bytes).tolist())
    return (size_bytes,) * ranks


def steps_of_shards(
    collective: str,
    algorithm: str,
    shards: Sequence[int],
    *,
    item_bytes: int = 1,
    root: int = 0,
    radix: int = 2,
) -> list[Flows]:
    """As `steps_of`, of shards of any sizes (of Broadcast the root's counts)."""
    sizes = np.asarray(shards, np.int64)
    if len(sizes) < 1:
        raise InputError(f"{collective} by {algorithm} of no ranks: one at least is valid")
    rounds: Iterable[Transfers]
    if algorithm == "ring":
        rounds = _ring(collective, sizes)
    elif collective == "broadcast":
        rounds = _down_a_tree(algorithm, sizes, root, radix)
    elif algorithm == "double-binary-tree":
        rounds = _two_trees(even_parts(int(sizes.sum()), 2, item_bytes), len(sizes))
    else:
        rounds = unicast_rounds(
            collective, algorithm, shards, item_bytes=item_bytes, root=root, radix=radix
        )
        if algorithm in ("linear", "direct"):
            rounds = _at_once(rounds, len(sizes) - 1)
    flows = [Flows(*_sent(each)) for each in rounds]
    return [each for each in flows if len(each)]


def steps_of_graph(graph: FlowGraph) -> list[Flows]:
    """The flows of a workload: in a step are those before which as many others have to be done, one
    after the other. In numbers of ranks."""
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
    steps = [flow & (level == step) for step in range(int(level.max()) + 1)]
    columns = graph.table.source, graph.table.destination, graph.table.size_bytes
    return [Flows(*(column[chosen] for column in columns)) for chosen in steps if chosen.any()]


def _sent(transfers: Transfers) -> Transfers:
    """Those that have bytes."""
    sent = transfers.size_bytes > 0
    return Transfers(*(column[sent] for column in transfers))


def _at_once(rounds: Iterable[Transfers], each: int) -> Iterator[Transfers]:
    """Rounds of a direct exchange, so many at a time in one step."""
    waiting: list[Transfers] = []
    for transfers in rounds:
        waiting.append(transfers)
        if len(waiting) == each:
            yield _together(waiting)
            waiting = []
    if waiting:
        yield _together(waiting)


def _together(parts: Sequence[Transfers]) -> Transfers:
    return Transfers(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _ring(collective: str, sizes: IntArray) -> Iterator[Transfers]:
    """P - 1 steps, twice of an Allreduce: in step i of an Allgather rank r passes on the shard of
    rank r - i, of a Reduce-Scatter that of rank r - i - 1."""
    ranks = np.arange(len(sizes), dtype=np.int64)
    lags = {"reduce-scatter": (1,), "allgather": (0,), "allreduce": (1, 0)}
    if collective not in lags:
        raise InputError(f"{collective} has no algorithm 'ring': {', '.join(sorted(lags))} have")
    for lag in lags[collective]:
        for step in range(len(sizes) - 1):
            yield Transfers(ranks, np.roll(ranks, -1), np.roll(sizes, step + lag))


def _down_a_tree(algorithm: str, sizes: IntArray, root: int, radix: int) -> Iterator[Transfers]:
    """A step for each level of the tree."""
    ranks = len(sizes)
    parents = np.concatenate([[0], parent_places(algorithm, ranks, radix)])
    depth = _depths(parents)
    places = np.arange(ranks, dtype=np.int64)
    for level in range(1, int(depth.max()) + 1):
        children = places[depth == level]
        yield Transfers(
            (parents[children] + root) % ranks,
            (children + root) % ranks,
            np.full(len(children), sizes[root]),
        )


def _depths(parents: IntArray) -> IntArray:
    """How far each place is from the root, which is its own parent; int64 [P]."""
    depth = np.zeros(len(parents), np.int64)
    above = parents.copy()
    own = np.arange(len(parents))
    while np.any(above != own):
        depth += above != own
        own, above = above, parents[above]
    return depth


def _two_trees(halves: IntArray, ranks: int) -> Iterator[Transfers]:
    """Up and down both trees of `double-binary-tree`, both at the same time: a step for each level,
    the deepest first, and back."""
    parents = in_order_parents(ranks)
    depth = _depths(parents)
    places = np.arange(ranks, dtype=np.int64)
    second = (places + 1) % ranks if ranks % 2 else ranks - 1 - places
    ups = []
    for level in range(int(depth.max()), 0, -1):
        below = places[depth == level]
        ups.append(
            _together(
                [
                    Transfers(number[below], number[parents[below]], np.full(len(below), half))
                    for number, half in zip((places, second), halves, strict=True)
                ]
            )
        )
    yield from ups
    for source, destination, size_bytes in reversed(ups):
        yield Transfers(destination, source, size_bytes)
