"""The simulated world's event loop: switches, links and hosts' transports in one compiled function.

It goes from event to event, all times integers, and comes back to Python only when a host's agent
must be called. It takes events at the same time in this order: frames that a fault has delayed, in
the order in which they were delayed; the switches' ports, by switch and port number; the hosts'
uplinks by rank; the hosts by rank. A frame that arrives goes through the next switch's ingress, or
into its host's transport, at once. Each of these steps is finished before the next begins, so one
seed gives one order.
"""

from weft.agents.transport.payload_layout import Landings
from weft.base.jit import words_at
from weft.switch.engine.dataplane.captures import capture_bytes
from weft.switch.engine.dataplane.events import begin_turn
from weft.switch.engine.dataplane.layout import HEADROOM, NONE, Context, Packet, PortRecord
from weft.switch.engine.dataplane.pipeline import go_on, ingest, join_frame, serve_port
from weft.switch.engine.dataplane.pool import release, take_buffer, take_packet
from weft.switch.engine.dataplane.queues import put_on_link, take_departure
from weft.switch.engine.dataplane.scheduling import first_ns, first_port, reschedule, schedule
from weft.switch.engine.native.compiled import int64_view
from weft.switch.engine.switches import MOST_PASSES
from weft.topo.worlds.simulated.ahead import look_ahead
from weft.topo.worlds.simulated.crossing import (
    lacks_log,
    lands_here,
    note_arrival,
    note_event,
    note_outgoing,
)
from weft.topo.worlds.simulated.faults import (
    copy_of,
    first_held,
    frame_view,
    held_time,
    hold,
    let_go,
    rule_applies,
    swapped_at,
)
from weft.topo.worlds.simulated.frames import add_to_digest, content_hash, header_length
from weft.topo.worlds.simulated.hosts import CALL_HOST, DONE, serve_host, serve_uplink, take_in
from weft.topo.worlds.simulated.layout import (
    CALL,
    DELAY,
    DUPLICATE,
    ENDLESS,
    FAILED,
    GROW,
    IDLE,
    LOSE,
    PAUSE,
    STOPPED,
    SWAP,
    TRIGGER,
    TRIGGERED,
    Frame,
    Held,
    HostRecord,
    PartRecord,
    Rule,
    WorldRecord,
    entry,
    internal,
)

NOTHING = -1


@internal
def word_of(world: WorldRecord, table: int, port_index: int) -> int:
    """Return the word that one of the world's tables has for a port index."""
    word: int = words_at(table, world.port_indices)[port_index]
    return word


@internal
def lose(world: WorldRecord, context: Context, port_index: int, packet: int) -> None:
    """Lose a frame on the link, and count it."""
    count = world.port_indices
    int64_view(world.lost_packets, count)[port_index] += 1
    length = Packet(context.packets, packet).frame_length
    int64_view(world.lost_bytes, count)[port_index] += length
    release(context, packet)


