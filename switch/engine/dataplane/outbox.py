"""Packets on their way to the controller: from the CPU port's link into the switch's outbox.

The outbox is a ring of records in one array (`layout`) with one writer,
compiled code, and one reader, ``Outbox``, which may be in another thread. What finds no room is
counted and dropped: a flood of events slows no packet.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.dataplane.layout import (
    OUTBOX_RECORD,
    PACKET_IN,
    Context,
    OutboxRecord,
    Packet,
    SwitchRecord,
)
from weft.switch.engine.dataplane.runtime import close_record, open_record
from weft.switch.engine.native.compiled import jit, uint8_view

RING_WORDS = 1 << 17
"""The words of an outbox: 1 MiB."""


@jit
def record_packet(context: Context, packet: int) -> None:
    """Copy a departing packet into its switch's outbox; the packet stays the caller's."""
    words = Packet(context.packets, packet)
    state = SwitchRecord(context.switches, words.switch)
    length = words.length
    count = (length + 7) >> 3
    place = open_record(state, PACKET_IN, length, count, words.departure_ns)
    if place < 0:
        return
    size = state.outbox_words * 8
    ring = uint8_view(state.outbox, size)
    header_length = min(words.header_length, length)
    header_stride = context.header_stride
    header = uint8_view(context.headers + packet * header_stride, header_stride)
    stride = context.buffer_stride
    data = uint8_view(context.buffers + words.buffer * stride, stride)
    at = place * 8
    for i in range(header_length):
        ring[(at + i) & (size - 1)] = header[i]
    at += header_length
    start = words.payload
    for i in range(length - header_length):
        ring[(at + i) & (size - 1)] = data[start + i]
    close_record(context, state, place + count)


Sent = tuple[int, int, int, NDArray[np.int64]]
"""Kind, time in ns, subject, words."""


class Outbox:
    """A reader of the records of a switch's outbox."""

    def __init__(self, state: SwitchRecord) -> None:
        """Make and empty the outbox of a switch."""
        self.state = state
        self.ring = np.zeros(RING_WORDS + OUTBOX_RECORD, np.int64)
        state.outbox_head = state.outbox_tail = state.outbox_waits = 0
        state.outbox = self.ring.ctypes.data
        state.outbox_words = RING_WORDS

    def put(self, kind: int, subject: int, words: Sequence[int], time_ns: int) -> None:
        """Leave a record as compiled code does, which must not run meanwhile."""
        state, end = self.state, int(self.state.outbox_head) + OUTBOX_RECORD + len(words)
        if end - int(state.outbox_tail) > RING_WORDS:
            state.events_lost += 1
            return
        place = int(state.outbox_head) & (RING_WORDS - 1)
        head = OutboxRecord.at(int(state.outbox) + 8 * place)
        head.kind, head.time_ns, head.subject, head.words = kind, time_ns, subject, len(words)
        places = np.arange(end - len(words), end) & (RING_WORDS - 1)
        self.ring[places] = words
        state.outbox_head, state.outbox_waits = end, 1

    @property
    def waits(self) -> bool:
        """Return whether records have come since the last `take`."""
        return bool(self.state.outbox_waits)

    def take(self) -> list[Sent]:
        """Return all records so far, and make room for others."""
        self.state.outbox_waits = 0
        head, tail = int(self.state.outbox_head), int(self.state.outbox_tail)
        records = []
        while tail < head:
            row = OutboxRecord.at(int(self.state.outbox) + 8 * (tail & (RING_WORDS - 1)))
            start = tail + OUTBOX_RECORD
            tail = start + row.words
            words = self.ring[np.arange(start, tail) & (RING_WORDS - 1)]
            records.append((row.kind, row.time_ns, row.subject, words))
        self.state.outbox_tail = head
        return records
