"""Packets, queues and links of all switches: the compiled core that every driver calls.

A driver (the real-time loop, a simulator's event loop, ``Dataplane`` in a test) does four things:
``ingest`` a frame at a switch and port, ``advance`` to the present, take what departs with
``take_departure``, and sleep until ``next_deadline``. All times are integer nanoseconds of the
driver's clock. Nothing is allocated: packets and buffers come from pools, lists go through
``next``, and ports wait for their next event in one heap ordered by (time, port).

A port has a queue for each priority, one by default. Its link takes, whenever it is free, the first
packet of the greatest priority that is there by then, as BMv2 does.
"""

from weft.base.jit import memcpy, word_of
from weft.switch.engine.dataplane.layout import (
    NONE,
    Chain,
    Context,
    Packet,
    PhvHead,
    PortRecord,
    QueueRecord,
    SwitchRecord,
    Words,
)
from weft.switch.engine.dataplane.outbox import record_packet
from weft.switch.engine.dataplane.runtime import write_note
from weft.switch.engine.dataplane.telemetry import count_depth, count_load
from weft.switch.engine.dataplane.trace_layout import QUEUE_DROP
from weft.switch.engine.native.compiled import entry, inline, int64_view, jit, part

NANOSECONDS = 1_000_000_000
PACKET_BYTES = Packet.dtype.itemsize
PORT_BYTES = PortRecord.dtype.itemsize
QUEUE_PLACE = 8 * word_of(PortRecord, "queue")
QUEUE_BYTES = QueueRecord.dtype.itemsize
JITTER = 0x5EED
"""What tells random bits for jitter from those for losses."""


@part
def phv_row(context: Context, packet: int) -> Words:
    """Return the packet-header vector of a packet."""
    stride = context.phv_stride
    row: Words = int64_view(context.phv + packet * stride * 8, stride)
    return row


@part
def phv_head(context: Context, packet: int) -> PhvHead:
    """Return the head of the packet-header vector of a packet."""
    head: PhvHead = PhvHead(context.phv + packet * context.phv_stride * 8)
    return head


@inline
def append(context: Context, chain: Chain, packet: int) -> None:
    """Put a packet behind a list."""
    Packet(context.packets, packet).next = NONE
    if chain.head == NONE:
        chain.head = packet
    else:
        Packet(context.packets, chain.tail).next = packet
    chain.tail = packet


@inline
def take_first(context: Context, chain: Chain) -> int:
    """Take the first packet out of a list that has one."""
    packet = chain.head
    row = Packet(context.packets, packet)
    chain.head = row.next
    row.next = NONE
    return packet


@jit
def copy_departing(context: Context, packet: int, target: int) -> None:
    """Copy a deparsed packet's frame to an address: its header row, then the payload."""
    row = Packet(context.packets, packet)
    header_length = min(row.header_length, row.length)
    memcpy(target, context.headers + packet * context.header_stride, header_length)
    payload = context.buffers + row.buffer * context.buffer_stride + row.payload
    memcpy(target + header_length, payload, row.length - header_length)


@jit
def take_buffer(context: Context) -> int:
    """Take a free buffer, with one reference, and return it, or NONE."""
    count = context.free_buffer_count
    if count == 0:
        return NONE
    context.free_buffer_count = count - 1
    buffer = int64_view(context.free_buffers, context.buffer_count)[count - 1]
    int64_view(context.buffer_references, context.buffer_count)[buffer] = 1
    return buffer  # type: ignore[no-any-return]


@jit
def drop_buffer(context: Context, buffer: int) -> None:
    """Give one reference to a buffer back."""
    references = int64_view(context.buffer_references, context.buffer_count)
    references[buffer] -= 1
    if references[buffer] == 0:
        count = context.free_buffer_count
        int64_view(context.free_buffers, context.buffer_count)[count] = buffer
        context.free_buffer_count = count + 1


@jit
def take_packet(context: Context, buffer: int) -> int:
    """Take a free packet, which takes over one reference to ``buffer``, and return it, or NONE."""
    count = context.free_packet_count
    if count == 0:
        return NONE
    context.free_packet_count = count - 1
    packet = int64_view(context.free_packets, context.packet_count)[count - 1]
    row = Packet(context.packets, packet)
    row.buffer = buffer
    row.next = NONE
    row.repeats = 0
    row.keep = 0
    row.header_length = 0
    return packet  # type: ignore[no-any-return]


