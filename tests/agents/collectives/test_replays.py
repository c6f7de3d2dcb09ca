"""What was said before is not taken: packets that somebody has kept, and sends again long after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.collective_group import EVERY, Group, name_of
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.long_ago import ROUND, begin_anew
from tests.support.rocev2_packet import Packet
from tests.support.transport_pair import A, B, Pair, pattern

from weft.agents.collectives.agent import Done
from weft.agents.collectives.communicator import multicast_qkey
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.transport import ChunkSink, Endpoint, TransportMisuse, TransportOptions
from weft.agents.transport.sink import MAXIMUM_OPERATIONS
from weft.agents.wire.headers import LAST_SEQUENCE, PARTITION_KEY, Opcode
from weft.base.errors import InputError

MULTICAST = Request(0, "allgather", "multicast", 700)


def recorded(group: Group) -> list[tuple[int, Datagram]]:
    """Take what has been delivered since last: (address of the receiver, packet)."""
    found = [(receiver, datagram) for _, receiver, datagram in group.network.trace]
    group.network.trace.clear()
    return found


def come_round(group: Group, rounds: int) -> None:
    """Let the PSNs of all connections be those of the beginning."""
    members = (agent.communicator for agent in group.agents)
    begin_anew((pair for each in members for pair in each.queue_pairs.values()), rounds * ROUND)


def replay(group: Group, packets: list[tuple[int, Datagram]]) -> None:
    """Let packets arrive again, where they did."""
    hosts = {agent.address: agent for agent in group.agents}
    for receiver, datagram in packets:
        hosts[receiver].receive(batch_of([datagram], stride=64), group.network.now_ns)


def run_amid(
    group: Group, request: Request, old: list[tuple[int, Datagram]], seed: int = 0
) -> None:
    """Run an operation while old packets arrive between its own, some before all of them; its
    result must be right."""
    random = np.random.default_rng(seed)
    number = group.start(request)
    replay(group, old)
    ended: set[int] = set()
    while len(ended) < group.size:
        assert group.network.step(), "nothing is left to happen"
        if old:
            replay(group, [old[index] for index in random.integers(0, len(old), 3)])
        for rank, agent in enumerate(group.agents):
            event = agent.next_event()
            if event is not None:
                assert isinstance(event, Done), event.error
                ended.add(rank)
    group.verify(number)


def counted(group: Group, name: str) -> int:
    """Sum a counter over all ranks."""
    return sum(getattr(agent.endpoint.statistics, name) for agent in group.agents)


@pytest.mark.parametrize("later", [1, 255, 256, 512, 1 << 16, 1 << 24, (1 << 32) - 4])
def test_chunks_of_an_operation_long_ago_are_dropped_and_counted(later: int) -> None:
    group = Group(3, keep_trace=True)
    group.complete(MULTICAST)
    old = [each for each in recorded(group) if each[1].destination >> 28 == 14]
    assert old
    group.number += later - 1
    before = counted(group, "wrong_operation")
    run_amid(group, replace(MULTICAST, counts=701), old)
    assert counted(group, "wrong_operation") >= before + len(old)
    assert counted(group, "duplicate_chunks") == 0


def test_chunks_of_a_group_that_was_before_are_not_those_of_one_made_anew() -> None:
    first, second = Group(3, keep_trace=True), Group(3, keep_trace=True, epoch=2)
    first.complete(MULTICAST)
    old = recorded(first)
    run_amid(second, MULTICAST, old)
    chunks = sum(datagram.destination >> 28 == 14 for _, datagram in old)
    assert counted(second, "unknown_queue_pair") >= len(old) >= chunks > 0


@pytest.mark.parametrize("request_", EVERY, ids=name_of)
def test_nothing_of_a_round_of_sequence_numbers_ago_is_taken(request_: Request) -> None:
    request = replace(request_, counts=300)
    group = Group(3, keep_trace=True)
    group.complete(request)
    group.network.settle()
    old = recorded(group)
    come_round(group, 1)
    group.number += 255
    run_amid(group, request, old)


@settings(max_examples=25)
@given(st.data(), st.sampled_from([256, 1 << 16, 1 << 24]), st.integers(0, 1 << 32))
def test_any_interleaving_of_old_packets_yields_the_right_data(
    drawn: st.DataObject, later: int, seed: int
) -> None:
    request = replace(drawn.draw(st.sampled_from(EVERY)), counts=drawn.draw(st.integers(1, 600)))
    group = Group(drawn.draw(st.integers(2, 4)), keep_trace=True)
    group.complete(request)
    group.network.settle()
    old = recorded(group)
    come_round(group, drawn.draw(st.integers(1, 5)))
    group.number += later - 1
    run_amid(group, request, old, seed)


def one_round_later(
    post: Callable[[Pair], None], options: TransportOptions | None = None
) -> tuple[Pair, list[tuple[int, Datagram]]]:
    """A pair that has done something, and what was delivered. Since then the
    PSNs have come round, so that those of that time are due again."""
    pair = Pair(keep_trace=True, options=options)
    post(pair)
    pair.settle()
    old = [(receiver, datagram) for _, receiver, datagram in pair.network.trace]
    assert pair.at_a
    begin_anew([pair.left, pair.right], ROUND)
    return pair, old


@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_a_message_of_a_round_ago_is_a_duplicate_though_its_psn_is_due(recovery: str) -> None:
    options = TransportOptions(recovery=recovery)  # type: ignore[arg-type]
    pair, old = one_round_later(lambda pair: pair.left.post_send(b"pay 10"), options)
    assert pair.b.row_of(0).expected & (ROUND - 1) == pair.left.initial_psn
    before = pair.b.statistics.duplicate_packets
    for receiver, datagram in old:
        {A: pair.a, B: pair.b}[receiver].receive(batch_of([datagram]), 0)
    assert pair.b.statistics.duplicate_packets == before + 1
    pair.left.post_send(b"pay 20")
    pair.at_b.clear()
    pair.settle()
    assert [each.data for each in pair.at_b] == [b"pay 20"]


@pytest.mark.parametrize("recovery", ["go-back-n", "selective"])
def test_an_acknowledgement_of_a_round_ago_acknowledges_nothing(recovery: str) -> None:
    options = TransportOptions(recovery=recovery)  # type: ignore[arg-type]
    pair, old = one_round_later(lambda pair: pair.left.post_send(b"first"), options)
    pair.left.post_send(b"second")
    pair.a.transmit(0)  # and it is lost
    for receiver, datagram in old:
        if receiver == A:
            pair.a.receive(batch_of([datagram]), 0)
    assert pair.left.outstanding == 1 and not pair.a.poll()
    pair.at_b.clear()
    pair.settle()
    assert [each.data for each in pair.at_b] == [b"second"] and not pair.left.outstanding


def test_a_read_response_of_a_round_ago_brings_no_data() -> None:
    theirs, ours = pattern(256, 1), np.zeros(256, np.uint8)

    def read(pair: Pair) -> None:
        there, here = pair.b.register(theirs), pair.a.register(ours)
        pair.left.post_read(here, 0, 256, there.address, there.rkey)

    pair, old = one_round_later(read)
    assert (ours == theirs).all()
    theirs[:], ours[:] = pattern(256, 2), 0
    read(pair)
    pair.a.transmit(0)
    for receiver, datagram in old:
        if receiver == A:
            pair.a.receive(batch_of([datagram]), 0)
    assert not ours.any() and pair.left.outstanding == 1
    pair.settle()
    assert (ours == theirs).all()


def test_the_partition_key_says_how_often_the_psn_has_come_round() -> None:
    for rounds in (0, 1, 2, 0x7FFD):
        pair = Pair(first_psn=0xFFFFFE, keep_trace=True)
        begin_anew([pair.left, pair.right], rounds * ROUND)
        for _ in range(4):
            pair.left.post_send(b"x")
        pair.settle()
        assert len(pair.at_b) == 4
        keys = [int.from_bytes(each.data[2:4], "big") for _, _, each in pair.network.trace]
        assert set(keys) <= {PARTITION_KEY - rounds, PARTITION_KEY - rounds - 1}
        assert len(set(keys)) == 2 and all(key & 0x8000 for key in keys)
        for _, _, datagram in pair.network.trace:
            Packet.decode(
                datagram.data, datagram.source, datagram.destination, datagram.source_port
            )


def test_a_queue_pair_that_has_used_up_its_sequence_numbers_takes_nothing_more() -> None:
    pair = Pair()
    begin_anew([pair.left, pair.right], LAST_SEQUENCE + 1 - pair.left.initial_psn)
    with pytest.raises(TransportMisuse, match=r"has used up its .* sequence numbers: make a new"):
        pair.left.post_send(b"x")


def test_a_communicator_that_has_used_up_its_operations_takes_no_more() -> None:
    group = Group(2)
    group.number = MAXIMUM_OPERATIONS - 1
    group.complete(MULTICAST)
    with pytest.raises(InputError, match="number 4294967296: at most 4294967295"):
        group.start(MULTICAST)


def test_groups_of_ranks_have_q_keys_of_their_own() -> None:
    qkeys = np.array([multicast_qkey(epoch) for epoch in range(1, 100_001)])
    for groups in (2, 10, 1000, 100_000):
        near = np.sort(qkeys[:groups])
        gaps = np.diff(np.append(near, near[0] + (1 << 31)))
        assert gaps.min() * groups * 3 > 1 << 31
    assert qkeys.min() >= 0 and qkeys.max() < 1 << 31


def test_endpoints_of_other_epochs_have_other_queue_pairs() -> None:
    hosts = [Endpoint(A, seed=3, epoch=epoch) for epoch in range(1, 401)]
    pairs = [host.create_rc() for host in hosts]
    numbers = np.sort([pair.number for pair in pairs])
    gaps = np.diff(np.append(numbers, numbers[0] + 0x7FFF00))
    assert gaps.min() * len(hosts) * 3 > 0x7FFF00
    assert len({pair.initial_psn for pair in pairs}) > 390
    keys = {host.register(np.zeros(1, np.uint8)).rkey for host in hosts}
    assert len(keys) > 390
    same = Endpoint(A, seed=3, epoch=7).create_rc()
    assert (same.number, same.initial_psn) == (pairs[6].number, pairs[6].initial_psn)
    with pytest.raises(TransportMisuse, match="epoch 0: it is 1 or more"):
        Endpoint(A, epoch=0)


def test_chunks_of_a_host_that_is_no_member_or_of_a_shard_of_another_are_dropped() -> None:
    group = Group(3, keep_trace=True)
    group.complete(MULTICAST)
    group.network.settle()
    old = [each for each in recorded(group) if each[1].destination >> 28 == 14]
    number = group.prepare(MULTICAST)
    newcomer = ipv4("10.0.0.99")
    forged = []
    for receiver, datagram in old:
        packet = Packet.decode(datagram.data)
        members = [agent.address for agent in group.agents if agent.address != datagram.source]
        for source in (newcomer, *members):
            now = replace(
                packet, immediate=packet.immediate & 0xFFFFFF | number << 24,
                payload=bytes(len(packet.payload)),
            )  # fmt: skip
            data = now.encode(source, datagram.destination, datagram.source_port)
            forged.append((receiver, datagram._replace(source=source, data=data)))
    group.number = number
    run_amid(group, MULTICAST, forged)
    assert counted(group, "foreign_chunks") > 0


def test_a_sink_without_senders_takes_chunks_of_everybody() -> None:
    host = Endpoint(B, 256)
    pair = host.create_ud(ipv4("239.0.0.1"), 9)
    sinks = [
        ChunkSink(np.zeros(2, np.uint8), 300, 1, [1, 1], senders=senders)
        for senders in (None, [A, A + 1])
    ]
    for sink, taken in zip(sinks, (2, 1), strict=True):
        pair.sink = sink
        for chunk in range(2):
            packet = Packet(
                Opcode.UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFFFF, 0, qkey=10,
                immediate=44 << 24 | chunk, payload=b"x",
            )  # fmt: skip
            data = packet.encode(A, pair.group_address, 5)
            host.receive(batch_of([Datagram(A, pair.group_address, 5, 0, data)]), 0)
        assert sink.received == taken
    assert host.statistics.foreign_chunks == 1
    with pytest.raises(TransportMisuse, match=r"operation 300 has a sink .* operation 44 has the"):
        pair.attach(ChunkSink(np.zeros(1, np.uint8), 44, 1, [1]))
    with pytest.raises(TransportMisuse, match="2 shards with 1 senders"):
        ChunkSink(np.zeros(2, np.uint8), 1, 1, [1, 1], senders=[A])
