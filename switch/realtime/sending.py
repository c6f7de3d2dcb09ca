"""How frames leave: each at its port, in batches, by a transmit ring or by a socket.

A ring (AF_XDP) saves the kernel a message's header for every frame and the memory in one piece for
it. A frame that cannot go by one goes by the packet socket, when those before it have gone.
"""

import numpy as np

from weft.base.jit import load32, memcpy, release_fence, store32
from weft.switch.engine.captures import capture_departure
from weft.switch.engine.layout import NONE, Context, Packet, PortRecord
from weft.switch.engine.native import int64_view, jit
from weft.switch.engine.queues import append, release, take_departure, take_first
from weft.switch.realtime.durations import count_duration
from weft.switch.realtime.layout import (
    BATCH,
    ENTRY_BYTES,
    RING_ENTRIES,
    IoVector,
    LoopRecord,
    MessageHeader,
    SocketRecord,
    TransmitRing,
)
from weft.switch.realtime.system_calls import (
    EAGAIN,
    EBUSY,
    ENOBUFS,
    MSG_DONTWAIT,
    clock,
    errno,
    sendmmsg,
    sendto,
)

LEAST_BYTES = 14
"""The shortest frame that may go by a ring: an Ethernet header."""
BEGINNING_BYTES = 128
CONTINUED = 1
"""XDP_PKT_CONTD: the next entry leads to more of the same frame."""
MOST_WORD = 0xFFFFFFFF
DONE, PENDING, FAILED = 0, 1, 2
PATIENCE_NS = 1_000_000_000
"""A ring has failed if the kernel has not done with its frames for so long."""


@jit
def sort_departures(context: Context, io: LoopRecord) -> None:
    """Give each departing packet to its port's socket."""
    pending = int64_view(io.pending, io.socket_count)
    while True:
        packet = take_departure(context)
        if packet == NONE:
            return
        row = Packet(context.packets, packet)
        number = PortRecord(context.ports, row.switch * context.port_count + row.port).driver
        socket = SocketRecord(io.sockets, number)
        if socket.waiting.head == NONE:
            pending[io.pending_count] = number
            io.pending_count += 1
        append(context, socket.waiting, packet)


@jit
def leave(context: Context, io: LoopRecord, socket: SocketRecord, count: int, time: int) -> None:
    """Release the first frames that wait at a socket, which have been sent."""
    port = PortRecord(context.ports, socket.switch * context.port_count + socket.port)
    timed = port.rate_bps > 0 or port.delay_ns > 0
    now = clock(time) if timed else 0
    for _ in range(count):
        packet = take_first(context, socket.waiting)
        if timed:
            count_duration(io.lateness, now - Packet(context.packets, packet).departure_ns)
        if port.capture_out != 0:
            capture_departure(context, port.capture_out - 1, clock(time), packet)
        release(context, packet)


@jit
def refuse(context: Context, socket: SocketRecord, count: int) -> None:
    """Release the first frames that wait at a socket, which cannot be sent."""
    socket.send_errors += count
    for _ in range(count):
        release(context, take_first(context, socket.waiting))


@jit
def send_messages(context: Context, io: LoopRecord, socket: SocketRecord, time: int) -> bool:
    """Send some of the frames that wait by the socket, and return whether the kernel took any."""
    count = 0
    packet = socket.waiting.head
    while packet != NONE and count < BATCH:
        row = Packet(context.packets, packet)
        header_length = min(row.header_length, row.length)
        buffer = context.buffers + row.buffer * context.buffer_stride
        header = IoVector(io.send_vectors, 2 * count)
        header.address = context.headers + packet * context.header_stride
        header.length = header_length
        payload = IoVector(io.send_vectors, 2 * count + 1)
        payload.address = buffer + row.payload
        payload.length = row.length - header_length
        MessageHeader(io.send, count).length = 0
        packet = row.next
        count += 1
    sent = sendmmsg(socket.sender, io.send, count, MSG_DONTWAIT)
    if sent < 0:
        if errno() in (EAGAIN, ENOBUFS):
            return False
        refuse(context, socket, 1)
    else:
        leave(context, io, socket, sent, time)
    return True


