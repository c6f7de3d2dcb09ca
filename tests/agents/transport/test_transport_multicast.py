"""Multicast chunks: pacing, sinks, what is dropped and counted."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of, row_of, rows_of
from tests.support.memory_network import Faults, MemoryNetwork
from tests.support.rocev2_packet import Packet
from tests.support.transport_pair import pattern

from weft.agents.datagrams import ipv4
from weft.agents.transport import ChunkSink, CompletionKind, Endpoint, Gap, TransportMisuse
from weft.agents.transport.queue_pairs import UdQueuePair
from weft.agents.wire.headers import Opcode

GROUP = ipv4("239.0.0.5")
QKEY = 0x1234


class Group:
    """Hosts that are members of one group; host r has address 10.0.0.(r+1)."""

    def __init__(
        self,
        members: int,
        *,
        rate_bps: int = 10**9,
        faults: Faults | None = None,
        batched: bool = True,
    ) -> None:
        self.hosts = [
            Endpoint(ipv4(f"10.0.0.{rank + 1}"), 256, rate_bps, seed=rank)
            for rank in range(members)
        ]
        self.pairs: list[UdQueuePair] = [host.create_ud(GROUP, QKEY) for host in self.hosts]
        self.network = MemoryNetwork(self.hosts, rate_bps=rate_bps, faults=faults, batched=batched)


def allgather(
    sizes: list[int], chunk_bytes: int, faults: Faults, batched: bool = True, operation: int = 3
) -> tuple[Group, list[ChunkSink], list[npt.NDArray[np.uint8]]]:
    """Every member multicasts its shard, at an equal share of the rate."""
    group = Group(len(sizes), faults=faults, batched=batched)
    shards = [pattern(size, seed) for seed, size in enumerate(sizes)]
    sinks = []
    for rank, (host, pair) in enumerate(zip(group.hosts, group.pairs, strict=True)):
        sink = ChunkSink(np.zeros(sum(sizes), np.uint8), operation, chunk_bytes, sizes)
        offset, size = sink.shard_region(rank)
        sink.buffer[offset : offset + size] = shards[rank]
        sink.mark_shard(rank)
        pair.sink = sink
        sinks.append(sink)
        chunks = sink.chunks_of(rank)
        base = sink.number_base + chunks.start
        region = host.register(shards[rank])
        pair.post_chunks(
            region, 0, len(chunks), chunk_bytes, base, 10**9 // max(1, len(sizes) - 1), rank
        )
    group.network.settle()
    return group, sinks, shards


@pytest.mark.parametrize("batched", [True, False])
def test_shards_of_any_size_reach_every_member(batched: bool) -> None:
    sizes = [1000, 0, 256, 1, 513]
    group, sinks, shards = allgather(sizes, 256, Faults(), batched)
    whole = np.concatenate(shards)
    for rank, (host, sink) in enumerate(zip(group.hosts, sinks, strict=True)):
        assert sink.missing == 0
        assert (sink.buffer == whole).all()
        kinds = [done.kind for done in host.poll()]
        assert sorted(kind.value for kind in kinds) == ["chunks_received", "chunks_sent"]
        assert host.statistics.chunks_sent == len(sink.chunks_of(rank))
        assert host.statistics.duplicate_chunks == 0


@given(
    st.lists(st.integers(0, 1500), min_size=2, max_size=4),
    st.sampled_from([1, 64, 100, 256]).filter(lambda size: size > 1),
    st.integers(0, 2**32),
    st.floats(0, 0.4),
    st.floats(0, 0.4),
    st.booleans(),
)
def test_a_sink_has_exactly_what_came_whatever_the_network_does(
    sizes: list[int], chunk_bytes: int, seed: int, loss: float, duplication: float, batched: bool
) -> None:
    faults = Faults(loss=loss, duplication=duplication, corruption=0.05, lateness=0.3, seed=seed)
    group, sinks, shards = allgather(sizes, chunk_bytes, faults, batched)
    for host, sink in zip(group.hosts, sinks, strict=True):
        lost = 0
        for shard, data in enumerate(shards):
            offset, size = sink.shard_region(shard)
            expected = data.copy()
            gaps = sink.gaps(shard)
            for gap in gaps:
                begin = gap.offset - offset
                assert begin == gap.shard_offset
                assert not any(sink.has(gap.first_chunk + index) for index in range(gap.count))
                expected[begin : begin + gap.length] = 0
            assert (sink.buffer[offset : offset + size] == expected).all()
            assert sink.missing_in(shard) == sum(gap.count for gap in gaps)
            lost += sink.missing_in(shard)
        assert sink.missing == lost
        complete = [done for done in host.poll() if done.kind is CompletionKind.CHUNKS_RECEIVED]
        assert len(complete) <= 1
        assert host.statistics.duplicate_chunks == sink.duplicates
        for shard in range(sink.shards):
            for gap in sink.gaps(shard):
                assert sink.mark(gap.first_chunk, gap.count) == gap.count
        assert sink.missing == 0 and sink.missing_bytes == 0


def test_a_late_duplicate_does_not_count_twice() -> None:
    _, sinks, _ = allgather([2560, 0], 256, Faults(duplicate=range(5), lose={7}))
    assert (sinks[1].missing, sinks[1].duplicates, sinks[1].received) == (1, 5, 9)
    assert sinks[1].gaps(0) == [Gap(0, 7, 1, 7 * 256, 256, 7 * 256)]


def test_marking_across_shards_counts_what_is_new() -> None:
    sink = ChunkSink(np.zeros(100, np.uint8), 1, 10, [30, 0, 25, 45])
    assert sink.chunks == 11 and sink.missing == 11
    assert list(sink.chunks_of(2)) == [3, 4, 5]
    assert sink.mark(2, 3) == 3
    assert sink.mark(1, 9) == 6
    assert [sink.missing_in(shard) for shard in range(4)] == [1, 0, 0, 1]
    assert sink.gaps(3) == [Gap(3, 10, 1, 95, 5, 40)]
    assert sink.missing_bytes == 15


def test_shards_may_lie_anywhere_in_the_buffer() -> None:
    sink = ChunkSink(np.zeros(100, np.uint8), 1, 10, [20, 15], [60, 5])
    assert sink.gaps(1) == [Gap(1, 2, 2, 5, 15, 0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1 << 32, 10, [50]), "32 bits"),
        ((-1, 10, [50]), "32 bits"),
        ((1, 0, [50]), "at least 1"),
        ((1, 10, [101]), "outside"),
        ((1, 10, [50], [51]), "outside"),
        ((1, 10, [50], []), "1 shards with 0 offsets"),
    ],
)
def test_a_sink_that_makes_no_sense_is_refused(arguments: tuple[int, ...], message: str) -> None:
    with pytest.raises(TransportMisuse, match=message):
        ChunkSink(np.zeros(100, np.uint8), *arguments)  # type: ignore[arg-type]


def test_too_many_chunks_are_refused() -> None:
    with pytest.raises(TransportMisuse, match="24 bits"):
        ChunkSink(np.zeros((1 << 24) + 1, np.uint8), 1, 1, [(1 << 24) + 1])


def test_several_operations_at_once_do_not_mix() -> None:
    group = Group(2)
    sender, receiver = group.pairs
    data = [pattern(1000, 1), pattern(1000, 2)]
    sinks = [ChunkSink(np.zeros(1000, np.uint8), operation, 256, [1000]) for operation in (0, 255)]
    for sink, part in zip(sinks, data, strict=True):
        receiver.attach(sink)
        region = group.hosts[0].register(part)
        sender.post_chunks(region, 0, 4, 256, sink.number_base, 0)
    group.network.settle()
    assert all((sink.buffer == part).all() for sink, part in zip(sinks, data, strict=True))
    receiver.detach(sinks[0])
    sender.post_chunks(region, 0, 4, 256, sinks[0].number_base, 0)
    group.network.settle()
    assert group.hosts[1].statistics.wrong_operation == 4
    with pytest.raises(TransportMisuse, match="operation 255 has a sink"):
        receiver.attach(ChunkSink(np.zeros(1, np.uint8), 255, 1, [1]))


def test_what_is_no_chunk_of_ours_is_counted_and_dropped() -> None:
    group = Group(2)
    host, pair = group.hosts[1], group.pairs[1]
    pair.sink = sink = ChunkSink(np.zeros(600, np.uint8), 3, 256, [600])
    sender = group.hosts[0].address

    def arrive(
        immediate: int,
        payload: bytes,
        *,
        source: int = sender,
        qkey: int = QKEY,
        group_address: int = GROUP,
        opcode: Opcode = Opcode.UD_SEND_ONLY_WITH_IMMEDIATE,
    ) -> None:
        packet = Packet(
            opcode, 0xFFFFFF, 9, immediate=immediate, payload=payload, qkey=qkey
        ).encode(source, group_address, 5)
        host.receive(batch_of([Datagram(source, group_address, 5, 0, packet)]), 0)

    base = 3 << 24
    arrive(base, bytes(256), source=host.address)
    assert host.statistics.own_loopback == 1
    arrive(base | 1 << 24, bytes(256))
    arrive((base + (1 << 24)) | 0, bytes(256))
    assert host.statistics.wrong_operation == 1
    arrive(base, bytes(256), qkey=QKEY + 1)  # 256 operations later
    arrive(base, bytes(256), qkey=QKEY + (1 << 24) - 1)
    assert host.statistics.wrong_operation == 3
    arrive(base, bytes(256), qkey=QKEY - 1)
    arrive(base, bytes(256), qkey=QKEY + (1 << 24))
    arrive(base, bytes(256), group_address=GROUP + 1)
    assert host.statistics.unknown_queue_pair == 3
    arrive(base + 3, bytes(256))
    arrive(base + 2, bytes(256))
    arrive(base + 2, bytes(87))
    arrive(base + 0xFFFFFF, bytes(256))
    arrive(base, b"")
    assert host.statistics.chunks_out_of_bounds == sink.out_of_bounds == 5
    arrive(base, bytes(256), opcode=Opcode.UD_SEND_ONLY)
    assert host.statistics.unknown_opcode == 1
    assert sink.missing == 2
    arrive(base + 2, bytes(88))
    assert (sink.missing, host.statistics.chunks_received) == (1, 2)


def test_chunks_leave_at_their_rate() -> None:
    host = Endpoint(ipv4("10.0.0.1"), 1024, 10**9)
    pair = host.create_ud(GROUP, QKEY)
    region = host.register(pattern(10 * 1024))
    pair.post_chunks(region, 2, 8, 1024, 0, 10**8, "run")
    frame = 1024 + 12 + 8 + 4 + 4 + 42
    now, times = 1_000, []
    while True:
        batch = host.transmit(now)
        times.extend([now] * len(batch))
        deadline = host.deadline()
        if deadline is None:
            break
        now = max(now, deadline)
    assert np.diff(times).tolist() == [frame * 80] * 7
    done = host.poll()
    assert [(one.kind, one.context, one.length) for one in done] == [
        (CompletionKind.CHUNKS_SENT, "run", 8)
    ]


def test_a_late_caller_gets_the_chunks_that_are_due_and_idling_earns_none() -> None:
    host = Endpoint(ipv4("10.0.0.1"), 1024)
    pair = host.create_ud(GROUP, QKEY)
    region = host.register(pattern(64 * 1024))
    pair.post_chunks(region, 0, 64, 1024, 0, 10**8)
    each = (1024 + 12 + 8 + 4 + 4 + 42) * 80
    assert len(host.transmit(0)) == 1
    assert len(host.transmit(each * 10)) == 10
    assert len(host.transmit(each * 10 + 2_000_000_000)) == 53
    pair.post_chunks(region, 0, 64, 1024, 0, 10**8)
    assert len(host.transmit(each * 10 + 4_000_000_000)) == 1


def test_runs_follow_each_other_and_an_empty_run_completes() -> None:
    group = Group(2)
    pair = group.pairs[0]
    region = group.hosts[0].register(pattern(700))
    pair.post_chunks(region, 0, 0, 256, 0, 0, "empty")
    pair.post_chunks(region, 0, 3, 256, 0, 0, "all")
    for number in range(100):
        pair.post_chunks(region, 1, 1, 100, 0, 0, number, offset=100, length=200)
    group.network.settle()
    contexts = [done.context for done in group.hosts[0].poll()]
    assert contexts == ["empty", "all", *range(100)]
    assert pair.outstanding == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 4, 256, 0, 0), "chunks 0 to 3"),
        ((0, 1, 257, 0, 0), "path MTU"),
        ((0, 1, 0, 0, 0), "1 to 256"),
        ((-1, 1, 256, 0, 0), "chunks -1"),
        ((0, 1, 256, 0, -5), "-5 bit/s"),
    ],
)
def test_chunks_outside_the_region_are_refused(arguments: tuple[int, ...], message: str) -> None:
    host = Endpoint(ipv4("10.0.0.1"), 256)
    pair = host.create_ud(GROUP, QKEY)
    region = host.register(np.zeros(700, np.uint8))
    with pytest.raises(TransportMisuse, match=message):
        pair.post_chunks(region, *arguments)
    with pytest.raises(TransportMisuse, match="batches of 0 chunks"):
        pair.post_chunks(region, 0, 1, 256, 0, 0, batch=0)


def test_chunks_look_as_the_specification_says() -> None:
    host = Endpoint(ipv4("10.0.0.1"), 256)
    pair = host.create_ud(GROUP, QKEY, source_port=5555, tos=0x20)
    region = host.register(pattern(300))
    pair.post_chunks(region, 1, 1, 256, 0x03000010, 0)
    row = row_of(host.transmit(0), 0)
    assert row[:4] == (host.address, GROUP, 5555, 0x20)
    packet = Packet.decode(row.data, row.source, row.destination, row.source_port)
    assert packet == Packet(
        Opcode.UD_SEND_ONLY_WITH_IMMEDIATE,
        0xFFFFFF,
        0,
        qkey=QKEY,
        source_queue_pair=pair.number,
        immediate=0x03000011,
        payload=pattern(300)[256:].tobytes(),
    )


def test_multicast_and_reliable_traffic_share_the_link() -> None:
    group = Group(2)
    one, two = group.hosts
    left, right = one.create_rc(), two.create_rc()
    left.connect(right.local)
    right.connect(left.local)
    target = two.register(np.zeros(50_000, np.uint8))
    source = one.register(pattern(50_000))
    sink = ChunkSink(np.zeros(50_000, np.uint8), 1, 256, [50_000])
    group.pairs[1].sink = sink
    group.pairs[0].post_chunks(source, 0, sink.chunks, 256, sink.number_base, 0)
    left.post_write(source, 0, 50_000, target.address, target.rkey)
    group.network.settle()
    assert sink.missing == 0 and (sink.buffer == source.buffer).all()
    assert (target.buffer == source.buffer).all()


@pytest.mark.parametrize("batch", [1, 3, 8, 128])
def test_chunks_leave_in_batches_at_the_same_average_rate(batch: int) -> None:
    host = Endpoint(ipv4("10.0.0.1"), 1024)
    pair = host.create_ud(GROUP, QKEY)
    region = host.register(pattern(20 * 1024))
    each = (1024 + 12 + 8 + 4 + 4 + 42) * 80
    now, times = 1_000, []
    for start in (0, 10):
        pair.post_chunks(region, start, 10, 1024, 0, 10**8, batch=batch)
    while host.deadline() is not None:
        times.extend([now] * len(host.transmit(now)))
        now = max(now, host.deadline() or 0)
    # A batch ends with its run, and the next one starts when the average allows it.
    starts = [run + index // batch * batch for run in (0, 10) for index in range(10)]
    assert times == [1_000 + start * each for start in starts]


def test_within_a_batch_the_link_alone_spaces_chunks_and_other_groups_have_their_turn() -> None:
    host = Endpoint(ipv4("10.0.0.1"), 1024, 10**9)
    pairs = [host.create_ud(GROUP + index, QKEY) for index in range(2)]
    region = host.register(pattern(4 * 1024))
    for pair in pairs:
        pair.post_chunks(region, 0, 4, 1024, 0, 10**8, batch=4)
    each = (1024 + 12 + 8 + 4 + 4 + 42) * 8
    now = 1_000
    sent: list[tuple[int, int]] = []
    while host.deadline() is not None:
        sent.extend((now, row.destination) for row in rows_of(host.transmit(now)))
        now = max(now, host.deadline() or 0)
    assert [time - 1_000 for time, _ in sent] == [index * each for index in range(8)]
    assert sorted(group for _, group in sent[:2]) == [GROUP, GROUP + 1]


def chunk_packets(sink: ChunkSink, data: npt.NDArray[np.uint8]) -> list[Datagram]:
    """A packet for each of a sink's chunks, as host 1 sends them."""
    source = ipv4("10.0.0.1")
    packets = []
    for shard in range(sink.shards):
        offset, size = sink.shard_region(shard)
        for index, chunk in enumerate(sink.chunks_of(shard)):
            begin = offset + index * sink.chunk_bytes
            end = min(begin + sink.chunk_bytes, offset + size)
            packet = Packet(
                Opcode.UD_SEND_ONLY_WITH_IMMEDIATE, 0xFFFFFF, 0, qkey=QKEY,
                immediate=sink.number_base + chunk, payload=data[begin:end].tobytes(),
            )  # fmt: skip
            packets.append(Datagram(source, GROUP, 5, 0, packet.encode(source, GROUP, 5)))
    return packets