@entry
def release(context: Context, packet: int) -> None:
    """Give a packet and its reference to the buffer back."""
    drop_buffer(context, Packet(context.packets, packet).buffer)
    count = context.free_packet_count
    int64_view(context.free_packets, context.packet_count)[count] = packet
    context.free_packet_count = count + 1


@jit
def drop(context: Context, switch: int, reason: int, packet: int) -> None:
    """Give a packet back that a switch drops; the switch counts it by the reason."""
    SwitchRecord(context.switches, switch).drops[reason] += 1
    release(context, packet)


@jit
def copy_packet(context: Context, packet: int) -> int:
    """Return a packet with the same PHV that shares the buffer, or NONE."""
    row = Packet(context.packets, packet)
    copy = take_packet(context, row.buffer) if context.free_packet_count > context.reserve else NONE
    if copy == NONE:
        context.no_buffer += 1
        return NONE
    int64_view(context.buffer_references, context.buffer_count)[row.buffer] += 1
    place = context.packets + copy * PACKET_BYTES
    memcpy(place, context.packets + packet * PACKET_BYTES, PACKET_BYTES)
    Packet(place).next = NONE
    source = phv_row(context, packet)
    target = phv_row(context, copy)
    for i in range(phv_head(context, packet).r_fields):
        target[i] = source[i]
    return copy


@jit
def heap_before(context: Context, left: int, right: int) -> bool:
    """Return whether port ``left`` is due before port ``right``, or at the same time with a
    smaller number."""
    left_time = PortRecord(context.ports, left).event_ns
    right_time = PortRecord(context.ports, right).event_ns
    return left_time < right_time or (left_time == right_time and left < right)


@jit
def heap_put(context: Context, heap: Words, position: int, port_index: int) -> None:
    """Store a port at a position of the heap."""
    heap[position] = port_index
    PortRecord(context.ports, port_index).heap_position = position


@jit
def heap_up(context: Context, heap: Words, position: int) -> None:
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
def heap_down(context: Context, heap: Words, position: int) -> None:
    """Restore the heap's order from ``position`` towards the leaves."""
    length = context.heap_length
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
def schedule(context: Context, port_index: int, time_ns: int) -> None:
    """Set the time of a port's next event; NONE means that it has none."""
    port = PortRecord(context.ports, port_index)
    if port.event_ns == time_ns:
        return
    heap = int64_view(context.heap, context.switch_count * context.port_count)
    position = port.heap_position
    before = port.event_ns
    port.event_ns = time_ns
    if time_ns == NONE:
        length = context.heap_length - 1
        context.heap_length = length
        port.heap_position = NONE
        if position < length:
            last = heap[length]
            heap_put(context, heap, position, last)
            heap_down(context, heap, position)
            heap_up(context, heap, PortRecord(context.ports, last).heap_position)
        return
    if position == NONE:
        position = context.heap_length
        context.heap_length = position + 1
        heap_put(context, heap, position, port_index)
        heap_up(context, heap, position)
    elif time_ns < before:
        heap_up(context, heap, position)
    else:
        heap_down(context, heap, position)


@part
def queue_of(context: Context, port_index: int, priority: int) -> QueueRecord:
    """Return a port's queue of a priority."""
    place = context.ports + port_index * PORT_BYTES + QUEUE_PLACE
    if priority != 0:
        number = port_index * (context.priorities - 1) + priority - 1
        place = context.queues + number * QUEUE_BYTES
    queue: QueueRecord = QueueRecord(place)
    return queue


@jit
def first_enqueued(context: Context, port_index: int) -> int:
    """Return when the packet was enqueued that has waited for longest at a port of several queues,
    or NONE."""
    time = NONE
    for priority in range(context.priorities):
        head = queue_of(context, port_index, priority).waiting.head
        if head != NONE:
            enqueued = Packet(context.packets, head).enqueued_ns
            if time == NONE or enqueued < time:
                time = enqueued
    return time


