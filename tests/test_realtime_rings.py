"""Frames that leave virtual Ethernet ports by transmit rings (AF_XDP)."""

from __future__ import annotations

import contextlib
import ctypes
import json
import socket
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.p4runtime_support import compiled
from tests.realtime_support import needs_namespaces

from weft.base.cache import CHECKOUT
from weft.switch.engine.dataplane import Dataplane
from weft.switch.engine.layout import HEADROOM, NONE, Packet
from weft.switch.engine.memory import rows
from weft.switch.engine.queues import copy_departing, take_buffer, take_packet
from weft.switch.realtime.layout import (
    BATCH,
    ENTRY_BYTES,
    RING_ENTRIES,
    LoopRecord,
    SocketRecord,
    Timespec,
    TransmitRing,
)
from weft.switch.realtime.sending import BEGINNING_BYTES, PATIENCE_NS, post_frames, send_socket

STORMS = CHECKOUT / "tests" / "programs" / "storms.p4"
PORTS = 3
FRAME_BYTES = 9216
BUFFERS, NEAR = 96, 64


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    command = ["unshare", "-n", sys.executable, "-m", "tests.rings_namespace"]
    command.append(str(compiled(STORMS).json))
    done = subprocess.run(command, cwd=CHECKOUT, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    if document["of_any_length"]["rings"] == [False] * PORTS:
        pytest.skip("AF_XDP with frames of several entries is missing: Linux 6.6 or newer has it")
    return document


@needs_namespaces
@pytest.mark.parametrize(
    ("case", "expected"),
    [
        (
            "of_any_length",
            {"rings": [True] * PORTS, "passes": True, "rings_then": [True] * PORTS},
        ),
        ("without", {"rings": [False] * PORTS, "passes": True}),
        ("seen_by_captures", {"rings": [False] * PORTS}),
        (
            "from_buffers_that_are_not_the_rings",
            {
                "far": [True, False], "passes": [True, True], "each_once": True, "kept": PORTS,
                "referenced_and_free": 0,
            },
        ),
        ("a_ring_of_somebody_else", {"rings": [False], "passes": True}),
        (
            "a_link_that_goes_down",
            {
                "before": True, "errors2": 62, "rings": [True, False, True], "after": True,
                "others": True,
            },
        ),
        ("a_frame_that_is_too_long", {"same": True, "all": True, "rings": [True] * PORTS}),
    ],
)  # fmt: skip
def test_frames_leave_as_they_are_and_in_order(
    seen: dict[str, Any], case: str, expected: dict[str, Any]
) -> None:
    assert seen[case] == {**expected, "failure": "None"}


class Waiting:
    """Frames that wait at a socket whose ring is memory of this process; no kernel reads it."""

    def __init__(self, *, room_bytes: int, most_bytes: int) -> None:
        self.dataplane = Dataplane(1, 1, packets=BUFFERS, frame_bytes=FRAME_BYTES, plain=True)
        memory = self.dataplane.memory
        self.context = memory.context
        self.entries = np.zeros((RING_ENTRIES, 2), np.int64)
        self.words = np.zeros(2, np.int64)
        self.room = np.zeros(room_bytes, np.uint8)
        self.rings = rows(TransmitRing, 1)
        self.ring: TransmitRing = self.rings[0]
        self.ring.memory = min(memory.buffers.ctypes.data, self.room.ctypes.data)
        self.ring.memory_end = memory.buffers[NEAR].ctypes.data
        self.ring.entries = self.entries.ctypes.data
        self.ring.posted = self.words.ctypes.data
        self.ring.completed = self.ring.taken = self.words.ctypes.data + 8
        self.ring.room, self.ring.room_bytes = self.room.ctypes.data, room_bytes
        self.ring.most_bytes = most_bytes
        self.sockets = rows(SocketRecord, 1)
        self.socket: SocketRecord = self.sockets[0]
        self.socket.ring = self.rings.ctypes.data
        self.socket.waiting.head = NONE
        self.packets: list[int] = []

    def add(self, header_length: int, payload_length: int, source: np.random.Generator) -> None:
        memory = self.dataplane.memory
        packet = int(take_packet(self.context, take_buffer(self.context)))
        row: Packet = memory.packets[packet]
        row.header_length, row.payload = header_length, HEADROOM + int(source.integers(64))
        row.length = header_length + payload_length
        memory.headers[packet] = source.integers(256, size=memory.headers.shape[1])
        memory.buffers[row.buffer] = source.integers(256, size=memory.buffers.shape[1])
        row.next = NONE
        if self.packets:
            memory.packets[self.packets[-1]].next = packet
        else:
            self.socket.waiting.head = packet
        self.packets.append(packet)

    def frame(self, packet: int) -> bytes:
        frame = np.zeros(FRAME_BYTES, np.uint8)
        copy_departing(self.context, packet, frame.ctypes.data)
        return frame[: int(self.dataplane.memory.packets[packet].length)].tobytes()

    def posted(self) -> list[list[bytes]]:
        """The pieces of each frame that is in the ring, in the order in which the kernel reads."""
        frames: list[list[bytes]] = [[]]
        for place in range(int(self.words[0])):
            address, word = self.entries[place].tolist()
            length, options = word & 0xFFFFFFFF, word >> 32
            assert 0 < length <= ENTRY_BYTES
            where = self.ring.memory + address
            rest = where + length <= self.ring.memory_end
            assert rest or self.ring.room <= where <= self.ring.room + self.ring.room_bytes - length
            frames[-1].append(bytes((ctypes.c_char * length).from_address(int(where))))
            if options == 0:
                frames.append([])
            else:
                assert options == 1
        assert frames.pop() == []
        return frames


@given(
    lengths=st.lists(
        st.tuples(st.integers(0, 180), st.integers(0, FRAME_BYTES - 180)), min_size=1, max_size=90
    ),
    room_bytes=st.integers(0, 9600),
    most_bytes=st.integers(1000, FRAME_BYTES),
    seed=st.integers(0, 1 << 32),
)
def test_what_is_posted_is_a_beginning_of_what_waits(
    lengths: list[tuple[int, int]], room_bytes: int, most_bytes: int, seed: int
) -> None:
    waiting = Waiting(room_bytes=room_bytes, most_bytes=most_bytes)
    source = np.random.default_rng(seed)
    for header_length, payload_length in lengths:
        waiting.add(header_length, payload_length, source)
    post_frames(waiting.context, waiting.socket, waiting.ring)
    frames = waiting.posted()
    assert len(frames) == waiting.ring.frames <= min(BATCH, len(lengths))
    expected = [waiting.frame(packet) for packet in waiting.packets[: len(frames)]]
    assert [b"".join(pieces) for pieces in frames] == expected
    assert all(len(pieces[0]) >= min(len(b"".join(pieces)), BEGINNING_BYTES) for pieces in frames)
    assert all(14 <= len(frame) <= most_bytes for frame in expected)
    if len(frames) < min(BATCH, len(lengths)):  # the next one cannot go by the ring, or not yet
        packet = waiting.packets[len(frames)]
        row: Packet = waiting.dataplane.memory.packets[packet]
        used = sum(-(-len(pieces[0]) // 64) * 64 for pieces in frames)
        first = max(int(row.header_length), min(int(row.length), BEGINNING_BYTES))
        assert (
            not 14 <= row.length <= most_bytes
            or used + first > room_bytes
            or (row.buffer >= NEAR - 1 and row.length > first)
        )


class Posted(Waiting):
    """Five frames that wait, and a ring that is a socket of the tests'."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(room_bytes=9600, most_bytes=FRAME_BYTES)
        source = np.random.default_rng(1)
        for _ in range(5):
            self.add(70, 4084, source)
        self.socket.waiting.tail = self.packets[-1]
        self.ring.descriptor = descriptor
        self.io = rows(LoopRecord, 1)
        self.times = rows(Timespec, 2)

    def send(self) -> bool:
        times = self.times.ctypes.data
        return bool(send_socket(self.context, self.io[0], self.socket, times))

    def free(self) -> int:
        return int(self.context.free_packet_count)


@pytest.mark.parametrize("completed", [0, 1, 5])
def test_frames_of_a_ring_that_fails_are_errors_and_it_is_used_no_more(completed: int) -> None:
    posted = Posted(-1)
    posted.words[1] = completed
    assert posted.send()
    assert (posted.socket.send_errors, posted.socket.ring) == (5, 0)
    assert posted.free() == BUFFERS


def test_frames_wait_until_the_kernel_has_done_with_them() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                near.send(b"")
        posted = Posted(near.fileno())
        for completed in (0, 1, 9):
            posted.words[1] = completed
            assert not posted.send()
            assert (posted.free(), posted.ring.frames) == (BUFFERS - 5, 5)
        posted.words[1] = posted.words[0]
        assert posted.send()
        assert (posted.free(), posted.ring.frames, posted.ring.since_ns) == (BUFFERS, 0, 0)
        assert (posted.socket.send_errors, posted.socket.ring) == (0, posted.rings.ctypes.data)


def test_a_ring_that_the_kernel_has_not_done_with_for_a_second_has_failed() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with near, far:
        near.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                near.send(b"")
        posted = Posted(near.fileno())
        assert not posted.send()
        posted.ring.since_ns -= PATIENCE_NS
        assert posted.send()
    assert (posted.socket.send_errors, posted.socket.ring, posted.free()) == (5, 0, BUFFERS)
