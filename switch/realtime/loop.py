"""The packet loop: ppoll, recvmmsg, the engine, sendmmsg, in one compiled function without the GIL.

All its memory is reached from one `LoopRecord`, which ``weft.switch.realtime.ports`` makes. It
comes back to Python only when the event descriptor is readable.
"""

import platform
from typing import Annotated, Any

import numpy as np

from weft.base.deferred import external
from weft.base.jit import Record, load32, record, words_in
from weft.switch.engine.captures import capture_bytes, capture_departure
from weft.switch.engine.events import MOST_PASSES, advance, advance_some, begin_turn
from weft.switch.engine.layout import (
    DROPS_TOO_LONG,
    HEADROOM,
    NONE,
    SLACK,
    Chain,
    Context,
    Packet,
    PortRecord,
    SwitchRecord,
    Words,
)
from weft.switch.engine.native import int64_view, jit, uint8_view
from weft.switch.engine.pipeline import ingest
from weft.switch.engine.queues import (
    append,
    next_deadline,
    put_on_link,
    release,
    reschedule,
    take_buffer,
    take_departure,
    take_first,
    take_packet,
)
from weft.switch.engine.telemetry import count_load

BATCH = 64
"""The most frames of one recvmmsg or sendmmsg."""
STREAM_BYTES = 512
"""A frame of so many bytes is one of a stream: the next ones may gather, for twice the time that
the link takes for it, before they are looked at. With more frames at a time each takes less of the
processor."""

FORGOTTEN = 16
"""A link is taken for faster by one part in so many where it is measured how far ahead of it frames
came."""

HISTOGRAM = 40 * 16
"""How many buckets durations are counted in: 16 a power of two."""


@record
class Timespec(Record):
    """Lay a struct timespec out."""

    seconds: int
    nanoseconds: int


@record
class IoVector(Record):
    """Lay a struct iovec out."""

    address: int
    length: int
    """Its bytes."""


@record
class MessageHeader(Record):
    """Lay a struct mmsghdr out."""

    name: Annotated[Words, 2]
    """Its address and length; there is none."""
    vectors: int
    """Address of rows of `IoVector`."""
    vector_count: int
    control: int
    """Address of a `ControlMessage`."""
    control_bytes: int
    flags: int
    length: int
    """The frame's bytes, in the low half."""


@record
class ControlMessage(Record):
    """Lay a control message out that has a struct tpacket_auxdata (packet(7), PACKET_AUXDATA)."""

    head: Annotated[Words, 2]
    """The message's length, its level and its type."""
    status: int
    """The status, in the low half."""
    snapshot: int
    vlan: int
    """The tag's control information, then its protocol, in the low half."""


@record
class Durations(Record):
    """Count durations by their length."""

    greatest_ns: int
    counts: Annotated[Words, HISTOGRAM]


@record
class SocketRecord(Record):
    """Hold the sockets of a port."""

    receiver: int
    """The descriptor of the socket that frames come in by."""
    sender: int
    """The descriptor of the socket that they leave by."""
    switch: int
    port: int
    waiting: Chain
    """The frames to send."""
    send_errors: int
    free_ns: int
    """When the port's link would have carried all that was received."""
    rate_bps: int
    """The rate of the link as it was configured: what comes in is not slower for a slowed port."""
    line: int
    """The port index over which what comes in goes first, for its delay, or NONE."""


@record
class LoopRecord(Record):
    """Lead to what the packet loop works on beside the switches."""

    poll: int
    """Address of pollfd[2]: of `readiness`, and of the event descriptor alone."""
    readiness: int
    """The epoll descriptor that knows which sockets have frames, and whether the event descriptor
    can be read: a wake-up costs the same for any number of sockets."""
    ready: int
    """Address of struct epoll_event[socket_count + 1]."""
    numbers: int
    """Address of int64: the number of the socket of each descriptor; that of the event descriptor
    has `socket_count`."""
    sockets: int
    """Address of socket_count rows of `SocketRecord`."""
    socket_count: int
    receive: int
    """Address of BATCH rows of `MessageHeader`."""
    receive_vectors: int
    """Address of BATCH rows of `IoVector`."""
    receive_buffers: int
    """Address of int64[BATCH]: the pool's buffer of each message, or NONE."""
    control: int
    """Address of BATCH rows of `ControlMessage`: what the kernel says of each frame."""
    send: int
    """Address of BATCH rows of `MessageHeader`."""
    send_vectors: int
    """Address of 2 * BATCH rows of `IoVector`: a header and a payload for each message."""
    pending: int
    """Address of int64[socket_count]: the sockets with frames to send."""
    pending_count: int
    coalesce_ns: int
    wake_ups: int
    times: int
    """Address of two rows of `Timespec`: the present, and how long to sleep."""
    events: int
    """The event descriptor of the thread that tells controllers of events."""
    one: int
    """Address of an int64 of 1."""
    lateness: Durations
    """How late frames left."""
    bursts: Durations
    """How far ahead of their links frames came."""
    rest_ns: int
    """How long frames may gather since the last wake-up."""


TIMESPEC_BYTES = 8 * words_in(Timespec)
CONTROL_BYTES = 8 * words_in(ControlMessage)

