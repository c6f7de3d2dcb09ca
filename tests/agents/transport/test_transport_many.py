"""Endpoints with many queue pairs: served alike whether idle ones are looked at or not, none
starves, and idle ones cost little memory."""

from __future__ import annotations

import random
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults
from tests.support.rocev2_packet import icrc
from tests.support.transport_many_support import MTU, Many, random_run
from tests.support.transport_pair import A, B, pattern
from tests.support.transport_scan import ScanningEndpoint

from weft.agents.datagrams import Datagrams
from weft.agents.transport import (
    CompletionKind,
    Endpoint,
    MemoryRegion,
    RcQueuePair,
    TransportOptions,
)
from weft.agents.transport import layout as at


@pytest.mark.slow
@given(
    st.integers(0, 2**32),
    st.sampled_from([1, 3, 16, 200]),
    st.floats(0, 0.2),
    st.sampled_from([0, 10**8, 10**10]),
    st.sampled_from([1, 5, 64]),
    st.booleans(),
)
def test_looking_at_active_queue_pairs_gives_the_packets_of_looking_at_all(
    seed: int, pairs: int, loss: float, rate_bps: int, batch_packets: int, patient: bool
) -> None:
    options = TransportOptions(
        batch_packets=batch_packets,
        retries=100 if patient else 1,
        give_up_ns=2_000_000_000 if patient else 30_000_000,
    )
    runs = []
    for kind in (Endpoint, ScanningEndpoint):
        faults = Faults(loss=loss, lateness=loss / 2, duplication=loss / 2, seed=seed)
        how = {"rate_bps": rate_bps, "options": options, "groups": 2, "faults": faults}
        runs.append(random_run(kind, seed, pairs, **how))
    one, other = runs
    assert one.network.trace == other.network.trace
    assert sorted(map(repr, one.done)) == sorted(map(repr, other.done))
    for host, same in zip(one.hosts, other.hosts, strict=True):
        assert host.statistics == same.statistics
    if patient:
        posted = [done for done in one.done if done[2] is not CompletionKind.RECEIVED]
        assert all(done[2] is not CompletionKind.ERROR for done in posted)
        assert len({(done[0], done[3]) for done in posted}) == len(posted)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.floats(0, 0.1), st.booleans())
def test_random_work_on_two_hundred_queue_pairs_completes_in_order_under_loss(
    seed: int, loss: float, one_by_one: bool
) -> None:
    options = TransportOptions(retries=100, batch_packets=1 if one_by_one else 64)
    many = Many(200, faults=Faults(loss=loss, lateness=loss, seed=seed), options=options)
    choose = random.Random(seed)
    posted: dict[int, list[int]] = {}
    for number in range(400):
        index = choose.randrange(200)
        pair = many.pairs[0][index]
        place, there = index * 64, many.regions[1]
        posted.setdefault(pair.number, []).append(number)
        if choose.random() < 0.5:
            pair.post_write(
                many.regions[0], place, 64, there.address + place, there.rkey, 7, number
            )
        else:
            pair.post_read(
                many.regions[0],
                32768 + place,
                64,
                there.address + 32768 + place,
                there.rkey,
                number,
            )
        if choose.random() < 0.1:
            many.network.step()
    many.network.settle(60_000_000_000)
    many.poll()
    found: dict[int, list[int]] = {}
    for side, number, kind, context, _, _, error in many.done:
        assert not error
        if side == 0:
            assert kind in (CompletionKind.SENT, CompletionKind.READ_DONE)
            found.setdefault(number, []).append(context)
    assert found == posted
    assert all(host.deadline() is None for host in many.hosts)


@pytest.mark.parametrize("batch_packets", [1, 7, 64])
def test_every_active_queue_pair_is_served_once_a_round(batch_packets: int) -> None:
    many = Many(500, rate_bps=0, options=TransportOptions(batch_packets=batch_packets))
    active = range(0, 500, 3)
    for index in active:
        there = many.regions[1]
        many.pairs[0][index].post_write(
            many.regions[0], 0, 8 * MTU, there.address, there.rkey, context=index
        )
    order = []
    while len(batch := many.hosts[0].transmit(0)):
        order += [int.from_bytes(row.data[5:8], "big") for row in rows_of(batch)]
    numbers = [many.pairs[1][index].number for index in active]
    assert order == (numbers[1:] + numbers[:1]) * 8 or order == numbers * 8


