"""Packets, queues and links of all switches: the compiled core that every driver calls.

A driver (the real-time loop, a simulator's event loop, ``Dataplane`` in a test) does four things:
``ingest`` a frame at a switch and port, ``advance`` to the present, take what departs with
``take_departure``, and sleep until ``next_deadline``. All times are integer nanoseconds of the
driver's clock. Nothing is allocated: packets and buffers come from pools, lists go through
``P_NEXT``, and ports wait for their next event in one heap ordered by (time, port).
"""

from __future__ import annotations

from weft.switch.engine.layout import (
    AGAIN_HEAD,
    BUFFER_COUNT,
    BUFFER_REFERENCES,
    BUFFER_STRIDE,
    BUFFERS,
    ENQ_QDEPTH,
    ENQ_TIMESTAMP,
    EPOCH_NS,
    FREE_BUFFER_COUNT,
    FREE_BUFFERS,
    FREE_PACKET_COUNT,
    FREE_PACKETS,
    HEADER_STRIDE,
    HEADERS,
    HEAP,
    HEAP_LENGTH,
    LANDED_HEAD,
    NO_BUFFER,
    NONE,
    P_BUFFER,
    P_DEPARTURE_NS,
    P_ENQUEUED_NS,
    P_HEADER_LENGTH,
    P_KEEP,
    P_LENGTH,
    P_NEXT,
    P_PAYLOAD,
    P_PORT,
    P_QUEUE_BYTES,
    P_REPEATS,
    P_SWITCH,
    PACKET_COUNT,
    PACKET_WORDS,
    PACKETS,
    PHV,
    PHV_STRIDE,
    PORT_COUNT,
    PORT_WORDS,
    PORTS,
    Q_BYTES,
    Q_CPU,
    Q_DELAY_NS,
    Q_EVENT_NS,
    Q_FREE_NS,
    Q_HEAD,
    Q_HEAP_POSITION,
    Q_LIMIT_BYTES,
    Q_LIMIT_PACKETS,
    Q_PACKETS,
    Q_PEER,
    Q_RATE_BPS,
    Q_REMAINDER,
    R_FIELDS,
    READY_HEAD,
    RESERVE,
    S_QUEUE_DROP_BYTES,
    S_QUEUE_DROPS,
    S_QUEUE_PEAK_BYTES,
    S_QUEUE_PEAK_PACKETS,
    S_TX_BYTES,
    S_TX_PACKETS,
    SWITCH_COUNT,
    SWITCH_WORDS,
    SWITCHES,
    W_HEAD,
    Words,
)
from weft.switch.engine.native import inline, int64_view, jit, rows, uint8_view
from weft.switch.engine.outbox import record_packet
from weft.switch.engine.telemetry import count_depth, count_load
from weft.switch.engine.trace_notes import note_queue_drop

NANOSECONDS = 1_000_000_000


packet_row = rows(PACKETS, PACKET_WORDS)
"""``packet_row(context, packet)``: the words of a packet."""

port_row = rows(PORTS, PORT_WORDS)
"""The words of a port by its index, which is switch * ports per switch + port."""

switch_row = rows(SWITCHES, SWITCH_WORDS)
"""The words of a switch."""

phv_row = rows(PHV, 0, PHV_STRIDE)
"""The packet-header vector of a packet."""


@inline
def append(context: Words, ends: Words, head: int, packet: int) -> None:
    """Put a packet behind a list: words ``head`` and ``head + 1`` of ``ends`` name its ends."""
    packet_row(context, packet)[P_NEXT] = NONE
    if ends[head] == NONE:
        ends[head] = packet
    else:
        packet_row(context, ends[head + 1])[P_NEXT] = packet
    ends[head + 1] = packet


@inline
def take_first(context: Words, ends: Words, head: int) -> int:
    """Take the first packet out of a list that has one."""
    packet = ends[head]
    row = packet_row(context, packet)
    ends[head] = row[P_NEXT]
    row[P_NEXT] = NONE
    return packet  # type: ignore[no-any-return]


