"""The packet loop: ppoll, recvmmsg, the engine, sendmmsg, in one compiled function without the GIL.

All its memory is one array of words (``io``) with addresses of others, made by
``weft.switch.realtime.ports``. It comes back to Python only when the event descriptor is readable.
"""

from typing import Any

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
    Port,
    SwitchRecord,
    Words,
)
from weft.switch.engine.native import int64_view, jit, types, uint8_view
from weft.switch.engine.pipeline import ingest
from weft.switch.engine.queues import (
    append,
    next_deadline,
    release,
    take_buffer,
    take_departure,
    take_first,
    take_packet,
)
from weft.switch.engine.telemetry import count_load

BATCH = 64
"""The most frames of one recvmmsg or sendmmsg."""

# Words of io.
(
    IO_POLL,  # address of pollfd[sockets + 1]: the last is the event descriptor
    IO_SOCKETS,  # address of int64[sockets, SOCKET_WORDS]
    IO_COUNT,
    IO_RECEIVE,  # address of mmsghdr[BATCH]
    IO_RECEIVE_VECTORS,  # address of iovec[BATCH]
    IO_RECEIVE_BUFFERS,  # address of int64[BATCH]: the pool's buffer of each, or NONE
    IO_SEND,  # address of mmsghdr[BATCH]
    IO_SEND_VECTORS,  # address of iovec[2 * BATCH]
    IO_PENDING,  # address of int64[sockets]: sockets with frames to send
    IO_HISTOGRAM,  # address of int64[HISTOGRAM]: lateness of departures
    IO_MAX_LATENESS,
    IO_COALESCE_NS,
    IO_WAKE_UPS,
    IO_TIME,  # address of int64[4]: timespecs
    IO_PENDING_COUNT,
    IO_SPACING,  # address of int64[HISTOGRAM]: how much too close together frames came
    IO_MAX_SPACING,
    IO_EVENTS,  # event descriptor of the thread that tells controllers of events
    IO_ONE,  # address of an int64 of 1
    IO_CONTROL,  # address of int64[BATCH, CONTROL_WORDS]: what the kernel says of each frame
    IO_WORDS,  # all of them
) = range(21)

# Words of a socket.
(
    F_DESCRIPTOR,
    F_SWITCH,
    F_PORT,
    F_HEAD,  # frames to send, each of which names the next
    F_TAIL,
    F_SEND_ERRORS,
    F_ARRIVED_NS,  # when the last frame was received
    F_RATE_BPS,  # of the link as it was configured: what comes in is not slower for a slowed port
    SOCKET_WORDS,  # all of them
) = range(9)

MESSAGE_WORDS = 8  # of a struct mmsghdr
(
    M_CONTROL_BYTES,  # its words
    M_FLAGS,
    M_LENGTH,
) = range(5, 8)

# Words of a control message with a struct tpacket_auxdata (packet(7), PACKET_AUXDATA).
CONTROL_WORDS = 5
C_STATUS = 2  # low half
C_VLAN = 4  # low half: the tag's control information, then its protocol
VLAN_VALID = 1 << 4
VLAN_BYTES = 4
ADDRESSES_BYTES = 12  # a frame's, before the tag
POLLIN = 1
POLLNVAL = 32
MSG_DONTWAIT = 0x40
MSG_TRUNC = 0x20
EAGAIN = 11
ENOBUFS = 105
CLOCK_MONOTONIC = 1
RETRY_NS = 50_000
IDLE_NS = 1_000_000_000

HISTOGRAM = 40 * 16

_clock_gettime: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.int64))
_ppoll: Any = types.ExternalFunction(
    "ppoll", types.int32(types.int64, types.uint64, types.int64, types.int64)
)
_recvmmsg: Any = types.ExternalFunction(
    "recvmmsg", types.int32(types.int32, types.int64, types.uint32, types.int32, types.int64)
)
_sendmmsg: Any = types.ExternalFunction(
    "sendmmsg", types.int32(types.int32, types.int64, types.uint32, types.int32)
)
_errno_location: Any = types.ExternalFunction("__errno_location", types.int64())


_write: Any = types.ExternalFunction("write", types.int64(types.int32, types.int64, types.uint64))


@jit
def clock(time: Words) -> int:
    """Return the time of CLOCK_MONOTONIC in ns."""
    _clock_gettime(CLOCK_MONOTONIC, time.ctypes.data)
    return time[0] * 1_000_000_000 + time[1]  # type: ignore[no-any-return]


@jit
def errno() -> int:
    """Return the C library's errno of this thread."""
    word = int64_view(_errno_location() & ~7, 1)[0]
    if _errno_location() & 4:
        word >>= 32
    return word & 0xFFFFFFFF  # type: ignore[no-any-return]