@pytest.mark.parametrize("by", ["post", "arrival", "read", "timer", "connect", "chunks"])
@pytest.mark.parametrize("place", [0, 150, 299])
def test_one_among_many_idle_queue_pairs_becomes_active(by: str, place: int) -> None:
    many = Many(300, rate_bps=0, connected=False, groups=1, faults=Faults())
    a, b = many.hosts
    for index in range(300):
        if by != "connect" or index != place:
            many.connect(index)
    pair, peer = many.pairs[0][place], many.pairs[1][place]
    assert a.deadline() is None and not len(a.transmit(0)) and not len(b.transmit(0))
    if by == "chunks":
        many.groups[0][0].post_chunks(many.regions[0], 0, 1, MTU, 0, 0)
        assert a.deadline() == 0
        assert len(a.transmit(0)) == 1
        assert a.deadline() is None
        return
    pair.post_send(b"x", "posted")
    if by == "connect":
        assert a.deadline() is None and not len(a.transmit(0))
        many.connect(place)
    assert a.deadline() == 0
    sent = batch_of(rows_of(a.transmit(0)))
    assert len(sent) == 1
    timeout = a.deadline()
    assert timeout is not None and timeout > 0
    if by == "timer":
        assert not len(a.transmit(timeout - 1))
        sent = batch_of(rows_of(a.transmit(timeout)))
        assert len(sent) == 1 and a.statistics.timeouts == 1
    b.receive(sent, 0)
    assert b.deadline() == 0
    answer = batch_of(rows_of(b.transmit(0)))
    assert len(answer) == 1 and b.deadline() is None
    a.receive(answer, 1)
    assert a.deadline() is None
    assert [done.context for done in a.poll()] == ["posted"]
    if by == "read":
        there = many.regions[0]
        peer.post_read(many.regions[1], 0, 10, there.address, there.rkey)
        a.receive(batch_of(rows_of(b.transmit(1))), 1)
        assert a.deadline() == 0
        assert len(a.transmit(1)) == 1


def test_queue_pairs_made_later_disturb_nothing_that_is_under_way() -> None:
    many = Many(3, faults=Faults(lose={2, 3}))
    for pair in many.pairs[0]:
        pair.post_write(
            many.regions[0], 0, 9000, many.regions[1].address, many.regions[1].rkey, context=1
        )
        pair.post_read(
            many.regions[0], 0, 9000, many.regions[1].address, many.regions[1].rkey, context=2
        )
    for _ in range(40):
        many.network.step()
        for host in many.hosts:
            host.create_rc()
    many.network.settle()
    many.poll()
    assert [done[3] for done in many.done if done[0] == 0].count(2) == 3
    assert (many.memory[0][:9000] == many.memory[1][:9000]).all()


def read_requests(pair: RcQueuePair, region: MemoryRegion, count: int) -> Datagrams:
    """`count` READs of 4 bytes each that a peer sends to a queue pair at B, ICRC and all."""
    rows = []
    for index in range(count):
        packet = bytes([0x0C, 0, 0xFF, 0xFF]) + pair.number.to_bytes(4, "big")
        packet += (index & 0xFFFFFF).to_bytes(4, "big")
        packet += (region.address + 4 * index).to_bytes(8, "big")
        packet += region.rkey.to_bytes(4, "big") + (4).to_bytes(4, "big")
        packet += icrc(packet, A, B, 7).to_bytes(4, "little")
        rows.append(Datagram(A, B, 7, 0, packet))
    return batch_of(rows)