@jit
def copy_bytes(source: int, target: int, length: int) -> None:
    """Copy bytes from one address to another."""
    read = uint8_view(source, length)
    written = uint8_view(target, length)
    for i in range(length):
        written[i] = read[i]


@jit
def copy_departing(context: Words, packet: int, target: int) -> None:
    """Copy a deparsed packet's frame to an address: its header row, then the payload."""
    row = packet_row(context, packet)
    header_length = min(row[P_HEADER_LENGTH], row[P_LENGTH])
    copy_bytes(context[HEADERS] + packet * context[HEADER_STRIDE], target, header_length)
    payload = context[BUFFERS] + row[P_BUFFER] * context[BUFFER_STRIDE] + row[P_PAYLOAD]
    copy_bytes(payload, target + header_length, row[P_LENGTH] - header_length)


@jit
def take_buffer(context: Words) -> int:
    """A free buffer with one reference, or NONE."""
    count = context[FREE_BUFFER_COUNT]
    if count == 0:
        return NONE
    context[FREE_BUFFER_COUNT] = count - 1
    buffer = int64_view(context[FREE_BUFFERS], context[BUFFER_COUNT])[count - 1]
    int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])[buffer] = 1
    return buffer  # type: ignore[no-any-return]


@jit
def drop_buffer(context: Words, buffer: int) -> None:
    """Give one reference to a buffer back."""
    references = int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])
    references[buffer] -= 1
    if references[buffer] == 0:
        count = context[FREE_BUFFER_COUNT]
        int64_view(context[FREE_BUFFERS], context[BUFFER_COUNT])[count] = buffer
        context[FREE_BUFFER_COUNT] = count + 1


@jit
def take_packet(context: Words, buffer: int) -> int:
    """A free packet that takes over one reference to ``buffer``, or NONE."""
    count = context[FREE_PACKET_COUNT]
    if count == 0:
        return NONE
    context[FREE_PACKET_COUNT] = count - 1
    packet = int64_view(context[FREE_PACKETS], context[PACKET_COUNT])[count - 1]
    row = packet_row(context, packet)
    row[P_BUFFER] = buffer
    row[P_NEXT] = NONE
    row[P_REPEATS] = 0
    row[P_KEEP] = 0
    row[P_HEADER_LENGTH] = 0
    return packet  # type: ignore[no-any-return]


@jit
def release(context: Words, packet: int) -> None:
    """Give a packet and its reference to the buffer back."""
    drop_buffer(context, packet_row(context, packet)[P_BUFFER])
    count = context[FREE_PACKET_COUNT]
    int64_view(context[FREE_PACKETS], context[PACKET_COUNT])[count] = packet
    context[FREE_PACKET_COUNT] = count + 1


@jit
def drop(context: Words, switch: int, reason: int, packet: int) -> None:
    """Give a packet back that a switch drops; the word ``reason`` of the switch counts it."""
    switch_row(context, switch)[reason] += 1
    release(context, packet)


@jit
def copy_packet(context: Words, switch: int, packet: int) -> int:
    """A packet with the same PHV that shares the buffer, or NONE."""
    row = packet_row(context, packet)
    copy = NONE
    if context[FREE_PACKET_COUNT] > context[RESERVE]:
        copy = take_packet(context, row[P_BUFFER])
    if copy == NONE:
        context[NO_BUFFER] += 1
        return NONE
    int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])[row[P_BUFFER]] += 1
    other = packet_row(context, copy)
    for i in range(PACKET_WORDS):
        other[i] = row[i]
    other[P_NEXT] = NONE
    source = phv_row(context, packet)
    target = phv_row(context, copy)
    for i in range(source[R_FIELDS]):
        target[i] = source[i]
    return copy