@jit
def record(io: Words, histogram: int, greatest: int, duration_ns: int) -> None:
    """Count a duration in a histogram of 16 steps per power of two."""
    duration_ns = max(duration_ns, 0)
    io[greatest] = max(io[greatest], duration_ns)
    exponent = 0
    value = duration_ns
    while value >= 32:
        value >>= 1
        exponent += 1
    bucket = duration_ns if exponent == 0 else (exponent + 1) * 16 + (value - 16)
    int64_view(io[histogram], HISTOGRAM)[min(bucket, HISTOGRAM - 1)] += 1


@jit
def record_lateness(io: Words, lateness_ns: int) -> None:
    """Count how late a frame left."""
    record(io, IO_HISTOGRAM, IO_MAX_LATENESS, lateness_ns)


@jit
def record_spacing(io: Words, socket: Words, rate_bps: int, length: int, now: int) -> None:
    """Count by how much a frame followed the one before more closely than its link carries it."""
    if rate_bps > 0:
        takes_ns = length * 8_000_000_000 // rate_bps
        record(io, IO_SPACING, IO_MAX_SPACING, takes_ns - (now - socket[F_ARRIVED_NS]))
        socket[F_ARRIVED_NS] = now


@jit
def fill_receive_slots(context: Context, io: Words) -> int:
    """Give each receive slot a buffer of the pool, and return how many of the first slots have
    one."""
    vectors = int64_view(io[IO_RECEIVE_VECTORS], 2 * BATCH)
    buffers = int64_view(io[IO_RECEIVE_BUFFERS], BATCH)
    messages = int64_view(io[IO_RECEIVE], BATCH * MESSAGE_WORDS)
    stride = context.buffer_stride
    for i in range(BATCH):
        messages[i * MESSAGE_WORDS + M_CONTROL_BYTES] = CONTROL_WORDS * 8
        if buffers[i] == NONE:
            buffer = take_buffer(context)
            if buffer == NONE:
                return i
            buffers[i] = buffer
            vectors[2 * i] = context.buffers + buffer * stride + HEADROOM
            vectors[2 * i + 1] = stride - HEADROOM - SLACK
    return BATCH


@jit
def put_tag_back(context: Context, io: Words, slot: int, row: Packet) -> None:
    """Give a frame the VLAN tag that the kernel took out of it, as libpcap does."""
    control = int64_view(io[IO_CONTROL] + slot * CONTROL_WORDS * 8, CONTROL_WORDS)
    if control[C_STATUS] & VLAN_VALID == 0 or row.frame_length < ADDRESSES_BYTES:
        return
    information = control[C_VLAN] & 0xFFFF
    protocol = (control[C_VLAN] >> 16) & 0xFFFF
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
def receive_batch(context: Context, io: Words, socket: Words, time: Words) -> int:
    """Receive up to BATCH frames of a port, put them into the switch, and return their number."""
    slots = fill_receive_slots(context, io)
    if slots == 0:
        context.no_buffer += 1
        return 0
    count = _recvmmsg(socket[F_DESCRIPTOR], io[IO_RECEIVE], slots, MSG_DONTWAIT, 0)
    if count <= 0:
        return 0
    now = clock(time)
    if context.storm == 0:
        begin_turn(context, MOST_PASSES)
    if context.patches > 0:
        advance(context, now)  # what other switches sent earlier comes first
    messages = int64_view(io[IO_RECEIVE], BATCH * MESSAGE_WORDS)
    buffers = int64_view(io[IO_RECEIVE_BUFFERS], BATCH)
    switch = socket[F_SWITCH]
    rate_bps = socket[F_RATE_BPS]
    port_index = switch * context.port_count + socket[F_PORT]
    arrivals = context.load_rows // 2 + port_index
    capture = Port(context.ports, port_index).capture_in
    for i in range(count):
        message = i * MESSAGE_WORDS
        record_spacing(io, socket, rate_bps, messages[message + M_LENGTH] & 0xFFFFFFFF, now)
        if messages[message + M_FLAGS] & MSG_TRUNC:
            SwitchRecord(context.switches, switch).drops[DROPS_TOO_LONG] += 1
            continue
        packet = take_packet(context, buffers[i])
        if packet == NONE:
            context.no_buffer += 1
            continue
        buffers[i] = NONE
        row = Packet(context.packets, packet)
        row.frame = HEADROOM
        row.frame_length = messages[message + M_LENGTH] & 0xFFFFFFFF
        put_tag_back(context, io, i, row)
        takes_ns = row.frame_length * 8_000_000_000 // rate_bps if rate_bps > 0 else 0
        count_load(context, arrivals, now - takes_ns, now, row.frame_length)
        if capture != 0:
            frame = context.buffers + row.buffer * context.buffer_stride + row.frame
            capture_bytes(context, capture - 1, now, frame, row.frame_length)
        ingest(context, switch, socket[F_PORT], packet, now)
        advance(context, now)
    return count  # type: ignore[no-any-return]


