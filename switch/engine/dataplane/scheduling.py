"""When ports have something to do next, and from which of its queues a port's link takes a packet.

A port has a queue for each priority, one by default. Whenever its link is free, it takes the first
packet

- of the queue of the greatest priority that has no weight and lets a packet go, as on BMv2;
- if none does, of the queues with weights in turn, by deficit round robin (M. Shreedhar,
  G. Varghese: Efficient Fair Queuing using Deficit Round Robin, SIGCOMM 1995). So strict priorities
  come before shares, as in enhanced transmission selection (IEEE 802.1Q, clause 37).

A queue lets its first packet go once that is ready and the queue is not held (`hold`).
"""

from weft.base.jit import word_of
from weft.base.pages import LINE_BYTES, prefetch
from weft.switch.engine.dataplane.hooks import TAKEN
from weft.switch.engine.dataplane.layout import (
    HEAP_WIDTH,
    NEVER_NS,
    NONE,
    Context,
    Packet,
    PortRecord,
    QueueRecord,
    Words,
)
from weft.switch.engine.dataplane.pool import take_first
from weft.switch.engine.native.compiled import (
    call_pipeline,
    entry,
    inline,
    int64_view,
    jit,
    part,
)

PORT_BYTES = PortRecord.dtype.itemsize
QUEUE_PLACE = 8 * word_of(PortRecord, "queue")
QUEUE_BYTES = QueueRecord.dtype.itemsize
PORT_LINES = 5
"""The cache lines of a port's row that an event may touch."""
SOON = HEAP_WIDTH + HEAP_WIDTH * HEAP_WIDTH
"""The last position of the heap from which a port is due within some ten events."""
QUANTUM_BYTES = 1514
"""What a queue of weight 1 may send in a turn: the longest Ethernet frame without FCS."""


@inline
def prefetch_lines(address: int, lines: int) -> None:
    """Have some cache lines fetched, from an address on: they will be wanted soon."""
    for line in range(lines):
        prefetch(address + LINE_BYTES * line)


@inline
def put(heap: Words, positions: Words, position: int, port_index: int, time_ns: int) -> None:
    """Store a port and the time of its event at a position of the heap."""
    heap[2 * position] = port_index
    heap[2 * position + 1] = time_ns
    positions[port_index] = position


@inline
def move_up(heap: Words, positions: Words, position: int, port_index: int, time_ns: int) -> int:
    """Make room for a port from a position of the heap towards the top; return its place."""
    while position > 0:
        parent = (position - 1) // HEAP_WIDTH
        other, other_ns = heap[2 * parent], heap[2 * parent + 1]
        if other_ns < time_ns or (other_ns == time_ns and other < port_index):
            break
        put(heap, positions, position, other, other_ns)
        position = parent
    return position


@inline
def move_down(
    ports: int,
    heap: Words,
    positions: Words,
    length: int,
    position: int,
    port_index: int,
    time_ns: int,
) -> int:
    """Make room for a port from a position of the heap towards the leaves; return its place. Of
    what comes near the top the row is fetched, in the table at the address ``ports``."""
    while HEAP_WIDTH * position + 1 < length:
        first = HEAP_WIDTH * position + 1
        child, port, port_ns = first, heap[2 * first], heap[2 * first + 1]
        for each in range(first + 1, min(first + HEAP_WIDTH, length)):
            other, other_ns = heap[2 * each], heap[2 * each + 1]
            if other_ns < port_ns or (other_ns == port_ns and other < port):
                child, port, port_ns = each, other, other_ns
        if port_ns > time_ns or (port_ns == time_ns and port > port_index):
            break
        put(heap, positions, position, port, port_ns)
        if position <= SOON:
            prefetch_lines(ports + port * PORT_BYTES, PORT_LINES)
        position = child
    return position


@jit
def schedule(context: Context, port_index: int, time_ns: int) -> None:
    """Set the time of a port's next event; NONE means that it has none."""
    ports = context.switch_count * context.port_count
    positions = int64_view(context.heap_positions, ports)
    heap = int64_view(context.heap, 2 * ports)
    length = context.heap_length
    position = positions[port_index]
    if time_ns == NONE:
        if position == NONE:
            return
        positions[port_index] = NONE
        length -= 1
        context.heap_length = length
        if position == length:
            return
        port_index, time_ns = heap[2 * length], heap[2 * length + 1]  # the last takes its place
    elif position == NONE:
        position = length
        length += 1
        context.heap_length = length
    elif heap[2 * position + 1] == time_ns:
        return
    place = move_up(heap, positions, position, port_index, time_ns)
    if place == position:
        place = move_down(context.ports, heap, positions, length, position, port_index, time_ns)
    put(heap, positions, place, port_index, time_ns)


@inline
def first_port(context: Context) -> int:
    """Return the port whose event is the next one, or NONE; of several the one with the smallest
    number."""
    return NONE if context.heap_length == 0 else int64_view(context.heap, 1)[0]


