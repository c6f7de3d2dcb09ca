"""``weft bench transport``: one host's receive path in memory, and its CRC against zlib's."""

import time
import zlib
from typing import Any

import numpy as np

from weft.agents.datagrams import ipv4
from weft.agents.transport import ChunkSink, Endpoint, TransportOptions
from weft.agents.wire.crc import crc32
from weft.base.errors import refuse
from weft.tools.bench.timing import quickest_ns

CHUNKS = 256
CHUNK_BYTES = 4096
ATTEMPTS = 10


def measure() -> dict[str, Any]:
    """Return GB/s of Weft's CRC-32 and of zlib's in the same run, and, by packets a batch, the ns
    that a chunk takes the receive path, ICRC and copy included.

    Each figure is the quickest of some attempts, since other processes can only add time.
    """
    data = bytes(range(256)) * (1 << 12)
    return {
        "crc_gbytes_per_s": len(data) / quickest_ns(lambda: crc32(data), ATTEMPTS),
        "zlib_crc_gbytes_per_s": len(data) / quickest_ns(lambda: zlib.crc32(data), ATTEMPTS),
        "receive_ns_per_chunk": {packets: _receive_ns(packets) for packets in (1, 8, 64)},
        "chunk_bytes": CHUNK_BYTES,
    }


def _receive_ns(batch_packets: int) -> float:
    sender = Endpoint(ipv4("10.0.0.1"), options=TransportOptions(batch_packets=batch_packets))
    receiver = Endpoint(ipv4("10.0.0.2"))
    group, other = (host.create_ud(ipv4("239.0.0.1"), 1) for host in (sender, receiver))
    region = sender.register(np.arange(CHUNKS * CHUNK_BYTES, dtype=np.uint64).astype(np.uint8))
    buffer = np.zeros(CHUNKS * CHUNK_BYTES, np.uint8)
    results = []
    for _ in range(ATTEMPTS):
        other.sink = sink = ChunkSink(buffer, 1, CHUNK_BYTES, [len(buffer)])
        group.post_chunks(region, 0, CHUNKS, CHUNK_BYTES, sink.number_base, 0)
        spent = 0
        while len(batch := sender.transmit(0)):
            started = time.perf_counter_ns()
            receiver.receive(batch, 0)
            spent += time.perf_counter_ns() - started
        refuse(
            sink.missing or not np.array_equal(buffer, region.buffer),
            "the benchmark's data did not arrive whole",
            AssertionError,
        )
        results.append(spent)
    return min(results) / CHUNKS
