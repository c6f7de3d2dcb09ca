"""The packet loop: ppoll, recvmmsg, the engine, sendmmsg, in one compiled function without the GIL.

All its memory is reached from one `LoopRecord`, which ``weft.switch.realtime.ports`` makes. It
comes back to Python only when the event descriptor is readable.
"""

import numpy as np

from weft.base.jit import load32
from weft.base.system_calls import (
    MSG_DONTWAIT,
    MSG_TRUNC,
    IoVector,
    MessageHeader,
    Timespec,
    epoll_wait,
    ppoll,
    recvmmsg,
    write,
)
from weft.switch.engine.dataplane.captures import capture_bytes
from weft.switch.engine.dataplane.events import MOST_PASSES, advance, advance_some, begin_turn
from weft.switch.engine.dataplane.layout import (
    DROPS_TOO_LONG,
    HEADROOM,
    NONE,
    SLACK,
    Context,
    Packet,
    PortRecord,
    SwitchRecord,
)
from weft.switch.engine.dataplane.pipeline import ingest
from weft.switch.engine.dataplane.pool import take_buffer, take_packet
from weft.switch.engine.dataplane.queues import put_on_link
from weft.switch.engine.dataplane.scheduling import next_deadline, reschedule
from weft.switch.engine.dataplane.telemetry import count_load
from weft.switch.engine.native.compiled import entry, int64_view, jit, uint8_view
from weft.switch.realtime.durations import STOOD_NS, count_duration
from weft.switch.realtime.layout import (
    BATCH,
    CONTROL_BYTES,
    TIMESPEC_BYTES,
    ControlMessage,
    LoopRecord,
    SocketRecord,
)
from weft.switch.realtime.sending import send_blocked, send_departures
from weft.switch.realtime.system_calls import (
    EVENT_BYTES,
    EVENT_DATA,
    clock,
)

STREAM_BYTES = 512
"""A frame of so many bytes is one of a stream: the next ones may gather, for twice the time that
the link takes for it, before they are looked at. With more frames at a time each takes less of the
processor."""

FORGOTTEN = 16
"""A link is taken for faster by one part in so many where it is measured how far ahead of it frames
came."""

VLAN_VALID = 1 << 4
VLAN_BYTES = 4
ADDRESSES_BYTES = 12  # a frame's, before the tag
POLL_BYTES = 8
"""Of a struct pollfd."""
RETRY_NS = 50_000
IDLE_NS = 100_000_000
"""The longest that the loop sleeps: if it is woken much later, it stood still, whatever was due."""


@jit
def record_burst(
    io: LoopRecord, socket: SocketRecord, rate_bps: int, length: int, now: int
) -> None:
    """Count how far ahead of its link a frame came: by how long it had waited behind those before
    it if they had come as closely as a link of the port's rate carries them.

    The link is taken for a little faster than it is, so that frames that were once late, and
    after which a busy sender has caught up, do not count for as long as the link stays busy.
    """
    if rate_bps > 0:
        free_ns = max(socket.free_ns, now)
        count_duration(io.bursts, free_ns - now)
        takes_ns = length * 8_000_000_000 // rate_bps
        socket.free_ns = free_ns + takes_ns - takes_ns // FORGOTTEN


@jit
def fill_receive_slots(context: Context, io: LoopRecord) -> int:
    """Give each receive slot a buffer of the pool, and return how many of the first slots have
    one."""
    buffers = int64_view(io.receive_buffers, BATCH)
    stride = context.buffer_stride
    for i in range(BATCH):
        MessageHeader(io.receive, i).control_bytes = CONTROL_BYTES
        if buffers[i] == NONE:
            buffer = take_buffer(context)
            if buffer == NONE:
                return i
            buffers[i] = buffer
            vector = IoVector(io.receive_vectors, i)
            vector.address = context.buffers + buffer * stride + HEADROOM
            vector.length = stride - HEADROOM - SLACK
    return BATCH


@jit
def put_tag_back(context: Context, io: LoopRecord, slot: int, row: Packet) -> None:
    """Give a frame the VLAN tag that the kernel took out of it, as libpcap does."""
    control = ControlMessage(io.control, slot)
    if control.status & VLAN_VALID == 0 or row.frame_length < ADDRESSES_BYTES:
        return
    information = control.vlan & 0xFFFF
    protocol = (control.vlan >> 16) & 0xFFFF
    stride = context.buffer_stride
    data = uint8_view(context.buffers + row.buffer * stride, stride)
    start = row.frame - VLAN_BYTES
    for i in range(ADDRESSES_BYTES):
        data[start + i] = data[start + VLAN_BYTES + i]
    place = start + ADDRESSES_BYTES
    data[place] = protocol >> 8
    data[place + 1] = protocol & 0xFF
    data[place + 2] = information >> 8
    data[place + 3] = information & 0xFF
    row.frame = start
    row.frame_length += VLAN_BYTES


@jit
def delay_frame(context: Context, line: int, packet: int, now: int) -> None:
    """Let a frame be in its switch after the delay of a line, a port without rate that leads there;
    what else is done to a frame that comes is done then (`engine.dataplane.events.cross`)."""
    row = Packet(context.packets, packet)
    row.payload = row.frame
    row.payload_length = row.frame_length
    row.length = row.frame_length
    row.header_length = 0
    row.switch = line // context.port_count
    row.port = line % context.port_count
    put_on_link(context, line, packet, now)
    reschedule(context, line)