@inline
def first_ns(context: Context) -> int:
    """Return when the first of all events is, or NONE."""
    return NONE if context.heap_length == 0 else int64_view(context.heap, 2)[1]


@part
def queue_of(context: Context, port_index: int, priority: int) -> QueueRecord:
    """Return a port's queue of a priority."""
    place = context.ports + port_index * PORT_BYTES + QUEUE_PLACE
    if priority != 0:
        number = port_index * (context.priorities - 1) + priority - 1
        place = context.queues + number * QUEUE_BYTES
    queue: QueueRecord = QueueRecord(place)
    return queue


@jit
def release_ns(context: Context, queue: QueueRecord) -> int:
    """Return when a queue lets its first packet go, `NEVER_NS` if it is empty or held for good."""
    head = queue.waiting.head
    if head == NONE:
        return NEVER_NS
    return max(Packet(context.packets, head).ready_ns, queue.held_until_ns)


@jit
def first_release(context: Context, port_index: int) -> int:
    """Return when the first of a port's queues lets a packet go, or NONE."""
    time = NEVER_NS
    for priority in range(context.priorities):
        time = min(time, release_ns(context, queue_of(context, port_index, priority)))
    return NONE if time == NEVER_NS else time


@inline
def next_start(context: Context, port_index: int) -> int:
    """Return when a port's link takes the next packet, or NONE if none waits, or all are held."""
    port = PortRecord(context.ports, port_index)
    head = port.queue.waiting.head
    if port.preferred | port.governed != 0:
        first_ns = first_release(context, port_index)
        return NONE if first_ns == NONE else max(port.free_ns, first_ns)
    if head == NONE:
        return NONE
    return max(port.free_ns, Packet(context.packets, head).ready_ns)


@jit
def chosen_priority(context: Context, port_index: int, start_ns: int) -> int:
    """Return the priority of the queue that a port's link takes a packet from when it is free."""
    for priority in range(context.priorities - 1, -1, -1):
        queue = queue_of(context, port_index, priority)
        if queue.weight == 0 and release_ns(context, queue) <= start_ns:
            return priority
    return queue_in_turn(context, port_index, start_ns)


@jit
def queue_in_turn(context: Context, port_index: int, start_ns: int) -> int:
    """Return whose turn it is among the queues with weights, one of which lets a packet go.

    A queue's turn lasts while its deficit pays for its first packet. Then the next queue's begins,
    of a lesser priority, round and round, whose deficit grows by its weight in `QUANTUM_BYTES`.
    """
    port = PortRecord(context.ports, port_index)
    while True:
        queue = queue_of(context, port_index, port.turn)
        if queue.weight != 0 and release_ns(context, queue) <= start_ns:
            size = Packet(context.packets, queue.waiting.head).queue_bytes
            if queue.deficit >= size:
                return port.turn
        port.turn = (port.turn if port.turn > 0 else context.priorities) - 1
        following = queue_of(context, port_index, port.turn)
        if following.weight != 0 and release_ns(context, following) <= start_ns:
            following.deficit += following.weight * QUANTUM_BYTES


@inline
def take_waiting(context: Context, port_index: int, start_ns: int) -> int:
    """Take the packet out of its queue that a port's link takes at ``start_ns``."""
    port = PortRecord(context.ports, port_index)
    priority = 0
    if port.preferred | port.governed != 0:
        priority = chosen_priority(context, port_index, start_ns)
    if priority != 0:
        port.preferred -= 1
    queue = queue_of(context, port_index, priority)
    packet = take_first(context, queue.waiting)
    size = Packet(context.packets, packet).queue_bytes
    queue.packets -= 1
    queue.bytes -= size
    queue.counted.taken_packets += 1
    queue.counted.taken_bytes += size
    if queue.weight != 0:  # an empty queue saves nothing for later
        queue.deficit = queue.deficit - size if queue.packets != 0 else 0
    if port.watcher != 0:
        call_pipeline(port.watcher, context.address, TAKEN, port_index, packet, start_ns)
    return packet


@entry
def hold(context: Context, port_index: int, priority: int, until_ns: int) -> None:
    """Let a port's link take nothing from the queue of a priority until a time: `NEVER_NS` for a
    pause without an end, now for the end of one. The packet on the link is not cut off."""
    PortRecord(context.ports, port_index).governed = 1
    queue_of(context, port_index, priority).held_until_ns = until_ns
    reschedule(context, port_index)


@jit
def reschedule(context: Context, port_index: int) -> None:
    """Set a port's next event: its link takes the next frame, or a frame reaches the far end."""
    port = PortRecord(context.ports, port_index)
    time = next_start(context, port_index)
    if port.under_way.head != NONE:
        departure = Packet(context.packets, port.under_way.head).departure_ns
        if time == NONE or departure < time:
            time = departure
    schedule(context, port_index, time)


@entry
def next_deadline(context: Context) -> int:
    """Return when `advance` has something to do next, in ns, or NONE."""
    if context.ready.head != NONE or context.again.head != NONE or context.landed.head != NONE:
        return 0
    return first_ns(context)
