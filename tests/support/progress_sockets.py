"""Run by test_progress_engine.py in a network namespace of its own: worker threads on
sockets.

Prints what it saw as one JSON document.
"""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import threading

import numpy as np
from tests.support.datagram_rows import rows_of
from tests.support.progress_engine_support import (
    ADDRESS,
    CHUNK_BYTES,
    GROUPS,
    QKEY,
    SENDER,
    SHARD_BYTES,
    packets_of,
)
from tests.support.transport_pair import pattern

from weft.agents.datagrams import UDP_PORT, ipv4_text
from weft.agents.drivers.progress_engine import ProgressEngine, SocketSource
from weft.agents.transport import ChunkSink, ReceiveWorker


def main() -> None:
    lines = [
        "link set lo up",
        *(f"addr add {ipv4_text(one)}/32 dev lo" for one in (ADDRESS, SENDER)),
    ]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)
    size = SHARD_BYTES * len(GROUPS)
    data, buffer = pattern(size), np.zeros(size, np.uint8)
    parts = []
    for index, group in enumerate(GROUPS):
        worker = ReceiveWorker(ADDRESS, [(group, QKEY)], staged=index % 2 == 1)
        worker.attach(ChunkSink(buffer, 1, CHUNK_BYTES, [SHARD_BYTES], [index * SHARD_BYTES]))
        parts.append((worker, SocketSource(ADDRESS, [group])))
    left = threading.Semaphore(0)
    with ProgressEngine(parts, lambda _index, _sink: left.release()) as engine:
        # Interleaved, so that a socket which hears another's group would show it.
        rings = [
            rows_of(packets_of(group, data[index * SHARD_BYTES :][:SHARD_BYTES]))
            for index, group in enumerate(GROUPS)
        ]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.bind((ipv4_text(SENDER), rings[0][0].source_port))
            sender.setsockopt(
                socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(ipv4_text(SENDER))
            )
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
            for packets in zip(*rings, strict=True):
                for packet in packets:
                    sender.sendto(packet.data, (ipv4_text(packet.destination), UDP_PORT))
        arrived = all(left.acquire(timeout=300) for _ in GROUPS)
        engine.stop()
        stopped = len(engine.wait()) == len(GROUPS)
    print(
        json.dumps(
            {
                "gathered": arrived and bool((buffer == data).all()),
                "stopped": stopped,
                "statistics": [dataclasses.asdict(worker.statistics) for worker, _ in parts],
            }
        )
    )


if __name__ == "__main__":
    main()
