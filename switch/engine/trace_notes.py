"""What the queues tell a trace: the one thing that a traced program cannot see itself."""

from __future__ import annotations

from weft.switch.engine.layout import (
    NOW_NS,
    P_TRACE,
    PACKET_WORDS,
    PACKETS,
    Q_BYTES,
    Q_PACKETS,
    SWITCH_WORDS,
    SWITCHES,
    TRACE,
    Words,
)
from weft.switch.engine.native import int64_view, jit, rows
from weft.switch.engine.trace_layout import (
    KIND_BITS,
    QUEUE_DROP,
    RECORD,
    T_CAPACITY,
    T_END,
    T_LOST,
    T_VERSION,
    TRACE_HEAD,
)

_packet_row = rows(PACKETS, PACKET_WORDS)
_switch_row = rows(SWITCHES, SWITCH_WORDS)


@jit
def note_queue_drop(context: Words, switch: int, packet: int, queue: Words, port: int) -> None:
    """A packet finds no room in a port's queue."""
    state = _switch_row(context, switch)
    words = _packet_row(context, packet)
    if state[TRACE] == 0 or words[P_TRACE] == 0:
        return
    head = int64_view(state[TRACE], TRACE_HEAD)
    end = head[T_END]
    if end + RECORD > head[T_CAPACITY]:
        head[T_LOST] += 1
        return
    record = int64_view(state[TRACE] + end * 8, RECORD)
    record[0] = QUEUE_DROP + (head[T_VERSION] << KIND_BITS)
    record[1] = words[P_TRACE]
    record[2] = packet
    record[3] = state[NOW_NS]
    record[4] = port
    record[5] = queue[Q_PACKETS]
    record[6] = queue[Q_BYTES]
    record[7] = 0
    head[T_END] = end + RECORD