@inline
def next_start(context: Context, port_index: int) -> int:
    """Return when a port's link takes the next packet, or NONE if none waits."""
    port = PortRecord(context.ports, port_index)
    head = port.queue.waiting.head
    if port.preferred != 0:
        return max(port.free_ns, first_enqueued(context, port_index))
    if head == NONE:
        return NONE
    return max(port.free_ns, Packet(context.packets, head).enqueued_ns)


@jit
def preferred_priority(context: Context, port_index: int, start_ns: int) -> int:
    """Return the greatest priority of the packets that are there when a port's link is free."""
    for priority in range(context.priorities - 1, 0, -1):
        head = queue_of(context, port_index, priority).waiting.head
        if head != NONE and Packet(context.packets, head).enqueued_ns <= start_ns:
            return priority
    return 0


@inline
def take_waiting(context: Context, port_index: int, start_ns: int) -> int:
    """Take the packet out of its queue that a port's link takes at ``start_ns``."""
    port = PortRecord(context.ports, port_index)
    priority = 0
    if port.preferred != 0:
        priority = preferred_priority(context, port_index, start_ns)
    if priority != 0:
        port.preferred -= 1
    queue = queue_of(context, port_index, priority)
    packet = take_first(context, queue.waiting)
    queue.packets -= 1
    queue.bytes -= Packet(context.packets, packet).queue_bytes
    return packet


@jit
def reschedule(context: Context, port_index: int) -> None:
    """Set a port's next event: its link takes the next frame, or a frame reaches the far end."""
    port = PortRecord(context.ports, port_index)
    time = next_start(context, port_index)
    if port.under_way.head != NONE:
        departure = Packet(context.packets, port.under_way.head).departure_ns
        if time == NONE or departure < time:
            time = departure
    schedule(context, port_index, time)


@entry
def next_deadline(context: Context) -> int:
    """Return when `advance` has something to do next, in ns, or NONE."""
    if context.ready.head != NONE or context.again.head != NONE or context.landed.head != NONE:
        return 0
    if context.heap_length == 0:
        return NONE
    return PortRecord(context.ports, int64_view(context.heap, 1)[0]).event_ns


@jit
def note_drop(
    context: Context, switch: int, packet: int, kind: int, first: int, packets: int, size: int
) -> None:
    """Write why a packet finds no place in a queue, if it is traced: the one thing that a traced
    program cannot see itself."""
    state = SwitchRecord(context.switches, switch)
    number = Packet(context.packets, packet).trace_number
    if state.trace_head != 0 and number != 0:
        write_note(state, kind, number, packet, first, packets, size, 0)