@internal
def hand_over(
    world: WorldRecord, context: Context, port_index: int, packet: int, now_ns: int
) -> int:
    """Hand a frame that left ``port_index`` to the host or switch at the far end; return a host to
    be called, or NOTHING."""
    peer = word_of(world, world.peers, port_index)
    if peer == NONE:
        release(context, packet)
        return NOTHING
    if peer >= world.first_uplink:
        host = peer - world.first_uplink
        if HostRecord(world.host_table, host).captured:
            row = Packet(context.packets, packet)
            frame = context.buffers + row.buffer * context.buffer_stride + row.frame
            capture_bytes(context, host, now_ns, frame, row.frame_length)
        return host if take_in(world, context, host, packet, now_ns) == CALL_HOST else NOTHING
    row = Packet(context.packets, packet)
    row.repeats = 0
    row.keep = 0
    row.next = NONE
    ports = context.port_count
    ingest(context, peer // ports, peer % ports, packet, now_ns)
    return NOTHING


@internal
def arrive(world: WorldRecord, context: Context, packet: int, now_ns: int) -> int:
    """Take in a frame that has reached the far end of its link: count it, do what faults ask for,
    and hand it over.

    Returns the host that must be called, or NOTHING.
    """
    row = Packet(context.packets, packet)
    port_index = row.switch * context.port_count + row.port
    if not join_frame(context, packet):
        release(context, packet)
        return NOTHING
    data = frame_view(context, packet)
    start = row.frame
    length = row.frame_length
    world.frames += 1
    direction = word_of(world, world.directions, port_index)
    mixed = header_length(data, start, length) if world.headers_alone else length
    ahead = world.next_frame if world.next_frame else data.ctypes.data + start
    content = content_hash(data, start, mixed, ahead)
    if world.part:
        note_arrival(PartRecord(world.part), direction, length, content)
    else:
        add_to_digest(world, now_ns, direction, length, content)
    if word_of(world, world.down, port_index):
        lose(world, context, port_index, packet)
        return NOTHING
    if world.rule_count == 0:
        return hand_over(world, context, port_index, packet, now_ns)
    return arrive_with_faults(world, context, port_index, packet, data, start, length, now_ns)


@internal
def arrive_with_faults(
    world: WorldRecord,
    context: Context,
    port_index: int,
    packet: int,
    data: Frame,
    start: int,
    length: int,
    now_ns: int,
) -> int:
    """Do as `arrive` does where there are rules: each is asked in turn, and the effects of all that
    apply add up."""
    lost = False
    copies = 0
    delay_ns = 0
    swap_ns = 0
    for rule in range(world.rule_count):
        if not rule_applies(world, rule, port_index, data, start, length):
            continue
        words = Rule(world.rules, rule)
        action = words.action
        if action == LOSE:
            lost = True
        elif action == DUPLICATE:
            copies += 1
        elif action == DELAY:
            delay_ns = max(delay_ns, words.delay_ns)
        elif action == SWAP:
            swap_ns = words.delay_ns
        elif action == TRIGGER:
            world.triggered = 1
    if lost:
        lose(world, context, port_index, packet)
        return NOTHING
    for _ in range(copies):
        copy = copy_of(context, packet)
        if copy != NONE:
            # Behind the frame itself, and by an event of its own: its host may have to be called.
            hold(world, copy, port_index, now_ns + delay_ns, 0)
    waiting = swapped_at(world, port_index)
    if delay_ns:
        hold(world, packet, port_index, now_ns + delay_ns, 0)
    elif swap_ns and waiting == NONE:
        hold(world, packet, port_index, now_ns + swap_ns, 1)
    else:
        if waiting != NONE:
            hold(world, let_go(world, waiting), port_index, now_ns, 0)
        return hand_over(world, context, port_index, packet, now_ns)
    return NOTHING


@internal
def arrive_late(world: WorldRecord, context: Context, now_ns: int) -> int:
    """Hand over the first of the frames that were held back."""
    position = first_held(world)
    port_index = Held(world.held, position).port
    packet = let_go(world, position)
    if word_of(world, world.down, port_index):
        lose(world, context, port_index, packet)
        return NOTHING
    return hand_over(world, context, port_index, packet, now_ns)


@internal
def lacks_landings(world: WorldRecord) -> bool:
    """Return whether there may be no room to note where the next packet's data come."""
    landings = Landings(world.landings)
    return landings.count >= landings.room


@entry
def run_events(world_address: int, context: Context) -> int:
    """Go on until something needs Python; return the reason, one of `layout`'s IDLE to ENDLESS."""
    world = WorldRecord(world_address)
    while True:
        now_ns = world.now_ns
        if context.passes >= context.passes_end:
            return ENDLESS
        if world.failure or context.no_buffer:
            return FAILED
        if world.triggered:
            return TRIGGERED
        if context.free_buffer_count < world.margin or context.free_packet_count < world.margin:
            return GROW
        if world.landings and lacks_landings(world):
            return GROW
        if world.part and lacks_log(PartRecord(world.part)):
            return GROW
        if context.ready.head != NONE:
            begin_turn(context, MOST_PASSES)
            found = arrive(world, context, take_departure(context), now_ns)
            if found != NOTHING:
                world.host = found
                return CALL
            continue
        if context.again.head != NONE:
            go_on(context, now_ns)
            continue
        begin_turn(context, MOST_PASSES)
        world.events += 1
        world.budget -= 1
        if world.budget < 0:
            return PAUSE
        held_ns = held_time(world) if world.held_count else NONE
        time_ns = first_ns(context)
        port_index = first_port(context)
        if held_ns != NONE and (time_ns == NONE or held_ns <= time_ns):
            time_ns = held_ns
            port_index = NONE
        if time_ns == NONE:
            return IDLE
        if time_ns > world.stop_ns:
            return STOPPED
        now_ns = max(now_ns, time_ns)
        world.now_ns = now_ns
        if world.part:
            note_event(PartRecord(world.part), port_index, now_ns)
        look_ahead(world, context)
        if port_index == NONE:
            found = arrive_late(world, context, now_ns)
            if found != NOTHING:
                world.host = found
                return CALL
        elif port_index < world.first_uplink:
            if world.part and lands_here(world, context, port_index, now_ns):
                continue
            serve_port(context, port_index, now_ns)
            if world.part:
                note_outgoing(world, context, port_index)
        elif port_index < world.first_call:
            serve_uplink(context, port_index, now_ns)
        else:
            host = port_index - world.first_call
            result = serve_host(world, context, host, now_ns)
            if result == CALL_HOST:
                world.host = host
                return CALL
            if result != DONE:
                return GROW


@entry
def call_host(world_address: int, context: Context, host: int) -> None:
    """Let a host send as soon as the events before it are done."""
    world = WorldRecord(world_address)
    schedule(context, world.first_call + host, world.now_ns)


@entry
def send_frame(context: Context, port_index: int, frame: Frame, now_ns: int) -> None:
    """Let the link behind a port carry a frame next, ahead of the port's queue."""
    buffer = take_buffer(context)
    packet = take_packet(context, buffer)
    data = frame_view(context, packet)
    for i in range(frame.size):
        data[HEADROOM + i] = frame[i]
    words = Packet(context.packets, packet)
    words.frame = HEADROOM
    words.frame_length = frame.size
    words.payload = HEADROOM
    words.payload_length = frame.size
    words.length = frame.size
    words.switch = port_index // context.port_count
    words.port = port_index % context.port_count
    start = max(PortRecord(context.ports, port_index).free_ns, now_ns)
    put_on_link(context, port_index, packet, start)
    reschedule(context, port_index)
