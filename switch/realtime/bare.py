"""Packet loops with nothing in them, to compare a switch with: forward, circulate, and generate.

All are compiled and hold no lock of Python. `forward` and `circulate` are the least that any switch
of one thread does whose ports are AF_PACKET sockets alone: recvmmsg and sendmmsg of the same
frames, a batch at a time.
"""

from typing import Any

import numpy as np

from weft.base.deferred import external
from weft.base.jit import Record, record
from weft.base.system_calls import (
    MSG_DONTWAIT,
    IoVector,
    Timespec,
    nanosleep,
    poll,
    recvmmsg,
    sendmmsg,
)
from weft.switch.engine.control.memory import rows
from weft.switch.engine.native.compiled import jit
from weft.switch.realtime.layout import BATCH, TIMESPEC_BYTES
from weft.switch.realtime.ports import messages
from weft.switch.realtime.system_calls import clock

FRAME_BYTES = 10_240
COUNTER_BYTES = 32
"""The bytes of room for the text of a counter."""
SLEEP_NS = 20_000
LOST_AFTER_NS = 20_000_000
"""Frames are taken for lost if none has come through for this long."""

_pread: Any = external("pread", "int64", "int32", "int64", "uint64", "int64")


@record
class GeneratorRecord(Record):
    """What a generator is to do, and how far it is."""

    window: int
    """The most frames that are under way."""
    copies_each: int
    """How many frames come to the sinks for each that is sent."""
    stop: int
    """Anything but 0 ends it."""
    sent: int
    lost: int
    through: int
    """The frames that the sinks have got."""


def generator_state(window: int, copies_each: int, *, stop: int = 0) -> GeneratorRecord:
    """Return the state of a generator that has not sent yet."""
    state: GeneratorRecord = rows(GeneratorRecord, 1)[0]
    state.window, state.copies_each, state.stop = window, copies_each, stop
    return state


class FrameMessages:
    """A struct mmsghdr[BATCH] with one buffer of `FRAME_BYTES` each."""

    def __init__(self) -> None:
        self.buffers = np.zeros((BATCH, FRAME_BYTES), np.uint8)
        self.vectors = rows(IoVector, BATCH)
        self.vectors.address = self.buffers.ctypes.data + FRAME_BYTES * np.arange(BATCH)
        self.vectors.length = FRAME_BYTES
        self.headers = messages(self.vectors, 1)

    def fill(self, frames: list[bytes]) -> None:
        """Make the messages carry these frames, which are taken in turn."""
        for i in range(BATCH):
            frame = np.frombuffer(frames[i % len(frames)], np.uint8)
            self.buffers[i, : len(frame)] = frame
            self.vectors.length[i] = len(frame)


@jit
def forward(source: int, target: int, headers: Any, vectors: Any, watched: Any) -> None:
    """Send what comes in at one socket out at another; return at once if the first is negative."""
    if source < 0:
        return
    watched[0] = source | (1 << 32)
    while True:
        if poll(watched.ctypes.data, 1, -1) < 0:
            return
        while True:
            for i in range(BATCH):
                vectors[i].length = FRAME_BYTES
            count = recvmmsg(source, headers.ctypes.data, BATCH, MSG_DONTWAIT, 0)
            if count <= 0:
                break
            for i in range(count):
                vectors[i].length = headers[i].length & 0xFFFFFFFF
            sendmmsg(target, headers.ctypes.data, count, MSG_DONTWAIT)


@jit
def circulate(
    receivers: Any, senders: Any, headers: Any, vectors: Any, batch: int, turns: int, time: int
) -> int:
    """Pass frames round a ring of links, and return over how many links they went.

    In each of ``turns``, after a rest, a batch that has come in by each of the sockets leaves by
    the sender after it. ``time`` is the address of a `Timespec` with the rest.
    """
    hops = 0
    for _ in range(turns):
        nanosleep(time, 0)
        for i in range(receivers.size):
            for j in range(batch):
                vectors[j].length = FRAME_BYTES
            count = recvmmsg(receivers[i], headers.ctypes.data, batch, MSG_DONTWAIT, 0)
            if count <= 0:
                continue
            for j in range(count):
                vectors[j].length = headers[j].length & 0xFFFFFFFF
            sendmmsg(senders[(i + 1) % senders.size], headers.ctypes.data, count, MSG_DONTWAIT)
            hops += count
    return hops


@jit
def received_frames(files: Any, text: Any) -> int:
    """Return how many frames some interfaces received, by their statistics in sysfs."""
    total = 0
    for i in range(files.size):
        length = _pread(files[i], text.ctypes.data, text.size, 0)
        number = 0
        for j in range(length - 1):
            number = 10 * number + (text[j] - 48)
        total += number
    return total


@jit
def generate(
    state: GeneratorRecord,
    socket: int,
    headers: Any,
    sinks: Any,
    text: Any,
    time: int,
) -> None:
    """Send bursts of half a window, at most `BATCH` frames, for as long as no more than a window is
    under way.

    A frame is through when all its copies have come to the sinks: files of interfaces' counters.
    Nobody has to read them there. ``text`` and ``time``, the address of two rows of `Timespec`, are
    room to work in.
    """
    Timespec(time, 1).nanoseconds = SLEEP_NS
    base = received_frames(sinks, text)
    last_through = 0
    last_ns = clock(time)
    burst = min(BATCH, state.window // 2)
    while state.stop == 0:
        through = (received_frames(sinks, text) - base) // state.copies_each
        state.through = through
        if through != last_through:
            last_through = through
            last_ns = clock(time)
        under_way = state.sent - state.lost - through
        if under_way + burst > state.window:
            if clock(time) - last_ns > LOST_AFTER_NS:
                state.lost += under_way
                last_ns = clock(time)
            nanosleep(time + TIMESPEC_BYTES, 0)
            continue
        sent = sendmmsg(socket, headers.ctypes.data, burst, 0)
        if sent > 0:
            state.sent += sent
