"""How frames leave: each to its port's socket, in batches."""

from weft.base.system_calls import EAGAIN, ENOBUFS, MSG_DONTWAIT, IoVector, MessageHeader, sendmmsg
from weft.switch.engine.dataplane.captures import capture_departure
from weft.switch.engine.dataplane.layout import NONE, Context, Packet, PortRecord
from weft.switch.engine.dataplane.queues import append, release, take_departure, take_first
from weft.switch.engine.native.compiled import int64_view, jit
from weft.switch.realtime.durations import count_duration
from weft.switch.realtime.layout import BATCH, LoopRecord, SocketRecord
from weft.switch.realtime.system_calls import (
    clock,
    errno,
)


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
def send_socket(context: Context, io: LoopRecord, socket: SocketRecord, time: int) -> bool:
    """Send what waits at a socket, and return False if the kernel took only a part of it.

    What a full queueing discipline refuses it has dropped, as any program's. After a part of a
    batch the kernel does not say why it stopped, so the next frame is tried once more.
    """
    port = PortRecord(context.ports, socket.switch * context.port_count + socket.port)
    timed = port.rate_bps > 0 or port.delay_ns > 0
    while socket.waiting.head != NONE:
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
            error = errno()
            if error == EAGAIN or (error == ENOBUFS and socket.queued == 0):
                return False
            socket.send_errors += 1
        now = clock(time) if timed else 0
        for _ in range(max(sent, 1)):
            packet = take_first(context, socket.waiting)
            if timed and sent > 0:
                count_duration(io.lateness, now - Packet(context.packets, packet).departure_ns)
            if port.capture_out != 0 and sent > 0:
                capture_departure(context, port.capture_out - 1, clock(time), packet)
            release(context, packet)
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
