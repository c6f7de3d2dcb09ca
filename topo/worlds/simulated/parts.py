"""Compiled code by which the threads of a network that is cut go on together.

Each part has its events for itself: those of its switches and hosts, and the arrival of frames that
come from other parts. It goes on for as long as nothing can come from elsewhere that it does not
know of yet (a conservative window, K. M. Chandy, J. Misra: Distributed Simulation, IEEE TSE 1979):
the shortest delay of the links that are cut, from the first event of all on. Then all meet, each
takes over the frames that are on their way to it, and the events of all are put in the order that
the loop of one core has. That is by time, then by port; as each part takes its own in that order,
the next of all is always the least of those that are next in their parts.
"""

from typing import Any

from weft.base.deferred import external
from weft.base.jit import full_fence, words_at
from weft.switch.engine.dataplane.layout import (
    DROPS_TOO_LONG,
    HEADROOM,
    NONE,
    SLACK,
    Chain,
    Context,
    Packet,
    PortRecord,
    SwitchRecord,
)
from weft.switch.engine.dataplane.pool import (
    append,
    copy_departing,
    release,
    take_buffer,
    take_first,
    take_packet,
)
from weft.switch.engine.dataplane.scheduling import first_ns, reschedule
from weft.topo.worlds.simulated.crossing import schedule_crossing
from weft.topo.worlds.simulated.frames import add_to_digest
from weft.topo.worlds.simulated.layout import (
    CLEARS,
    GROW,
    HALTED,
    IDLE,
    RUNS,
    STOPPED,
    TAKES,
    LoggedArrival,
    LoggedEvent,
    PartRecord,
    TeamRecord,
    WorldRecord,
    entry,
    internal,
)
from weft.topo.worlds.simulated.loop import run_events

SPINS = 2_000
"""How often a thread looks for the others before it lets others have its core."""

_sched_yield: Any = external("sched_yield", "int32")


@internal
def meet(part: PartRecord, team: TeamRecord) -> bool:
    """Wait until all parts are as far; return False if they are to come back instead."""
    full_fence()
    part.round += 1
    full_fence()
    spins = 0
    for number in range(team.count):
        while PartRecord(team.parts, number).round < part.round:
            if team.halt:
                return False
            spins += 1
            if spins > SPINS:
                _sched_yield()
            full_fence()
    full_fence()
    return True


@internal
def is_too_long(context: Context, packet: int) -> bool:
    """Return whether a frame finds no place in a buffer, as `join_frame` has it."""
    return HEADROOM + Packet(context.packets, packet).length + SLACK > context.buffer_stride


@internal
def take_from(part: PartRecord, theirs: Context, port_index: int) -> bool:
    """Take over copies of the frames on their way from a port of another part; return False if
    there is no room yet."""
    world = WorldRecord(part.world)
    context = Context(part.context)
    first = PortRecord(context.ports, port_index).under_way.head
    count = 0
    packet = first
    while packet != NONE:
        count += 1
        packet = Packet(theirs.packets, packet).next
    part.wanted = world.margin + count
    if min(context.free_packet_count, context.free_buffer_count) < part.wanted:
        return False
    chain = Chain(part.crossings, words_at(part.inbound, world.port_indices)[port_index])
    packet = first
    while packet != NONE:
        source = Packet(theirs.packets, packet)
        if not is_too_long(theirs, packet):
            buffer = take_buffer(context)
            copy = take_packet(context, buffer)
            copy_departing(
                theirs, packet, context.buffers + buffer * context.buffer_stride + HEADROOM
            )
            row = Packet(context.packets, copy)
            row.frame = row.payload = HEADROOM
            row.frame_length = row.payload_length = row.length = source.length
            row.switch = source.switch
            row.port = source.port
            row.departure_ns = source.departure_ns
            row.trace_number = 0
            append(context, chain, copy)
        packet = source.next
    schedule_crossing(context, chain, port_index)
    return True


@internal
def take_all(part: PartRecord, team: TeamRecord) -> bool:
    """Take over all frames on their way to a part; return False if there is no room yet: then it
    goes on from there."""
    for sender in range(part.sender, team.count):
        other = PartRecord(team.parts, sender)
        count = words_at(other.outgoing_counts, team.count)[part.number]
        start = other.outgoing + 8 * part.number * other.outgoing_room
        ports = words_at(start, count)
        for place in range(part.place, count):
            if not take_from(part, Context(other.context), ports[place]):
                part.sender = sender
                part.place = place
                return False
        part.place = 0
    return True


