"""The small pieces of the collectives, each on its own."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import numpy as np
import pytest

import agents.collectives
from agents.collectives.barrier import DisseminationBarrier, barrier_peers, rounds
from agents.collectives.control import MAX_TEXT_BYTES, Control, Kind
from agents.collectives.cutoff import (
    QUIET_MIN_NS,
    UNSTARTED_NS,
    AdaptiveCutoff,
    FetchOnlyCutoff,
    PaperCutoff,
)
from agents.collectives.multicast import chain_of
from agents.collectives.operation import Allgather
from agents.collectives.pattern import fill_shard, first_difference
from agents.collectives.ring import MAX_BLOCKS, block_bytes
from agents.collectives.timing import expected_data_ns, operation_timeout_ns, root_rate_bps
from switch.errors import InputError, ProtocolError


def test_the_modules_import_no_sockets_and_no_clock() -> None:
    for path in Path(agents.collectives.__path__[0]).glob("*.py"):
        imported = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add((node.module or "").split(".")[0])
        assert not imported & {"socket", "asyncio", "threading", "time", "select"}, path.name


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


def test_roots_share_the_receivers_link() -> None:
    assert root_rate_bps(8, 8, 700) == 100
    assert root_rate_bps(8, 4, 400) == 100
    assert root_rate_bps(8, 1, 400) == 400
    assert root_rate_bps(2, 2, 400) == 400
    assert root_rate_bps(1, 1, 400) == 400


def test_the_expected_time_is_the_bound_with_headers() -> None:
    chunk, overhead, rate = 4096, 70, 100_000_000
    full = 256 * (chunk + overhead) * 8 * 10**9 // rate
    assert expected_data_ns(8, 8, 1 << 20, chunk, rate) == pytest.approx(7 * full, rel=1e-4)
    assert expected_data_ns(8, 2, 1 << 20, chunk, rate) == pytest.approx(8 * full, rel=1e-4)
    assert expected_data_ns(1, 1, 1 << 20, chunk, rate) == 0


def test_the_default_time_limit_grows_with_the_data() -> None:
    assert operation_timeout_ns(4, 0, 10**8) == 10_000_000_000
    assert operation_timeout_ns(8, 1 << 20, 10**8) == pytest.approx(15.87e9, rel=0.01)


def test_control_messages_survive_the_wire() -> None:
    message = Control(Kind.HOLD, 300, 1, 2, 3, (1 << 64) - 1, (1 << 32) - 1, "why")
    assert Control.decode(message.encode()) == message
    assert len(Control(Kind.ABORT, 1, text="x" * 999).encode()) <= 256
    long = Control(Kind.ABORT, 1, text="x" * 999).encode()
    assert len(Control.decode(long).text) == MAX_TEXT_BYTES


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
    cutoff = PaperCutoff(10_000_000)
    assert cutoff.first_check(100) == 50_000_100
    assert cutoff.check(50_000_100, 5, False) is None


def test_fetch_only_does_not_wait() -> None:
    assert FetchOnlyCutoff().first_check(5) == 5
    assert FetchOnlyCutoff().check(5, 0, True) is None


def test_the_adaptive_cutoff_extends_while_chunks_arrive() -> None:
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now = cutoff.first_check(0)
    assert now == 100_000_000
    quiet = 16 * 330_000
    again = cutoff.check(now, 90, False)
    assert again == now + quiet
    assert cutoff.check(again, 95, False) == again + quiet
    assert cutoff.check(again + quiet, 95, False) is None


def test_the_adaptive_cutoff_gives_a_root_that_has_not_begun_some_time() -> None:
    cutoff = AdaptiveCutoff(100_000_000, 330_000)
    now: int | None = cutoff.first_check(0)
    last = 0
    while now is not None:
        last = now
        now = cutoff.check(now, 90, True)
    assert UNSTARTED_NS <= last - 100_000_000 <= UNSTARTED_NS + 3 * 16 * 330_000


def test_the_adaptive_cutoff_ends_though_chunks_trickle() -> None:
    cutoff = AdaptiveCutoff(1_000_000, 1000)
    now: int | None = cutoff.first_check(0)
    received = last = 0
    while now is not None:
        received += 1
        last = now
        now = cutoff.check(now, received, True)
    assert last <= 5 * (1_000_000 + QUIET_MIN_NS) + QUIET_MIN_NS


@pytest.mark.parametrize("size", [2, 8, 1000])
@pytest.mark.parametrize("shard", [0, 1, 4095, 4096, 4097, 1 << 20, 1 << 30, 1 << 36])
def test_ring_blocks_are_whole_packets_and_can_be_counted(size: int, shard: int) -> None:
    block = block_bytes(size, shard, 4096)
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
    ("field", "value"), [("algorithm", "star"), ("cutoff", "soon"), ("shard_bytes", -1)]
)
def test_a_request_that_makes_no_sense_is_refused(field: str, value: object) -> None:
    good = {"number": 0, "algorithm": "ring", "shard_bytes": 1}
    with pytest.raises(InputError, match=field):
        Allgather(**{**good, field: value})  # type: ignore[arg-type]
