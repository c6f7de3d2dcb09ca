"""The exchange in which every rank writes to every other: whom it writes to, and in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.collectives.direct import Exchange


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
    writes = list(exchange.writes([rank] * len(parts), [0] * len(parts)))
    distance = [(write.peer - rank) % len(parts) for write in writes]
    rounds = [(write.block - rank * exchange.count(write.peer)) // lanes for write in writes]
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
        assert at == sum(parts[: peer + 1]) and len(own) == exchange.count(peer)
