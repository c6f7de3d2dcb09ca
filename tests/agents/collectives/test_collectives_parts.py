"""The small pieces of the collectives, each on its own."""

from __future__ import annotations

import random

import numpy as np
import pytest

from weft.agents.collectives.barrier import DisseminationBarrier, barrier_peers, rounds
from weft.agents.collectives.control import MAX_TEXT_BYTES, Control, Kind
from weft.agents.collectives.pattern import fill_shard, first_difference
from weft.agents.collectives.requests import Request
from weft.agents.collectives.timing import (
    QUIET_MIN_NS,
    UNSTARTED_NS,
    AdaptiveCutoff,
    FixedCutoff,
    Pace,
    chain_of,
    operation_timeout_ns,
)
from weft.agents.collectives.unicast import MAX_BLOCKS, block_bytes
from weft.base.errors import InputError, ProtocolError


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13, 16])
def test_no_rank_leaves_the_barrier_before_all_have_entered(size: int) -> None:
    for seed in range(5):
        chance = random.Random(seed)
        barriers = [DisseminationBarrier(rank, size) for rank in range(size)]
        entering = list(range(size))
        chance.shuffle(entering)
        tokens: list[tuple[int, int]] = []
        for rank in entering:
            assert not any(barrier.done for barrier in barriers)
            tokens += barriers[rank].enter()
            while tokens:
                peer, round_ = tokens.pop(chance.randrange(len(tokens)))
                tokens += barriers[peer].hear(round_)
        assert all(barrier.done for barrier in barriers)


def test_a_barrier_names_the_rank_that_it_waits_for() -> None:
    barrier = DisseminationBarrier(0, 4)
    assert barrier.enter() == [(1, 0)]
    assert barrier.waiting_for == 3
    assert barrier.hear(0) == [(2, 1)]
    assert barrier.waiting_for == 2


def test_barrier_peers_are_mutual() -> None:
    for size in range(1, 20):
        for rank in range(size):
            peers = barrier_peers(rank, size)
            assert all(rank in barrier_peers(peer, size) for peer in peers)
            assert len(peers) <= 2 * rounds(size)


@pytest.mark.parametrize("size", [1, 2, 5, 8, 16])
def test_chains_cut_the_ranks_into_contiguous_segments(size: int) -> None:
    for chains in range(1, size + 1):
        segments = sorted({chain_of(rank, size, chains) for rank in range(size)})
        assert len(segments) == chains
        assert [first for first, _ in segments] == [0] + [end for _, end in segments[:-1]]
        assert segments[-1][1] == size
        lengths = [end - first for first, end in segments]
        assert max(lengths) - min(lengths) <= 1
        for rank in range(size):
            first, end = chain_of(rank, size, chains)
            assert first <= rank < end


def pace(shards: list[int], chains: int, rate_bps: int) -> Pace:
    return Pace(shards, chains, 4096, rate_bps)


def test_roots_share_the_receivers_link() -> None:
    shards = [4096] * 8
    assert pace(shards, 8, 700).rate_of(3) == 100
    assert pace(shards, 4, 400).rate_of(3) == 100
    assert pace(shards, 1, 400).rate_of(3) == 400
    assert pace(shards[:2], 2, 400).rate_of(1) == 400
    assert pace(shards[:1], 1, 400).rate_of(0) == 400
    assert pace(shards, 8, 0).rate_of(0) == 0


