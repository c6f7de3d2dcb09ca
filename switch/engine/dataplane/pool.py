"""The pool of packets and their buffers, from which all switches of a process take."""

from weft.base.jit import memcpy
from weft.switch.engine.dataplane.layout import (
    DROPS_TOO_LONG,
    HEADROOM,
    LEAST_BARE_BYTES,
    NONE,
    SLACK,
    Chain,
    Context,
    Frame,
    Packet,
    PhvHead,
    SwitchRecord,
    Words,
)
from weft.switch.engine.native.compiled import entry, inline, int64_view, jit, part

PACKET_BYTES = Packet.dtype.itemsize


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
    size = row.length - header_length
    if context.bare_bytes:
        size = min(max(size, LEAST_BARE_BYTES), context.bare_bytes)
    memcpy(target + header_length, payload, size)


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


@jit
def take_in(context: Context, switch: int, frame: Frame) -> int:
    """Copy a frame (uint8 array) into the pool for a switch, and return its packet, or NONE: it is
    too long, or there is no room, which is counted."""
    length = frame.size
    if HEADROOM + length + SLACK > context.buffer_stride:
        SwitchRecord(context.switches, switch).drops[DROPS_TOO_LONG] += 1
        return NONE
    buffer = take_buffer(context)
    if buffer == NONE:
        context.no_buffer += 1
        return NONE
    packet = take_packet(context, buffer)
    if packet == NONE:
        drop_buffer(context, buffer)
        context.no_buffer += 1
        return NONE
    memcpy(context.buffers + buffer * context.buffer_stride + HEADROOM, frame.ctypes.data, length)
    words = Packet(context.packets, packet)
    words.frame = HEADROOM
    words.frame_length = length
    return packet


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
