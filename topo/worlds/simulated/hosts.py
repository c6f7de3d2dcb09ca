"""Compiled code that does, packet by packet, what a host's interface and transport do."""

import numpy as np

from weft.agents.transport.aggregation_layout import AGGREGATION_QKEY
from weft.agents.transport.kernels.memory import has_news
from weft.agents.transport.kernels.receive import take_batch
from weft.agents.transport.kernels.transmit import fill_batch
from weft.agents.transport.layout import Batch, EndpointState
from weft.base.jit import load8, load16, load32, memcpy, store8, store16, store32
from weft.switch.engine.dataplane.layout import HEADROOM, NONE, Context, Packet, PortRecord
from weft.switch.engine.dataplane.pool import drop_buffer, release, take_buffer, take_packet
from weft.switch.engine.dataplane.queues import enqueue, land, put_on_link
from weft.switch.engine.dataplane.scheduling import (
    next_start,
    reschedule,
    schedule,
    take_waiting,
)
from weft.switch.engine.native.compiled import uint8_view
from weft.topo.worlds.simulated.faults import frame_view
from weft.topo.worlds.simulated.frames import put_stack, read16, read32, taken_size
from weft.topo.worlds.simulated.layout import (
    NEVER,
    STACK_BYTES,
    HostRecord,
    WorldRecord,
    internal,
)

DONE, CALL_HOST, LACK_ROOM = range(3)


@internal
def serve_uplink(context: Context, port_index: int, now_ns: int) -> None:
    """Do what is due at a host's uplink: send what waits, and let frames reach its far end."""
    while True:
        start = next_start(context, port_index)
        if start == NONE or start > now_ns:
            break
        put_on_link(context, port_index, take_waiting(context, port_index, start), start)
    land(context, port_index, now_ns)
    reschedule(context, port_index)


@internal
def take_in(world: WorldRecord, context: Context, host: int, packet: int, now_ns: int) -> int:
    """Hand a frame that reaches a host to its transport if it is for the host; return DONE or
    CALL_HOST.

    The packet is given back in either case.
    """
    words = HostRecord(world.host_table, host)
    if words.alive == 0 or words.endpoint == 0:
        release(context, packet)
        return DONE
    data = frame_view(context, packet)
    arrived = Packet(context.packets, packet)
    start = arrived.frame
    size = taken_size(data, start, arrived.frame_length, words)
    if size < 0:
        words.refused += 1
        release(context, packet)
        return DONE
    batch = Batch(world.receiving)
    row = data.ctypes.data + start + STACK_BYTES
    batch.data = row
    store32(batch.length, np.uint32(size))
    store32(batch.source, np.uint32(read32(data, start + 26)))
    store32(batch.destination, np.uint32(read32(data, start + 30)))
    store16(batch.source_port, np.uint16(read16(data, start + 34)))
    store8(batch.tos, np.uint8(data[start + 15]))
    endpoint = EndpointState(words.endpoint)
    take_batch(endpoint, batch, 1, now_ns)
    world.delivered += 1
    multicast = read32(data, start + STACK_BYTES + 4) & 0xFFFFFF == 0xFFFFFF
    chunk = multicast and read32(data, start + STACK_BYTES + 12) != AGGREGATION_QKEY
    call = has_news(endpoint) or words.attentive != 0
    if call:
        memcpy(world.received_row, row, min(size, batch.stride))
    release(context, packet)
    if call:
        return CALL_HOST
    if not chunk:  # chunks of a group that complete nothing give no reason to send
        schedule(context, world.first_call + host, now_ns)
    return DONE


@internal
def serve_host(world: WorldRecord, context: Context, host: int, now_ns: int) -> int:
    """Send all that a host's transport has to send now, and schedule when it is next called.

    Returns CALL_HOST if the host's agent must be called, LACK_ROOM if the pool must grow first;
    either way the host's time is still now.
    """
    words = HostRecord(world.host_table, host)
    call = world.first_call + host
    if words.alive == 0 or words.endpoint == 0:
        schedule(context, call, NONE)
        return DONE
    if words.due_ns <= now_ns:
        return CALL_HOST
    port_index = world.first_uplink + host
    port = PortRecord(context.ports, port_index)
    endpoint = EndpointState(words.endpoint)
    batch = Batch(world.sending)
    stride = context.buffer_stride
    while True:
        room = words.queue_bytes - port.queue.bytes
        if room < world.frame_bytes:
            schedule(context, call, min(max(port.free_ns, now_ns + 1), words.due_ns))
            return DONE
        if context.free_buffer_count < world.margin or context.free_packet_count < world.margin:
            return LACK_ROOM
        buffer = take_buffer(context)
        address = context.buffers + buffer * stride
        batch.data = address + HEADROOM + STACK_BYTES
        count = fill_batch(endpoint, batch, now_ns, room)
        if count == 0:
            drop_buffer(context, buffer)
        else:
            data = uint8_view(address, stride)
            length = put_stack(
                data,
                HEADROOM,
                words,
                np.int64(load32(batch.length)),
                np.int64(load32(batch.destination)),
                np.int64(load16(batch.source_port)),
                np.int64(load8(batch.tos)),
            )
            packet = take_packet(context, buffer)
            row = Packet(context.packets, packet)
            row.frame = HEADROOM
            row.frame_length = length
            row.payload = HEADROOM
            row.payload_length = length
            row.length = length
            row.departure_ns = 0
            ports = context.port_count
            enqueue(context, port_index // ports, port_index % ports, packet, length, now_ns)
        if has_news(endpoint):
            return CALL_HOST
        deadline = endpoint.deadline
        if deadline > now_ns:
            break
        if count == 0:  # it has nothing after all
            deadline = now_ns + 1000
            break
    deadline = min(deadline, words.due_ns)
    schedule(context, call, NONE if deadline >= NEVER else deadline)
    return DONE
