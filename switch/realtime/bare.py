"""Packet loops with nothing in them, to compare a switch with: forward, and generate.

Both are compiled and hold no lock of Python. `forward` is the least that any switch of one thread
with AF_PACKET sockets does: recvmmsg and sendmmsg of the same frames, a batch at a time.
"""

from typing import Any

import numpy as np

from weft.switch.engine.native import jit, types
from weft.switch.realtime.loop import (
    BATCH,
    MESSAGE_WORDS,
    MSG_DONTWAIT,
    _recvmmsg,
    _sendmmsg,
    clock,
)

FRAME_BYTES = 10_240
COUNTER_BYTES = 32
"""The bytes of room for the text of a counter."""
SLEEP_NS = 20_000
LOST_AFTER_NS = 20_000_000
"""Frames are taken for lost if none has come through for this long."""

_poll: Any = types.ExternalFunction("poll", types.int32(types.int64, types.uint64, types.int32))
_pread: Any = types.ExternalFunction(
    "pread", types.int64(types.int32, types.int64, types.uint64, types.int64)
)
_nanosleep: Any = types.ExternalFunction("nanosleep", types.int32(types.int64, types.int64))

# Words of the generator.
(
    G_STOP,  # anything but 0 ends it
    G_SENT,
    G_LOST,
    G_THROUGH,  # frames that the sinks have got
) = range(4)
G_WORDS = 8


class Messages:
    """A struct mmsghdr[BATCH] with one buffer of `FRAME_BYTES` each."""

    def __init__(self) -> None:
        self.buffers = np.zeros((BATCH, FRAME_BYTES), np.uint8)
        self.vectors = np.zeros((BATCH, 2), np.int64)
        self.headers = np.zeros((BATCH, MESSAGE_WORDS), np.int64)
        for i in range(BATCH):
            self.vectors[i] = self.buffers[i].ctypes.data, FRAME_BYTES
            self.headers[i, 2:4] = self.vectors[i].ctypes.data, 1

    def fill(self, frames: list[bytes]) -> None:
        """Make the messages carry these frames, which are taken in turn."""
        for i in range(BATCH):
            frame = np.frombuffer(frames[i % len(frames)], np.uint8)
            self.buffers[i, : len(frame)] = frame
            self.vectors[i, 1] = len(frame)


@jit
def forward(source: int, target: int, headers: Any, vectors: Any, poll: Any) -> None:
    """Send what comes in at one socket out at another; return at once if the first is negative."""
    if source < 0:
        return
    poll[0] = source | (1 << 32)
    while True:
        if _poll(poll.ctypes.data, 1, -1) < 0:
            return
        while True:
            for i in range(BATCH):
                vectors[i, 1] = FRAME_BYTES
            count = _recvmmsg(source, headers.ctypes.data, BATCH, MSG_DONTWAIT, 0)
            if count <= 0:
                break
            for i in range(count):
                vectors[i, 1] = headers[i, 7] & 0xFFFFFFFF
            _sendmmsg(target, headers.ctypes.data, count, MSG_DONTWAIT)


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
    words: Any,
    socket: int,
    headers: Any,
    sinks: Any,
    text: Any,
    settings: Any,
    time: Any,
) -> None:
    """Send bursts of half a window, at most `BATCH` frames, for as long as no more than a window,
    ``settings[0]``, is under way.

    A frame is through when ``settings[1]`` frames more have come to the sinks: files of interfaces'
    counters. Nobody has to read them there. ``text``, ``time``: room to work in.
    """
    time[3] = SLEEP_NS
    base = received_frames(sinks, text)
    last_through = 0
    last_ns = clock(time)
    burst = min(BATCH, settings[0] // 2)
    while words[G_STOP] == 0:
        through = (received_frames(sinks, text) - base) // settings[1]
        words[G_THROUGH] = through
        if through != last_through:
            last_through = through
            last_ns = clock(time)
        under_way = words[G_SENT] - words[G_LOST] - through
        if under_way + burst > settings[0]:
            if clock(time) - last_ns > LOST_AFTER_NS:
                words[G_LOST] += under_way
                last_ns = clock(time)
            _nanosleep(time.ctypes.data + 16, 0)
            continue
        sent = _sendmmsg(socket, headers.ctypes.data, burst, 0)
        if sent > 0:
            words[G_SENT] += sent
