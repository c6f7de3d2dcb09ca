"""Compiled code that has memory fetched before the event that needs it.

In a large network an event finds what it works on in no cache: the port, its first packet, the
packet's frame, the host. One leads to the other, so that it would wait several times over. What is
next in the heap of events is known, though: what it needs is fetched meanwhile, step by step.
"""

from weft.agents.transport.layout import EndpointState
from weft.base.jit import words_at
from weft.base.pages import prefetch
from weft.switch.engine.dataplane.layout import HEAP_WIDTH, NONE, Context, Packet, PortRecord
from weft.switch.engine.dataplane.scheduling import prefetch_lines
from weft.switch.engine.native.compiled import int64_view
from weft.topo.worlds.simulated.crossing import comes_from_outside
from weft.topo.worlds.simulated.layout import HostRecord, WorldRecord, internal

PACKET_BYTES = Packet.dtype.itemsize
ENDPOINT_LINES = -(-EndpointState.dtype.itemsize // 64)
FIELD_LINES = 6
"""Of a packet's fields, those that all packets have."""
PAIR_LINES = 8
"""Of a queue pair's row, those that most packets touch."""


@internal
def look_ahead(world: WorldRecord, context: Context) -> None:
    """Have fetched what the ports next in the heap lead to, once each, and what the very next one
    needs beyond that."""
    world.next_frame = 0
    length = min(context.heap_length, HEAP_WIDTH + 1)
    heap = int64_view(context.heap, 2 * HEAP_WIDTH + 2)
    following = NONE
    following_ns = 0
    for position in range(1, length):
        port_index, time_ns = heap[2 * position], heap[2 * position + 1]
        if following == NONE or time_ns < following_ns:
            following, following_ns = port_index, time_ns
        if world.ahead[position - 1] == port_index:
            continue
        world.ahead[position - 1] = port_index
        if port_index >= world.first_call:
            fetch_host(world, port_index - world.first_call)
        else:
            fetch_packets(world, context, port_index)
    if following == NONE:
        return
    if following >= world.first_call:
        fetch_tables(world, following - world.first_call)
    else:
        fetch_frame(world, context, following, following_ns)


@internal
def fetch_packets(world: WorldRecord, context: Context, port_index: int) -> None:
    """Have the rows of a port's first packets fetched, and the host that one of them reaches."""
    if comes_from_outside(world, port_index):
        return
    port = PortRecord(context.ports, port_index)
    for packet in (port.queue.waiting.head, port.under_way.head):
        if packet != NONE:
            prefetch_lines(context.packets + packet * PACKET_BYTES, 2)
            prefetch_lines(context.phv + 8 * packet * context.phv_stride, FIELD_LINES)
            prefetch_lines(context.headers + packet * context.header_stride, 2)
    peer = words_at(world.peers, world.port_indices)[port_index]
    if port.under_way.head != NONE and peer >= world.first_uplink:
        fetch_host(world, peer - world.first_uplink)


@internal
def fetch_host(world: WorldRecord, host: int) -> None:
    """Have the state of a host's transport fetched."""
    endpoint = HostRecord(world.host_table, host).endpoint
    if endpoint:
        prefetch_lines(endpoint, ENDPOINT_LINES)


@internal
def fetch_frame(world: WorldRecord, context: Context, port_index: int, time_ns: int) -> None:
    """Have the frame fetched that arrives at the far end of a link at that time, and what the host
    there has for it; of a frame that is on its way, the headers alone."""
    if comes_from_outside(world, port_index):
        return
    port = PortRecord(context.ports, port_index)
    packet = port.under_way.head
    if packet == NONE:
        return
    row = Packet(context.packets, packet)
    prefetch(context.buffer_references + 8 * row.buffer)
    frame = context.buffers + row.buffer * context.buffer_stride + row.payload
    prefetch_lines(frame - 64, 3)
    if world.headers_alone == 0 and row.departure_ns <= time_ns:
        # All of it is mixed into the digest. What the hash of another frame fetches meanwhile is in
        # nobody's way.
        if lands_now(world, context):
            world.next_frame = frame
        else:
            prefetch_lines(frame + 128, (row.length >> 6) - 1)
    peer = words_at(world.peers, world.port_indices)[port_index]
    if peer >= world.first_uplink:
        fetch_tables(world, peer - world.first_uplink)


@internal
def lands_now(world: WorldRecord, context: Context) -> bool:
    """Return whether a frame arrives by the event that is now."""
    port_index = int64_view(context.heap, 1)[0]
    if port_index >= world.first_call or comes_from_outside(world, port_index):
        return False
    packet = PortRecord(context.ports, port_index).under_way.head
    return bool(packet != NONE and Packet(context.packets, packet).departure_ns <= world.now_ns)


@internal
def fetch_tables(world: WorldRecord, host: int) -> None:
    """Have fetched what the state of a host's transport leads to: its first queue pairs, when they
    are due, its memory regions."""
    address = HostRecord(world.host_table, host).endpoint
    if address == 0:
        return
    endpoint = EndpointState(address)
    prefetch_lines(endpoint.timer_tree, 5)
    prefetch(endpoint.region_table)
    prefetch_lines(endpoint.queue_pair_table, PAIR_LINES)