@jit
def heap_before(context: Words, left: int, right: int) -> bool:
    """Whether port ``left`` comes before port ``right``: earlier, or equal and smaller number."""
    left_time = port_row(context, left)[Q_EVENT_NS]
    right_time = port_row(context, right)[Q_EVENT_NS]
    return left_time < right_time or (left_time == right_time and left < right)


@jit
def heap_put(context: Words, heap: Words, position: int, port_index: int) -> None:
    """Store a port at a position of the heap."""
    heap[position] = port_index
    port_row(context, port_index)[Q_HEAP_POSITION] = position


@jit
def heap_up(context: Words, heap: Words, position: int) -> None:
    """Restore the heap's order from ``position`` towards the top."""
    port_index = heap[position]
    while position > 0:
        parent = (position - 1) >> 1
        if not heap_before(context, port_index, heap[parent]):
            break
        heap_put(context, heap, position, heap[parent])
        position = parent
    heap_put(context, heap, position, port_index)


@jit
def heap_down(context: Words, heap: Words, position: int) -> None:
    """Restore the heap's order from ``position`` towards the leaves."""
    length = context[HEAP_LENGTH]
    port_index = heap[position]
    while True:
        child = 2 * position + 1
        if child >= length:
            break
        if child + 1 < length and heap_before(context, heap[child + 1], heap[child]):
            child += 1
        if not heap_before(context, heap[child], port_index):
            break
        heap_put(context, heap, position, heap[child])
        position = child
    heap_put(context, heap, position, port_index)


@jit
def schedule(context: Words, port_index: int, time_ns: int) -> None:
    """Set the time of a port's next event (NONE = no event)."""
    port = port_row(context, port_index)
    if port[Q_EVENT_NS] == time_ns:
        return
    heap = int64_view(context[HEAP], context[SWITCH_COUNT] * context[PORT_COUNT])
    position = port[Q_HEAP_POSITION]
    before = port[Q_EVENT_NS]
    port[Q_EVENT_NS] = time_ns
    if time_ns == NONE:
        length = context[HEAP_LENGTH] - 1
        context[HEAP_LENGTH] = length
        port[Q_HEAP_POSITION] = NONE
        if position < length:
            last = heap[length]
            heap_put(context, heap, position, last)
            heap_down(context, heap, position)
            heap_up(context, heap, port_row(context, last)[Q_HEAP_POSITION])
        return
    if position == NONE:
        position = context[HEAP_LENGTH]
        context[HEAP_LENGTH] = position + 1
        heap_put(context, heap, position, port_index)
        heap_up(context, heap, position)
    elif time_ns < before:
        heap_up(context, heap, position)
    else:
        heap_down(context, heap, position)


@jit
def reschedule(context: Words, port_index: int) -> None:
    """A port's next event: its link takes the next frame, or a frame reaches the far end."""
    port = port_row(context, port_index)
    time = NONE
    if port[Q_HEAD] != NONE:
        time = max(port[Q_FREE_NS], packet_row(context, port[Q_HEAD])[P_ENQUEUED_NS])
    if port[W_HEAD] != NONE:
        departure = packet_row(context, port[W_HEAD])[P_DEPARTURE_NS]
        if time == NONE or departure < time:
            time = departure
    schedule(context, port_index, time)


@jit
def next_deadline(context: Words) -> int:
    """When ``advance`` has something to do next, in ns, or NONE."""
    if context[READY_HEAD] != NONE or context[AGAIN_HEAD] != NONE or context[LANDED_HEAD] != NONE:
        return 0
    if context[HEAP_LENGTH] == 0:
        return NONE
    return port_row(context, int64_view(context[HEAP], 1)[0])[Q_EVENT_NS]  # type: ignore[no-any-return]


