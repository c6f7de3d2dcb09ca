"""Graphs of fused operators, looked at and acted out: what is sent when, fused and unfused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.fused_support import SMALL, operators, small

from weft.agents.collectives.flow_columns import NONE
from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.fused.device import ComputeDevice
from weft.agents.fused.plan import COMPUTING, SENDING, FusedPlan, Way, plan
from weft.agents.operators.computation import ADD, FINISH, TILE, Layout, RankProgram
from weft.agents.operators.operator import Operator
from weft.agents.operators.registry import OPERATORS
from weft.agents.operators.tasks import ORDERS
from weft.base.errors import InputError
from weft.experiments.families.fused.names import ADDING, GIVING

EACH = pytest.mark.parametrize("name", [*OPERATORS])
Bytes = npt.NDArray[np.uint8]


def planned(operator: Operator, way: Way, device: ComputeDevice) -> FusedPlan:
    return plan(operator.name, operator.sizes, operator.ranks, operator.seed, way, device)


def carried_out(operator: Operator, way: Way) -> Operator:
    """The operator as a plan has it: what experts make of a token may be added on its way."""
    if not (way.adds_in_switches and operator.finishes):
        return operator
    sizes = replace(operator.sizes, combines=True)
    return type(operator)(sizes, operator.ranks, operator.seed)


def way_of(operator: Operator, **more: Any) -> st.SearchStrategy[Way]:
    """Any way in which an operator can be carried out."""
    some = {
        "fused": st.booleans(),
        "multicasts": st.booleans() if operator.name in GIVING else st.just(False),
        "adds_in_switches": st.booleans() if operator.name in ADDING else st.just(False),
        "order": st.sampled_from(["", *ORDERS]),
        "slice_bytes": st.sampled_from([1, 4, 16, 64, 1 << 16]),
        "senders": st.integers(0, 2),
        **{name: st.just(value) for name, value in more.items()},
    }
    return st.builds(Way, **some)


def devices() -> st.SearchStrategy[ComputeDevice]:
    return st.builds(
        ComputeDevice, workgroups=st.integers(3, 6), slowdown=st.sampled_from([0.0, 1.0, 1e4])
    )


class Flow(NamedTuple):
    """A flow without its number."""

    source: int
    destination: int
    size_bytes: int
    memory: int
    offset: int
    target: int
    is_multicast: bool


def flow_of(graph: FlowGraph, task: int) -> Flow:
    places = graph.places
    assert places is not None
    return Flow(
        graph.source[task], graph.destination[task], graph.size_bytes[task], places.memory[task],
        places.offset[task], places.target[task], graph.multicast[task] != NONE,
    )  # fmt: skip


def befores(graph: FlowGraph) -> list[set[int]]:
    """For each task, all that must have ended, at least at one side, before it begins."""
    causes: list[set[int]] = [set() for _ in graph.source]
    for cause, waiting in zip(graph.cause, graph.waiting, strict=True):
        causes[waiting].add(cause)
    counts = Counter(graph.waiting)
    assert all(graph.needed[task] == counts[task] for task in range(len(graph.source)))
    found: dict[int, set[int]] = {}
    for task in graph.ends_ns(0):  # in this order they can be done
        found[task] = set(causes[task]).union(*(found[cause] for cause in causes[task]))
    return [found[task] for task in range(len(graph.source))]


def tile_waits(made: FusedPlan) -> dict[tuple[int, int], int]:
    """By rank and tile, the wait that computes it."""
    return {(w.rank, w.first): w.task for w in made.computation.work if w.what == TILE}


def tiles_of_flow(made: FusedPlan, operator: Operator, task: int) -> list[int]:
    """The tiles whose bytes a flow brings from its source's buffer; none of inputs and of sums."""
    flow = flow_of(made.graph, task)
    if flow.memory:
        return []
    offsets = Layout(operator, flow.source).tile_offsets
    end = flow.offset + flow.size_bytes
    return [
        number
        for number, (first, last) in enumerate(pairwise(offsets))
        if first < end and flow.offset < last
    ]


