"""A receive worker, in both its forms, against a plain one and whatever the network brings."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.datagram_rows import Datagram, batch_of
from tests.support.rocev2_packet import MalformedPacket, Packet, icrc
from tests.support.transport_pair import pattern

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES, ipv4
from weft.agents.transport import ChunkSink, Endpoint, ReceiveWorker, Statistics, TransportMisuse
from weft.agents.wire.headers import Opcode
from weft.base.jit import words_of

HERE, THERE, STRANGER = ipv4("10.0.0.1"), ipv4("10.0.0.2"), ipv4("10.0.0.3")
GROUPS = [(ipv4("239.0.0.5"), 7), (ipv4("239.0.0.6"), 8)]
PORT = 50_000
CHUNK_BYTES = 16
SHARDS = [[70, 0, 16], [33], [160, 5]]
"""Of three sinks: operations 1 and 2 on the first group, 257 on the second."""
PLACES = [(0, 1), (0, 2), (1, 257)]


@dataclass
class PlainWorker:
    """What a worker does, in a few lines of Python."""

    sinks: dict[tuple[int, int, int], int]
    """By group address, Q_Key and operation."""
    lengths: list[list[int]]
    """The bytes of each chunk, by sink."""
    counted: Statistics = field(default_factory=Statistics)
    payloads: list[dict[int, bytes]] = field(default_factory=list)
    duplicates: list[int] = field(default_factory=list)
    out_of_bounds: list[int] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.payloads = [{} for _ in self.lengths]
        self.duplicates = [0] * len(self.lengths)
        self.out_of_bounds = [0] * len(self.lengths)

    def receive(self, datagram: Datagram) -> None:
        counted, data = self.counted, datagram.data
        counted.received_packets += 1
        counted.received_bytes += len(data) + FRAME_OVERHEAD_BYTES
        counted.congestion_marks += datagram.tos & 3 == 3
        if len(data) < 16:
            counted.truncated += 1
            return
        check = icrc(data[:-4], datagram.source, datagram.destination, datagram.source_port)
        if check != int.from_bytes(data[-4:], "little"):
            counted.bad_icrc += 1
        elif data[0] not in set(Opcode) or data[1] & 0xF:
            counted.unknown_opcode += 1
        else:
            try:
                packet = Packet.decode(data)
            except MalformedPacket:
                counted.truncated += 1
                return
            self.take(datagram, packet)

    def take(self, datagram: Datagram, packet: Packet) -> None:
        counted = self.counted
        if packet.queue_pair != 0xFFFFFF:
            counted.unknown_queue_pair += 1
        elif datagram.source == HERE:
            counted.own_loopback += 1
        elif packet.opcode is not Opcode.UD_SEND_ONLY_WITH_IMMEDIATE:
            counted.unknown_opcode += 1
        elif (group := self.group_of(datagram.destination, packet.qkey)) is None:
            counted.unknown_queue_pair += 1
        else:
            operation = packet.qkey - group[1] << 8 | packet.immediate >> 24
            sink = self.sinks.get((*group, operation))
            if sink is None:
                counted.wrong_operation += 1
            else:
                self.deliver(sink, packet.immediate & 0xFFFFFF, packet.payload, datagram.source)

    @staticmethod
    def group_of(address: int, qkey: int) -> tuple[int, int] | None:
        """The group that a Q_Key at an address is one of: there is one for each 256 operations."""
        of_address = (group for group in GROUPS if group[0] == address)
        return next((group for group in of_address if 0 <= qkey - group[1] < 1 << 24), None)

    def deliver(self, sink: int, chunk: int, payload: bytes, source: int) -> None:
        lengths, there = self.lengths[sink], self.payloads[sink]
        if chunk >= len(lengths) or len(payload) != lengths[chunk]:
            self.out_of_bounds[sink] += 1
            self.counted.chunks_out_of_bounds += 1
        elif source != THERE:
            self.counted.foreign_chunks += 1
        elif chunk in there:
            self.duplicates[sink] += 1
            self.counted.duplicate_chunks += 1
        else:
            there[chunk] = payload
            self.counted.chunks_received += 1
            if len(there) == len(lengths):
                self.whole.append(sink)


def make_sinks() -> list[ChunkSink]:
    return [
        ChunkSink(
            np.zeros(sum(sizes), np.uint8),
            operation,
            CHUNK_BYTES,
            sizes,
            senders=[THERE] * len(sizes),
        )
        for (_, operation), sizes in zip(PLACES, SHARDS, strict=True)
    ]


def chunks_of(sink: ChunkSink) -> list[tuple[int, int]]:
    """Where each chunk of a sink begins and ends in the buffer."""
    found = []
    for shard in range(sink.shards):
        offset, size = sink.shard_region(shard)
        for begin in range(0, size, sink.chunk_bytes):
            found.append((offset + begin, offset + min(begin + sink.chunk_bytes, size)))
    return found


def chunk_datagram(
    number: int,
    payload: bytes,
    group: tuple[int, int] = GROUPS[0],
    *,
    source: int = THERE,
    opcode: Opcode = Opcode.UD_SEND_ONLY_WITH_IMMEDIATE,
    queue_pair: int = 0xFFFFFF,
    tos: int = 0,
) -> Datagram:
    """A packet with a number of 56 bits, whose upper ones go into the Q_Key."""
    address, qkey = group[0], group[1] + (number >> 32)
    immediate = number & 0xFFFFFFFF
    packet = Packet(opcode, queue_pair, 0, qkey=qkey, immediate=immediate, payload=payload)
    return Datagram(source, address, PORT, tos, packet.encode(source, address, PORT))


def good_datagrams() -> list[Datagram]:
    """Every chunk of every sink."""
    found = []
    for (group, _), sink, seed in zip(PLACES, make_sinks(), range(3), strict=True):
        data = pattern(len(sink.buffer), seed)
        for chunk, (begin, end) in enumerate(chunks_of(sink)):
            payload = data[begin:end].tobytes()
            found.append(chunk_datagram(sink.number_base + chunk, payload, GROUPS[group]))
    return found


GOOD = good_datagrams()


@st.composite
def hostile_datagram(draw: st.DrawFn) -> Datagram:
    """Bytes that mean nothing, or a sealed packet with fields that do not belong together."""
    if draw(st.booleans()):
        data = draw(st.binary(max_size=120))
        if len(data) >= 12 and draw(st.booleans()):
            data += icrc(data, THERE, GROUPS[0][0], PORT).to_bytes(4, "little")
        return Datagram(THERE, GROUPS[0][0], PORT, 0, data)
    return chunk_datagram(
        draw(st.sampled_from([1, 2, 3, 255])) << 24
        | draw(st.one_of(st.integers(0, 12), st.integers(0, 0xFFFFFF))),
        draw(st.binary(max_size=40)),
        (draw(st.sampled_from([*(group for group, _ in GROUPS), HERE])), draw(st.integers(6, 9))),
        source=draw(st.sampled_from([THERE, THERE, HERE, STRANGER])),
        opcode=draw(st.sampled_from([*[Opcode.UD_SEND_ONLY_WITH_IMMEDIATE] * 3, *Opcode])),
        queue_pair=draw(st.sampled_from([0xFFFFFF, 0xFFFFFF, 5])),
        tos=draw(st.integers(0, 255)),
    )


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Datagram]]:
    """Batches in which chunks are lost, repeated, late and spoiled, and newcomers come between."""
    order = draw(st.permutations(GOOD)) if draw(st.booleans()) else list(GOOD)
    loss = draw(st.sets(st.integers(0, len(GOOD) - 1), max_size=8))
    found = [one for number, one in enumerate(order) if number not in loss]
    for _ in range(draw(st.integers(0, 12))):
        place = draw(st.integers(0, len(found)))
        kind = draw(st.sampled_from(["again", "spoiled", "cut", "hostile"]))
        copy = draw(st.sampled_from(GOOD))
        if kind == "spoiled":
            spoiled = bytearray(copy.data)
            bit = draw(st.integers(0, 8 * len(spoiled) - 1))
            spoiled[bit // 8] ^= 1 << bit % 8
            copy = copy._replace(data=bytes(spoiled))
        elif kind == "cut":
            copy = copy._replace(data=copy.data[: draw(st.integers(0, len(copy.data)))])
        elif kind == "hostile":
            copy = draw(hostile_datagram())
        found.insert(place, copy)
    batches, size = [], draw(st.integers(1, len(found) + 1))
    for first in range(0, len(found), size):
        batches.append(found[first : first + size])
    return batches


def attach(worker: ReceiveWorker, sinks: list[ChunkSink]) -> None:
    for (group, _), sink in zip(PLACES, sinks, strict=True):
        worker.attach(sink, group)


@given(arrivals(), st.integers(1, 9), st.integers(1, 5))
def test_both_forms_do_what_the_plain_one_does(
    batches: list[list[Datagram]], slots: int, window: int
) -> None:
    plain = PlainWorker(
        {(*GROUPS[group], operation): sink for sink, (group, operation) in enumerate(PLACES)},
        [[end - begin for begin, end in chunks_of(sink)] for sink in make_sinks()],
    )
    workers = [
        ReceiveWorker(HERE, GROUPS),
        ReceiveWorker(HERE, GROUPS, staged=True, slots=slots, slot_bytes=20, window=window),
    ]
    found = [make_sinks() for _ in workers]
    for worker, sinks in zip(workers, found, strict=True):
        attach(worker, sinks)
    for batch in batches:
        for datagram in batch:
            plain.receive(datagram)
        for worker, sinks in zip(workers, found, strict=True):
            worker.receive(batch_of(batch), 0)
            assert [sinks.index(sink) for sink in worker.poll()] == plain.whole
        plain.whole.clear()
    for worker, sinks in zip(workers, found, strict=True):
        assert worker.statistics == plain.counted
        for number, sink in enumerate(sinks):
            assert sink.received == len(plain.payloads[number])
            assert sink.duplicates == plain.duplicates[number]
            assert sink.out_of_bounds == plain.out_of_bounds[number]
            assert sink.missing == sink.chunks - sink.received
            expected = np.zeros_like(sink.buffer)
            for chunk, (begin, end) in enumerate(chunks_of(sink)):
                there = plain.payloads[number].get(chunk)
                assert sink.has(chunk) == (there is not None)
                if there is not None:
                    expected[begin:end] = np.frombuffer(there, np.uint8)
            assert (sink.buffer == expected).all()


@given(arrivals())
def test_a_worker_counts_what_an_endpoint_would(batches: list[list[Datagram]]) -> None:
    worker, endpoint = ReceiveWorker(HERE, GROUPS), Endpoint(HERE, 256)
    pairs = [endpoint.create_ud(*group) for group in GROUPS]
    ours, theirs = make_sinks(), make_sinks()
    attach(worker, ours)
    for (group, _), sink in zip(PLACES, theirs, strict=True):
        pairs[group].attach(sink)
    for batch in batches:
        worker.receive(batch_of(batch), 0)
        endpoint.receive(batch_of(batch), 0)
    assert worker.statistics == endpoint.statistics
    assert worker.poll() == [
        ours[theirs.index(done.sink)] for done in endpoint.poll() if done.sink is not None
    ]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.buffer == other.buffer).all()


@pytest.mark.parametrize("staged", [False, True])
def test_workers_side_by_side_gather_one_buffer(staged: bool) -> None:
    sizes = [100, 48, 0, 77]
    data, buffer = pattern(sum(sizes)), np.zeros(sum(sizes), np.uint8)
    offsets = np.cumsum([0, *sizes[:-1]]).tolist()
    workers = [
        ReceiveWorker(HERE, [(group, 7)], staged=staged)
        for group in range(0xE1 << 24, 0xE1 << 24 | 4)
    ]
    for worker, offset, size in zip(workers, offsets, sizes, strict=True):
        sink = ChunkSink(buffer, 9, 10, [size], [offset])
        worker.attach(sink)
        packets = [
            chunk_datagram(
                sink.number_base + chunk, data[begin:end].tobytes(), (worker.groups[0], 7)
            )
            for chunk, (begin, end) in enumerate(chunks_of(sink))
        ]
        worker.receive(batch_of(packets), 0)
        assert worker.poll() == ([sink] if size else [])
    assert (buffer == data).all()


@pytest.mark.parametrize("staged", [False, True])
def test_a_detached_sink_receives_no_more_and_its_operation_is_free_again(staged: bool) -> None:
    worker = ReceiveWorker(HERE, GROUPS, staged=staged)
    sink, after = (ChunkSink(np.zeros(20, np.uint8), 5, 10, [20]) for _ in range(2))
    worker.attach(sink)
    worker.attach(sink)
    with pytest.raises(TransportMisuse, match="operation 5 has a sink on 239"):
        worker.attach(after)
    worker.receive(batch_of([chunk_datagram(5 << 24, bytes(10))]), 0)
    worker.detach(sink)
    worker.detach(sink)
    worker.receive(batch_of([chunk_datagram(5 << 24 | 1, bytes(10))]), 0)
    assert (sink.missing, worker.statistics.wrong_operation) == (1, 1)
    worker.attach(after)
    worker.receive(batch_of([chunk_datagram(5 << 24 | 1, bytes(10))]), 0)
    assert (sink.missing, after.missing) == (1, 1)


def test_marked_chunks_let_packets_complete_a_sink() -> None:
    worker = ReceiveWorker(HERE, GROUPS, staged=True)
    sink = ChunkSink(np.zeros(30, np.uint8), 5, 10, [30])
    worker.attach(sink)
    assert sink.mark(1, 1) == 1
    worker.receive(batch_of([chunk_datagram(5 << 24 | 2, bytes(10))]), 0)
    assert worker.poll() == [] and sink.missing == 1
    worker.receive(batch_of([chunk_datagram(5 << 24, bytes(10))]), 0)
    assert worker.poll() == [sink] and sink.missing == 0


def test_queue_pairs_that_are_handed_over_complete_at_their_endpoint() -> None:
    endpoint = Endpoint(HERE, 256)
    pairs = [endpoint.create_ud(*group) for group in [*GROUPS, (GROUPS[0][0] + 9, 1)]]
    worker = endpoint.hand_over(pairs[:2])
    assert worker.groups == [group for group, _ in GROUPS]
    assert endpoint.groups == [GROUPS[0][0] + 9]
    sinks = make_sinks()
    for (group, _), sink in zip(PLACES, sinks, strict=True):
        pairs[group].attach(sink)
    endpoint.receive(batch_of(GOOD), 0)
    assert endpoint.statistics.unknown_queue_pair == len(GOOD)
    worker.receive(batch_of(GOOD), 0)
    assert endpoint.statistics.chunks_received == len(GOOD)
    assert endpoint.statistics.received_packets == 2 * len(GOOD)
    assert endpoint.poll() == []
    worker.finished.extend(worker.poll())
    done = endpoint.poll()
    assert [(one.qp, one.sink) for one in done] == [
        (pairs[group], sink) for (group, _), sink in zip(PLACES, sinks, strict=True)
    ]
    pairs[0].sink = None
    worker.receive(batch_of(GOOD[:1]), 0)
    assert endpoint.statistics.wrong_operation == 1
    worker.finished.append(sinks[0])
    assert endpoint.poll() == []
    with pytest.raises(TransportMisuse, match="fed by another"):
        pairs[2].attach(sinks[0])
    with pytest.raises(TransportMisuse, match="has a receive worker already"):
        endpoint.hand_over(pairs[:1])
    pairs[2].attach(ChunkSink(np.zeros(20, np.uint8), 5, 10, [20]))
    with pytest.raises(TransportMisuse, match="has sinks already"):
        endpoint.hand_over(pairs[2:])


@pytest.mark.parametrize("staged", [False, True])
def test_nothing_is_written_after_a_sink_was_detached(staged: bool) -> None:
    worker = ReceiveWorker(HERE, GROUPS, staged=staged)
    size = 40_000
    packets = batch_of(chunk_datagram(5 << 24 | chunk, b"\1" * 8) for chunk in range(size // 8))
    sink = ChunkSink(np.zeros(size, np.uint8), 5, 8, [size])
    worker.attach(sink)
    thread = threading.Thread(target=worker.receive, args=(packets, 0))
    thread.start()
    worker.detach(sink)
    then = sink.buffer.copy(), sink.missing
    thread.join()
    assert (sink.buffer == then[0]).all() and sink.missing == then[1]
    assert sink.received == int(then[0].sum()) // 8


def test_workers_share_no_cache_line() -> None:
    workers = [ReceiveWorker(HERE, GROUPS) for _ in range(4)]
    sinks = [ChunkSink(np.zeros(20, np.uint8), 5, 10, [20]) for _ in range(4)]
    arrays = [words_of(worker.state) for worker in workers] + [sink.words for sink in sinks]
    lines = [
        set(range(array.ctypes.data // 64, (array.ctypes.data + array.nbytes - 1) // 64 + 1))
        for array in arrays
    ]
    assert len(set.union(*lines)) == sum(map(len, lines))


def test_a_worker_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(TransportMisuse, match=r"10\.0\.0\.1 is no multicast group"):
        ReceiveWorker(HERE, [(HERE, 1)])
    with pytest.raises(TransportMisuse, match="slots 0"):
        ReceiveWorker(HERE, GROUPS, staged=True, slots=0)
    worker = ReceiveWorker(HERE, GROUPS, staged=True, slot_bytes=8)
    with pytest.raises(TransportMisuse, match="slots of 8"):
        worker.attach(ChunkSink(np.zeros(20, np.uint8), 5, 10, [20]))


def test_chunks_as_large_as_a_staging_slot_fit() -> None:
    worker = ReceiveWorker(HERE, GROUPS, staged=True, slots=4, slot_bytes=CHUNK_BYTES)
    worker.attach(ChunkSink(np.zeros(64, np.uint8), 1, CHUNK_BYTES, [64]))
    with pytest.raises(TransportMisuse, match=r"chunks of 17 bytes do not fit .* slots of 16"):
        worker.attach(ChunkSink(np.zeros(64, np.uint8), 2, CHUNK_BYTES + 1, [64]))


def test_a_staging_ring_that_is_full_is_emptied_before_more_is_staged() -> None:
    worker = ReceiveWorker(HERE, GROUPS, staged=True, slots=2, slot_bytes=CHUNK_BYTES, window=5)
    data = np.arange(7 * CHUNK_BYTES, dtype=np.uint8)
    sink = ChunkSink(np.zeros(len(data), np.uint8), 1, CHUNK_BYTES, [len(data)])
    worker.attach(sink)
    worker.receive(
        batch_of(
            [
                chunk_datagram(
                    1 << 24 | chunk,
                    data[CHUNK_BYTES * chunk : CHUNK_BYTES * (chunk + 1)].tobytes(),
                    GROUPS[0],
                )
                for chunk in range(7)
            ]
        ),
        0,
    )
    assert (sink.buffer == data).all() and worker.poll() == [sink]
    assert worker.state.staged == 7
    assert ReceiveWorker(HERE, GROUPS).state.staging == 0
