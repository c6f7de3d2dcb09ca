"""Workgroups of a graph of flows, and what switches add, against models that are written apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import Group

from weft.agents.collectives.flow_columns import NONE, FlowPlace, Sum
from weft.agents.collectives.flow_graph import DONE, RECEIVED, FlowGraph
from weft.agents.collectives.flow_schedule import Schedule
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.requests import Request
from weft.base.errors import InputError

BYTES = 64
DELAYS = st.sampled_from([0, 0, 1, 2, 3, 10, 100])


def build(builder: GraphBuilder, ranks: int) -> FlowGraph:
    return builder.build([BYTES] * ranks, [BYTES] * ranks)


@st.composite
def waits(draw: st.DrawFn, ranks: int = 3, *, sums: int = 0, pooled: bool = True) -> FlowGraph:
    """Any graph of waits of ranks, each after earlier ones of the same rank; some need workgroups,
    and some of all ranks are sums."""
    builder = GraphBuilder()
    builder.pools = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2), "pools")
    done: list[list[tuple[int, int]]] = [[] for _ in range(ranks)]
    left = sums

    def after(rank: int) -> list[tuple[int, int]]:
        return draw(st.lists(st.sampled_from(done[rank]), max_size=3)) if done[rank] else []

    for _ in range(draw(st.integers(1, 25), "waits")):
        if left and draw(st.integers(0, 4)) == 0:
            left -= 1
            each = [builder.wait(rank, draw(DELAYS), after(rank)) for rank in range(ranks)]
            owner = draw(st.integers(NONE, ranks - 1))
            builder.add(Sum((*each,), 4, (0,) * ranks, (0,) * ranks, owner))
            for rank in range(ranks):
                done[rank].append((each[rank], DONE))
            continue
        rank = draw(st.integers(0, ranks - 1))
        pool = draw(st.integers(NONE, len(builder.pools) - 1)) if pooled else NONE
        causes = [*dict.fromkeys(after(rank))]
        needed = draw(st.integers(0, len(causes)))
        done[rank].append((builder.wait(rank, draw(DELAYS), causes, needed, pool=pool), DONE))
    for rank in range(ranks):
        builder.wait(rank, 0, done[rank])
    return build(builder, ranks)


def modelled(graph: FlowGraph) -> dict[int, tuple[int, int]]:
    """When each wait begins and is over where bytes take no time: instant by instant, and as often
    in an instant as anything changes. Written apart from `FlowGraph.ends_ns` and `Schedule`, which
    go from event to event."""
    count = len(graph.source)
    could: dict[int, int] = {}
    spans: dict[int, tuple[int, int]] = {}
    happened: set[int] = set()
    now = 0
    summed = 0
    while len(happened) < count:
        changed = True
        while changed:
            changed = False
            for task in range(count):
                causes = [
                    cause
                    for cause, waiting in zip(graph.cause, graph.waiting, strict=True)
                    if waiting == task
                ]
                met = sum(cause in happened for cause in causes)
                if task not in could and met >= graph.needed[task]:
                    could[task] = now
                    changed = True
            busy: dict[tuple[int, int], int] = {}
            for task in spans:
                if graph.pool[task] != NONE and task not in happened:
                    key = graph.source[task], graph.pool[task]
                    busy[key] = busy.get(key, 0) + 1
            for task in sorted(could):
                if task in spans or task in graph.sum_of:
                    continue
                if graph.pool[task] != NONE:
                    key = graph.source[task], graph.pool[task]
                    if busy.get(key, 0) >= graph.pools[graph.pool[task]]:
                        continue
                    busy[key] = busy.get(key, 0) + 1
                spans[task] = now, now + graph.delay_ns[task]
                changed = True
            while summed < len(graph.sums):
                each = graph.sums[summed].waits
                if not all(w in could and could[w] + graph.delay_ns[w] <= now for w in each):
                    break
                for wait in each:
                    spans[wait] = could[wait], now
                    happened.add(wait)
                summed += 1
                changed = True
            # One of those that are over, so that others see it before the next one is.
            over = [task for task, (_, end) in spans.items() if end <= now and task not in happened]
            if over:
                happened.add(min(over, key=lambda task: (spans[task][1], task)))
                changed = True
        if len(happened) == count:
            break
        later = [end for task, (_, end) in spans.items() if task not in happened]
        later += [
            could[wait] + graph.delay_ns[wait]
            for each in graph.sums[summed:]
            for wait in each.waits
            if wait in could and could[wait] + graph.delay_ns[wait] > now
        ]
        now = min(later)
    return spans


def scheduled(graph: FlowGraph, ranks: int) -> dict[int, tuple[int, int]]:
    """The same by the schedules of all ranks, as agents drive them; sums take no time."""
    ends: dict[int, int] = {}
    now = [0]
    schedules = []
    for rank in range(ranks):

        def over(wait: int) -> None:
            assert wait not in ends, "a wait is over twice"
            ends[wait] = now[0]

        schedules.append(Schedule(graph, rank, over))
    for schedule in schedules:
        schedule.start(0)
    summed = 0
    while any(schedule.unfinished for schedule in schedules):
        times = [t for schedule in schedules if (t := schedule.deadline()) is not None]
        if times:
            now[0] = min(times)
            for schedule in schedules:
                assert not schedule.due(now[0])
                assert not schedule.notices
        progress = bool(times)
        while summed < len(graph.sums) and all(summed in each.held for each in schedules):
            for rank, schedule in enumerate(schedules):
                schedule.held.remove(summed)
                schedule.end(graph.sums[summed].waits[rank], now[0])
            summed += 1
            progress = True
        assert progress, "no rank does anything any more"
    return {task: (end - graph.delay_ns[task], end) for task, end in ends.items()}


def check_workgroups(graph: FlowGraph, spans: dict[int, tuple[int, int]]) -> None:
    """Never more than the workgroups at once, none idle while a wait could begin, and the lowest
    number first."""
    counts = {task: 0 for task in range(len(graph.source))}
    ready: dict[int, int] = {}
    for task in counts:
        ends = sorted(
            spans[cause][1]
            for cause, waiting in zip(graph.cause, graph.waiting, strict=True)
            if waiting == task
        )
        ready[task] = ends[graph.needed[task] - 1] if graph.needed[task] else 0
    for task, (begin, end) in spans.items():
        assert end - begin >= graph.delay_ns[task] and begin >= ready[task]
        if task in graph.sum_of:
            continue
        if graph.pool[task] == NONE:
            assert begin == ready[task], "it waits though it needs no workgroup"
            continue
        alike = [
            other
            for other in spans
            if (graph.source[other], graph.pool[other]) == (graph.source[task], graph.pool[task])
        ]
        at_once = [other for other in alike if spans[other][0] <= begin < spans[other][1]]
        most = graph.pools[graph.pool[task]]
        assert len(at_once) <= most, "more waits than workgroups"
        for instant in {spans[other][1] for other in alike} | {ready[task]}:
            if ready[task] <= instant < begin:
                busy = [other for other in alike if spans[other][0] <= instant < spans[other][1]]
                assert len(busy) == most, "a workgroup is free, and a wait could begin"
        for other in alike:
            later = spans[other][0] == spans[other][1] or spans[other][0] < begin
            assert not (other > task and ready[task] < spans[other][0] and later) or (
                spans[other][0] >= begin
            ), "a wait of a higher number goes first"


@given(waits())
def test_never_more_waits_than_workgroups_and_the_lowest_number_first(graph: FlowGraph) -> None:
    model = modelled(graph)
    check_workgroups(graph, model)
    expected = {task: end for task, (_, end) in model.items()}
    found = scheduled(graph, 3)
    check_workgroups(graph, found)
    assert {task: end for task, (_, end) in found.items()} == expected
    assert graph.ends_ns(0) == expected


@given(waits(sums=4, pooled=False))
def test_sums_are_over_when_all_ranks_have_contributed_and_in_their_order(
    graph: FlowGraph,
) -> None:
    expected = {task: end for task, (_, end) in modelled(graph).items()}
    assert {task: end for task, (_, end) in scheduled(graph, 3).items()} == expected
    ends = graph.ends_ns(0)
    assert ends == expected
    order = [max(ends[wait] for wait in each.waits) for each in graph.sums]
    assert order == sorted(order)
    for each in graph.sums:
        assert len({ends[wait] for wait in each.waits}) == 1


@given(waits(sums=4))
def test_workgroups_beside_sums(graph: FlowGraph) -> None:
    """Which of two waits is first that could begin in the same instant, one by a sum, is not
    said."""
    check_workgroups(graph, scheduled(graph, 3))
    ends = graph.ends_ns(0)
    assert len(ends) == len(graph.source)
    for task, end in ends.items():
        assert end >= graph.delay_ns[task]


@st.composite
def mixed(draw: st.DrawFn, ranks: int) -> FlowGraph:
    """Waits with and without workgroups, and flows, each after some earlier ones."""
    builder = GraphBuilder()
    builder.pools = [draw(st.integers(1, 2)), 1]
    events: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(2, 14))):
        after = draw(st.lists(st.sampled_from(events), max_size=3)) if events else []
        source, destination = draw(st.tuples(*[st.integers(0, ranks - 1)] * 2))
        if source == destination:
            delay_ns = draw(st.sampled_from([1, 5_000, 50_000, 50_000]))
            pool = draw(st.sampled_from([NONE, 0, 0, 1]))
            events.append((builder.wait(source, delay_ns, after, pool=pool), DONE))
        else:
            flow = builder.flow(source, destination, BYTES, after, place=FlowPlace(0, 0, 0))
            events += [(flow, DONE), (flow, RECEIVED)]
    return build(builder, ranks)


@given(mixed(3))
def test_agents_on_a_network_carry_out_no_more_waits_than_they_have_workgroups(
    graph: FlowGraph,
) -> None:
    request = Request(0, "flows", "given", 0, flows=replace(graph, places=graph.places))
    group = Group(3, requests=[request])
    number = group.start(request)
    moments = {
        (moment.flow, moment.what): moment.at_ns - group.started_ns
        for event in group.finish(60_000_000_000)
        for moment in event.report.flows
    }
    assert number == 0
    spans = {
        task: (end - graph.delay_ns[task], end)
        for (task, what), end in moments.items()
        if what == "over"
    }
    assert spans.keys() == {t for t in range(len(graph.source)) if graph.delay_ns[t]}
    for task, (begin, _) in spans.items():
        alike = [
            other
            for other in spans
            if graph.pool[task] != NONE
            and (graph.source[other], graph.pool[other]) == (graph.source[task], graph.pool[task])
        ]
        at_once = sum(spans[other][0] <= begin < spans[other][1] for other in alike)
        assert at_once <= (graph.pools[graph.pool[task]] if alike else 0)
        for cause, event, waiting in zip(graph.cause, graph.event, graph.waiting, strict=True):
            if waiting == task:
                is_flow = graph.source[cause] != graph.destination[cause]
                what = ("acknowledged", "received")[event] if is_flow else "over"
                assert begin >= moments[cause, what]


def test_the_lowest_number_takes_the_workgroup_that_is_free() -> None:
    builder = GraphBuilder()
    builder.pools = [1]
    late = builder.wait(0, 5)
    pooled = [
        builder.wait(0, 10, [(late, DONE)] if number == 0 else (), pool=0) for number in range(3)
    ]
    # The second begins at once; when it is over, the first could begin too, and has a lower number.
    ends = build(builder, 1).ends_ns(0)
    assert [ends[task] for task in pooled] == [20, 10, 30]


def test_each_rank_and_each_pool_has_workgroups_of_its_own() -> None:
    builder = GraphBuilder()
    builder.pools = [2, 1]
    for rank in range(2):
        for pool in (0, 1):
            for _ in range(4):
                builder.wait(rank, 10, pool=pool)
    ends = build(builder, 2).ends_ns(0)
    assert [ends[task] for task in range(8)] == [10, 10, 20, 20, 10, 20, 30, 40]
    assert [ends[task] for task in range(8, 16)] == [ends[task] for task in range(8)]


# -- what makes no sense


def pooled(pool: int, pools: list[int]) -> GraphBuilder:
    builder = GraphBuilder()
    builder.wait(0, 1, pool=pool)
    builder.pools = pools
    return builder


@pytest.mark.parametrize(
    ("pool", "pools", "message"),
    [
        (0, [0], r"pool 0 has 0 workgroups: .*1 at least"),
        (0, [2, -3], r"pool 1 has -3 workgroups: .*1 at least"),
        (1, [4], r"task 0 .*pool 1: .*0 to 0"),
        (7, [4, 4], r"task 0 .*pool 7: .*0 to 1"),
        (-2, [4, 4], r"task 0 .*pool -2: .*0 to 1"),
        (0, [], r"task 0 .*pool 0: .*there is none"),
    ],
)
def test_pools_that_there_are_not_are_refused(pool: int, pools: list[int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(pooled(pool, pools), 1)


def test_a_flow_needs_no_workgroup_and_neither_does_a_wait_of_a_sum() -> None:
    builder = GraphBuilder()
    builder.flow(0, 1, 8, place=FlowPlace(0, 0, 0))
    graph = build(builder, 2)
    with pytest.raises(InputError, match=r"task 0 .*pool 0: .*flows"):
        replace(graph, pool=(0,), pools=(1,))
    builder = GraphBuilder()
    builder.pools = [1]
    builder.add(Sum((builder.wait(0, pool=0), builder.wait(1)), 8, (0, 0), (0, 0)))
    with pytest.raises(InputError, match=r"task 0 .*pool 0: .*sum"):
        build(builder, 2)


def added(*sums: dict[str, Any], after: bool = False) -> GraphBuilder:
    """Two ranks, and sums of a wait of each, sound but for what is said."""
    builder = GraphBuilder()
    pairs = [(builder.wait(0), builder.wait(1)) for _ in sums]
    if after:
        builder._edges = [(pairs[1][0], DONE, pairs[0][0])]
        source, destination, size_bytes, delay_ns, _ = builder._tasks[0]
        builder._tasks[0] = source, destination, size_bytes, delay_ns, 1
    for pair, each in zip(pairs, sums, strict=True):
        builder.add(replace(Sum(pair, 8, (0, 0), (0, 0)), **each))
    return builder


@pytest.mark.parametrize(
    "wrong",
    [
        {"waits": (0,)},
        {"waits": (1, 0)},
        {"waits": (0, 0)},
        {"waits": (0, 9)},
        {"waits": (-2, 1)},
        {"waits": (0, 1, 1)},
        {"size_bytes": 0},
        {"size_bytes": -4},
        {"size_bytes": 6},
        {"size_bytes": 68},
        {"offset": (0, 60)},
        {"offset": (-4, 0)},
        {"offset": (2, 0)},
        {"offset": (0,)},
        {"target": (60, 0)},
        {"target": (0, -4)},
        {"target": (0, 2)},
        {"target": (0, 0, 0)},
        {"owner": 2},
        {"owner": -2},
    ],
    ids=str,
)
def test_sums_that_make_no_sense_are_refused_by_number(wrong: dict[str, Any]) -> None:
    build(added({}), 2)
    with pytest.raises(InputError, match=r"sum 1\b"):
        build(added({}, wrong), 2)


def test_whoever_gets_no_sums_needs_no_room_for_them() -> None:
    build(added({"owner": 0, "target": (56, 64)}), 2)
    with pytest.raises(InputError, match="sum 0"):
        build(added({"owner": 1, "target": (56, 64)}), 2)


def test_a_wait_belongs_to_one_sum_alone() -> None:
    with pytest.raises(InputError, match=r"sums 0 and 1: .*wait 0"):
        build(added({}, {"waits": (0, 3)}), 2)


def test_sums_need_places() -> None:
    graph = build(added({}), 2)
    with pytest.raises(InputError, match="sums need places"):
        replace(graph, places=None)


def test_a_sum_that_waits_for_a_later_one_never_begins() -> None:
    """All ranks contribute in the order of the sums, so this would wait for ever."""
    with pytest.raises(InputError, match="wait for each other"):
        build(added({}, {}, after=True), 2)