def inputs_come(made: FusedPlan, operator: Operator, rank: int) -> set[int]:
    """The flows that bring inputs to a rank."""
    return {
        task
        for task in made.graph.flows.tolist()
        if made.graph.destination[task] == rank
        and not (flow := flow_of(made.graph, task)).memory
        and flow.offset < operator.input_bytes(flow.source)
    }


@given(operators(4), devices(), st.data())
def test_a_slice_is_sent_after_its_tiles_and_has_whole_ones_of_one_owner(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator, adds_in_switches=False), "way")
    made = planned(operator, way, device)
    waits, before = tile_waits(made), befores(made.graph)
    sent: Counter[tuple[int, int]] = Counter()
    for task in made.graph.flows.tolist():
        flow, numbers = flow_of(made.graph, task), tiles_of_flow(made, operator, task)
        if not numbers:
            continue
        tiles = [operator.tiles(flow.source)[number] for number in numbers]
        assert {tile.owner for tile in tiles} == {flow.destination}
        assert sum(tile.size_bytes for tile in tiles) == flow.size_bytes
        assert flow.size_bytes <= max(way.slice_bytes, tiles[0].size_bytes), "a slice is too large"
        assert {waits[flow.source, number] for number in numbers} <= before[task]
        layout = Layout(operator, flow.destination)
        assert flow.offset == Layout(operator, flow.source).tile_offsets[numbers[0]]
        assert flow.target == layout.landing(flow.source) + tiles[0].first
        sent.update((flow.source, number) for number in numbers)
    expected = Counter(
        (rank, number)
        for rank in range(operator.ranks)
        for number, tile in enumerate(operator.tiles(rank))
        if tile.owner != rank
    )
    assert sent == expected


@given(operators(4), devices(), st.data())
def test_unfused_ranks_gather_everything_then_compute_everything_then_send(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator, fused=False), "way")
    operator, made = carried_out(operator, way), planned(operator, way, device)
    waits, before = tile_waits(made), befores(made.graph)
    for rank in range(operator.ranks):
        come = inputs_come(made, operator, rank)
        every = {waits[rank, number] for number in range(len(operator.tiles(rank)))}
        assert all(come <= before[wait] for wait in every), "a tile is computed before all inputs"
        sends = [
            task
            for task in made.graph.flows.tolist()
            if made.graph.source[task] == rank and tiles_of_flow(made, operator, task)
        ]
        sends += [each.waits[rank] for each in made.graph.sums]
        sends += [
            work.task for work in made.computation.work if work.what != TILE and work.rank == rank
        ]
        for task in sends:
            assert every <= before[task], "something leaves before all tiles are computed"


@given(operators(4), devices(), st.data())
def test_fused_and_unfused_have_the_same_flows_and_additions(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator), "way")
    fused, unfused, communication = (
        planned(operator, replace(way, fused=fused, alone=alone), device)
        for fused, alone in ((True, ""), (False, ""), (False, "communication"))
    )

    def flows(made: FusedPlan) -> Counter[Flow]:
        return Counter(flow_of(made.graph, task) for task in made.graph.flows.tolist())

    def added(made: FusedPlan) -> list[tuple[int, ...]]:
        kinds = {ADD, FINISH}
        work = made.computation.work
        return sorted((w.rank, w.what, w.first, w.size_bytes) for w in work if w.what in kinds)

    def summed(made: FusedPlan) -> list[Any]:
        return [(s.size_bytes, s.offset, s.target, s.owner) for s in made.graph.sums]

    assert flows(fused) == flows(unfused) == flows(communication)
    assert added(fused) == added(unfused) == added(communication)
    assert summed(fused) == summed(unfused) == summed(communication)
    assert fused.graph.total_bytes == unfused.graph.total_bytes
    assert fused.compute_ns == unfused.compute_ns
    assert communication.graph.table.delay_ns.sum() == communication.compute_ns == 0


