"""The packet path is compiled: figures far from these mean that something fell back to Python."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable

import numpy as np

from agents.datagrams import ipv4
from agents.transport import ChunkSink, Endpoint, TransportOptions
from agents.wire import crc32
from agents.wire.folding import AVAILABLE
from tests.transport_pair import A, B, pattern

CHUNKS = 256


def best_ns(work: Callable[[], object], attempts: int = 10) -> int:
    """The time of the quickest attempt: other processes only add to it."""
    times = []
    for _ in range(attempts):
        started = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - started)
    return min(times)


def receive_ns(batch_packets: int) -> float:
    """The time that the receive path takes for a chunk of 4 KiB, ICRC and copy included."""
    sender = Endpoint(A, options=TransportOptions(batch_packets=batch_packets))
    receiver = Endpoint(B)
    group, other = (host.create_ud(ipv4("239.0.0.1"), 1) for host in (sender, receiver))
    region = sender.register(pattern(CHUNKS * 4096))
    buffer = np.ones(CHUNKS * 4096, np.uint8)
    results = []
    for _ in range(5):
        other.sink = sink = ChunkSink(buffer, 1, 4096, [len(buffer)])
        group.post_chunks(region, 0, CHUNKS, 4096, sink.immediate_base, 0)
        spent = 0
        while len(batch := sender.transmit(0)):
            started = time.perf_counter_ns()
            receiver.receive(batch, 0)
            spent += time.perf_counter_ns() - started
        assert sink.missing == 0
        results.append(spent)
    return min(results) / CHUNKS


def test_one_core_receives_half_a_gigabyte_a_second_icrc_included() -> None:
    assert 4096 / receive_ns(64) > 0.5


def test_a_batch_of_one_packet_costs_little_more() -> None:
    assert receive_ns(1) < 10_000


def test_the_crc_keeps_up_with_zlib() -> None:
    data = pattern(1 << 18).tobytes()
    crc32(data)
    ours, theirs = best_ns(lambda: crc32(data)), best_ns(lambda: zlib.crc32(data))
    assert ours < theirs * (2 if AVAILABLE else 20)
