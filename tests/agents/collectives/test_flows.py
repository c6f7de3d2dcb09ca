"""Flows that depend on each other: the graph, the schedule of a rank, and whole workloads on a
network in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.memory_network import Faults

from weft.agents.collectives.agent import Failed
from weft.agents.collectives.flow_graph import DONE, MAX_TASKS, RECEIVED, FlowGraph
from weft.agents.collectives.flow_schedule import Schedule
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.requests import Request
from weft.agents.drivers.messages import Prepare, decode, encode
from weft.agents.ranks import OperationConfig
from weft.base.errors import InputError, ProtocolError


def request_of(graph: FlowGraph, algorithm: str = "given") -> Request:
    return Request(0, "flows", algorithm, 0, flows=graph)


def run(
    graph: FlowGraph, size: int, algorithm: str = "given", **options: object
) -> dict[tuple[int, str], int]:
    """Carry a graph out and verify it; when each thing happened, from the start."""
    request = request_of(graph, algorithm)
    group = Group(size, requests=[request], **options)  # type: ignore[arg-type]
    done = group.complete(request)
    found: dict[tuple[int, str], int] = {}
    for event in done:
        for moment in event.report.flows:
            assert (moment.flow, moment.what) not in found
            found[moment.flow, moment.what] = moment.at_ns - group.started_ns
    for flow in graph.flows.tolist():
        times = [found[flow, what] for what in ("begun", "received", "acknowledged")]
        assert times == sorted(times)
    assert len(found) == 3 * len(graph.flows)
    return found


@st.composite
def graphs(draw: st.DrawFn, size: int) -> FlowGraph:
    """Any graph in which tasks wait for earlier ones."""
    builder = GraphBuilder()
    events: list[tuple[int, int]] = []
    for _ in range(draw(st.integers(1, 12), "tasks")):
        after = draw(st.lists(st.sampled_from(events), max_size=4, unique=True)) if events else []
        source, destination = draw(st.tuples(*[st.integers(0, size - 1)] * 2))
        delay_ns = draw(st.sampled_from([0, 0, 1, 50_000]))
        if source == destination:
            needed = draw(st.integers(0, len(after)))
            task = builder.wait(source, delay_ns, after, needed)
            events.append((task, DONE))
        else:
            size_bytes = draw(st.sampled_from([1, 255, 256, 1000, 5000]))
            task = builder.flow(source, destination, size_bytes, after, delay_ns)
            events += [(task, DONE), (task, RECEIVED)]
    return builder.build()


@given(data=st.data())
def test_any_graph_is_carried_out_in_an_order_that_it_allows(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 5), "ranks")
    graph = data.draw(graphs(size))
    algorithm = data.draw(st.sampled_from(["given", "ring"]))
    found = run(graph, size, algorithm)
    if algorithm != "given":
        last: dict[tuple[int, int], int] = {}
        for flow in (flow for flow, what in found if what == "begun"):
            ends = graph.source[flow], graph.destination[flow]
            assert found[flow, "received"] >= last.get(ends, 0)
            last[ends] = found[flow, "received"]
    least = graph.least_ns(1_000_000_000)
    for flow in graph.flows.tolist():
        end_ns = least[flow]
        assert end_ns is not None and found[flow, "received"] >= end_ns
        causes = [
            found.get((graph.cause[edge], "received" if graph.event[edge] else "acknowledged"), 0)
            for edge in range(len(graph.cause))
            if graph.waiting[edge] == flow
        ]
        begun_ns = found[flow, "begun"]
        assert begun_ns >= graph.delay_ns[flow] + max(causes, default=0)


@given(data=st.data())
def test_every_byte_arrives_on_a_network_that_loses_repeats_and_reorders(
    data: st.DataObject,
) -> None:
    faults = Faults(
        seed=data.draw(st.integers(0, 1 << 20), "seed"),
        loss=0.03, duplication=0.03, corruption=0.02, lateness=0.03,
    )  # fmt: skip
    run(data.draw(graphs(4)), 4, faults=faults)


def test_a_chain_of_flows_takes_the_sum_of_their_times_and_delays() -> None:
    builder = GraphBuilder()
    after: list[tuple[int, int]] = []
    for hop in range(4):
        flow = builder.flow(hop, hop + 1, 125_000, after, delay_ns=1_000_000)
        after = [(flow, RECEIVED)]
    graph = builder.build()
    found = run(graph, 5, path_mtu=4096)
    assert graph.span_ns(1_000_000_000) == 4 * (1_000_000 + 1_000_000)
    assert 8_000_000 < found[3, "received"] < 8_500_000


@pytest.mark.parametrize("algorithm", ["given", "ring"])
def test_flows_to_one_rank_take_turns_where_given_and_go_in_order_in_collectives(
    algorithm: str,
) -> None:
    builder = GraphBuilder()
    first, second = (builder.flow(0, 1, 1_000_000) for _ in range(2))
    other = builder.flow(0, 2, 1_000_000)
    found = run(builder.build(), 3, algorithm, path_mtu=4096)
    # 8 ms each on the link of 1 Gbit/s, half of which each destination gets until it has all.
    ends_ms = [found[flow, "received"] / 1e6 for flow in (first, second, other)]
    expected = [24, 24, 16] if algorithm == "given" else [16, 24, 16]
    assert ends_ms == pytest.approx(expected, rel=0.1)


def test_what_happened_on_another_rank_is_told_by_a_message() -> None:
    builder = GraphBuilder()
    first = builder.flow(0, 1, 1000)
    far = builder.flow(2, 3, 1000, [(first, RECEIVED)])
    found = run(builder.build(), 4, delay_ns=1_000_000)
    # The flow's way, and then the message's from rank 1 to rank 2.
    assert found[far, "begun"] >= found[first, "received"] + 1_000_000


def test_some_of_several_events_are_enough_where_no_more_are_needed() -> None:
    builder = GraphBuilder()
    short, long = builder.flow(0, 2, 100), builder.flow(1, 2, 1_000_000)
    either = builder.wait(2, after=[(short, RECEIVED), (long, RECEIVED)], needed=1)
    both = builder.wait(2, after=[(short, RECEIVED), (long, RECEIVED)])
    early = builder.flow(2, 3, 100, [(either, DONE)])
    late = builder.flow(2, 3, 100, [(both, DONE)])
    found = run(builder.build(), 4)
    assert found[early, "begun"] < found[long, "received"] <= found[late, "begun"]


def test_flows_of_a_rank_share_its_link() -> None:
    builder = GraphBuilder()
    flows = [builder.flow(0, 1 + number, 400_000) for number in range(3)]
    found = run(builder.build(), 4, path_mtu=4096)
    ends = [found[flow, "received"] for flow in flows]
    assert max(ends) - min(ends) < 0.2 * max(ends)


def test_a_graph_crosses_the_rendezvous_as_json() -> None:
    builder = GraphBuilder()
    builder.flow(0, 1, 10, [(builder.wait(0, 5), DONE)])
    config = OperationConfig(request_of(builder.build()))
    line = encode(Prepare(config))
    assert decode(line) == Prepare(config)
    with pytest.raises(ProtocolError, match="flow"):
        decode(line.replace(b'"size_bytes":[0,10]', b'"size_bytes":[0,0]'))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"size_bytes": (0,)}, "of 0 bytes"),
        ({"size_bytes": (-5,)}, "of -5 bytes"),
        ({"destination": (-1,)}, "out of range"),
        ({"delay_ns": (-1,)}, "out of range"),
        ({"delay_ns": (1 << 80,)}, "out of range"),
        ({"needed": (1,)}, "1 of 0 events"),
        ({"source": (0, 1)}, "different lengths"),
        ({"cause": (0,), "event": (0,), "waiting": (7,)}, "none of the 1"),
        ({"cause": (0,), "event": (3,), "waiting": (0,)}, "event"),
        ({"cause": (0,), "event": (0,), "waiting": (0,), "needed": (1,)}, "wait for each other"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(columns: dict[str, Any], words: str) -> None:
    sound: dict[str, Any] = {
        "source": (0,), "destination": (1,), "size_bytes": (10,), "delay_ns": (0,), "needed": (0,),
    }  # fmt: skip
    assert FlowGraph(**sound).ranks == 2
    with pytest.raises(InputError, match=words):
        FlowGraph(**{**sound, **columns})


def test_a_rank_that_dies_is_named() -> None:
    builder = GraphBuilder()
    builder.flow(0, 1, 1_000_000)
    builder.flow(1, 2, 100, [(0, RECEIVED)])
    group = Group(3, rate_bps=10_000_000)
    group.start(request_of(builder.build()), ranks=[0, 2])
    events = group.finish(60_000_000_000, ranks=[0, 2])
    assert all(isinstance(event, Failed) and "rank 1" in event.error for event in events)


def test_a_graph_has_no_more_tasks_than_there_is_memory_for() -> None:
    def graph(tasks: int) -> FlowGraph:
        zeros, ones = (0,) * tasks, (1,) * tasks
        return FlowGraph(
            source=zeros, destination=ones, size_bytes=ones, delay_ns=zeros, needed=zeros
        )

    assert len(graph(MAX_TASKS).source) == MAX_TASKS
    with pytest.raises(InputError, match=f"{MAX_TASKS + 1} flows and waits: 1 to {MAX_TASKS}"):
        graph(MAX_TASKS + 1)


@given(edge=st.integers(0, 9), peer=st.integers(0, 4), again=st.booleans())
@example(edge=2, peer=0, again=False)
def test_word_of_what_is_not_between_two_ranks_is_refused(
    edge: int, peer: int, again: bool
) -> None:
    builder = GraphBuilder()
    first = builder.flow(0, 1, 10)
    builder.flow(2, 3, 10, [(first, RECEIVED)])  # dependency 0: rank 1 tells rank 2
    builder.flow(2, 4, 10, [(first, DONE)])  # dependency 1: rank 0 tells rank 2
    schedule = Schedule(builder.build(), 2)
    schedule.start(0)
    if (edge, peer) in ((0, 1), (1, 0)):
        schedule.hear(peer, edge, 5)
        assert schedule.due(5) == [edge + 1]
        if not again:
            return
    with pytest.raises(ProtocolError, match="dependency"):
        schedule.hear(peer, edge, 5)


def test_flows_of_more_ranks_than_there_are_are_refused() -> None:
    builder = GraphBuilder()
    builder.flow(0, 9, 10)
    with pytest.raises(InputError, match="10 ranks on 4"):
        replace(request_of(builder.build())).elements(4)
