"""How frames leave: each to its port's socket, in batches.

A socket whose frames go through a queueing discipline takes only a few that wait there. When it
takes no more, its port is blocked: packets stay in the switch's own queue, where programs see how
long it is, and leave one by one as the socket can be written to again.
"""

from weft.base.system_calls import (
    EAGAIN,
    ENOBUFS,
    EPOLL_CTL_ADD,
    EPOLL_CTL_DEL,
    MSG_DONTWAIT,
    IoVector,
    MessageHeader,
    epoll_ctl,
    sendmmsg,
)
from weft.switch.engine.dataplane.captures import capture_departure
from weft.switch.engine.dataplane.layout import (
    NEVER_NS,
    NO_LIMIT_PACKETS,
    NONE,
    Context,
    Packet,
    PortRecord,
)
from weft.switch.engine.dataplane.pipeline import run_egress
from weft.switch.engine.dataplane.pool import append, release, take_first
from weft.switch.engine.dataplane.queues import land, take_departure
from weft.switch.engine.dataplane.scheduling import next_start, reschedule, take_waiting
from weft.switch.engine.native.compiled import int64_view, jit
from weft.switch.realtime.durations import count_duration
from weft.switch.realtime.layout import BATCH, LoopRecord, SocketRecord
from weft.switch.realtime.system_calls import EVENT_BYTES, clock, errno

HELD_PACKETS = 64
"""What a queue without a bound holds while its port is blocked: as many as BMv2's."""


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
        if socket.waiting.head == NONE and socket.blocked == 0:
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
        if not send_socket(context, io, socket, time) and not block(context, io, number):
            pending[kept] = number
            kept += 1
    io.pending_count = kept


@jit
def block(context: Context, io: LoopRecord, number: int) -> bool:
    """Let packets of a port wait in its queue until its socket can be written to, and return
    whether they do: where frames bypass queueing disciplines, the socket is tried again instead.

    A queue without limit holds as many packets then as BMv2's: one slow port must not take the
    buffers of all.
    """
    socket = SocketRecord(io.sockets, number)
    watch = io.watches + number * EVENT_BYTES
    if socket.queued == 0 or epoll_ctl(io.readiness, EPOLL_CTL_ADD, socket.sender, watch) != 0:
        return False
    port_index = socket.switch * context.port_count + socket.port
    port = PortRecord(context.ports, port_index)
    socket.blocked = 1
    port.unbounded_packets = HELD_PACKETS
    port.free_ns = NEVER_NS
    reschedule(context, port_index)
    return True


@jit
def send_blocked(context: Context, io: LoopRecord, number: int, time: int) -> None:
    """Send what has waited at a blocked port, as far as its socket takes it; the port is free again
    once nothing is left, or, if the switch has its link's rate or delay, nothing that has left."""
    socket = SocketRecord(io.sockets, number)
    port_index = socket.switch * context.port_count + socket.port
    port = PortRecord(context.ports, port_index)
    timed = port.rate_bps > 0 or port.delay_ns > 0
    for _ in range(BATCH):
        if socket.blocked == 0 or not send_socket(context, io, socket, time):
            return
        now = clock(time)
        port.free_ns = now
        start_ns = next_start(context, port_index)
        if timed or start_ns == NONE or start_ns > now:
            epoll_ctl(io.readiness, EPOLL_CTL_DEL, socket.sender, 0)
            socket.blocked = 0
            port.unbounded_packets = NO_LIMIT_PACKETS
            reschedule(context, port_index)
            return
        run_egress(context, port_index, take_waiting(context, port_index, start_ns), start_ns)
        port.free_ns = NEVER_NS
        land(context, port_index, now)
        reschedule(context, port_index)
        sort_departures(context, io)