@jit
def enqueue(
    context: Context, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue that its priority has at an egress port that is up, or drop it
    if that is full."""
    port_index = switch * context.port_count + port
    egress = PortRecord(context.ports, port_index)
    phv = phv_head(context, packet)
    queue = queue_of(context, port_index, phv.priority)
    busy = egress.queue.waiting.head != NONE or egress.preferred != 0
    waits = busy or egress.free_ns > now_ns
    if waits and (
        queue.bytes + size_bytes > egress.limit_bytes or queue.packets + 1 > egress.limit_packets
    ):
        egress.counted.queue_drops += 1
        egress.counted.queue_drop_bytes += size_bytes
        note_drop(context, switch, packet, QUEUE_DROP, port, queue.packets, queue.bytes)
        release(context, packet)
        return
    row = Packet(context.packets, packet)
    row.switch = switch
    row.port = port
    row.enqueued_ns = now_ns
    row.queue_bytes = size_bytes
    count_depth(context, port_index, queue.bytes)
    phv.enq_timestamp = (now_ns - SwitchRecord(context.switches, switch).epoch_ns) // 1000
    phv.enq_qdepth = queue.packets
    append(context, queue.waiting, packet)
    queue.packets += 1
    queue.bytes += size_bytes
    if phv.priority != 0:
        egress.preferred += 1
    if waits:
        counted = egress.counted
        counted.queue_peak_packets = max(counted.queue_peak_packets, queue.packets)
        counted.queue_peak_bytes = max(counted.queue_peak_bytes, queue.bytes)
    if queue.waiting.head == packet:
        reschedule(context, port_index)


@inline
def mixed(value: int) -> int:
    """Return 32 bits that all 32 bits of a value have a part in (C. Wellons, Hash Prospector)."""
    value = ((value >> 16) ^ value) * 0x45D9F3B & 0xFFFF_FFFF
    value = ((value >> 16) ^ value) * 0x45D9F3B & 0xFFFF_FFFF
    return (value >> 16) ^ value


@jit
def drawn(context: Context, port_index: int, purpose: int) -> int:
    """Return 32 random bits for the last frame on the link behind a port. They are drawn by the
    state of the switch's random(), which stays as it is, the number of the frame, and what they are
    for."""
    port = PortRecord(context.ports, port_index)
    state = SwitchRecord(context.switches, port_index // context.port_count).random
    of_port = mixed((state ^ (state >> 32)) & 0xFFFF_FFFF ^ mixed(port_index + 1) ^ purpose)
    return mixed(of_port ^ (port.counted.tx_packets & 0xFFFF_FFFF))


@jit
def is_lost(context: Context, port_index: int) -> bool:
    """Return whether the link behind a port that loses frames loses its last one."""
    return drawn(context, port_index, 0) < PortRecord(context.ports, port_index).loss


@jit
def arrival_time(context: Context, port_index: int, finish_ns: int) -> int:
    """Return when a frame whose last bit is on a port's link then is at the far end: never before
    the one ahead of it, whatever the delays of the two are."""
    port = PortRecord(context.ports, port_index)
    time = finish_ns + port.delay_ns
    if port.jitter_ns != 0:
        spread = (2 * port.jitter_ns * drawn(context, port_index, JITTER)) >> 32
        time = max(time - port.jitter_ns + spread, finish_ns)
    if port.under_way.head != NONE:
        time = max(time, Packet(context.packets, port.under_way.tail).departure_ns)
    return time


@jit
def put_on_link(context: Context, port_index: int, packet: int, start_ns: int) -> None:
    """Send a deparsed packet from ``start_ns`` on: it is at the far end at finish + delay, unless
    the link loses it."""
    port = PortRecord(context.ports, port_index)
    row = Packet(context.packets, packet)
    length = row.length
    finish = start_ns
    rate = port.rate_bps
    if rate > 0:
        work = length * 8 * NANOSECONDS
        if port.free_ns == start_ns:
            work += port.remainder
        finish = start_ns + work // rate
        port.remainder = work % rate
    port.free_ns = max(finish, start_ns + port.packet_ns)
    row.departure_ns = arrival_time(context, port_index, finish)
    port.counted.tx_packets += 1
    port.counted.tx_bytes += length
    count_load(context, port_index, start_ns, finish, length)
    if port.loss != 0 and is_lost(context, port_index):
        port.lost_packets += 1
        port.lost_bytes += length
        release(context, packet)
        return
    append(context, port.under_way, packet)


@jit
def hand_over(context: Context, port: PortRecord, now_ns: int) -> None:
    """Give the frames that have reached the far end of the CPU port's link to the controller."""
    while port.under_way.head != NONE:
        packet = port.under_way.head
        if Packet(context.packets, packet).departure_ns > now_ns:
            return
        take_first(context, port.under_way)
        record_packet(context, packet)
        release(context, packet)


@jit
def land(context: Context, port_index: int, now_ns: int) -> None:
    """Move the frames that have reached the far end of a port's link to the list of the ready, or,
    of a patch link, to the list of those that enter the switch there."""
    port = PortRecord(context.ports, port_index)
    if port.cpu != 0:
        hand_over(context, port, now_ns)
        return
    arrived = context.ready if port.peer == NONE else context.landed
    while port.under_way.head != NONE:
        if Packet(context.packets, port.under_way.head).departure_ns > now_ns:
            return
        append(context, arrived, take_first(context, port.under_way))


@entry
def take_departure(context: Context) -> int:
    """Return the next packet that has left, or NONE; the caller calls `release` once it is
    delivered.

    ``switch``, ``port``, ``departure_ns`` and ``length`` of `Packet` say what left where and when.
    The frame is the first ``header_length`` bytes of the packet's header row, then the payload in
    the buffer, cut to ``length`` bytes.
    """
    return NONE if context.ready.head == NONE else take_first(context, context.ready)