@internal
def clear(part: PartRecord, team: TeamRecord) -> None:
    """Give back the frames that others have taken over, and forget what is in the digest."""
    world = WorldRecord(part.world)
    context = Context(part.context)
    counts = words_at(part.outgoing_counts, team.count)
    noted = words_at(part.noted, world.port_indices)
    for far in range(team.count):
        ports = words_at(part.outgoing + 8 * far * part.outgoing_room, counts[far])
        for port_index in ports:
            chain = PortRecord(context.ports, port_index).under_way
            while chain.head != NONE:
                packet = take_first(context, chain)
                if is_too_long(context, packet):
                    switch = Packet(context.packets, packet).switch
                    SwitchRecord(context.switches, switch).drops[DROPS_TOO_LONG] += 1
                release(context, packet)
            noted[port_index] = 0
            reschedule(context, port_index)
        counts[far] = 0
    part.event_count = part.arrival_count = 0


@internal
def add_event(world: WorldRecord, part: PartRecord, merged: int) -> None:
    """Add what arrived by the next event of a part to the digest; ``merged`` is the address of its
    two counts."""
    counts = words_at(merged, 2)
    event = LoggedEvent(part.events, counts[0])
    counts[0] += 1
    for place in range(counts[1], counts[1] + event.arrivals):
        row = LoggedArrival(part.arrivals, place)
        add_to_digest(world, event.time_ns, row.direction, row.length, row.content)
    counts[1] += event.arrivals


@internal
def merge(team: TeamRecord) -> None:
    """Add what has arrived since all met to the digest of the first part's world, in the order of
    the events of all."""
    world = WorldRecord(PartRecord(team.parts, 0).world)
    counts = words_at(team.merged, 2 * team.count)
    for place in range(2 * team.count):
        counts[place] = 0
    while True:
        time_ns = NONE
        port_index = NONE
        for number in range(team.count):
            part = PartRecord(team.parts, number)
            if counts[2 * number] < part.event_count:
                event = LoggedEvent(part.events, counts[2 * number])
                if (
                    time_ns == NONE
                    or event.time_ns < time_ns
                    or (event.time_ns == time_ns and event.port_index < port_index)
                ):
                    time_ns = event.time_ns
                    port_index = event.port_index
        if time_ns == NONE:
            return
        # Where a link leads from one part to another, both have a share in its port's event.
        for number in range(team.count):
            part = PartRecord(team.parts, number)
            if counts[2 * number] < part.event_count:
                event = LoggedEvent(part.events, counts[2 * number])
                if event.time_ns == time_ns and event.port_index == port_index:
                    add_event(world, part, team.merged + 16 * number)


@internal
def begin_window(part: PartRecord, team: TeamRecord) -> int:
    """Say how far a part may go now that all are ready; return NONE, or why it has to come back."""
    start_ns = NONE
    over = False
    for number in range(team.count):
        other = PartRecord(team.parts, number)
        if other.over:
            over = True
        if other.next_ns != NONE and (start_ns == NONE or other.next_ns < start_ns):
            start_ns = other.next_ns
    if over:
        return STOPPED
    if start_ns == NONE:
        return IDLE
    if start_ns > team.stop_ns:
        return STOPPED
    WorldRecord(part.world).stop_ns = min(start_ns + team.window_ns - 1, team.stop_ns)
    return NONE


@internal
def meet_others(part: PartRecord, team: TeamRecord) -> int:
    """Go on with a part that has run as far as it may, until it may run again; return NONE then,
    GROW if it needs room first, HALTED; or IDLE or STOPPED, which all parts return."""
    if part.step == RUNS:
        if not meet(part, team):
            return HALTED
        part.sender = part.place = part.wanted = 0
        part.step = TAKES
        if part.number == 0:
            merge(team)
    if part.step == TAKES:
        if not take_all(part, team):
            return GROW
        part.next_ns = first_ns(Context(part.context))
        part.over = part.done
        part.step = CLEARS
    if not meet(part, team):
        return HALTED
    clear(part, team)
    part.step = RUNS
    part.wanted = 0
    return begin_window(part, team)


@entry
def run_part(address: int, context: Context) -> int:
    """Go on with a part, whose record is at an address, until something needs Python; return the
    reason, one of `layout`'s IDLE to HALTED. IDLE and STOPPED are those of all parts.

    Python is in no window: its lock would have threads wait for each other.
    """
    part = PartRecord(address)
    team = TeamRecord(part.team)
    while True:
        reason = IDLE
        if part.step == RUNS:
            reason = run_events(part.world, context)
        if reason in (IDLE, STOPPED):
            reason = meet_others(part, team)
        if reason != NONE:
            return reason
