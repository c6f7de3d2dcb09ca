"""Flows that carry slices of tensors: flows that follow others, multicasts, and what is checked."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_group import SEED, Group
from tests.support.memory_network import Faults

from weft.agents.collectives.agent import Done, Failed
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.flow_columns import FlowPlace
from weft.agents.collectives.flow_graph import DONE, RECEIVED, FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.pattern import shard_key, words
from weft.agents.collectives.requests import Request
from weft.agents.collectives.tensors import Box, DeviceTile, Piece, Tensors, TensorShape, elements
from weft.base.errors import InputError

WHOLE = ((0, 60), (0, 500))
SIZE_BYTES = 60 * 500 * 4


def request(graph: FlowGraph, tensors: Tensors, **more: Any) -> Request:
    return Request(0, FLOWS, GIVEN, 0, flows=graph, tensors=tensors, **more)


def tensors_of(ranks: int) -> Tensors:
    """One tensor that rank 0 holds, and that all others must have in the end."""
    tiles = [
        (DeviceTile(f"{rank}", 0, WHOLE, (Piece(0, WHOLE, 1, 0),)),) if rank else ()
        for rank in range(ranks)
    ]
    held = ((Piece(0, WHOLE, 0, 0),), *[()] * (ranks - 1))
    return Tensors((TensorShape((60, 500), 4),), held, (*tiles,))


def sizes(ranks: int) -> tuple[list[int], list[int]]:
    return [SIZE_BYTES, *[0] * (ranks - 1)], [0, *[SIZE_BYTES] * (ranks - 1)]


def chain(ranks: int) -> FlowGraph:
    """Rank 0 sends to rank 1, which sends on to rank 2, and so on."""
    builder = GraphBuilder()
    flow = builder.flow(0, 1, SIZE_BYTES, place=FlowPlace(0, 0, 0))
    for rank in range(1, ranks - 1):
        flow = builder.flow(rank, rank + 1, SIZE_BYTES, place=FlowPlace(1, 0, 0), follows=flow)
    return builder.build(*sizes(ranks))


def multicast(ranks: int) -> FlowGraph:
    builder = GraphBuilder()
    builder.multicast(0, dict.fromkeys(range(1, ranks), 0), SIZE_BYTES, 0, 0)
    return builder.build(*sizes(ranks))


@pytest.mark.parametrize("graph", [chain, multicast])
@pytest.mark.parametrize("ranks", [3, 5])
def test_all_get_the_tensor(graph: Any, ranks: int) -> None:
    group = Group(ranks)
    group.complete(request(graph(ranks), tensors_of(ranks), own={"block_bytes": 4096}))


def test_a_chain_sends_on_what_has_come() -> None:
    """Five ranks take little longer than two: blocks do not wait for the whole."""
    durations = []
    for ranks in (2, 5):
        group = Group(ranks, rate_bps=100_000_000, delay_ns=1000)
        group.complete(request(chain(ranks), tensors_of(ranks), own={"block_bytes": 2048}))
        durations.append(group.duration_ns)
    assert durations[1] < 1.15 * durations[0]


def test_a_multicast_leaves_once() -> None:
    ranks = 4
    group = Group(ranks)
    done = group.complete(request(multicast(ranks), tensors_of(ranks)))
    chunks = -(-SIZE_BYTES // 256)
    reports = [event.report for event in done]
    assert sorted(each.chunks_multicast for each in reports) == [0, chunks, chunks, chunks]
    assert sum(each.chunks_fetched for each in reports) == 0


@settings(max_examples=25)
@given(
    st.sampled_from([chain, multicast]),
    st.integers(3, 5),
    st.integers(0, 1000),
    st.sampled_from([0.01, 0.05, 0.1]),
)
def test_loss_is_made_up_for(graph: Any, ranks: int, seed: int, loss: float) -> None:
    faults = Faults(loss=loss, duplication=loss / 4, lateness=loss / 4, seed=seed)
    group = Group(ranks, faults=faults)
    group.complete(request(graph(ranks), tensors_of(ranks), own={"block_bytes": 4096}))


def test_flows_wait_for_multicasts() -> None:
    """Rank 1 sends a flow when the multicast has come; rank 0 begins another when all have it."""
    builder = GraphBuilder()
    first = builder.multicast(0, {1: 0, 2: 0}, SIZE_BYTES, 0, 0)
    builder.flow(1, 2, SIZE_BYTES, [(first[0], RECEIVED)], place=FlowPlace(1, 0, SIZE_BYTES))
    builder.flow(
        0, 1, SIZE_BYTES, [(flow, DONE) for flow in first], place=FlowPlace(0, 0, SIZE_BYTES)
    )
    graph = builder.build([SIZE_BYTES, 0, 0], [0, 2 * SIZE_BYTES, 2 * SIZE_BYTES])
    pieces = [Piece(0, WHOLE, 1, SIZE_BYTES * copy) for copy in range(2)]
    tiles = tuple(
        tuple(DeviceTile(f"{rank}.{copy}", 0, WHOLE, (pieces[copy],)) for copy in range(2))
        for rank in (1, 2)
    )
    tensors = Tensors((TensorShape((60, 500), 4),), ((Piece(0, WHOLE, 0, 0),),), ((), *tiles))
    group = Group(3, groups=2)
    moments = [
        moment for event in group.complete(request(graph, tensors)) for moment in event.report.flows
    ]
    at_ns = {(each.flow, each.what): each.at_ns for each in moments}
    waits = len(graph.source) - len(graph.flows)
    assert waits == 1
    relay, last = graph.flows.tolist()[2:]
    assert at_ns[relay, "begun"] >= at_ns[first[0], "received"]
    assert at_ns[last, "begun"] >= max(at_ns[flow, "acknowledged"] for flow in first)


def test_what_lacks_bytes_is_found() -> None:
    """A tile whose bytes did not come is told by its device."""
    tensors = tensors_of(2)
    buffers = [np.zeros(SIZE_BYTES, np.uint8), np.zeros(SIZE_BYTES, np.uint8)]
    for _ in tensors.fill(0, buffers[0], SEED, 0):
        pass
    assert not any(tensors.checks(1, (buffers[1][:0], buffers[0]), SEED, 0))
    buffers[0][400] ^= 1
    wrong = [each for each in tensors.checks(1, (buffers[1], buffers[0]), SEED, 0) if each]
    assert wrong == ["byte 400 of tensor 0 on device 1 is wrong"]
    uncovered = DeviceTile("1", 0, WHOLE, (Piece(0, ((0, 59), (0, 500)), 1, 0),))
    lacking = Tensors(tensors.tensors, tensors.held, ((), (uncovered,)))
    with pytest.raises(InputError, match="have 29500 elements of 30000"):
        list(lacking.checks(1, (buffers[1], buffers[0]), SEED, 0))


@given(st.data(), st.lists(st.integers(1, 7), min_size=1, max_size=3), st.integers(1, 20))
def test_slices_are_those_of_the_whole(
    data: st.DataObject, shape: list[int], item_bytes: int
) -> None:
    """Against an array that is made as a whole and sliced by numpy."""
    key = shard_key(3, 1, 0)
    count, per_item = int(np.prod(shape)), -(-item_bytes // 8)
    rows = words(key, 0, count * per_item).astype("<u8").view(np.uint8)
    whole = rows.reshape(count, 8 * per_item)[:, :item_bytes].reshape(*shape, item_bytes)
    ends = [sorted(data.draw(st.tuples(*[st.integers(0, size)] * 2))) for size in shape]
    box: Box = tuple((begin, end) for begin, end in ends)
    part = whole[tuple(slice(*bounds) for bounds in box)].reshape(-1, item_bytes)
    first = data.draw(st.integers(0, len(part)))
    if len(part):
        found = elements(key, shape, item_bytes, box, first, len(part) - first)
        assert np.array_equal(found, part[first:].reshape(-1))


@pytest.mark.parametrize(
    "change, message",
    [
        ({"follows": (-1, 5)}, "flow 1 follows 5, which does not bring its bytes to its source"),
        ({"follows": (-1, 1)}, "flow 1 follows 1, which does not bring its bytes"),
        ({"follows": (0, -1)}, "flow 0 follows 0, which does not bring its bytes"),
        ({"follows": (-1,)}, "columns of different lengths"),
        ({"follows": (), "multicast": (0, 0)}, "multicast 0: its flows are not of the same bytes"),
        ({"follows": (), "multicast": (3, -1)}, "multicasts: numbers that do not follow"),
    ],
)
def test_graphs_that_make_no_sense(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(chain(3), **change)


def test_bytes_outside_of_memory() -> None:
    builder = GraphBuilder()
    builder.flow(0, 1, 100, place=FlowPlace(0, 1, 0))
    with pytest.raises(InputError, match="flow 0: its bytes are outside the memory of its ranks"):
        builder.build([100, 0], [0, 100])


def test_followers_end_no_earlier() -> None:
    for ranks, rate_bps in product((2, 5), (0, 10**9)):
        graph = chain(ranks)
        ends = graph.least_ns(rate_bps)
        assert all(end == SIZE_BYTES * 8 * 10**9 // rate_bps if rate_bps else not end
                   for end in ends)  # fmt: skip


@pytest.mark.parametrize(
    "sender, message, words",
    [
        (1, Control(Kind.SENT, 0, rank=0), "SENT of multicast 0, which is not due"),
        (0, Control(Kind.SENT, 0, rank=7), "SENT of multicast 7, which is not due"),
        (1, Control(Kind.GOT, 0, rank=0), "GOT of multicast 0, which is not due"),
        (0, Control(Kind.HOLD, 0), "HOLD, which does not belong to flows"),
    ],
)
def test_peers_that_break_the_protocol_are_named(sender: int, message: Control, words: str) -> None:
    group = Group(3)
    group.start(request(multicast(3), tensors_of(3)))
    group.agents[sender].communicator.queue_pairs[2].post_send(message.encode())
    failed = [event for event in group.finish(5_000_000_000) if isinstance(event, Failed)]
    assert any(f"rank {sender}" in event.error and words in event.error for event in failed)


@given(
    st.integers(0, 1), st.sampled_from([Kind.SENT, Kind.GOT, Kind.HAPPENED, Kind.READY]),
    st.integers(0, 3), st.integers(0, (1 << 64) - 1), st.integers(0, (1 << 32) - 1),
)  # fmt: skip
def test_any_message_ends_well_or_with_a_name(
    sender: int, kind: Kind, number: int, address: int, rkey: int
) -> None:
    group = Group(3)
    operation = group.start(request(multicast(3), tensors_of(3)))
    message = Control(kind, 0, rank=number, address=address, rkey=rkey)
    group.agents[sender].communicator.queue_pairs[2].post_send(message.encode())
    events = group.finish(5_000_000_000)
    if all(isinstance(event, Done) for event in events):
        group.verify(operation)
    else:
        assert any(isinstance(event, Failed) and "rank" in event.error for event in events)
