"""Events of all switches in the order of time, and the links that join two of their ports.

A patch link leads from a port to another of the same process. What reaches its far end is in the
switch there at that very moment of virtual time, however late the driver calls: events are then
taken one by one, in the order of time, then of port, as the simulated world takes them.

A program may multiply packets without end: recirculate both of two copies, clone each clone. So a
driver's turn is bounded in passes through a pipeline. From a turn that ends so until all is done
again, packets that go again and events of ports alternate: no port waits for the end of a storm.
"""

from __future__ import annotations

from weft.switch.engine.captures import capture_bytes
from weft.switch.engine.layout import (
    AGAIN_HEAD,
    BUFFER_STRIDE,
    BUFFERS,
    HEAP,
    HEAP_LENGTH,
    LANDED_HEAD,
    LOAD_ROWS,
    NONE,
    P_BUFFER,
    P_DEPARTURE_NS,
    P_ENQUEUED_NS,
    P_FRAME,
    P_FRAME_LENGTH,
    P_KEEP,
    P_PORT,
    P_REPEATS,
    P_SWITCH,
    PASSES,
    PASSES_END,
    PATCHES,
    PORT_COUNT,
    Q_CAPTURE_IN,
    Q_CAPTURE_OUT,
    Q_DELAY_NS,
    Q_EVENT_NS,
    Q_HEAD,
    Q_LINK_DOWN,
    Q_PEER,
    Q_RATE_BPS,
    S_LOST_BYTES,
    S_LOST_PACKETS,
    STORM,
    Words,
)
from weft.switch.engine.native import int64_view, jit
from weft.switch.engine.pipeline import go_on, ingest, join_frame, serve_port
from weft.switch.engine.queues import packet_row, port_row, release, reschedule, take_first
from weft.switch.engine.telemetry import count_load

MOST_PASSES = 1 << 14
"""Of one turn of the real-time loop, some milliseconds, and as many for what a batch brings."""


@jit
def cross(context: Words, packet: int) -> None:
    """A frame has reached the far end of a patch link: it goes into the switch there."""
    words = packet_row(context, packet)
    ports = context[PORT_COUNT]
    port = port_row(context, words[P_SWITCH] * ports + words[P_PORT])
    if not join_frame(context, packet):
        release(context, packet)
        return
    length = words[P_FRAME_LENGTH]
    now_ns = words[P_DEPARTURE_NS]
    peer = port[Q_PEER]
    far = port_row(context, peer)
    if port[Q_CAPTURE_OUT] != 0 or far[Q_CAPTURE_IN] != 0:
        frame = context[BUFFERS] + words[P_BUFFER] * context[BUFFER_STRIDE] + words[P_FRAME]
        if port[Q_CAPTURE_OUT] != 0:
            capture_bytes(context, port[Q_CAPTURE_OUT] - 1, now_ns, frame, length)
        if far[Q_CAPTURE_IN] != 0 and port[Q_LINK_DOWN] == 0:
            capture_bytes(context, far[Q_CAPTURE_IN] - 1, now_ns, frame, length)
    if port[Q_LINK_DOWN] != 0:
        port[S_LOST_PACKETS] += 1
        port[S_LOST_BYTES] += length
        release(context, packet)
        return
    words[P_REPEATS] = 0
    words[P_KEEP] = 0
    finish_ns = now_ns - port[Q_DELAY_NS]
    rate_bps = port[Q_RATE_BPS]
    takes_ns = length * 8_000_000_000 // rate_bps if rate_bps > 0 else 0
    count_load(context, context[LOAD_ROWS] // 2 + peer, finish_ns - takes_ns, finish_ns, length)
    ingest(context, peer // ports, peer % ports, packet, now_ns)


@jit
def stand_aside(context: Words, now_ns: int) -> None:
    """A packet that is due at a port without rate, earlier than now, is due now instead.

    Where egress clones without end, its time would stand still before that of all other ports.
    """
    if context[HEAP_LENGTH] == 0:
        return
    port_index = int64_view(context[HEAP], 1)[0]
    port = port_row(context, port_index)
    if port[Q_RATE_BPS] == 0 and port[Q_HEAD] != NONE and port[Q_EVENT_NS] < now_ns:
        words = packet_row(context, port[Q_HEAD])
        words[P_ENQUEUED_NS] = max(words[P_ENQUEUED_NS], now_ns)
        reschedule(context, port_index)


@jit
def begin_turn(context: Words, passes: int) -> None:
    """From now on the driver's turn has so many passes."""
    context[PASSES_END] = context[PASSES] + passes


@jit
def advance_some(context: Words, now_ns: int, passes: int) -> int:
    """``advance``, in a turn of so many passes."""
    begin_turn(context, passes)
    return advance(context, now_ns)


@jit
def due_port(context: Words, now_ns: int) -> int:
    """The port whose event is the next one by ``now_ns``, or NONE."""
    if context[HEAP_LENGTH] == 0:
        return NONE
    port_index = int64_view(context[HEAP], 1)[0]
    if port_row(context, port_index)[Q_EVENT_NS] > now_ns:
        return NONE
    return port_index  # type: ignore[no-any-return]


@jit
def advance(context: Words, now_ns: int) -> int:
    """Do what is due at ``now_ns``, in the order of time, then of port, until the turn ends;
    ``next_deadline`` says if something is left. Returns the time of the last event, or now."""
    exact = context[PATCHES] > 0
    at_ns = now_ns
    others_turn = False
    while context[PASSES] < context[PASSES_END]:
        if context[LANDED_HEAD] != NONE:
            cross(context, take_first(context, context, LANDED_HEAD))
            continue
        again = context[AGAIN_HEAD] != NONE
        if again and not others_turn:
            go_on(context, at_ns)
            others_turn = context[STORM] != 0
            continue
        others_turn = False
        port_index = due_port(context, now_ns)
        if port_index != NONE:
            if exact:
                at_ns = port_row(context, port_index)[Q_EVENT_NS]
            serve_port(context, port_index, at_ns)
        elif not again:
            context[STORM] = 0
            return at_ns
    context[STORM] = 1
    stand_aside(context, now_ns)
    return at_ns