@pytest.mark.parametrize("chains", [1, 2, 3, 5])
def test_chains_of_unequal_shards_end_together_and_overrun_no_link(chains: int) -> None:
    shards = [50_000, 0, 1, 200_000, 4096]
    rates = pace(shards, chains, 100_000_000)
    first = {chain_of(rank, 5, chains)[0] for rank in range(5)}
    own = min(rates.rate_of(rank) for rank in first) if chains == 5 else 0
    assert sum(rates.rate_of(rank) for rank in first) - own <= 100_000_000
    times = []
    for rank in sorted(first):
        begin, end = chain_of(rank, 5, chains)
        frames = sum(size + -(-size // 4096) * 70 for size in shards[begin:end])
        times.append(frames * 8e9 / rates.rate_of(rank) if frames else 0)
    ending = [one for one in times if one]
    assert max(ending) == pytest.approx(min(ending), rel=0.01)
    assert max(ending) == pytest.approx(rates.expected_ns, rel=0.01)


def test_the_expected_time_is_the_bound_with_headers() -> None:
    shards, overhead, rate = [1 << 20] * 8, 70, 100_000_000
    full = 256 * (4096 + overhead) * 8 * 10**9 // rate
    assert pace(shards, 8, rate).expected_ns == pytest.approx(7 * full, rel=1e-4)
    assert pace(shards, 2, rate).expected_ns == pytest.approx(8 * full, rel=1e-4)
    assert pace(shards[:1], 1, rate).expected_ns == 0
    assert pace([0, 1 << 20, 0], 3, rate).expected_ns == pytest.approx(full, rel=1e-4)


def test_the_default_time_limit_grows_with_the_data() -> None:
    assert operation_timeout_ns(4, 0, 10**8) == 10_000_000_000
    assert operation_timeout_ns(8, 7 << 20, 10**8) == pytest.approx(15.87e9, rel=0.01)


def test_control_messages_survive_the_wire() -> None:
    message = Control(Kind.HOLD, 300, 1, 2, 3, (1 << 64) - 1, (1 << 32) - 1, "why")
    assert Control.decode(message.encode()) == message
    assert len(Control(Kind.ABORT, 1, text="x" * 999).encode()) <= 256
    long = Control(Kind.ABORT, 1, text="x" * 999).encode()
    assert len(Control.decode(long).text) == MAX_TEXT_BYTES
    assert Control.decode(long).text.endswith("x...")
    whole = "x" * MAX_TEXT_BYTES
    assert Control.decode(Control(Kind.ABORT, 1, text=whole).encode()).text == whole


@pytest.mark.parametrize("data", [b"", b"\0" * 40, Control(Kind.FETCH, 1).encode()[:-1]])
def test_what_is_no_control_message_is_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="control message"):
        Control.decode(data)


def test_an_unknown_kind_is_refused() -> None:
    data = bytearray(Control(Kind.FETCH, 1).encode())
    data[4] = 99
    with pytest.raises(ProtocolError, match="unknown kind 99"):
        Control.decode(bytes(data))


def test_the_paper_waits_five_times_the_expected_time() -> None:
    cutoff = FixedCutoff.of_paper(10_000_000)
    assert cutoff.first_check(100) == 50_000_100
    assert cutoff.check(50_000_100, 5, 1, False) is None


def test_fetch_only_does_not_wait() -> None:
    assert FixedCutoff(0).first_check(5) == 5
    assert FixedCutoff(0).check(5, 0, 1, True) is None


def test_the_adaptive_cutoff_extends_while_chunks_arrive() -> None:
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now = cutoff.first_check(0)
    assert now == 100_000_000
    quiet = 16 * 330_000
    again = cutoff.check(now, 310, 10, False)
    assert again == now + quiet
    assert cutoff.check(again, 325, 5, False) == again + quiet
    assert cutoff.check(again + quiet, 325, 5, False) is None


def test_the_adaptive_cutoff_gives_a_root_that_has_not_begun_some_time() -> None:
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now: int | None = cutoff.first_check(0)
    last = 0
    while now is not None:
        last = now
        now = cutoff.check(now, 310, 10, True)
    assert UNSTARTED_NS <= last - 100_000_000 <= UNSTARTED_NS + 3 * 16 * 330_000


def test_packets_that_come_rarely_are_given_longer_between_two_looks() -> None:
    """At a twentieth of the rate the next packet is further away than a full link's silence."""
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now = cutoff.first_check(0)
    assert cutoff.check(now, 20, 280, False) == now + 16 * (now // 20)


def test_the_adaptive_cutoff_ends_though_chunks_trickle() -> None:
    cutoff = AdaptiveCutoff(1_000_000, 1000)
    now: int | None = cutoff.first_check(0)
    received, last = 1000, 0
    while now is not None:
        last = now
        now = cutoff.check(now, received, 10, True)
        received += 1
    assert last <= 5 * (1_000_000 + QUIET_MIN_NS) + QUIET_MIN_NS


def test_what_comes_at_a_part_of_the_rate_is_given_longer() -> None:
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now: int | None = cutoff.first_check(0)
    last = 0
    while now is not None:
        last = now
        received = min(1000, now * 1000 // 800_000_000)
        now = cutoff.check(now, received, 1010 - received, False)
    assert 800_000_000 <= last <= 820_000_000


@pytest.mark.parametrize("size", [2, 8, 1000])
@pytest.mark.parametrize("shard", [0, 1, 4095, 4096, 4097, 1 << 20, 1 << 30, 1 << 36])
def test_ring_blocks_are_whole_packets_and_can_be_counted(size: int, shard: int) -> None:
    block = block_bytes(Request(0, "allgather", "ring", 0), [shard] * size, 4096)
    assert block % 4096 == 0 and block > 0
    assert size * -(-shard // block) <= MAX_BLOCKS


def test_a_shard_is_the_same_bytes_wherever_it_is_cut() -> None:
    whole = np.zeros(300_001, np.uint8)
    fill_shard(whole, 1, 2, 3)
    part = np.zeros(1001, np.uint8)
    fill_shard(part, 1, 2, 3)
    assert np.array_equal(whole[:1001], part)
    fill_shard(part, 1, 2, 3, offset=80_000)
    assert np.array_equal(whole[80_000:81_001], part)
    assert first_difference(part, 1, 2, 3, offset=80_000) is None
    part[5] ^= 1
    assert first_difference(part, 1, 2, 3, offset=80_000) == 80_005
    assert len(np.unique(whole)) == 256


def test_shards_differ_by_seed_operation_and_rank() -> None:
    shards = set()
    for key in [(1, 0, 0), (2, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 0), (0, 0, 1)]:
        data = np.zeros(64, np.uint8)
        fill_shard(data, *key)
        shards.add(data.tobytes())
    assert len(shards) == 6


def test_the_first_wrong_byte_is_named() -> None:
    data = np.zeros(600_000, np.uint8)
    fill_shard(data, 1, 2, 3)
    assert first_difference(data, 1, 2, 3) is None
    data[500_123] ^= 1
    data[500_999] ^= 1
    assert first_difference(data, 1, 2, 3) == 500_123
    assert first_difference(data[:0], 1, 2, 3) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("collective", "gossip"),
        ("algorithm", "star"),
        ("counts", -1),
        ("counts", (1, -1)),
        ("dtype", "text"),
        ("op", "median"),
        ("root", -1),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    good = {"number": 0, "collective": "allgather", "algorithm": "ring", "counts": 1}
    with pytest.raises(InputError, match=field):
        Request(**{**good, field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("shard", "asked", "expected"),
    [(0, 0, 4096), (1, 0, 4096), (9_000, 0, 4096), (32_768, 0, 4096), (32_769, 0, 8192),
     (40_000, 0, 8192), (10 << 20, 0, 65_536), (40_000, 1, 4096), (40_000, 4097, 8192)],
)  # fmt: skip
def test_blocks_are_an_eighth_of_a_shard_in_whole_packets(
    shard: int, asked: int, expected: int
) -> None:
    request = Request(0, "allgather", "ring", 0, own={"block_bytes": asked})
    assert block_bytes(request, [shard] * 4, 4096) == expected
