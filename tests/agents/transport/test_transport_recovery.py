"""Selective repeat: only what is lost is sent again, whatever is lost, repeated, delayed or
spoiled."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults
from tests.support.rocev2_packet import Packet, icrc
from tests.support.transport_faults_support import transfer
from tests.support.transport_many_support import Many, random_run
from tests.support.transport_pair import A, B, Pair, pattern
from tests.support.transport_scan import ScanningEndpoint

from weft.agents.transport import CompletionKind, Endpoint, TransportOptions
from weft.agents.wire.headers import HAS_PAYLOAD, PROPERTIES, Opcode

SELECTIVE = TransportOptions(retries=100, recovery="selective")
MTU = 256


def write(pair: Pair, packets: int) -> bool:
    """An RDMA WRITE with immediate of so many packets; whether it arrived as a whole, once."""
    data, place = pattern(MTU * packets), np.zeros(MTU * packets, np.uint8)
    here, there = pair.a.register(data), pair.b.register(place)
    pair.left.post_write(here, 0, len(data), there.address, there.rkey, 7, "write")
    pair.settle()
    assert [(done.kind, done.immediate, done.length) for done in pair.at_b] == [
        (CompletionKind.WRITE_WITH_IMMEDIATE, 7, len(data))
    ]
    assert [done.context for done in pair.at_a] == ["write"]
    return bool((data == place).all())


def is_data(datagram: Datagram, _: int) -> bool:
    return bool(PROPERTIES[Opcode(datagram.data[0])] & HAS_PAYLOAD)


def test_every_packet_of_a_write_says_where_it_belongs() -> None:
    pair = Pair(rate_bps=10**9, options=SELECTIVE, keep_trace=True)
    assert write(pair, 9)
    sent = [
        Packet.decode(datagram.data, A, B, datagram.source_port)
        for _, receiver, datagram in pair.network.trace
        if receiver == B
    ]
    assert [packet.opcode for packet in sent] == [Opcode.RC_WRITE_ONLY] * 8 + [
        Opcode.RC_WRITE_ONLY_WITH_IMMEDIATE
    ]
    assert [packet.remote_address - sent[0].remote_address for packet in sent] == list(
        range(0, 9 * MTU, MTU)
    )
    assert [packet.dma_length for packet in sent] == [MTU] * 9
    assert [packet.begins_message for packet in sent] == [True] + [False] * 8


@pytest.mark.parametrize("kind", ["lose", "duplicate", "corrupt", "late"])
def test_a_fault_at_each_packet_in_turn_is_overcome(kind: str) -> None:
    faultless, _ = transfer(Faults(), options=SELECTIVE)
    slowest = 0
    for number in range(faultless.network.delivered):
        faults = Faults()
        setattr(faults, kind, {number})
        _, end_ns = transfer(faults, options=SELECTIVE)
        slowest = max(slowest, end_ns)
    assert slowest < 40_000_000


def test_each_two_neighbours_lost_are_overcome() -> None:
    faultless, _ = transfer(Faults(), options=SELECTIVE)
    for number in range(faultless.network.delivered):
        transfer(Faults(lose={number, number + 1}), options=SELECTIVE)


@pytest.mark.parametrize("lost", [{0}, {5}, {5, 6, 7}, {3, 9, 27}, {10, 40}])
def test_only_what_is_lost_is_sent_again_and_without_a_timeout(lost: set[int]) -> None:
    pair = Pair(rate_bps=10**9, options=SELECTIVE, faults=Faults(lose=lost, only=is_data))
    assert write(pair, 64)
    assert pair.a.statistics.retransmitted_packets == len(lost)
    assert pair.a.statistics.timeouts == 0
    assert pair.b.statistics.duplicate_packets == 0


def test_packets_that_are_a_little_late_are_not_sent_again() -> None:
    """Two packets overtake each of them: fewer than count as a loss."""
    late_ns = 5_500
    faults = Faults(late={4, 11, 12, 30}, late_ns=late_ns, only=is_data)
    pair = Pair(rate_bps=10**9, options=SELECTIVE, faults=faults)
    assert write(pair, 48)
    assert pair.a.statistics.retransmitted_packets == 0
    statistics = pair.b.statistics
    assert statistics.reordered_packets > 0 and statistics.out_of_order_packets == 0
    assert 1 <= statistics.reorder_peak_packets <= 3
    assert 1 <= statistics.reorder_distance_peak <= 3


def test_a_larger_tolerance_takes_more_reordering_for_no_loss() -> None:
    sent_again = []
    for reorder in (3, 30):
        options = replace(SELECTIVE, reorder_packets=reorder)
        faults = Faults(late={4, 20, 40}, late_ns=40_000, only=is_data)
        pair = Pair(rate_bps=10**9, options=options, faults=faults)
        assert write(pair, 100)
        sent_again.append(pair.a.statistics.retransmitted_packets)
    assert sent_again == [3, 0]


def test_go_back_n_sends_more_again_than_is_lost() -> None:
    again = []
    for recovery in ("go-back-n", "selective"):
        options = TransportOptions(recovery=recovery, window_bytes=64 * MTU)
        faults = Faults(lose={5, 50, 150}, only=is_data)
        pair = Pair(rate_bps=10**9, options=options, faults=faults)
        assert write(pair, 300)
        again.append(pair.a.statistics.retransmitted_packets)
    assert again[0] > 10 * again[1] and again[1] == 3


@given(
    st.integers(0, 2**32),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.floats(0, 0.2),
    st.floats(0, 0.5),
    st.booleans(),
    st.sampled_from([0, 10**8, 10**10]),
    st.sampled_from([1, 3, 20]),
    st.sampled_from(["window", "dctcp"]),
    st.sampled_from(["fixed", "reps", "plb"]),
    st.sampled_from(["selective", "selective", "go-back-n"]),
)
def test_random_faults_are_overcome(
    seed: int,
    loss: float,
    duplication: float,
    corruption: float,
    lateness: float,
    batched: bool,
    rate_bps: int,
    reorder: int,
    congestion: str,
    entropy: str,
    recovery: str,
) -> None:
    faults = Faults(
        loss=loss, duplication=duplication, corruption=corruption, lateness=lateness, seed=seed
    )
    options = TransportOptions(
        retries=100,
        recovery=recovery,  # type: ignore[arg-type]
        congestion=congestion,
        entropy=entropy,  # type: ignore[arg-type]
        reorder_packets=reorder,
    )
    pair, _ = transfer(faults, batched=batched, rate_bps=rate_bps, options=options)
    for host in (pair.a, pair.b):
        assert_at_rest(host)


def assert_at_rest(host: Endpoint) -> None:
    """Nothing is kept, sent or lined up any more."""
    assert host.deadline() is None
    assert host.state.held_events == 0
    assert host.state.echoes == host.state.echoes_sent
    assert all(host.row_of(row).board == 0 for row in range(host.state.queue_pairs))


@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 40]),
    st.floats(0, 0.2),
    st.sampled_from([0, 10**8, 10**10]),
    st.sampled_from([1, 5, 64]),
    st.sampled_from(["fixed", "reps"]),
    st.booleans(),
)
def test_random_work_on_many_queue_pairs_is_done_and_all_memory_given_back(
    seed: int, pairs: int, loss: float, rate_bps: int, batch: int, entropy: str, patient: bool
) -> None:
    options = TransportOptions(
        batch_packets=batch,
        retries=100 if patient else 1,
        give_up_ns=2_000_000_000 if patient else 30_000_000,
        recovery="selective",
        entropy=entropy,  # type: ignore[arg-type]
    )
    runs: list[Many] = []
    for kind in (Endpoint, ScanningEndpoint):
        faults = Faults(loss=loss, lateness=loss, duplication=loss / 2, seed=seed)
        how = {"rate_bps": rate_bps, "options": options, "groups": 1, "faults": faults}
        runs.append(random_run(kind, seed, pairs, **how))
    one, other = runs
    assert one.network.trace == other.network.trace
    for host in one.hosts:
        assert host.state.echoes == host.state.echoes_sent
    if patient:
        posted = [done for done in one.done if done[2] is not CompletionKind.RECEIVED]
        assert all(done[2] is not CompletionKind.ERROR for done in posted)
        for host in one.hosts:
            assert_at_rest(host)


@given(st.integers(0, 2**32), st.floats(0, 0.2), st.floats(0, 0.5))
def test_messages_and_immediates_come_in_order_with_their_lengths(
    seed: int, loss: float, lateness: float
) -> None:
    choose = random.Random(seed)
    pair = Pair(
        rate_bps=10**9,
        options=SELECTIVE,
        faults=Faults(loss=loss, lateness=lateness, late_ns=30_000, seed=seed),
    )
    size = 1 << 15
    data, place = pattern(size), np.zeros(size, np.uint8)
    here, there = pair.a.register(data), pair.b.register(place)
    expected: list[tuple[CompletionKind, bytes, int | None, int]] = []
    used = 0
    for number in range(40):
        length = choose.choice([0, 1, MTU, 2 * MTU, 700, 3 * MTU])
        if choose.random() < 0.5:
            message = choose.randbytes(length)
            pair.left.post_send(message, immediate=number)
            expected.append((CompletionKind.RECEIVED, message, number, length))
        elif used + length <= size:
            immediate = number if choose.random() < 0.6 else None
            pair.left.post_write(here, used, length, there.address + used, there.rkey, immediate)
            if immediate is not None:
                kind = CompletionKind.WRITE_WITH_IMMEDIATE
                expected.append((kind, b"", number, length))
            used += length
    pair.settle()
    assert [(d.kind, d.data, d.immediate, d.length) for d in pair.at_b] == expected
    assert (place[:used] == data[:used]).all() and not place[used:].any()


@given(st.data())
def test_packets_altered_and_sealed_again_do_no_harm(data: st.DataObject) -> None:
    """A peer that lies, with a right ICRC: no exception, no byte outside the region, no end of
    memory."""
    pair = Pair(options=SELECTIVE)
    memory = np.zeros(3 * 1024, np.uint8)
    there = pair.b.register(memory[1024:2048])
    here = pair.a.register(np.full(1024, 7, np.uint8))
    pair.left.post_write(here, 0, 1024, there.address, there.rkey, 3)
    pair.left.post_read(here, 0, 512, there.address, there.rkey)
    pair.left.post_send(bytes(600))
    rows = []
    for row in rows_of(pair.a.transmit(0)):
        body = bytearray(row.data[:-4])
        for _ in range(data.draw(st.integers(0, 2))):
            place = data.draw(st.integers(0, len(body) - 1))
            body[place] = data.draw(st.integers(0, 255))
        sealed = bytes(body) + icrc(bytes(body), A, B, row.source_port).to_bytes(4, "little")
        rows.append(row._replace(data=sealed))
    rows = data.draw(st.permutations(rows))
    pair.b.receive(batch_of(rows), 0)
    while len(answers := pair.b.transmit(1)):
        answered = []
        for row in rows_of(answers):
            body = bytearray(row.data[:-4])
            if data.draw(st.booleans()):
                body[data.draw(st.integers(8, 15))] = data.draw(st.integers(0, 255))
            sealed = icrc(bytes(body), B, A, row.source_port).to_bytes(4, "little")
            answered.append(row._replace(data=bytes(body) + sealed))
        pair.a.receive(batch_of(answered), 1)
    pair.a.transmit(2)
    assert not memory[:1024].any() and not memory[2048:].any()


def test_a_write_outside_the_region_is_refused_also_ahead_of_a_gap() -> None:
    pair = Pair(rate_bps=10**9, options=SELECTIVE, faults=Faults(lose={0}, only=is_data))
    here = pair.a.register(pattern(4 * MTU))
    there = pair.b.register(np.zeros(2 * MTU, np.uint8))
    pair.left.post_write(here, 0, 4 * MTU, there.address, there.rkey, 3)
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.ERROR]
    assert "remote access error" in pair.at_a[0].error
    assert pair.b.state.held_events == 0