@jit
def post_entry(ring: TransmitRing, address: int, length: int, options: int) -> None:
    """Write the next entry of a ring."""
    entry = int64_view(ring.entries + 16 * (ring.position % RING_ENTRIES), 2)
    entry[0] = address - ring.memory
    entry[1] = length | options << 32
    ring.position = (ring.position + 1) & MOST_WORD


@jit
def post_frames(context: Context, socket: SocketRecord, ring: TransmitRing) -> None:
    """Post the first frames that wait, those of them that can go by the ring.

    The beginning of a frame is copied behind those of the others: what the deparser wrote, and so
    much more that the kernel finds all headers in one piece. The rest is sent from its buffer.
    """
    room = ring.room
    room_end = room + ring.room_bytes
    entries = 0
    packet = socket.waiting.head
    while packet != NONE and ring.frames < BATCH:
        row = Packet(context.packets, packet)
        header_length = min(row.header_length, row.length)
        first = max(header_length, min(row.length, BEGINNING_BYTES))
        rest = row.length - first
        address = context.buffers + row.buffer * context.buffer_stride + row.payload
        rest_address = address + first - header_length
        entries += 1 + (rest + ENTRY_BYTES - 1) // ENTRY_BYTES
        if (
            not LEAST_BYTES <= row.length <= ring.most_bytes
            or first > ENTRY_BYTES
            or room + first > room_end
            or entries > RING_ENTRIES
            or (rest > 0 and rest_address + rest > ring.memory_end)
        ):
            break
        memcpy(room, context.headers + packet * context.header_stride, header_length)
        memcpy(room + header_length, address, first - header_length)
        post_entry(ring, room, first, CONTINUED if rest > 0 else 0)
        while rest > 0:
            length = min(rest, ENTRY_BYTES)
            rest -= length
            post_entry(ring, rest_address, length, CONTINUED if rest > 0 else 0)
            rest_address += length
        room += (first + 63) & ~63
        ring.frames += 1
        packet = row.next
    release_fence()
    store32(ring.posted, ring.position)


@jit
def send_posted(ring: TransmitRing) -> int:
    """Let the kernel send what is posted, and return `DONE`, `PENDING` or `FAILED`."""
    while True:
        before = load32(ring.completed)
        result = sendto(ring.descriptor, 0, 0, MSG_DONTWAIT, 0, 0)
        failed = result < 0 and errno() not in (EAGAIN, EBUSY, ENOBUFS)
        completed = load32(ring.completed)
        if np.int64(completed) == ring.position:
            store32(ring.taken, completed)
            return DONE
        if failed:
            return FAILED
        if completed == before:
            return PENDING


@jit
def send_ring(
    context: Context, io: LoopRecord, socket: SocketRecord, ring: TransmitRing, time: int
) -> bool:
    """Send frames that wait by a ring, and return False if the kernel has not done with them yet.

    A ring that fails is used no more: its frames are lost, as those that a socket refuses.
    """
    state = send_posted(ring)
    if state == PENDING:
        now = clock(time)
        if ring.since_ns == 0:
            ring.since_ns = now
        if now - ring.since_ns < PATIENCE_NS:
            return False
    frames = ring.frames
    ring.frames = ring.since_ns = 0
    if state == DONE:
        leave(context, io, socket, frames, time)
    else:
        socket.ring = 0
        refuse(context, socket, frames)
    return True


@jit
def send_socket(context: Context, io: LoopRecord, socket: SocketRecord, time: int) -> bool:
    """Send what waits at a socket, and return False if the kernel took only a part of it."""
    while socket.waiting.head != NONE:
        posted = False
        if socket.ring != 0:
            ring = TransmitRing(socket.ring)
            if ring.frames == 0:
                post_frames(context, socket, ring)
            posted = ring.frames > 0
        if posted:
            if not send_ring(context, io, socket, TransmitRing(socket.ring), time):
                return False
        elif not send_messages(context, io, socket, time):
            return False
    return True


@jit
def send_departures(context: Context, io: LoopRecord, time: int) -> None:
    """Send all frames that have left their links; what a full socket refuses stays for later."""
    sort_departures(context, io)
    pending = int64_view(io.pending, io.socket_count)
    waiting = io.pending_count
    kept = 0
    for i in range(waiting):
        number = pending[i]
        socket = SocketRecord(io.sockets, number)
        if not send_socket(context, io, socket, time):
            pending[kept] = number
            kept += 1
    io.pending_count = kept