@given(
    st.lists(st.integers(0, 90), min_size=1, max_size=4),
    st.data(),
    st.integers(1, 5),
)
def test_a_chunk_that_arrives_and_is_marked_counts_once(
    sizes: list[int], drawn: st.DataObject, packets_per_chunk: int
) -> None:
    data = pattern(sum(sizes))
    sink = ChunkSink(
        np.zeros(sum(sizes), np.uint8), 3, 10, sizes, packets_per_chunk=packets_per_chunk
    )
    host = Endpoint(ipv4("10.0.0.2"), 256)
    pair = host.create_ud(GROUP, QKEY)
    pair.attach(sink)
    packets = chunk_packets(sink, data)
    there: set[int] = set()
    received = marked = duplicates = completions = 0
    steps = st.lists(
        st.one_of(
            st.integers(0, max(len(packets) - 1, 0)),
            st.tuples(st.integers(0, len(packets)), st.integers(0, len(packets))),
        ),
        max_size=40,
    )
    for step in drawn.draw(steps):
        was_whole = len(there) == len(packets)
        if isinstance(step, tuple):
            first, end = min(step), max(step)
            chunks = set(range(first, end))
            assert sink.mark(first, end - first) == len(chunks - there)
            marked += len(chunks - there)
            there |= chunks
        elif packets:
            host.receive(batch_of([packets[step]]), 0)
            received += step not in there
            duplicates += step in there
            there.add(step)
            completions += len(there) == len(packets) and not was_whole
        assert sink.missing == len(packets) - len(there)
        assert (sink.received, sink.duplicates) == (received, duplicates)
        assert [sink.has(chunk) for chunk in range(len(packets))] == [
            chunk in there for chunk in range(len(packets))
        ]
        missing_bytes = 0
        for shard in range(sink.shards):
            numbers = sink.chunks_of(shard)
            lacking = set(numbers) - there
            assert sink.missing_in(shard) == len(lacking)
            groups = {(chunk - numbers.start) // packets_per_chunk for chunk in lacking}
            covered = [
                chunk
                for gap in sink.gaps(shard)
                for chunk in range(gap.first_chunk, gap.first_chunk + gap.count)
            ]
            assert covered == [
                chunk for chunk in numbers if (chunk - numbers.start) // packets_per_chunk in groups
            ]
            offset, size = sink.shard_region(shard)
            for gap in sink.gaps(shard):
                begin = (gap.first_chunk - numbers.start) * 10
                assert (gap.offset, gap.shard_offset) == (offset + begin, begin)
                assert gap.length == min(gap.count * 10, size - begin)
            missing_bytes += sum(min(10, size - (chunk - numbers.start) * 10) for chunk in lacking)
        assert sink.missing_bytes == missing_bytes
    done = [one for one in host.poll() if one.kind is CompletionKind.CHUNKS_RECEIVED]
    assert len(done) == completions
    assert received + marked + sink.missing == len(packets)


def test_one_thread_feeds_a_sink_while_another_marks() -> None:
    chunks = 20_000
    data = pattern(chunks * 8)
    host = Endpoint(ipv4("10.0.0.2"), 256)
    pair = host.create_ud(GROUP, QKEY)
    sink = ChunkSink(np.zeros(len(data), np.uint8), 3, 8, [len(data)])
    pair.attach(sink)
    batch = batch_of(chunk_packets(sink, data))
    feeder = threading.Thread(target=host.receive, args=(batch, 0))
    feeder.start()
    fetched = 0
    for chunk in range(0, chunks, 3):
        sink.buffer[chunk * 8 : chunk * 8 + 8] = data[chunk * 8 : chunk * 8 + 8]
        fetched += sink.mark(chunk, 1)
    feeder.join()
    assert sink.missing == sink.missing_in(0) == 0 and not sink.gaps(0)
    assert sink.received + fetched == chunks
    assert sink.received + sink.duplicates == chunks
    assert (sink.buffer == data).all()


def test_loops_back_nothing() -> None:
    group = Group(3)
    sink = ChunkSink(np.zeros(256, np.uint8), 1, 256, [256])
    group.pairs[0].sink = sink
    region = group.hosts[0].register(pattern(256))
    group.pairs[0].post_chunks(region, 0, 1, 256, sink.number_base, 0)
    group.network.settle()
    assert sink.missing == 1


def test_of_two_queue_pairs_on_a_group_the_one_with_the_sink_receives() -> None:
    sender, host = (Endpoint(ipv4(f"10.0.0.{number}"), 256, seed=number) for number in (1, 2))
    idle, busy = (host.create_ud(GROUP, QKEY) for _ in range(2))
    sink = ChunkSink(np.zeros(1000, np.uint8), 3, 256, [1000])
    busy.attach(sink)
    data = pattern(1000)
    sending = sender.create_ud(GROUP, QKEY)
    sending.post_chunks(sender.register(data), 0, 4, 256, sink.number_base, 0)
    MemoryNetwork([sender, host]).settle()
    assert (sink.buffer == data).all() and sink.missing == 0
    assert idle.sink is None and host.statistics.chunks_received == 4