@given(operators(4), devices(), st.data())
def test_slices_are_as_large_as_they_may_be(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator, adds_in_switches=False), "way")
    made = planned(operator, way, device)
    slices: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    for task in made.graph.flows.tolist():
        if numbers := tiles_of_flow(made, operator, task):
            key = made.graph.source[task], made.graph.destination[task]
            slices.setdefault(key, []).append((*numbers,))
    for (source, _), found in slices.items():
        tiles = operator.tiles(source)
        for one, other in pairwise(sorted(found)):
            size_bytes = sum(tiles[number].size_bytes for number in one)
            follows = tiles[one[-1]].first + tiles[one[-1]].size_bytes == tiles[other[0]].first
            assert not follows or size_bytes + tiles[other[0]].size_bytes > way.slice_bytes


@EACH
@pytest.mark.parametrize("order", [*ORDERS])
def test_ranks_compute_slices_in_the_order_that_is_asked(name: str, order: str) -> None:
    way = Way(True, order=order, slice_bytes=1)
    made = plan(name, small(name), 4, 1, way, ComputeDevice(4))
    operator = OPERATORS[name](small(name), 4, 1)
    for rank in range(4):
        waits = sorted((w.task, w.first) for w in made.computation.work
                       if w.what == TILE and w.rank == rank)  # fmt: skip
        sources = [operator.tiles(rank)[number].source for _, number in waits]
        assert sorted(number for _, number in waits) == [*range(len(operator.tiles(rank)))]
        local = [source == rank for source in sources]
        if order == "remote-first":
            assert local == sorted(local) and any(local)
        elif order == "local-first":
            assert local == sorted(local, reverse=True) and any(local)
        else:
            assert sources[:4] == [(rank + step) % 4 for step in (1, 2, 3, 4)]
        assert next(source for source in sources if source != rank) == (rank + 1) % 4


@given(operators(4), devices(), st.data())
def test_workgroups_compute_and_put_or_some_only_put(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator), "way")
    operator, made = carried_out(operator, way), planned(operator, way, device)
    graph = made.graph
    senders = way.senders if way.fused else 0
    assert graph.pools == (device.workgroups - senders, *[senders] * (senders > 0))
    what = {each.task: each.what for each in made.computing}
    tiles = set(tile_waits(made).values())
    assert {task for task, kind in what.items() if kind == "tile"} == tiles
    for task, pool in enumerate(graph.pool):
        assert (pool != NONE) == (task in what)
        if what.get(task) == "tile":
            assert pool == COMPUTING
        elif task in what:
            assert pool == (SENDING if senders else COMPUTING)
            assert graph.delay_ns[task] == device.put_ns > 0
    puts = Counter(each.rank for each in made.computing if each.what == "put")
    if not way.fused or not device.put_ns:
        assert not puts
        return
    if way.adds_in_switches:
        adding = Counter(
            rank
            for each in graph.sums
            for rank in range(operator.ranks)
            if rank in (each.contributors or range(operator.ranks))
        )
        assert puts == adding, "a put for each slice that is added"
        return
    sent = Counter(
        graph.source[task] for task in graph.flows.tolist() if tiles_of_flow(made, operator, task)
    )
    assert puts == sent, "a put for each slice that leaves"


def greedy_ns(costs: list[int], workgroups: int) -> int:
    """What workgroups take that carry tasks out in turn. Written apart from `tasks.assigned`."""
    free = [0] * workgroups
    for cost in costs:
        free.sort()
        free[0] += cost
    return max(free)


@given(operators(4), devices(), st.data())
def test_compute_ns_is_what_computing_alone_takes(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator, fused=False), "way")
    operator, made = carried_out(operator, way), planned(operator, way, device)
    alone = planned(operator, replace(way, alone="computation"), device)
    assert not len(alone.graph.flows) and not alone.graph.sums and not alone.graph.total_bytes
    assert {w.what for w in alone.computation.work} <= {TILE}
    assert tile_waits(alone).keys() == tile_waits(made).keys()
    assert alone.graph.span_ns(0) == alone.compute_ns == made.compute_ns
    roofline = []
    for rank in range(operator.ranks):
        waits = sorted(task for (of, _), task in tile_waits(made).items() if of == rank)
        roofline.append(greedy_ns([made.graph.delay_ns[wait] for wait in waits], device.workgroups))
        for (of, number), task in tile_waits(made).items():
            if of == rank:
                tile = operator.tiles(rank)[number]
                seconds = max(tile.flops / 22.6e12, tile.memory_bytes / 1.6384e12)
                exact = seconds * 1e9 * device.workgroups * device.slowdown
                assert abs(made.graph.delay_ns[task] - exact) <= 0.5 + 1e-9 * exact
    launch_ns = round(5000 * device.slowdown)
    adding = [0] * operator.ranks
    for each in made.computation.work:
        adding[each.rank] += made.graph.delay_ns[each.task] * (each.what != TILE)
    assert made.kernel_ns == launch_ns + max(roofline)
    assert made.compute_ns == launch_ns + max(map(sum, zip(roofline, adding, strict=True)))
    assert made.add_ns == max(adding)
    assert made.busy_ns <= made.kernel_ns <= made.compute_ns <= made.kernel_ns + made.add_ns
    assert made.graph.span_ns(0) >= made.kernel_ns, "unfused computes no faster than alone"


