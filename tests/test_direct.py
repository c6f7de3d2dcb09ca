"""The exchange in which every rank writes to every other: whom it writes to, and in which order;
and how many-to-one begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.collective_group import Group
from tests.lanes_support import every_pair

from weft.agents.collectives.algorithms.direct import Exchange
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Write


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