@jit
def receive_batch(context: Context, io: LoopRecord, socket: SocketRecord, time: int) -> int:
    """Receive up to BATCH frames of a port, put them into the switch, and return their number."""
    slots = fill_receive_slots(context, io)
    if slots == 0:
        context.no_buffer += 1
        return 0
    count = recvmmsg(socket.receiver, io.receive, slots, MSG_DONTWAIT, 0)
    if count <= 0:
        return 0
    now = clock(time)
    if context.storm == 0:
        begin_turn(context, MOST_PASSES)
    if context.patches > 0:
        advance(context, now)  # what other switches sent earlier comes first
    buffers = int64_view(io.receive_buffers, BATCH)
    switch = socket.switch
    rate_bps = socket.rate_bps
    port_index = switch * context.port_count + socket.port
    arrivals = context.load_rows // 2 + port_index
    capture = PortRecord(context.ports, port_index).capture_in
    for i in range(count):
        message = MessageHeader(io.receive, i)
        record_burst(io, socket, rate_bps, message.length & 0xFFFFFFFF, now)
        if message.flags & MSG_TRUNC:
            SwitchRecord(context.switches, switch).drops[DROPS_TOO_LONG] += 1
            continue
        packet = take_packet(context, buffers[i])
        if packet == NONE:
            context.no_buffer += 1
            continue
        buffers[i] = NONE
        row = Packet(context.packets, packet)
        row.frame = HEADROOM
        row.frame_length = message.length & 0xFFFFFFFF
        put_tag_back(context, io, i, row)
        takes_ns = row.frame_length * 8_000_000_000 // rate_bps if rate_bps > 0 else 0
        if row.frame_length >= STREAM_BYTES:
            io.rest_ns = max(io.rest_ns, min(2 * takes_ns, io.coalesce_ns))
        if socket.line != NONE:
            delay_frame(context, socket.line, packet, now)
            advance(context, now)
            continue
        count_load(context, arrivals, now - takes_ns, now, row.frame_length)
        if capture != 0:
            frame = context.buffers + row.buffer * context.buffer_stride + row.frame
            capture_bytes(context, capture - 1, now, frame, row.frame_length)
        ingest(context, switch, socket.port, packet, now)
        advance(context, now)
    return count  # type: ignore[no-any-return]


@jit
def wait(context: Context, io: LoopRecord, time: int, last_wake: int) -> int:
    """Sleep until a frame, the event descriptor or the next deadline, and return ppoll's result."""
    now = clock(time)
    io.sleep_ns = 0
    span = Timespec(time, 1)
    gathered = last_wake + io.rest_ns
    io.rest_ns = 0
    if gathered > now:
        span.seconds, span.nanoseconds = 0, gathered - now
        io.sleep_ns = gathered - now
        ppoll(io.poll + POLL_BYTES, 1, time + TIMESPEC_BYTES, 0)
        now = clock(time)
    until = next_deadline(context)
    if io.pending_count > 0:
        until = now + RETRY_NS if until == NONE else min(until, now + RETRY_NS)
    sleep = IDLE_NS
    if until != NONE:
        sleep = min(max(until, last_wake + io.coalesce_ns) - now, IDLE_NS) if until > now else 0
    io.sleep_ns += sleep
    span.seconds = sleep // 1_000_000_000
    span.nanoseconds = sleep % 1_000_000_000
    return ppoll(io.poll, 1, time + TIMESPEC_BYTES, 0)  # type: ignore[no-any-return]


@jit
def tell_events(context: Context, io: LoopRecord) -> None:
    """Wake the thread that tells controllers of events, if there are new ones."""
    if context.events_wait != 0:
        context.events_wait = 0
        write(io.events, io.one, 8)


@entry
def run_loop(context: Context, io: LoopRecord) -> None:
    """Run until the event descriptor is readable."""
    sockets = io.socket_count
    time = io.times
    last_wake = 0
    before = clock(time)
    while True:
        tell_events(context, io)
        ready = wait(context, io, time, last_wake)
        io.wake_ups += 1
        last_wake = clock(time)
        stood_ns = last_wake - before - io.sleep_ns
        if stood_ns >= STOOD_NS:
            io.stood_ns += stood_ns
        before = last_wake
        advance_some(context, last_wake, MOST_PASSES)
        send_departures(context, io, time)
        if ready <= 0:
            continue
        asked = False
        for i in range(epoll_wait(io.readiness, io.ready, 2 * sockets + 1, 0)):
            descriptor = np.int64(load32(io.ready + i * EVENT_BYTES + EVENT_DATA))
            number = int64_view(io.numbers + 8 * descriptor, 1)[0]
            if number == sockets:
                asked = True
            elif number > sockets:
                send_blocked(context, io, number - sockets - 1, time)
            elif receive_batch(context, io, SocketRecord(io.sockets, number), time) > 0:
                send_departures(context, io, time)
        if asked:
            return
