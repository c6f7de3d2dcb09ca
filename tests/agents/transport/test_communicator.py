"""A communicator's queue pairs, and the lanes among which data for a peer is spread."""

from __future__ import annotations

import pytest

from weft.agents.collectives.communicator import Communicator, Lane, queue_pair_to
from weft.agents.datagrams import ipv4
from weft.agents.transport import Endpoint
from weft.agents.transport.local import LocalQueuePair
from weft.base.errors import InputError

HERE, THERE = ipv4("10.0.0.1"), ipv4("10.0.1.2")


def with_lanes(*lanes: Lane) -> Communicator:
    """Rank 0 of two, with these lanes to rank 1."""
    endpoint = Endpoint(HERE, 4096, 10**9, seed=1)
    return Communicator(endpoint, 0, [HERE, THERE], lanes={1: lanes})


def test_data_goes_by_the_lane_that_was_given_least() -> None:
    communicator = with_lanes((50_000,), (), (50_001, 50_002))
    first, _, third = communicator.pairs_of(1)
    sizes = [(100, first), (60, third), (60, third), (1, first), (1, first), (30, first)]
    taken = [communicator.pair_for(1, size_bytes) for size_bytes, _ in sizes]
    assert taken == [pair for _, pair in sizes]
    assert communicator.lanes_to(1).pairs == (first, third)


def test_an_end_that_sends_no_data_sends_what_it_has_by_the_first_lane() -> None:
    communicator = with_lanes((), ())
    assert communicator.pair_for(1, 100) is communicator.pairs_of(1)[0]
    assert communicator.pair_for(1, 100) is communicator.pairs_of(1)[0]


def test_a_host_that_has_a_rank_and_a_server_takes_another_path_to_each() -> None:
    endpoint = Endpoint(HERE, 4096, 10**9, seed=1)
    members = [HERE, THERE, HERE, THERE]  # ranks 0 and 1, servers 0 and 1
    for own, peer in [(0, 1), (0, 3), (2, 1), (2, 3)]:
        queue_pair_to(endpoint, members, own, peer, 2)
    assert len(set(endpoint.source_ports)) == 4


def test_a_server_on_a_ranks_own_host_is_reached_without_packets() -> None:
    endpoint = Endpoint(HERE, 4096, 10**9, seed=1)
    pair = queue_pair_to(endpoint, [HERE, THERE, HERE], 0, 2, 2)
    assert isinstance(pair, LocalQueuePair)
    assert not endpoint.source_ports
    assert pair.outstanding == 0
    pair.post_send(b"before the other end is known")
    assert pair.outstanding == 1
    assert not pair.has_work_of(0)


def test_both_ends_need_the_same_number_of_lanes() -> None:
    endpoint = Endpoint(HERE, 4096, 10**9, seed=1)
    lanes = {1: [(50_000,), (50_001,)]}
    communicator = Communicator(endpoint, 0, [HERE, THERE], (), {1}, lanes=lanes)
    assert len(communicator.introduction()[1]) == 4
    with pytest.raises(InputError, match="rank 0 has 2 lanes with rank 1, which has 1"):
        communicator.connect({1: (5, 6)})
    with pytest.raises(InputError, match="rank 1 said nothing of its queue pair"):
        communicator.connect({})