@given(operators(4), devices(), st.data())
def test_fused_ends_no_later_than_unfused_where_bytes_take_no_time_but_for_its_puts(
    operator: Operator, device: ComputeDevice, data: st.DataObject
) -> None:
    way = data.draw(way_of(operator, fused=True, senders=0), "way")
    fused = planned(operator, way, device)
    unfused = planned(operator, replace(way, fused=False), device)
    puts = sum(each.what == "put" for each in fused.computing) * device.put_ns
    assert fused.graph.span_ns(0) <= unfused.graph.span_ns(0) + puts
    assert fused.graph.span_ns(0) >= fused.busy_ns == unfused.busy_ns
    for made in (fused, unfused):  # at any rate, neither is faster than what both have to wait for
        for rate_bps in (0, 10**6, 10**9):
            assert made.graph.span_ns(rate_bps) >= fused.least_graph().span_ns(rate_bps)


# -- acted out, in any order that the graph allows


def steps(made: FusedPlan, ranks: int, draw: Any) -> Iterator[int]:
    """All tasks in an order drawn from those that the graph allows; of waits with a workgroup too,
    as if there were as many as one likes."""
    graph = made.graph
    after: dict[int, list[int]] = {}
    left = [*graph.needed]
    for cause, waiting in zip(graph.cause, graph.waiting, strict=True):
        after.setdefault(cause, []).append(waiting)
    ready = [task for task, count in enumerate(left) if not count]
    contributed: Counter[int] = Counter()
    while ready:
        task = ready.pop(draw(len(ready)))
        ended = [task]
        number = graph.sum_of.get(task)
        if number is not None:
            contributed[number] += 1
            ended = [*graph.sums[number].waits] if contributed[number] == ranks else []
            if ended:
                yield -1 - number
        for each in ended:
            if number is None:
                yield each
            for waiting in after.get(each, ()):
                left[waiting] -= 1
                if not left[waiting]:
                    ready.append(waiting)


