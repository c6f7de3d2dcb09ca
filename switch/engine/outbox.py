"""Packets on their way to the controller: from the CPU port's link into the switch's outbox.

The outbox is a ring of records in one array (``weft.switch.engine.layout``) with one writer,
compiled code, and one reader, ``Outbox``, which may be in another thread. What finds no room is
counted and dropped: a flood of events slows no packet.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.switch.engine.layout import (
    BUFFER_STRIDE,
    BUFFERS,
    HEADER_STRIDE,
    HEADERS,
    O_KIND,
    O_SUBJECT,
    O_TIME_NS,
    O_WORDS,
    OUTBOX,
    OUTBOX_HEAD,
    OUTBOX_HEADER,
    OUTBOX_TAIL,
    OUTBOX_WAITS,
    OUTBOX_WORDS,
    P_BUFFER,
    P_DEPARTURE_NS,
    P_HEADER_LENGTH,
    P_LENGTH,
    P_PAYLOAD,
    P_SWITCH,
    PACKET_IN,
    PACKET_WORDS,
    PACKETS,
    SWITCH_WORDS,
    SWITCHES,
    Words,
)
from weft.switch.engine.native import jit, rows, uint8_view
from weft.switch.engine.runtime import close_record, open_record

RING_WORDS = 1 << 17
"""Of an outbox: 1 MiB."""

_packet_row = rows(PACKETS, PACKET_WORDS)
_switch_row = rows(SWITCHES, SWITCH_WORDS)


@jit
def record_packet(context: Words, packet: int) -> None:
    """Copy a departing packet into its switch's outbox; the packet stays the caller's."""
    words = _packet_row(context, packet)
    state = _switch_row(context, words[P_SWITCH])
    length = words[P_LENGTH]
    count = (length + 7) >> 3
    place = open_record(state, PACKET_IN, length, count, words[P_DEPARTURE_NS])
    if place < 0:
        return
    size = state[OUTBOX_WORDS] * 8
    ring = uint8_view(state[OUTBOX], size)
    header_length = min(words[P_HEADER_LENGTH], length)
    header_stride = context[HEADER_STRIDE]
    header = uint8_view(context[HEADERS] + packet * header_stride, header_stride)
    stride = context[BUFFER_STRIDE]
    data = uint8_view(context[BUFFERS] + words[P_BUFFER] * stride, stride)
    at = place * 8
    for i in range(header_length):
        ring[(at + i) & (size - 1)] = header[i]
    at += header_length
    start = words[P_PAYLOAD]
    for i in range(length - header_length):
        ring[(at + i) & (size - 1)] = data[start + i]
    close_record(context, state, place + count)


Record = tuple[int, int, int, NDArray[np.int64]]
"""Kind, time in ns, subject, words."""


class Outbox:
    """The reader's side of a switch's outbox."""

    def __init__(self, state: NDArray[np.int64]) -> None:
        """``state``: the words of the switch, whose outbox is made and emptied."""
        self.state = state
        self.ring = np.zeros(RING_WORDS, np.int64)
        state[[OUTBOX_HEAD, OUTBOX_TAIL, OUTBOX_WAITS]] = 0
        state[OUTBOX] = self.ring.ctypes.data
        state[OUTBOX_WORDS] = RING_WORDS

    @property
    def waits(self) -> bool:
        """Whether records have come since the last ``take``."""
        return bool(self.state[OUTBOX_WAITS])

    def take(self) -> list[Record]:
        """All records so far."""
        self.state[OUTBOX_WAITS] = 0
        head, tail = int(self.state[OUTBOX_HEAD]), int(self.state[OUTBOX_TAIL])
        size = len(self.ring)
        words = np.take(self.ring, np.arange(tail, head) & (size - 1))
        records = []
        at = 0
        while at < len(words):
            kind, time_ns, subject, count = (
                int(words[at + place]) for place in (O_KIND, O_TIME_NS, O_SUBJECT, O_WORDS)
            )
            at += OUTBOX_HEADER
            records.append((kind, time_ns, subject, words[at : at + count]))
            at += count
        self.state[OUTBOX_TAIL] = head
        return records
