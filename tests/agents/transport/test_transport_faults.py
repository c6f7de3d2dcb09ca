"""Reliable connections on a network that loses, repeats, delays and spoils packets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, rows_of
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.rocev2_packet import icrc
from tests.support.transport_faults_support import PATIENT, SIZE, transfer
from tests.support.transport_pair import A, B, Pair, pattern

from weft.agents.datagrams import Datagrams, ipv4
from weft.agents.transport import CompletionKind, Endpoint, TransportOptions


def one_fault(kind: str, number: int) -> Faults:
    faults = Faults()
    setattr(faults, kind, {number})
    return faults


FAULTLESS, _ = transfer(Faults())
PACKETS = FAULTLESS.network.delivered


def test_without_faults_nothing_is_sent_twice() -> None:
    statistics = FAULTLESS.a.statistics
    assert statistics.retransmitted_packets == 0 and statistics.timeouts == 0
    assert FAULTLESS.b.statistics.duplicate_packets == 0


@pytest.mark.parametrize("kind", ["lose", "duplicate", "corrupt", "late"])
def test_a_fault_at_each_packet_in_turn_is_overcome(kind: str) -> None:
    slowest = 0
    for number in range(PACKETS):
        _, end_ns = transfer(one_fault(kind, number))
        slowest = max(slowest, end_ns)
    assert slowest < 40_000_000


def test_each_two_neighbours_lost_are_overcome() -> None:
    for number in range(PACKETS):
        transfer(Faults(lose={number, number + 1}))


def test_a_lost_packet_inside_a_stream_costs_no_timeout() -> None:
    pair, _ = transfer(Faults(lose={4}))
    assert pair.a.statistics.timeouts == 0
    assert pair.a.statistics.naks_received == 1
    assert pair.a.statistics.retransmitted_packets > 0


def test_a_lost_read_response_is_asked_for_again_from_where_it_was() -> None:
    pair = Pair(rate_bps=10**9, faults=Faults(lose={6}))
    target = np.zeros(256 * 16, np.uint8)
    here, there = pair.a.register(target), pair.b.register(pattern(256 * 16))
    pair.left.post_read(here, 0, 256 * 16, there.address, there.rkey)
    pair.settle()
    assert (target == pattern(256 * 16)).all()
    assert pair.a.statistics.retransmitted_packets == 1
    assert pair.a.statistics.timeouts == 0
    assert pair.b.statistics.retransmitted_packets <= 11


@given(
    st.integers(0, 2**32),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.floats(0, 0.2),
    st.floats(0, 0.3),
    st.booleans(),
    st.sampled_from([0, 10**8, 10**10]),
)
def test_random_faults_are_overcome(
    seed: int,
    loss: float,
    duplication: float,
    corruption: float,
    lateness: float,
    batched: bool,
    rate_bps: int,
) -> None:
    faults = Faults(
        loss=loss,
        duplication=duplication,
        corruption=corruption,
        lateness=lateness,
        seed=seed,
    )
    transfer(faults, batched=batched, rate_bps=rate_bps)


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.integers(1, 20), st.floats(0, 0.1))
def test_many_reads_and_writes_of_random_sizes_survive_loss(
    seed: int, operations: int, loss: float
) -> None:
    pair = Pair(rate_bps=10**9, faults=Faults(loss=loss, lateness=loss, seed=seed))
    choose = np.random.default_rng(seed)
    size = 40_000
    ours, theirs = pattern(size), pattern(size, 2)
    expected_ours, expected_theirs = ours.copy(), theirs.copy()
    here, there = pair.a.register(ours), pair.b.register(theirs)
    for number in range(operations):
        length, mine, other = choose.integers(0, size // 2, 3).tolist()
        if number % 2:
            pair.left.post_read(here, mine, length, there.address + other, there.rkey, number)
            expected_ours[mine : mine + length] = expected_theirs[other : other + length]
        else:
            pair.left.post_write(
                here, mine, length, there.address + other, there.rkey, None, number
            )
            expected_theirs[other : other + length] = expected_ours[mine : mine + length]
        if number % 2:
            # A WRITE of what an earlier READ brings must wait for it.
            pair.settle()
    pair.settle()
    assert [done.context for done in pair.at_a] == list(range(operations))
    assert (ours == expected_ours).all() and (theirs == expected_theirs).all()


def test_congestion_at_a_short_queue_is_overcome_without_collapse() -> None:
    size = 1_000_000
    hosts = [Endpoint(ipv4(f"10.0.0.{host}"), 1024, 10**9, host) for host in (1, 2, 3)]
    target = hosts[0]
    for sender in hosts[1:]:
        here, there = sender.create_rc(), target.create_rc()
        here.connect(there.local)
        there.connect(here.local)
        region = target.register(np.zeros(size, np.uint8))
        source = sender.register(pattern(size))
        here.post_write(source, 0, size, region.address, region.rkey, 1)
    network = MemoryNetwork(hosts, rate_bps=10**9, queue_bytes=20_000)
    end_ns = network.settle()
    arrived = target.poll()
    assert [done.kind for done in arrived] == [CompletionKind.WRITE_WITH_IMMEDIATE] * 2
    assert network.dropped > 0
    assert end_ns < 2 * size * 8 * 1.5


@given(st.lists(st.tuples(st.binary(max_size=120), st.booleans(), st.booleans()), max_size=8))
def test_random_bytes_never_raise_and_never_reach_the_user(
    datagrams: list[tuple[bytes, bool, bool]],
) -> None:
    pair = Pair()
    victim = np.zeros(64, np.uint8)
    pair.b.register(victim)
    rows = []
    for data, sealed, addressed in datagrams:
        if addressed and len(data) >= 8:
            data = data[:5] + pair.right.number.to_bytes(3, "big") + data[8:]
        if sealed and len(data) >= 12:
            data += icrc(data, A, B, 7).to_bytes(4, "little")
        rows.append(Datagram(A, B, 7, 0, data))
    pair.b.receive(batch_of(rows), 0)
    statistics = pair.b.statistics
    assert statistics.received_packets == len(rows)
    assert not victim.any()
    pair.b.transmit(10)
    pair.left.post_send(b"still works" if not statistics.access_errors else b"")
    pair.b.deadline()


@given(st.data())
def test_packets_altered_and_sealed_again_do_no_harm(data: st.DataObject) -> None:
    """A peer that lies, with a right ICRC: no exception, no byte outside the region."""
    pair = Pair()
    memory = np.zeros(3 * 512, np.uint8)
    there = pair.b.register(memory[512:1024])
    here = pair.a.register(np.full(512, 7, np.uint8))
    pair.left.post_write(here, 0, 512, there.address, there.rkey, 3)
    pair.left.post_read(here, 0, 512, there.address, there.rkey)
    pair.left.post_send(b"abc")
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
        pair.a.receive(batch_of(rows_of(answers)), 1)
    pair.a.transmit(2)
    assert not memory[:512].any() and not memory[1024:].any()


class Punctual(Endpoint):
    """An endpoint that is watched: it sends nothing before its deadline, and something happens at
    it."""

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 60) -> Datagrams:
        before = self.deadline()
        batch = super().transmit(now_ns, budget_bytes)
        if before is None or before > now_ns:
            assert not len(batch)
            assert self.deadline() == before
        else:
            after = self.deadline()
            assert len(batch) or after is None or after > now_ns
        return batch


@given(
    st.integers(0, 2**32),
    st.floats(0, 0.2),
    st.floats(0, 0.2),
    st.sampled_from([0, 10**8, 10**10]),
    st.sampled_from(
        [
            PATIENT,
            replace(PATIENT, congestion="dctcp"),
            replace(PATIENT, recovery="selective", entropy="reps"),
            replace(PATIENT, entropy="plb"),
        ]
    ),
)
def test_the_deadline_is_exact(
    seed: int, loss: float, lateness: float, rate_bps: int, options: TransportOptions
) -> None:
    hosts = [
        Punctual(address, 256, rate_bps, seed=number, options=options)
        for number, address in enumerate((A, B))
    ]
    left, right = (host.create_rc() for host in hosts)
    left.connect(right.local)
    right.connect(left.local)
    group = hosts[0].create_ud(ipv4("239.0.0.1"), 1)
    here = hosts[0].register(pattern(SIZE))
    there = hosts[1].register(np.zeros(SIZE, np.uint8))
    left.post_write(here, 0, SIZE, there.address, there.rkey)
    right.post_read(there, 0, SIZE, here.address, here.rkey)
    group.post_chunks(here, 0, 9, 256, 0, 3 * 10**7)
    left.post_send(b"end")
    faults = Faults(loss=loss, lateness=lateness, duplication=0.1, seed=seed)
    MemoryNetwork(hosts, rate_bps=rate_bps, faults=faults).settle()
    assert (there.buffer == here.buffer).all()
    assert sorted(done.kind.value for host in hosts for done in host.poll()) == [
        "chunks_sent",
        "read_done",
        "received",
        "sent",
        "sent",
    ]
