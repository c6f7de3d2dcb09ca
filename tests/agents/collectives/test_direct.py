"""The exchange in which every rank writes to every other: whom it writes to, and in which order;
and how many-to-one begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.lanes_support import every_pair

from weft.agents.collectives.algorithms.direct import Exchange
from weft.agents.collectives.requests import Request
from weft.agents.collectives.turns import Turns
from weft.agents.collectives.unicast import Write
from weft.experiments.runner import run
from weft.experiments.scenario.scenario import Scenario


@given(
    parts=st.lists(st.integers(0, 5000), min_size=2, max_size=6),
    block_size=st.sampled_from([256, 1000]),
    lanes=st.integers(1, 4),
    data=st.data(),
)
def test_every_byte_is_written_once_in_turns_of_a_block_for_each_lane(
    parts: list[int], block_size: int, lanes: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(0, len(parts) - 1), "rank")
    exchange = Exchange(parts, block_size, rank, lanes)
    rows = exchange.writes([rank] * len(parts), [0] * len(parts)).tolist()
    writes = [Write(*row) for row in rows]
    distance = [(write.peer - rank) % len(parts) for write in writes]
    rounds = [(write.block - rank * exchange.blocks.count(write.peer)) // lanes for write in writes]
    turns = list(zip(rounds, distance, strict=True))
    assert turns == sorted(turns) and 0 not in distance
    for peer, size_bytes in enumerate(parts):
        if peer == rank:
            continue
        own = [write for write in writes if write.peer == peer]
        at, end = sum(parts[:peer]), rank * size_bytes
        for write in own:
            assert (write.offset, write.target) == (at, end) and 0 < write.length <= block_size
            at += write.length
            end += write.length
        assert at == sum(parts[: peer + 1]) and len(own) == exchange.blocks.count(peer)


@pytest.mark.parametrize("lanes", [1, 4])
def test_those_who_write_to_one_begin_with_one_window(lanes: int) -> None:
    """What all have on the way at first fits a queue, where each alone would fill it."""
    group = Group(16, rate_bps=10**8, queue_bytes=400_000, lanes=every_pair(16, lanes))
    for _ in range(2):
        group.complete(Request(0, "many-to-one", "direct", 32_768, lanes=lanes))
    resent = [agent.endpoint.statistics.retransmitted_packets for agent in group.agents]
    assert resent == [0] * 16


@pytest.mark.parametrize(("ranks", "lanes"), [(96, 1), (24, 8)])
def test_more_writers_than_a_window_has_packets_take_turns(ranks: int, lanes: int) -> None:
    """A packet of each, or one for each lane, would be more than the queue holds."""
    group = Group(
        ranks, path_mtu=4096, rate_bps=10**8, queue_bytes=300_000, lanes=every_pair(ranks, lanes)
    )
    group.complete(Request(0, "many-to-one", "direct", 4096 * lanes, lanes=lanes))
    resent = [agent.endpoint.statistics.retransmitted_packets for agent in group.agents]
    assert resent[1:] == [0] * (ranks - 1)


@given(
    paths=st.dictionaries(st.integers(0, 300), st.integers(1, 16), max_size=80),
    limit=st.integers(0, 64),
    data=st.data(),
)
def test_each_writer_has_one_turn_and_those_at_once_fit_the_limit(
    paths: dict[int, int], limit: int, data: st.DataObject
) -> None:
    turns = Turns(paths, limit)
    writing: set[int] = set()
    ended: set[int] = set()
    while turns.waiting or writing:
        begun = turns.take(ended.__contains__)
        assert len(set(begun)) == len(begun) and not (writing | ended) & set(begun)
        writing = (writing | set(begun)) - ended
        assert writing
        used = sum(paths[writer] for writer in writing)
        assert limit == 0 or used <= limit or len(writing) == 1
        gone = data.draw(st.sets(st.sampled_from(sorted(writing)), min_size=1))
        ended |= gone
        writing -= gone
    assert ended == set(paths)
    assert turns.take(ended.__contains__) == []


@pytest.mark.parametrize("paths", ["ethereal", "ecmp-4"])
def test_63_write_to_one_within_a_twentieth_of_the_bound(paths: str) -> None:
    (ran,) = run(
        Scenario(
            "many-to-one", world="simulated", leaves=8, spines=8, hosts_per_leaf=8,
            size_bytes=65_536, paths=paths,
        )
    ).runs  # fmt: skip
    assert ran.verified and ran.completion_ns is not None
    assert ran.completion_ns < 1.05 * ran.bound_ns
    assert ran.retransmitted_packets == 0


@pytest.mark.parametrize(
    ("collective", "algorithm", "size_bytes"),
    [("alltoall", "direct", 8 * 4096), ("allgather", "linear", 4096)],
)
def test_packets_that_all_send_to_all_at_once_do_not_meet_on_one_link(
    collective: str, algorithm: str, size_bytes: int
) -> None:
    """With a packet for each other rank, a run takes little longer than its links; if all began
    with rank 0 it would take more than twice as long as they."""
    (ran,) = run(
        Scenario(
            collective, algorithms=(algorithm,), world="simulated", topology="single",
            hosts_per_leaf=8, size_bytes=size_bytes,
        )
    ).runs  # fmt: skip
    assert ran.verified and ran.completion_ns is not None
    assert ran.completion_ns < 1.25 * ran.bound_ns