def quiet_pairs(count: int) -> tuple[Endpoint, list[RcQueuePair], MemoryRegion]:
    """An endpoint at B whose queue pairs expect PSN 0 from A, and what A may read."""
    host = Endpoint(B, MTU, seed=1)
    peers = Endpoint(A, MTU, seed=2)
    region = host.register(pattern(4096))
    pairs = []
    for _ in range(count):
        pair = host.create_rc(initial_psn=0)
        pair.connect(peers.create_rc(initial_psn=0).local)
        pairs.append(pair)
    return host, pairs, region


@pytest.mark.parametrize("asked", [1, at.READ_ROOM - 1, at.READ_ROOM, 3 * at.READ_ROOM])
def test_a_queue_pair_holds_a_number_of_reads_and_drops_what_is_beyond(asked: int) -> None:
    host, pairs, region = quiet_pairs(40)
    for _ in range(2):  # the second time, all again as duplicates
        for pair in pairs:
            host.receive(read_requests(pair, region, asked), 0)
        answers = []
        while len(batch := host.transmit(0)):
            answers += [row for row in rows_of(batch) if row.data[0] == 0x10]
        held = min(asked, at.READ_ROOM)
        assert len(answers) == held * len(pairs)
        for number, row in enumerate(answers):
            offset = 4 * (number // len(pairs))
            assert row.data[16:20] == region.buffer[offset : offset + 4].tobytes()
            assert int.from_bytes(row.data[9:12], "big") == number // len(pairs)
        if asked > at.READ_ROOM:
            break  # the others would be new requests now
    assert host.statistics.naks_sent == (len(pairs) if asked > at.READ_ROOM else 0)
    assert host.deadline() is None


def test_reads_of_a_queue_pair_that_failed_leave_their_room_to_others() -> None:
    many = Many(20, rate_bps=0)
    a, b = many.hosts
    ours, theirs = many.regions
    for pair, peer in zip(*(pairs[:10] for pairs in many.pairs), strict=True):
        pair.post_write(ours, 0, 4, theirs.address, theirs.rkey ^ 0x10000)
        peer.post_read(theirs, 0, 600, ours.address, ours.rkey)
    b.receive(a.transmit(0), 0)
    answers = rows_of(b.transmit(0))  # a NAK and a READ request each
    assert len(answers) == 20
    a.receive(batch_of(sorted(answers, key=lambda row: row.data[0])), 1)
    assert [bool(pair.error) for pair in many.pairs[0]] == [True] * 10 + [False] * 10
    assert a.deadline() is None and not len(a.transmit(1))
    for place, peer in enumerate(many.pairs[1][10:]):
        peer.post_read(theirs, 600 * place, 600, ours.address + 600 * place, ours.rkey)
    a.receive(b.transmit(1), 1)
    b.receive(a.transmit(1), 1)
    assert (many.memory[1][:6000] == many.memory[0][:6000]).all()


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 2**32))
def test_bursts_of_any_length_are_sent_whole_and_in_order(bursts: list[int], seed: int) -> None:
    many = Many(2, faults=Faults(loss=0.05, seed=seed))
    pair = many.pairs[0][0]
    posted = 0
    choose = random.Random(seed)
    for burst in bursts:
        for _ in range(burst):
            pair.post_send(posted.to_bytes(4, "big"), posted)
            posted += 1
        for _ in range(choose.randrange(40)):
            many.network.step()
    assert pair.outstanding <= posted
    many.network.settle(60_000_000_000)
    many.poll()
    sent = [done[3] for done in many.done if done[2] is CompletionKind.SENT]
    data = [done[5] for done in many.done if done[2] is CompletionKind.RECEIVED]
    assert sent == list(range(posted))
    assert [int.from_bytes(one, "big") for one in data] == sent
    assert pair.outstanding == 0


def test_an_idle_connected_queue_pair_takes_less_than_two_kilobytes() -> None:
    peer = Endpoint(B)
    remote = [peer.create_rc().local for _ in range(1023)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        host = Endpoint(A)
        for one in remote:
            host.create_rc().connect(one)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    batch = 64 * (4096 + 64)
    assert after - before - batch < 1023 * 2000
    assert at.PairState.dtype.itemsize < 1024
    assert host.state.queue_pairs == 1023
