"""Compiled code by which the event loop of a part of a network knows of the others.

What leaves a port for another part is on its link until all parts meet
(`weft.topo.worlds.simulated.parts`), and is then in a list of the other part, in which it arrives
by an event of that very port. Beside that, a part writes down its events and what arrived by each,
in its own order: from these the digest is made that the whole network has.
"""

from weft.base.jit import words_at
from weft.switch.engine.dataplane.layout import NONE, Chain, Context, Packet, PortRecord
from weft.switch.engine.dataplane.pool import append, take_first
from weft.switch.engine.dataplane.scheduling import schedule
from weft.topo.worlds.simulated.layout import (
    LoggedArrival,
    LoggedEvent,
    PartRecord,
    WorldRecord,
    internal,
)


@internal
def lacks_log(part: PartRecord) -> bool:
    """Return whether there may be no room to write down what is next."""
    return part.event_count >= part.event_room or part.arrival_count >= part.arrival_room


@internal
def note_event(part: PartRecord, port_index: int, now_ns: int) -> None:
    """Write down an event."""
    row = LoggedEvent(part.events, part.event_count)
    row.time_ns = now_ns
    row.port_index = port_index
    row.arrivals = 0
    part.event_count += 1


@internal
def note_arrival(part: PartRecord, direction: int, length: int, content: int) -> None:
    """Write down a frame that has arrived by the last event."""
    row = LoggedArrival(part.arrivals, part.arrival_count)
    row.direction = direction
    row.length = length
    row.content = content
    part.arrival_count += 1
    LoggedEvent(part.events, part.event_count - 1).arrivals += 1


@internal
def comes_from_outside(world: WorldRecord, port_index: int) -> bool:
    """Return whether a port is one of another part, from which frames come."""
    if world.part == 0:
        return False
    inbound = words_at(PartRecord(world.part).inbound, world.port_indices)
    return bool(inbound[port_index] != NONE)


@internal
def lands_here(world: WorldRecord, context: Context, port_index: int, now_ns: int) -> bool:
    """Let the frames arrive that have come from a port of another part; return False for a port of
    this part."""
    part = PartRecord(world.part)
    row = words_at(part.inbound, world.port_indices)[port_index]
    if row == NONE:
        return False
    chain = Chain(part.crossings, row)
    while chain.head != NONE and Packet(context.packets, chain.head).departure_ns <= now_ns:
        append(context, context.ready, take_first(context, chain))
    schedule_crossing(context, chain, port_index)
    return True


@internal
def schedule_crossing(context: Context, chain: Chain, port_index: int) -> None:
    """Set the time at which the next frame arrives that has come from a port of another part."""
    time_ns = NONE if chain.head == NONE else Packet(context.packets, chain.head).departure_ns
    schedule(context, port_index, time_ns)


@internal
def note_outgoing(world: WorldRecord, context: Context, port_index: int) -> None:
    """Take note of a port of this part if there are frames on their way from it to another."""
    part = PartRecord(world.part)
    far = words_at(part.outbound, world.port_indices)[port_index]
    if far == NONE or PortRecord(context.ports, port_index).under_way.head == NONE:
        return
    noted = words_at(part.noted, world.port_indices)
    if noted[port_index] != 0:
        return
    noted[port_index] = 1
    counts = words_at(part.outgoing_counts, far + 1)
    words_at(part.outgoing + 8 * far * part.outgoing_room, part.outgoing_room)[counts[far]] = (
        port_index
    )
    counts[far] += 1
