"""Events of all switches in the order of time, and the links that join two of their ports.

A patch link leads from a port to another of the same process. What reaches its far end is in the
switch there at that very moment of virtual time, however late the driver calls: events are then
taken one by one, in the order of time, then of port, as the simulated world takes them.

A program may multiply packets without end: recirculate both of two copies, clone each clone. So a
driver's turn is bounded in passes through a pipeline. From a turn that ends so until all is done
again, packets that go again and events of ports alternate: no port waits for the end of a storm.
"""

from weft.switch.engine.dataplane.captures import capture_bytes
from weft.switch.engine.dataplane.layout import NONE, Context, Packet, PortRecord
from weft.switch.engine.dataplane.pipeline import go_on, ingest, join_frame, serve_port
from weft.switch.engine.dataplane.pool import release, take_first
from weft.switch.engine.dataplane.scheduling import first_ns, first_port, queue_of, reschedule
from weft.switch.engine.dataplane.telemetry import count_load
from weft.switch.engine.native.compiled import entry, jit

MOST_PASSES = 1 << 14
"""The passes of one turn of the real-time loop, some milliseconds, and as many for what a batch
brings."""


@jit
def cross(context: Context, packet: int) -> None:
    """Let a frame that has reached the far end of a patch link into the switch there."""
    words = Packet(context.packets, packet)
    ports = context.port_count
    port = PortRecord(context.ports, words.switch * ports + words.port)
    if not join_frame(context, packet):
        release(context, packet)
        return
    length = words.frame_length
    now_ns = words.departure_ns
    peer = port.peer
    far = PortRecord(context.ports, peer)
    if port.capture_out != 0 or far.capture_in != 0:
        frame = context.buffers + words.buffer * context.buffer_stride + words.frame
        if port.capture_out != 0:
            capture_bytes(context, port.capture_out - 1, now_ns, frame, length)
        if far.capture_in != 0 and port.link_down == 0:
            capture_bytes(context, far.capture_in - 1, now_ns, frame, length)
    if port.link_down != 0:
        port.lost_packets += 1
        port.lost_bytes += length
        release(context, packet)
        return
    words.repeats = 0
    words.keep = 0
    finish_ns = now_ns - port.delay_ns
    rate_bps = port.rate_bps
    takes_ns = length * 8_000_000_000 // rate_bps if rate_bps > 0 else 0
    count_load(context, context.load_rows // 2 + peer, finish_ns - takes_ns, finish_ns, length)
    ingest(context, peer // ports, peer % ports, packet, now_ns)


@jit
def stand_aside(context: Context, now_ns: int) -> None:
    """Let packets that are due at a port without rates, earlier than now, be due now instead.

    Where egress clones without end, its time would stand still before that of all other ports.
    """
    port_index = first_port(context)
    if port_index == NONE:
        return
    if PortRecord(context.ports, port_index).rate_bps == 0 and first_ns(context) < now_ns:
        for priority in range(context.priorities):
            first = queue_of(context, port_index, priority).waiting.head
            if first != NONE:
                words = Packet(context.packets, first)
                words.ready_ns = max(words.ready_ns, now_ns)
        reschedule(context, port_index)


@jit
def begin_turn(context: Context, passes: int) -> None:
    """Begin a turn of the driver's, of so many passes."""
    context.passes_end = context.passes + passes


@entry
def advance_some(context: Context, now_ns: int, passes: int) -> int:
    """Do as `advance`, in a turn of so many passes."""
    begin_turn(context, passes)
    return advance(context, now_ns)


@jit
def due_port(context: Context, now_ns: int) -> int:
    """Return the port whose event is the next one by ``now_ns``, or NONE."""
    return NONE if first_ns(context) > now_ns else first_port(context)


@jit
def advance(context: Context, now_ns: int) -> int:
    """Do what is due at ``now_ns``, in the order of time, then of port, until the turn ends;
    ``next_deadline`` says if something is left. Returns the time of the last event, or now."""
    exact = context.patches > 0
    at_ns = now_ns
    others_turn = False
    while context.passes < context.passes_end:
        if context.landed.head != NONE:
            cross(context, take_first(context, context.landed))
            continue
        again = context.again.head != NONE
        if again and not others_turn:
            go_on(context, at_ns)
            others_turn = context.storm != 0
            continue
        others_turn = False
        port_index = due_port(context, now_ns)
        if port_index != NONE:
            if exact:
                at_ns = first_ns(context)
            serve_port(context, port_index, at_ns)
        elif not again:
            context.storm = 0
            return at_ns
    context.storm = 1
    stand_aside(context, now_ns)
    return at_ns