VLAN_VALID = 1 << 4
VLAN_BYTES = 4
ADDRESSES_BYTES = 12  # a frame's, before the tag
POLL_BYTES = 8
"""Of a struct pollfd."""
POLLIN = 1
EVENT_BYTES, EVENT_DATA = (12, 4) if platform.machine() == "x86_64" else (16, 8)
"""The size of a struct epoll_event, and where in it the data are (epoll_event(3type))."""
MSG_DONTWAIT = 0x40
MSG_TRUNC = 0x20
EAGAIN = 11
ENOBUFS = 105
CLOCK_MONOTONIC = 1
RETRY_NS = 50_000
IDLE_NS = 1_000_000_000

_clock_gettime: Any = external("clock_gettime", "int32", "int32", "int64")
_ppoll: Any = external("ppoll", "int32", "int64", "uint64", "int64", "int64")
_epoll_wait: Any = external("epoll_wait", "int32", "int32", "int64", "int32", "int32")
_recvmmsg: Any = external("recvmmsg", "int32", "int32", "int64", "uint32", "int32", "int64")
_sendmmsg: Any = external("sendmmsg", "int32", "int32", "int64", "uint32", "int32")
_errno_location: Any = external("__errno_location", "int64")
_write: Any = external("write", "int64", "int32", "int64", "uint64")


@jit
def clock(time: int) -> int:
    """Return the time of CLOCK_MONOTONIC in ns; ``time`` is the address of a `Timespec`."""
    _clock_gettime(CLOCK_MONOTONIC, time)
    present = Timespec(time)
    return present.seconds * 1_000_000_000 + present.nanoseconds


@jit
def errno() -> int:
    """Return the C library's errno of this thread."""
    word = int64_view(_errno_location() & ~7, 1)[0]
    if _errno_location() & 4:
        word >>= 32
    return word & 0xFFFFFFFF  # type: ignore[no-any-return]


@jit
def count_duration(durations: Durations, duration_ns: int) -> None:
    """Count a duration in a histogram of 16 steps per power of two."""
    duration_ns = max(duration_ns, 0)
    durations.greatest_ns = max(durations.greatest_ns, duration_ns)
    exponent = 0
    value = duration_ns
    while value >= 32:
        value >>= 1
        exponent += 1
    bucket = duration_ns if exponent == 0 else (exponent + 1) * 16 + (value - 16)
    durations.counts[min(bucket, HISTOGRAM - 1)] += 1


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
    what else is done to a frame that comes is done then (`weft.switch.engine.events.cross`)."""
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
    count = _recvmmsg(socket.receiver, io.receive, slots, MSG_DONTWAIT, 0)
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
    """Send what waits at a socket, and return False if the kernel took only a part of it."""
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
        sent = _sendmmsg(socket.sender, io.send, count, MSG_DONTWAIT)
        if sent < 0:
            if errno() in (EAGAIN, ENOBUFS):
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


@jit
def wait(context: Context, io: LoopRecord, time: int, last_wake: int) -> int:
    """Sleep until a frame, the event descriptor or the next deadline, and return ppoll's result."""
    now = clock(time)
    span = Timespec(time, 1)
    gathered = last_wake + io.rest_ns
    io.rest_ns = 0
    if gathered > now:
        span.seconds, span.nanoseconds = 0, gathered - now
        _ppoll(io.poll + POLL_BYTES, 1, time + TIMESPEC_BYTES, 0)
        now = clock(time)
    until = next_deadline(context)
    if io.pending_count > 0:
        until = now + RETRY_NS if until == NONE else min(until, now + RETRY_NS)
    sleep = IDLE_NS
    if until != NONE:
        sleep = min(max(until, last_wake + io.coalesce_ns) - now, IDLE_NS) if until > now else 0
    span.seconds = sleep // 1_000_000_000
    span.nanoseconds = sleep % 1_000_000_000
    return _ppoll(io.poll, 1, time + TIMESPEC_BYTES, 0)  # type: ignore[no-any-return]


@jit
def tell_events(context: Context, io: LoopRecord) -> None:
    """Wake the thread that tells controllers of events, if there are new ones."""
    if context.events_wait != 0:
        context.events_wait = 0
        _write(io.events, io.one, 8)


@jit
def run_loop(context: Context, io: LoopRecord) -> None:
    """Run until the event descriptor is readable."""
    sockets = io.socket_count
    time = io.times
    last_wake = 0
    while True:
        tell_events(context, io)
        ready = wait(context, io, time, last_wake)
        io.wake_ups += 1
        last_wake = clock(time)
        advance_some(context, last_wake, MOST_PASSES)
        send_departures(context, io, time)
        if ready <= 0:
            continue
        asked = False
        for i in range(_epoll_wait(io.readiness, io.ready, sockets + 1, 0)):
            descriptor = np.int64(load32(io.ready + i * EVENT_BYTES + EVENT_DATA))
            number = int64_view(io.numbers + 8 * descriptor, 1)[0]
            if number == sockets:
                asked = True
            elif receive_batch(context, io, SocketRecord(io.sockets, number), time) > 0:
                send_departures(context, io, time)
        if asked:
            return
