"""Reliable connections between two endpoints in memory: what works, what is refused, what fails."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import accumulate
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, frame_bytes, row_of, rows_of
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.rocev2_packet import Packet
from tests.support.transport_pair import A, B, Pair, pattern

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES, ipv4
from weft.agents.transport import (
    AggregationStatistics,
    CompletionKind,
    Endpoint,
    RemoteQueuePair,
    Statistics,
    TransportMisuse,
    TransportOptions,
)
from weft.agents.wire.headers import Opcode


@pytest.mark.parametrize("size", [0, 1, 3, 255, 256, 257, 512, 5000])
def test_a_message_arrives_as_it_was_sent(size: int) -> None:
    pair = Pair()
    data = pattern(size).tobytes()
    pair.left.post_send(data, context="mine")
    pair.left.post_send(b"next", immediate=0xDEADBEEF)
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.SENT] * 2
    assert pair.at_a[0].context == "mine"
    assert [(done.data, done.immediate) for done in pair.at_b] == [
        (data, None),
        (b"next", 0xDEADBEEF),
    ]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 70_000])
def test_writes_and_reads_move_exactly_their_bytes(size: int) -> None:
    pair = Pair()
    source, target, back = (
        pattern(size + 10),
        np.zeros(size + 20, np.uint8),
        np.zeros(size, np.uint8),
    )
    here = pair.a.register(source)
    there = pair.b.register(target)
    returned = pair.a.register(back)
    pair.left.post_write(here, 10, size, there.address + 5, there.rkey, immediate=9)
    pair.left.post_read(returned, 0, size, there.address + 5, there.rkey, context="read")
    pair.settle()
    assert (target[5 : 5 + size] == source[10:]).all()
    assert not target[:5].any() and not target[5 + size :].any()
    assert (back == source[10:]).all()
    assert [done.kind for done in pair.at_a] == [CompletionKind.SENT, CompletionKind.READ_DONE]
    assert [(done.kind, done.immediate, done.length) for done in pair.at_b] == [
        (CompletionKind.WRITE_WITH_IMMEDIATE, 9, size)
    ]


def test_many_small_operations_complete_in_order() -> None:
    pair = Pair()
    target = np.zeros(1000, np.uint8)
    there = pair.b.register(pattern(1000))
    here = pair.a.register(target)
    for index in range(200):
        if index % 3:
            pair.left.post_read(here, index * 5, 5, there.address + index * 5, there.rkey, index)
        else:
            pair.left.post_send(index.to_bytes(4, "big"), index)
    pair.settle()
    assert [done.context for done in pair.at_a] == list(range(200))
    assert [int.from_bytes(done.data, "big") for done in pair.at_b] == list(range(0, 200, 3))
    assert (target == pattern(1000))[[i for i in range(1000) if i // 5 % 3]].all()


def test_both_directions_at_once() -> None:
    pair = Pair(rate_bps=10**9)
    one, two = np.zeros(100_000, np.uint8), np.zeros(100_000, np.uint8)
    at_a, at_b = pair.a.register(one), pair.b.register(two)
    from_a, from_b = pair.a.register(pattern(100_000)), pair.b.register(pattern(100_000, 3))
    pair.left.post_write(from_a, 0, 100_000, at_b.address, at_b.rkey)
    pair.right.post_write(from_b, 0, 100_000, at_a.address, at_a.rkey)
    pair.left.post_send(b"end")
    end_ns = pair.settle()
    assert (two == pattern(100_000)).all() and (one == pattern(100_000, 3)).all()
    assert pair.a.statistics.retransmitted_packets == 0
    assert end_ns < 1.3 * 100_000 * (256 + 62) / 256 * 8


def test_psns_wrap() -> None:
    pair = Pair(first_psn=0xFFFFFD)
    target = np.zeros(5000, np.uint8)
    there = pair.b.register(target)
    here = pair.a.register(pattern(5000))
    pair.left.post_write(here, 0, 5000, there.address, there.rkey)
    pair.left.post_read(here, 0, 5000, there.address, there.rkey)
    pair.settle()
    assert (target == pattern(5000)).all()
    assert len(pair.at_a) == 2


def test_work_posted_before_connect_leaves_after_it() -> None:
    pair = Pair(connected=False)
    pair.left.post_send(b"early")
    assert not len(pair.a.transmit(0))
    assert pair.a.deadline() is None
    pair.connect()
    pair.settle()
    assert [done.data for done in pair.at_b] == [b"early"]


def test_a_silent_peer_fails_the_queue_pair_in_the_stated_time_and_is_named() -> None:
    pair = Pair(faults=Faults(loss=1.0))
    pair.left.post_send(b"x", context=1)
    pair.left.post_send(b"y", context=2)
    end_ns = pair.settle()
    assert 2.0e9 <= end_ns <= 2.3e9
    assert [(done.kind, done.context) for done in pair.at_a] == [
        (CompletionKind.ERROR, 1),
        (CompletionKind.ERROR, 2),
    ]
    assert "10.0.1.2" in pair.at_a[0].error and "2 s" in pair.at_a[0].error
    pair.left.post_send(b"z", context=3)
    assert [done.context for done in pair.a.poll()] == [3]


@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
@pytest.mark.parametrize("retries", [0, 1, 3, 7])
def test_a_silent_peer_is_sent_to_again_as_often_as_was_asked(
    recovery: Literal["go-back-n", "selective"], retries: int
) -> None:
    options = TransportOptions(recovery=recovery, retries=retries, give_up_ns=1)
    pair = Pair(faults=Faults(loss=1.0), options=options)
    pair.left.post_send(b"x")
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.ERROR]
    assert pair.a.statistics.timeouts == retries
    assert pair.a.statistics.retransmitted_packets == retries


def test_a_peer_that_falls_silent_later_fails_the_queue_pair_too() -> None:
    pair = Pair(rate_bps=10**9, faults=Faults(lose=range(40, 10_000)))
    there = pair.b.register(np.zeros(100_000, np.uint8))
    here = pair.a.register(pattern(100_000))
    pair.left.post_write(here, 0, 100_000, there.address, there.rkey)
    end_ns = pair.settle()
    assert 2.0e9 <= end_ns <= 2.4e9
    assert [done.kind for done in pair.at_a] == [CompletionKind.ERROR]


@pytest.mark.parametrize("verb", ["write", "read"])
@pytest.mark.parametrize("fault", ["key", "before", "behind", "deregistered", "far"])
def test_a_request_outside_a_region_is_refused(verb: str, fault: str) -> None:
    pair = Pair()
    target = np.zeros(1000, np.uint8)
    there = pair.b.register(target)
    here = pair.a.register(pattern(1000))
    address, rkey = there.address, there.rkey
    if fault == "key":
        rkey ^= 0x10000
    elif fault == "before":
        address -= 1
    elif fault == "behind":
        address += 1
    elif fault == "far":
        address += 2**63
    else:
        pair.b.deregister(there)
    post = pair.left.post_write if verb == "write" else pair.left.post_read
    post(here, 0, 1000, address, rkey, context="bad")
    pair.left.post_send(b"flushed")
    pair.settle()
    assert not target.any()
    assert [done.kind for done in pair.at_a] == [CompletionKind.ERROR] * 2
    assert "remote access error" in pair.at_a[0].error and "10.0.1.2" in pair.at_a[0].error
    assert pair.b.statistics.access_errors >= 1
    assert not pair.at_b


def test_memory_taken_back_during_a_read_is_not_touched() -> None:
    pair = Pair(rate_bps=10**8)
    there = pair.b.register(pattern(50_000))
    here = pair.a.register(np.zeros(50_000, np.uint8))
    pair.left.post_read(here, 0, 50_000, there.address, there.rkey)
    pair.network.run(lambda: pair.a.statistics.received_packets > 20)
    pair.b.deregister(there)
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.ERROR]


def test_packets_for_nobody_are_counted_and_dropped() -> None:
    pair = Pair()
    number = pair.right.number
    good = Packet(Opcode.RC_SEND_ONLY, number, pair.left.initial_psn, True, payload=b"hello")

    def arrive(packet: Packet, source: int = A, change: slice | None = None, **kw: int) -> None:
        data = bytearray(packet.encode(source, B, 50_000))
        if change is not None:
            data[change] = bytes(byte ^ 1 for byte in data[change])
        row = Datagram(source, B, 50_000, 0, bytes(data))._replace(**kw)  # type: ignore[arg-type]
        pair.b.receive(batch_of([row]), 0)

    arrive(good, change=slice(20, 21))
    assert pair.b.statistics.bad_icrc == 1
    arrive(replace(good, queue_pair=number + 1))
    arrive(good, source=ipv4("10.0.9.9"))
    assert pair.b.statistics.unknown_queue_pair == 2
    arrive(Packet(Opcode.UD_SEND_ONLY, number, 0, payload=b"x"))
    assert pair.b.statistics.unknown_queue_pair == 3
    pair.b.receive(batch_of([Datagram(A, B, 1, 0, b"short")]), 0)
    assert pair.b.statistics.truncated == 1
    assert pair.b.deadline() is None and not pair.b.poll()
    arrive(good, tos=3)
    assert [done.data for done in pair.b.poll()] == [b"hello"]
    assert pair.b.statistics.congestion_marks == 1


def test_opcodes_out_of_sequence_are_refused() -> None:
    pair = Pair()
    middle = Packet(
        Opcode.RC_WRITE_MIDDLE, pair.right.number, pair.left.initial_psn, payload=bytes(256)
    )
    data = middle.encode(A, B, 50_000)
    pair.b.receive(batch_of([Datagram(A, B, 50_000, 0, data)]), 0)
    answer = Packet.decode(row_of(pair.b.transmit(0), 0).data)
    assert (answer.opcode, answer.syndrome) == (Opcode.RC_ACKNOWLEDGE, 0x61)


def test_transmit_keeps_to_the_budget_and_control_goes_first() -> None:
    pair = Pair()
    there = pair.b.register(np.zeros(4096, np.uint8))
    here = pair.a.register(pattern(4096))
    pair.right.post_send(b"ask")
    pair.left.post_write(here, 0, 4096, there.address, there.rkey)
    pair.a.receive(pair.b.transmit(0), 0)
    assert not len(pair.a.transmit(0, 61))
    batch = pair.a.transmit(0, 62 + 330 + 314 + 313)
    opcodes = [Packet.decode(row.data).opcode for row in rows_of(batch)]
    assert opcodes == [Opcode.RC_ACKNOWLEDGE, Opcode.RC_WRITE_FIRST, Opcode.RC_WRITE_MIDDLE]
    assert frame_bytes(batch) == 62 + 330 + 314
    deadline = pair.a.deadline()
    assert deadline is not None and deadline <= 0


def test_queue_pairs_share_the_link_packet_by_packet() -> None:
    pair = Pair()
    second, other = pair.a.create_rc(), pair.b.create_rc()
    second.connect(other.local)
    other.connect(second.local)
    for queue_pair in (pair.left, second):
        queue_pair.post_send(bytes(256 * 6))
    rows = rows_of(pair.a.transmit(0))
    numbers = [Packet.decode(row.data).queue_pair for row in rows]
    assert sorted(numbers[:4]) == sorted([pair.right.number, other.number] * 2)
    assert numbers[0] != numbers[1]


def test_the_endpoint_keeps_to_its_rate_and_catches_up_when_called_late() -> None:
    pair = Pair(rate_bps=10**8)
    pair.left.post_send(bytes(256 * 60))
    assert len(pair.a.transmit(0)) == 1
    deadline = pair.a.deadline()
    assert deadline == (256 + 16 + 42) * 80
    assert not len(pair.a.transmit(deadline - 1))
    assert len(pair.a.transmit(deadline)) == 1
    late = pair.a.transmit(deadline * 11)
    assert len(late) == 10


FRAME_NS = (256 + 16 + 42) * 80
"""How long a link of 100 Mbit/s takes for a packet of the tests below."""


def test_a_burst_leaves_ahead_of_the_rate_and_then_the_link_catches_up() -> None:
    pair = Pair(rate_bps=10**8, options=TransportOptions(burst_ns=4 * FRAME_NS))
    pair.left.post_send(bytes(256 * 60))
    assert len(pair.a.transmit(0)) == 5
    assert not len(pair.a.transmit(FRAME_NS - 1))
    assert len(pair.a.transmit(FRAME_NS)) == 1  # who is called anyway may use what has come free
    assert pair.a.deadline() == 6 * FRAME_NS
    assert len(pair.a.transmit(6 * FRAME_NS)) == 5


@given(st.integers(0, 500_000), st.lists(st.integers(0, 300_000), min_size=1, max_size=40))
def test_no_more_than_a_burst_is_ahead_of_the_rate(burst_ns: int, waits: list[int]) -> None:
    pair = Pair(rate_bps=10**8, options=TransportOptions(burst_ns=burst_ns))
    chunk_ns = (256 + 28 + 42) * 80
    region = pair.a.register(np.zeros(256 * 1000, np.uint8))
    group = pair.a.create_ud(ipv4("239.0.0.1"), 1)
    group.post_chunks(region, 0, 1000, 256, 0, 0)
    sent = 0
    for now_ns in accumulate(waits):
        sent += len(pair.a.transmit(now_ns))
        assert (sent - 1) * chunk_ns <= now_ns + burst_ns
    assert sent > 0


def test_nothing_to_do_means_no_deadline() -> None:
    pair = Pair()
    assert pair.a.deadline() is None
    pair.left.post_send(b"x")
    assert pair.a.deadline() == 0
    pair.a.transmit(5)
    assert pair.a.deadline() == 5 + 10_000_000


def test_an_acknowledgement_covers_many_packets() -> None:
    pair = Pair(rate_bps=10**9)
    there = pair.b.register(np.zeros(256 * 1000, np.uint8))
    here = pair.a.register(pattern(256 * 1000))
    pair.left.post_write(here, 0, 256 * 1000, there.address, there.rkey)
    pair.settle()
    assert pair.b.statistics.acknowledgements_sent < 80
    assert pair.a.statistics.retransmitted_packets == 0


def test_the_same_run_gives_the_same_packets() -> None:
    def run() -> list[tuple[int, int, Datagram]]:
        pair = Pair(rate_bps=10**9, faults=Faults(loss=0.05, seed=4), keep_trace=True)
        there = pair.b.register(np.zeros(50_000, np.uint8))
        here = pair.a.register(pattern(50_000))
        pair.left.post_write(here, 0, 50_000, there.address, there.rkey)
        pair.right.post_send(b"x" * 3000)
        pair.settle()
        return pair.network.trace

    assert run() == run()


def test_misuse_is_told_with_the_value() -> None:
    pair = Pair()
    region = pair.a.register(np.zeros(100, np.uint8))
    with pytest.raises(TransportMisuse, match="path MTU 1500"):
        Endpoint(A, 1500)
    with pytest.raises(TransportMisuse, match="50 bytes at offset 51 of a memory region of 100"):
        pair.left.post_write(region, 51, 50, 0, 0)
    with pytest.raises(TransportMisuse, match="flat"):
        pair.a.register(np.zeros((2, 2), np.uint8))
    with pytest.raises(TransportMisuse, match="is connected to"):
        pair.left.connect(RemoteQueuePair(B, 1, 1))
    with pytest.raises(TransportMisuse, match="no multicast group"):
        pair.a.create_ud(A, 1)
    with pytest.raises(TransportMisuse, match="immediate 4294967296 does not fit 32 bits"):
        pair.left.post_send(b"", immediate=1 << 32)
    with pytest.raises(TransportMisuse, match="Q_Key -1"):
        pair.a.create_ud(ipv4("239.0.0.1"), -1)
    with pytest.raises(TransportMisuse, match="source port 70000"):
        pair.a.create_rc(source_port=70_000)
    with pytest.raises(TransportMisuse, match="not registered"):
        pair.b.deregister(region)


def test_regions_can_come_and_go() -> None:
    endpoint = Endpoint(A)
    for _ in range(3):
        regions = [endpoint.register(np.zeros(10, np.uint8)) for _ in range(50)]
        assert len({region.rkey for region in regions}) == 50
        for region in regions:
            endpoint.deregister(region)


def test_fewer_retries_fail_sooner() -> None:
    options = TransportOptions(retries=2, give_up_ns=50_000_000)
    pair = Pair(faults=Faults(loss=1.0), options=options)
    pair.left.post_send(b"x")
    assert 50_000_000 <= pair.settle() <= 200_000_000


def test_the_network_can_be_asked_for_a_condition() -> None:
    pair = Pair()
    pair.left.post_send(b"x")
    network = pair.network
    assert isinstance(network, MemoryNetwork)
    assert network.run(lambda: pair.b.statistics.received_packets == 1) > 0


def test_a_link_slower_than_any_timeout_needs_no_retransmission() -> None:
    pair = Pair(path_mtu=4096, rate_bps=2_000_000)
    there = pair.b.register(np.zeros(1 << 19, np.uint8))
    here = pair.a.register(pattern(1 << 19))
    pair.left.post_write(here, 0, 1 << 19, there.address, there.rkey)
    pair.settle()
    assert [done.kind for done in pair.at_a] == [CompletionKind.SENT]
    assert pair.a.statistics.retransmitted_packets == 0


def test_queue_pairs_and_groups_may_be_many() -> None:
    pair = Pair()
    made = [(pair.a.create_rc(), pair.b.create_rc()) for _ in range(40)]
    for one, other in made:
        one.connect(other.local)
        other.connect(one.local)
    groups = [pair.a.create_ud(ipv4("239.0.0.1") + index, 1).group_address for index in range(9)]
    assert pair.a.groups == groups
    assert len(pair.a.source_ports) > 40
    for index, (one, other) in enumerate(made):
        one.post_send(bytes([index]))
        other.post_send(bytes([100 + index]) * 600)
    pair.settle()
    received = CompletionKind.RECEIVED
    assert sorted(done.data[0] for done in pair.at_b if done.kind is received) == list(range(40))
    assert sorted(done.data[0] for done in pair.at_a if done.kind is received) == list(
        range(100, 140)
    )


def test_nothing_is_counted_before_anything_has_happened() -> None:
    assert not any(asdict(Statistics()).values())
    assert not any(asdict(AggregationStatistics()).values())


@pytest.mark.parametrize("what", ["send", "immediate", "write", "write immediate", "read"])
@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_a_packet_leaves_where_the_budget_is_that_of_its_frame_and_not_for_less(
    what: str, recovery: Literal["go-back-n", "selective"]
) -> None:
    def posted() -> Pair:
        pair = Pair(options=TransportOptions(recovery=recovery))
        here, there = pair.a.register(pattern(100)), pair.b.register(np.zeros(100, np.uint8))
        if what in ("send", "immediate"):
            pair.left.post_send(bytes(100), immediate=None if what == "send" else 7)
        elif what == "read":
            pair.left.post_read(here, 0, 100, there.address, there.rkey)
        else:
            immediate = 7 if what.endswith("immediate") else None
            pair.left.post_write(here, 0, 100, there.address, there.rkey, immediate)
        return pair

    (sent,) = rows_of(posted().a.transmit(0))
    frame_bytes = len(sent.data) + FRAME_OVERHEAD_BYTES
    assert len(posted().a.transmit(0, frame_bytes)) == 1
    assert len(posted().a.transmit(0, frame_bytes - 1)) == 0