@jit
def sort_departures(context: Context, io: Words) -> None:
    """Give each departing packet to its port's socket."""
    pending = int64_view(io[IO_PENDING], io[IO_COUNT])
    while True:
        packet = take_departure(context)
        if packet == NONE:
            return
        row = Packet(context.packets, packet)
        number = Port(context.ports, row.switch * context.port_count + row.port).driver
        socket = int64_view(io[IO_SOCKETS] + number * SOCKET_WORDS * 8, SOCKET_WORDS)
        if socket[F_HEAD] == NONE:
            pending[io[IO_PENDING_COUNT]] = number
            io[IO_PENDING_COUNT] += 1
        append(context, Chain(socket.ctypes.data + 8 * F_HEAD), packet)


@jit
def send_socket(context: Context, io: Words, socket: Words, time: Words) -> bool:
    """Send what waits at a socket, and return False if the kernel took only a part of it."""
    messages = int64_view(io[IO_SEND], BATCH * MESSAGE_WORDS)
    vectors = int64_view(io[IO_SEND_VECTORS], 4 * BATCH)
    port = Port(context.ports, socket[F_SWITCH] * context.port_count + socket[F_PORT])
    timed = port.rate_bps > 0 or port.delay_ns > 0
    while socket[F_HEAD] != NONE:
        count = 0
        packet = socket[F_HEAD]
        while packet != NONE and count < BATCH:
            row = Packet(context.packets, packet)
            header_length = min(row.header_length, row.length)
            buffer = context.buffers + row.buffer * context.buffer_stride
            vectors[4 * count] = context.headers + packet * context.header_stride
            vectors[4 * count + 1] = header_length
            vectors[4 * count + 2] = buffer + row.payload
            vectors[4 * count + 3] = row.length - header_length
            messages[count * MESSAGE_WORDS + M_LENGTH] = 0
            packet = row.next
            count += 1
        sent = _sendmmsg(socket[F_DESCRIPTOR], io[IO_SEND], count, MSG_DONTWAIT)
        if sent < 0:
            if errno() in (EAGAIN, ENOBUFS):
                return False
            socket[F_SEND_ERRORS] += 1
        now = clock(time) if timed else 0
        for _ in range(max(sent, 1)):
            packet = take_first(context, Chain(socket.ctypes.data + 8 * F_HEAD))
            if timed and sent > 0:
                record_lateness(io, now - Packet(context.packets, packet).departure_ns)
            if port.capture_out != 0 and sent > 0:
                capture_departure(context, port.capture_out - 1, clock(time), packet)
            release(context, packet)
    return True


@jit
def send_departures(context: Context, io: Words, time: Words) -> None:
    """Send all frames that have left their links; what a full socket refuses stays for later."""
    sort_departures(context, io)
    pending = int64_view(io[IO_PENDING], io[IO_COUNT])
    waiting = io[IO_PENDING_COUNT]
    kept = 0
    for i in range(waiting):
        number = pending[i]
        socket = int64_view(io[IO_SOCKETS] + number * SOCKET_WORDS * 8, SOCKET_WORDS)
        if not send_socket(context, io, socket, time):
            pending[kept] = number
            kept += 1
    io[IO_PENDING_COUNT] = kept


@jit
def wait(context: Context, io: Words, time: Words, last_wake: int) -> int:
    """Sleep until a frame, the event descriptor or the next deadline, and return ppoll's result."""
    now = clock(time)
    until = next_deadline(context)
    if io[IO_PENDING_COUNT] > 0:
        until = now + RETRY_NS if until == NONE else min(until, now + RETRY_NS)
    sleep = IDLE_NS
    if until != NONE:
        sleep = min(max(until, last_wake + io[IO_COALESCE_NS]) - now, IDLE_NS) if until > now else 0
    time[2] = sleep // 1_000_000_000
    time[3] = sleep % 1_000_000_000
    return _ppoll(io[IO_POLL], io[IO_COUNT] + 1, time.ctypes.data + 16, 0)  # type: ignore[no-any-return]


@jit
def tell_events(context: Context, io: Words) -> None:
    """Wake the thread that tells controllers of events, if there are new ones."""
    if context.events_wait != 0:
        context.events_wait = 0
        _write(io[IO_EVENTS], io[IO_ONE], 8)


@jit
def run_loop(context: Context, io: Words) -> None:
    """Run until the event descriptor is readable."""
    count = io[IO_COUNT]
    time = int64_view(io[IO_TIME], 4)
    poll = int64_view(io[IO_POLL], count + 1)
    last_wake = 0
    while True:
        tell_events(context, io)
        ready = wait(context, io, time, last_wake)
        io[IO_WAKE_UPS] += 1
        last_wake = clock(time)
        advance_some(context, last_wake, MOST_PASSES)
        send_departures(context, io, time)
        if ready <= 0:
            continue
        for i in range(count):
            events = (poll[i] >> 48) & 0xFFFF
            if events:
                socket = int64_view(io[IO_SOCKETS] + i * SOCKET_WORDS * 8, SOCKET_WORDS)
                if receive_batch(context, io, socket, time) > 0:
                    send_departures(context, io, time)
                elif events & POLLNVAL:
                    poll[i] = poll[i] | 0xFFFFFFFF  # not a descriptor any more: leave it out
        if (poll[count] >> 48) & 0xFFFF:
            return