@given(operators(4), st.integers(0, 2), st.randoms(use_true_random=False), st.data())
def test_in_any_order_that_the_graph_allows_every_rank_gets_its_result(
    operator: Operator, number: int, random: Any, data: st.DataObject
) -> None:
    """With memory that is full of what is not a number, so nothing is read before it is there. A
    flow's bytes leave when it begins, and come when it ends."""
    alone = data.draw(st.sampled_from(["", "", "communication", "computation"]), "alone")
    way = data.draw(way_of(operator, alone=alone), "way")
    way = replace(way, fused=way.fused and not alone)
    operator, made = carried_out(operator, way), planned(operator, way, ComputeDevice(4))
    graph, ranks = made.graph, range(operator.ranks)
    assert graph.places is not None
    memories = [
        [np.full(size // 4, np.nan, np.float32).view(np.uint8) for size in sizes]
        for sizes in zip(graph.places.buffer_bytes, graph.places.output_bytes, strict=True)
    ]
    programs = [RankProgram(made.computation, rank, number) for rank in ranks]
    for rank in ranks:
        for _ in programs[rank].fill(memories[rank][0]):
            pass
        programs[rank].gather(memories[rank][1])
    for task in steps(made, operator.ranks, lambda count: random.randrange(count)):
        if task < 0:
            each = graph.sums[-1 - task]
            values = [
                memories[rank][0][each.offset[rank] :][: each.size_bytes].view(np.float32)
                for rank in each.contributors or ranks
            ]
            total = np.add.reduce(values).view(np.uint8)
            for rank in ranks:
                if each.gets(rank):
                    memories[rank][1][each.target[rank] :][: each.size_bytes] = total
                programs[rank].run(each.waits[rank], memories[rank])
        elif graph.source[task] == graph.destination[task]:
            programs[graph.source[task]].run(task, memories[graph.source[task]])
        else:
            flow = flow_of(graph, task)
            there = memories[flow.source][flow.memory][flow.offset :][: flow.size_bytes]
            memories[flow.destination][1][flow.target :][: flow.size_bytes] = there
    for rank in ranks:
        assert [*filter(None, programs[rank].checks(memories[rank]))] == []


@given(operators(4), st.data())
def test_no_two_flows_or_sums_write_the_same_bytes(operator: Operator, data: st.DataObject) -> None:
    """And none writes where a tile or a sum of the rank itself goes."""
    way = data.draw(way_of(operator), "way")
    operator, made = carried_out(operator, way), planned(operator, way, ComputeDevice(4))
    graph = made.graph
    written: dict[int, list[tuple[int, int]]] = {rank: [] for rank in range(operator.ranks)}
    for task in graph.flows.tolist():
        flow = flow_of(graph, task)
        written[flow.destination].append((flow.target, flow.size_bytes))
    for each in graph.sums:
        for rank in range(operator.ranks):
            if each.gets(rank):
                written[rank].append((each.target[rank], each.size_bytes))
    for work in made.computation.work:
        layout, rank = Layout(operator, work.rank), work.rank
        if work.what == ADD:
            written[rank].append((layout.result + work.first, work.size_bytes))
        elif work.what == FINISH:
            written[rank].append((0, operator.result_bytes(rank)))
        elif not operator.adds and operator.tiles(rank)[work.first].owner == rank:
            tile = operator.tiles(rank)[work.first]
            written[rank].append((layout.landing(rank) + tile.first, tile.size_bytes))
    for rank, runs in written.items():
        for (first, size), (following, _) in pairwise(sorted(runs)):
            assert first + size <= following
        assert all(f + s <= Layout(operator, rank).output_bytes for f, s in runs)


# -- what makes no sense


@pytest.mark.parametrize(("senders", "workgroups"), [(4, 4), (5, 4), (1, 1), (-1, 4)])
def test_one_workgroup_at_least_has_to_compute(senders: int, workgroups: int) -> None:
    name = "gemv-allreduce"
    with pytest.raises(InputError, match=rf"senders {senders} of {workgroups} workgroups: .*0 to"):
        plan(name, small(name), 4, 0, Way(True, senders=senders), ComputeDevice(workgroups))


def test_a_device_takes_the_longer_of_computing_and_reading() -> None:
    device = ComputeDevice(8, slowdown=2.0, flops=1e9, memory_bytes_per_s=1e9, launch=10.0, put=3.0)
    assert device.work_ns(1000, 500) == device.work_ns(500, 1000) == 1000 * 8 * 2
    assert (device.launch_ns, device.put_ns) == (20, 6)
    assert replace(device, slowdown=0.0).work_ns(10**12, 10**12) == 0


def test_inputs_that_are_multicast_are_so_only_if_asked() -> None:
    def casts(name: str, way: Way, **more: Any) -> int:
        return len(plan(name, small(name, **more), 4, 0, way, ComputeDevice(4)).graph.multicasts)

    for name in GIVING:
        assert casts(name, Way(True)) == 0 < casts(name, Way(True, multicasts=True))
    assert casts("gemm-all-to-all", Way(True), dispatch="unicast", top_k=4) == 0
    assert casts("gemm-all-to-all", Way(True), dispatch="multicast", top_k=4) > 0


def test_small_sizes_have_something_to_overlap() -> None:
    """What other tests rely on: several tiles for each rank."""
    for name in SMALL:
        operator = OPERATORS[name](small(name), 4, 0)
        owners = Counter(tile.source for tile in operator.tiles(0))
        assert len(owners) == 4 and min(owners.values()) > 1
