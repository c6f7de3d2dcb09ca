"""Queues and links of all switches: the compiled core that every driver calls.

A driver (the real-time loop, a simulator's event loop, ``Dataplane`` in a test) does four things:
``ingest`` a frame at a switch and port, ``advance`` to the present, take what departs with
``take_departure``, and sleep until ``next_deadline``. All times are integer nanoseconds of the
driver's clock. Nothing is allocated: packets and buffers come from pools, lists go through
``next``, and ports wait for their next event in one heap ordered by (time, port).
"""

from weft.switch.engine.dataplane.hooks import FULL, QUEUED
from weft.switch.engine.dataplane.layout import (
    NO_LIMIT_PACKETS,
    NONE,
    Context,
    Packet,
    PortRecord,
    QueueRecord,
    SwitchRecord,
)
from weft.switch.engine.dataplane.outbox import record_packet
from weft.switch.engine.dataplane.pool import append, phv_head, release, take_first
from weft.switch.engine.dataplane.runtime import write_note
from weft.switch.engine.dataplane.scheduling import queue_of, reschedule
from weft.switch.engine.dataplane.telemetry import count_depth, count_load
from weft.switch.engine.dataplane.trace_layout import QUEUE_DROP
from weft.switch.engine.native.compiled import call_pipeline, entry, inline, jit

NANOSECONDS = 1_000_000_000
JITTER = 0x5EED
"""What tells random bits for jitter from those for losses."""


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


@inline
def is_full(port: PortRecord, queue: QueueRecord, size_bytes: int) -> bool:
    """Return whether a queue of a port has no place for a packet of so many bytes."""
    most = queue.limit_packets
    if most >= NO_LIMIT_PACKETS:
        most = port.unbounded_packets
    return queue.bytes + size_bytes > queue.limit_bytes or queue.packets + 1 > most


@jit
def full(
    context: Context, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Drop a packet that finds no place in its queue, unless somebody takes it over."""
    port_index = switch * context.port_count + port
    egress = PortRecord(context.ports, port_index)
    if egress.overflow != 0:
        address = context.address
        if call_pipeline(egress.overflow, address, FULL, port_index, packet, now_ns) != 0:
            return
    queue = queue_of(context, port_index, phv_head(context, packet).priority)
    egress.counted.queue_drops += 1
    egress.counted.queue_drop_bytes += size_bytes
    queue.counted.drops += 1
    queue.counted.drop_bytes += size_bytes
    note_drop(context, switch, packet, QUEUE_DROP, port, queue.packets, queue.bytes)
    release(context, packet)


@entry
def enqueue(
    context: Context, switch: int, port: int, packet: int, size_bytes: int, now_ns: int
) -> None:
    """Put a packet into the queue that its priority has at an egress port that is up, or drop it
    if that is full."""
    port_index = switch * context.port_count + port
    egress = PortRecord(context.ports, port_index)
    phv = phv_head(context, packet)
    queue = queue_of(context, port_index, phv.priority)
    ready_ns = now_ns if queue.packet_ns == 0 else max(now_ns, queue.next_ns)
    busy = egress.queue.waiting.head != NONE or egress.preferred != 0
    waits = busy or egress.free_ns > now_ns or max(ready_ns, queue.held_until_ns) > now_ns
    if waits and is_full(egress, queue, size_bytes):
        full(context, switch, port, packet, size_bytes, now_ns)
        return
    row = Packet(context.packets, packet)
    row.switch = switch
    row.port = port
    row.ready_ns = ready_ns
    row.queue_bytes = size_bytes
    count_depth(context, port_index, queue.bytes)
    phv.enq_timestamp = (now_ns - SwitchRecord(context.switches, switch).epoch_ns) // 1000
    phv.enq_qdepth = queue.packets
    append(context, queue.waiting, packet)
    queue.packets += 1
    queue.bytes += size_bytes
    queue.next_ns = ready_ns + queue.packet_ns
    if phv.priority != 0:
        egress.preferred += 1
    if waits:
        counted = egress.counted
        counted.queue_peak_packets = max(counted.queue_peak_packets, queue.packets)
        counted.queue_peak_bytes = max(counted.queue_peak_bytes, queue.bytes)
        queue.counted.peak_packets = max(queue.counted.peak_packets, queue.packets)
        queue.counted.peak_bytes = max(queue.counted.peak_bytes, queue.bytes)
    if egress.watcher != 0:
        call_pipeline(egress.watcher, context.address, QUEUED, port_index, packet, now_ns)
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
    port.free_ns = finish
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
