"""Lanes: several queue pairs between two ranks, and the data that is spread over them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.lanes_support import every_pair
from tests.support.memory_network import Faults

from weft.agents.collectives.communicator import Communicator, Lane
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import block_bytes
from weft.agents.datagrams import ipv4
from weft.agents.transport import Endpoint, TransportOptions
from weft.base.errors import InputError

UNICAST = [request for request in EVERY if request.algorithm != "multicast"]


@pytest.mark.parametrize("request_", UNICAST, ids=name_of)
@pytest.mark.parametrize("lanes", [2, 3])
def test_every_unicast_algorithm_runs_on_lanes(request_: Request, lanes: int) -> None:
    group = Group(6, lanes=every_pair(6, lanes))
    request = replace(request_, counts=5_000, lanes=lanes)
    group.complete(request)


def test_a_flow_is_spread_evenly_over_its_lanes() -> None:
    lanes = 4
    group = Group(3, path_mtu=256, lanes=every_pair(3, lanes), keep_trace=True)
    own = {"block_bytes": 256}
    group.complete(Request(0, "allgather", "linear", 64 * 256, own=own, lanes=lanes))
    sent: Counter[tuple[int, int, int]] = Counter()
    for _, receiver, datagram in group.network.trace:
        if len(datagram.data) > 256:
            sent[datagram.source, receiver, datagram.source_port] += 1
    assert len(sent) == 3 * 2 * lanes
    assert set(sent.values()) == {64 // lanes}


@given(
    request=st.sampled_from(UNICAST),
    lanes=st.integers(1, 5),
    count=st.integers(0, 4000),
    seed=st.integers(0, 1 << 20),
    loss=st.sampled_from([0.0, 0.02, 0.1]),
)
def test_lanes_lose_nothing_on_networks_that_do(
    request: Request, lanes: int, count: int, seed: int, loss: float
) -> None:
    group = Group(5, lanes=every_pair(5, lanes), faults=Faults(seed=seed, loss=loss))
    group.complete(replace(request, counts=count, lanes=lanes))


def test_a_lane_without_ports_carries_no_data() -> None:
    one_way: dict[tuple[int, int], list[Lane]] = {
        (0, 1): [(50_000,), (50_001,)],
        (1, 0): [(50_002,), ()],
    }
    group = Group(2, lanes=one_way, keep_trace=True)
    group.complete(Request(0, "allgather", "linear", 20_000, lanes=2))
    ports = {
        datagram.source_port
        for _, receiver, datagram in group.network.trace
        if receiver == ipv4("10.0.0.1") and len(datagram.data) > 200
    }
    assert ports == {50_002}


def test_a_lane_without_data_has_ports_to_go_on_with_where_others_have() -> None:
    addresses = [ipv4("10.0.0.1") + rank for rank in range(4)]
    data: list[Lane] = [(50_000, 50_001), ()]
    for alternates in (1, 8):
        endpoint = Endpoint(addresses[0], options=TransportOptions(alternates=alternates))
        communicator = Communicator(endpoint, 0, addresses, lanes={1: data, 2: [(), ()]})
        expected = {1: [2, alternates], 2: [alternates] * 2, 3: [alternates]}
        first = []
        for peer, counts in expected.items():
            pairs = communicator.pairs_of(peer)
            rows = [endpoint.row_of(pair._index) for pair in pairs]
            # One port has no table of ports.
            assert [max(1, row.port_count) for row in rows] == counts
            moves = [row.acknowledge_moves for row in rows]
            assert moves == [int(count > 1) for count in counts]
            first += [(peer, row.source_port) for row in rows]
        assert len(set(first)) == len(first) == 5


def test_ends_with_different_numbers_of_lanes_are_refused() -> None:
    with pytest.raises(InputError, match="rank 0 has 2 lanes with rank 1, which has 1: both ends"):
        Group(2, lanes={(0, 1): [(50_000,), (50_001,)], (1, 0): [(50_002,)]})


def test_lanes_with_others_than_peers_are_left_out() -> None:
    addresses = [ipv4("10.0.0.1") + rank for rank in range(8)]
    communicator = Communicator(Endpoint(addresses[0]), 0, addresses, lanes={3: [(50_000,)] * 2})
    assert 3 not in communicator.queue_pairs


@given(
    shard=st.integers(1, 1 << 22),
    lanes=st.integers(1, 16),
    path_mtu=st.sampled_from([256, 1024, 4096]),
)
def test_blocks_of_a_shard_fill_all_lanes(shard: int, lanes: int, path_mtu: int) -> None:
    request = Request(0, "allgather", "linear", shard, lanes=lanes)
    block = block_bytes(request, [shard], path_mtu)
    assert block % path_mtu == 0
    blocks = -(-shard // block)
    packets = -(-shard // path_mtu)
    if packets >= lanes:
        # Whole packets are what keeps the number of blocks from a multiple of the lanes.
        assert blocks * block - shard < block
        assert blocks > lanes // 2


def test_a_peer_with_many_lanes_gets_no_more_of_the_link_than_another() -> None:
    lanes: dict[tuple[int, int], list[Lane]] = {
        (0, 1): [(50_000 + lane,) for lane in range(4)],
        (1, 0): [(50_100 + lane,) for lane in range(4)],
    }
    group = Group(3, path_mtu=256, lanes=lanes, keep_trace=True)
    group.complete(Request(0, "allgather", "linear", 64 * 256, own={"block_bytes": 256}, lanes=4))
    order = [
        (receiver, datagram.source_port)
        for _, receiver, datagram in group.network.trace
        if datagram.source == ipv4("10.0.0.1") and len(datagram.data) > 256
    ]
    receivers = [receiver for receiver, _ in order]
    half = len(receivers) // 2
    assert 0.4 < receivers[:half].count(receivers[0]) / half < 0.6
    by_lane = [port for _, port in order if 50_000 <= port < 50_004]
    assert len(by_lane) == 64 and set(Counter(by_lane[:32]).values()) == {8}
