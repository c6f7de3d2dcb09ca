"""Two hosts on a veth pair, each in a network namespace of its own; started by test_udp.py below
`unshare --net`.

Prints one JSON document: what each host saw.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from tests.support.rocev2_packet import Packet

from weft.agents.datagrams import ipv4
from weft.agents.drivers.udp import UdpDriver
from weft.agents.transport import ChunkSink, Completion, Endpoint, RemoteQueuePair, TransportOptions
from weft.agents.transport.endpoint_agent import EndpointAgent

CLONE_NEWNET = 0x40000000
ADDRESSES = [ipv4("10.9.0.1"), ipv4("10.9.0.2")]
GROUP = ipv4("239.0.0.7")
SIZE = 2 << 20
CHUNK = 4096
PORT = 50_123


def ip(command: str, namespace: int | None = None) -> None:
    enter = ["nsenter", "-t", str(namespace), "-n"] if namespace else []
    subprocess.run([*enter, "ip", *command.split()], check=True)


def configure(rank: int, namespace: int | None = None) -> None:
    for command in (
        "link set lo up",
        f"address add 10.9.0.{rank + 1}/24 dev end{rank}",
        f"link set end{rank} mtu 9000 up",
        f"route add 224.0.0.0/4 dev end{rank}",
    ):
        ip(command, namespace)


class Meeting:
    """Lines of JSON over a pair of pipes."""

    def __init__(self, reading: int, writing: int) -> None:
        self._reading = os.fdopen(reading)
        self._writing = os.fdopen(writing, "w", buffering=1)

    def tell(self, document: object) -> None:
        self._writing.write(json.dumps(document) + "\n")

    def hear(self) -> Any:
        return json.loads(self._reading.readline())


def sniff(count: int, listener: socket.socket) -> dict[str, object]:
    """What the first frames with RoCEv2 in them look like."""
    frames: list[bytes] = []
    while len(frames) < count:
        frame = listener.recv(10_000)
        if frame[12:14] == b"\x08\x00" and frame[23] == 17:
            frames.append(frame)
    wrong = []
    for frame in frames:
        data = frame[42 : 14 + int.from_bytes(frame[16:18], "big")]
        source, destination = (int.from_bytes(frame[at : at + 4], "big") for at in (26, 30))
        try:
            Packet.decode(data, source, destination, int.from_bytes(frame[34:36], "big"))
        except Exception as error:
            wrong.append(str(error))
    return {
        "frames": len(frames),
        "wrong": wrong,
        "identifications": sorted({frame[18:20].hex() for frame in frames}),
        "fragments": sorted({frame[20:22].hex() for frame in frames}),
        "ttls": sorted({frame[22] for frame in frames}),
        "services": sorted({frame[15] for frame in frames}),
        "udp_checksums": sorted({frame[40:42].hex() for frame in frames}),
        "source_ports": sorted({int.from_bytes(frame[34:36], "big") for frame in frames}),
    }


class Bare(EndpointAgent):
    """An endpoint that somebody asks after every arrival."""

    due_ns = None
    attentive = True

    def look_after(self, now_ns: int, completions: Sequence[Completion] = ()) -> None:
        pass


def be_a_host(rank: int, meeting: Meeting, listener: socket.socket | None) -> dict[str, object]:
    options = None
    if "entropy" in sys.argv:
        options = TransportOptions(entropy="reps", recovery="selective", congestion="dctcp")
    endpoint = Endpoint(ADDRESSES[rank], 4096, seed=rank, options=options)
    pair = endpoint.create_rc(source_port=PORT + rank, tos=0x40)
    group = endpoint.create_ud(GROUP, 0x77, source_port=PORT + 2)
    workers = [endpoint.hand_over([group])] if "workers" in sys.argv else []
    target = endpoint.register(np.zeros(SIZE, np.uint8))
    mine = np.random.default_rng(rank).integers(0, 256, SIZE, np.uint8)
    source = endpoint.register(mine)
    sink = ChunkSink(np.zeros(SIZE, np.uint8), 5, CHUNK, [SIZE])
    group.sink = sink
    driver = UdpDriver(Bare(endpoint), send_buffer_bytes=100_000, workers=workers)
    local = pair.local
    meeting.tell([local.address, local.number, local.initial_psn, target.address, target.rkey])
    address, number, psn, remote_address, rkey = meeting.hear()
    pair.connect(RemoteQueuePair(address, number, psn))
    meeting.tell("connected")
    assert meeting.hear() == "connected"

    done: list[Completion] = []

    def finished(kind: str, count: int = 1) -> bool:
        done.extend(endpoint.poll())
        return sum(one.kind.value == kind for one in done) >= count

    def measure(what: str, kind: str) -> None:
        before, cpu = driver.counters(), time.process_time_ns()
        started = time.monotonic_ns()
        driver.run(started + 120_000_000_000, until=lambda: finished(kind))
        spent = time.monotonic_ns() - started
        after = driver.counters()
        figures[what] = {
            "ns": spent,
            "cpu_ns": time.process_time_ns() - cpu,
            **{name: after[name] - before[name] for name in after},
        }

    figures: dict[str, object] = {}
    expected = np.random.default_rng(1 - rank).integers(0, 256, SIZE, np.uint8)
    if rank == 0:
        pair.post_write(source, 0, SIZE, remote_address, rkey, immediate=1)
        measure("write", "sent")
    else:
        measure("write", "write_with_immediate")
    written = bool((target.buffer == expected).all())
    done.clear()
    if rank == 0:
        back = endpoint.register(np.zeros(SIZE, np.uint8))
        pair.post_read(back, 0, SIZE, remote_address, rkey)
        measure("read", "read_done")
        written = bool((back.buffer == mine).all())
        # As fast as the sockets take them: the receiver's socket has room for them all.
        group.post_chunks(source, 0, sink.chunks, CHUNK, sink.number_base, 0)
        measure("multicast", "chunks_sent")
        pair.post_send(b"that was all")
        measure("end", "sent")
    else:
        measure("multicast", "chunks_received")
        measure("end", "received")
    driver.run(time.monotonic_ns() + 50_000_000)
    meeting.tell(endpoint.statistics.transmitted_packets)
    theirs = meeting.hear()
    driver.run(
        time.monotonic_ns() + 120_000_000_000,
        until=lambda: endpoint.statistics.received_packets >= theirs,
    )
    frames = sniff(300, listener) if listener is not None else None
    counters = driver.counters()
    driver.close()
    return {
        "written": written,
        "missing": sink.missing,
        "gathered": bool((sink.buffer == expected).all()),
        "errors": [one.error for one in done if one.error],
        "statistics": asdict(endpoint.statistics),
        "counters": counters,
        "lateness": driver.lateness_ns(),
        "figures": figures,
        "frames": frames,
    }


def compile_first() -> None:
    """What is compiled while packets wait would make them late."""
    UdpDriver.warm_up()
    idle = Endpoint(ADDRESSES[0])
    idle.receive(idle.transmit(0), 0)
    idle.deadline()
    idle.hand_over([]).receive(idle.transmit(0), 0)


def main() -> None:
    compile_first()
    upward, downward = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
            os._exit(1)
        meeting = Meeting(downward[0], upward[1])
        meeting.tell("separate")
        assert meeting.hear() == "configured"
        meeting.tell(be_a_host(1, meeting, None))
        os._exit(0)
    meeting = Meeting(upward[0], downward[1])
    assert meeting.hear() == "separate"
    ip(f"link add end0 type veth peer name end1 netns {child}")
    configure(0)
    configure(1, child)
    slow = "tc qdisc add dev end0 root tbf rate 400mbit burst 20kb limit 10mb"
    shaped = subprocess.run(slow, shell=True, capture_output=True).returncode == 0
    meeting.tell("configured")
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    listener.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)
    listener.bind(("end0", 0))
    documents = [be_a_host(0, meeting, listener), meeting.hear()]
    os.waitpid(child, 0)
    documents[0]["shaped"] = shaped
    json.dump(documents, sys.stdout)


if __name__ == "__main__":
    main()