@jit
def enqueue(
    context: Words, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue of an egress port that is up, or drop it if that is full."""
    port_index = switch * context[PORT_COUNT] + port
    queue = port_row(context, port_index)
    waits = queue[Q_HEAD] != NONE or queue[Q_FREE_NS] > now_ns
    if waits and (
        queue[Q_BYTES] + size_bytes > queue[Q_LIMIT_BYTES]
        or queue[Q_PACKETS] + 1 > queue[Q_LIMIT_PACKETS]
    ):
        queue[S_QUEUE_DROPS] += 1
        queue[S_QUEUE_DROP_BYTES] += size_bytes
        note_queue_drop(context, switch, packet, queue, port)
        release(context, packet)
        return
    row = packet_row(context, packet)
    row[P_SWITCH] = switch
    row[P_PORT] = port
    row[P_ENQUEUED_NS] = now_ns
    row[P_QUEUE_BYTES] = size_bytes
    count_depth(context, port_index, queue[Q_BYTES])
    phv = phv_row(context, packet)
    phv[ENQ_TIMESTAMP] = (now_ns - switch_row(context, switch)[EPOCH_NS]) // 1000
    phv[ENQ_QDEPTH] = queue[Q_PACKETS]
    append(context, queue, Q_HEAD, packet)
    queue[Q_PACKETS] += 1
    queue[Q_BYTES] += size_bytes
    if waits:
        queue[S_QUEUE_PEAK_PACKETS] = max(queue[S_QUEUE_PEAK_PACKETS], queue[Q_PACKETS])
        queue[S_QUEUE_PEAK_BYTES] = max(queue[S_QUEUE_PEAK_BYTES], queue[Q_BYTES])
    if queue[Q_HEAD] == packet:
        reschedule(context, port_index)


@jit
def put_on_link(context: Words, port_index: int, packet: int, start_ns: int) -> None:
    """Send a deparsed packet from ``start_ns`` on: it is at the far end at finish + delay."""
    port = port_row(context, port_index)
    row = packet_row(context, packet)
    length = row[P_LENGTH]
    finish = start_ns
    rate = port[Q_RATE_BPS]
    if rate > 0:
        work = length * 8 * NANOSECONDS
        if port[Q_FREE_NS] == start_ns:
            work += port[Q_REMAINDER]
        finish = start_ns + work // rate
        port[Q_REMAINDER] = work % rate
    port[Q_FREE_NS] = finish
    row[P_DEPARTURE_NS] = finish + port[Q_DELAY_NS]
    append(context, port, W_HEAD, packet)
    port[S_TX_PACKETS] += 1
    port[S_TX_BYTES] += length
    count_load(context, port_index, start_ns, finish, length)


@jit
def hand_over(context: Words, port: Words, now_ns: int) -> None:
    """Give the frames that have reached the far end of the CPU port's link to the controller."""
    while port[W_HEAD] != NONE:
        packet = port[W_HEAD]
        if packet_row(context, packet)[P_DEPARTURE_NS] > now_ns:
            return
        take_first(context, port, W_HEAD)
        record_packet(context, packet)
        release(context, packet)


@jit
def land(context: Words, port_index: int, now_ns: int) -> None:
    """Move the frames that have reached the far end of a port's link to the list of the ready, or,
    of a patch link, to the list of those that enter the switch there."""
    port = port_row(context, port_index)
    if port[Q_CPU] != 0:
        hand_over(context, port, now_ns)
        return
    arrived = READY_HEAD if port[Q_PEER] == NONE else LANDED_HEAD
    while port[W_HEAD] != NONE:
        if packet_row(context, port[W_HEAD])[P_DEPARTURE_NS] > now_ns:
            return
        append(context, context, arrived, take_first(context, port, W_HEAD))


@jit
def take_departure(context: Words) -> int:
    """The next packet that has left, or NONE; the caller ``release``s it once it is delivered.

    ``P_SWITCH``, ``P_PORT``, ``P_DEPARTURE_NS`` and ``P_LENGTH`` say what left where and when. The
    frame is the first ``P_HEADER_LENGTH`` bytes of the packet's header row, then the payload in
    the buffer, cut to ``P_LENGTH`` bytes.
    """
    return NONE if context[READY_HEAD] == NONE else take_first(context, context, READY_HEAD)
