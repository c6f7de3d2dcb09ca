"""What tests of progress engine share with others."""

from __future__ import annotations

from typing import Any

from weft.agents.datagrams import Datagrams, ipv4
from weft.agents.transport import Endpoint, TransportOptions

ADDRESS, SENDER = ipv4("10.9.0.2"), ipv4("10.9.0.1")


GROUPS = [ipv4(f"239.9.0.{worker + 1}") for worker in range(3)]


QKEY = 9


SHARD_BYTES, CHUNK_BYTES = 50_000, 250


def packets_of(group: int, data: Any) -> Datagrams:
    """A ring that has every chunk of some data."""
    chunks = -(-len(data) // CHUNK_BYTES)
    sender = Endpoint(SENDER, 256, options=TransportOptions(batch_packets=chunks))
    pair = sender.create_ud(group, QKEY)
    pair.post_chunks(sender.register(data), 0, chunks, CHUNK_BYTES, 1 << 24, 0)
    ring = sender.transmit(0)
    assert ring.count == chunks
    return ring
