"""Compiled code that does to a frame, at the far end of a link, what packet faults ask for."""

from weft.agents.transport.kernels.memory import memmove
from weft.agents.transport.payload_layout import Landings
from weft.agents.wire.headers import ICRC_BYTES
from weft.agents.wire.packets import CARRIED_BYTES, covered_bytes
from weft.base.jit import load8, memcpy
from weft.switch.engine.dataplane.layout import NONE, Context, Packet
from weft.switch.engine.dataplane.pool import PACKET_BYTES, take_packet
from weft.switch.engine.native.compiled import int64_view, uint8_view
from weft.topo.worlds.simulated.frames import mix, read16, read32
from weft.topo.worlds.simulated.layout import (
    CORRUPT,
    HELD_ROOM,
    NEVER,
    STACK_BYTES,
    Frame,
    Held,
    Rule,
    WorldRecord,
    internal,
)

_SEND_WITH_IMMEDIATE = (0x03, 0x05)
_WRITE_LAST_WITH_IMMEDIATE = 0x09
_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
_CHUNK = 0x65
_HELD_BYTES = Held.dtype.itemsize


@internal
def chunk_of(data: Frame, at: int, opcode: int) -> int:
    """Return the chunk or block that an immediate names, or NONE; `at` is where the BTH begins."""
    if opcode == _CHUNK:
        place = 20
    elif opcode == _WRITE_ONLY_WITH_IMMEDIATE:
        place = 28
    elif opcode == _WRITE_LAST_WITH_IMMEDIATE or opcode in _SEND_WITH_IMMEDIATE:
        place = 12
    else:
        return NONE
    return read32(data, at + place) & 0xFFFFFF


@internal
def rule_applies(
    world: WorldRecord, rule: int, port_index: int, data: Frame, at: int, length: int
) -> bool:
    """Return whether a rule's action is due on a frame (at ``data[at]``) that left ``port_index``.

    A frame that matches is counted, and the action CORRUPT is done here.
    """
    words = Rule(world.rules, rule)
    if load8(world.rule_places + rule * world.port_indices + port_index) == 0:
        return False
    if length < STACK_BYTES + 16 or read16(data, at + 12) != 0x0800:
        return False
    opcode = int(data[at + STACK_BYTES])
    if load8(world.rule_opcodes + rule * 256 + opcode) == 0:
        return False
    if words.source != NONE and words.source != read32(data, at + 26):
        return False
    if words.destination != NONE:
        destination = read32(data, at + 30)
        far_end = int64_view(world.peers, world.port_indices)[port_index]
        reaches = destination >> 28 == 0xE and far_end == words.receiver
        if destination != words.destination and not reaches:
            return False
    if words.chunk != NONE and words.chunk != chunk_of(data, at + STACK_BYTES, opcode):
        return False
    words.seen += 1
    if words.seen < words.first or words.seen > words.last:
        return False
    words.done += 1
    if words.action == CORRUPT:
        # One bit behind the IPv4 and UDP headers, so that the ICRC has to find it.
        bits = (length - STACK_BYTES) * 8
        bit = (mix(words.done, rule) >> 8 & 0xFFFFFFFF) % bits
        data[at + STACK_BYTES + spoilt_byte(world, data, at, length, bit >> 3)] ^= 1 << (bit & 7)
    return True


@internal
def spoilt_byte(world: WorldRecord, data: Frame, at: int, length: int, place: int) -> int:
    """Return which byte behind IPv4 and UDP to spoil in place of one that does not travel: one of
    the ICRC."""
    if world.landings == 0 or Landings(world.landings).whole:
        return place
    row = data.ctypes.data + at + STACK_BYTES
    used = length - STACK_BYTES - ICRC_BYTES
    covered = covered_bytes(row, used)
    return covered if covered != used and place >= covered - CARRIED_BYTES else place


@internal
def copy_of(context: Context, packet: int) -> int:
    """Return a second packet with the same frame, or NONE."""
    row = Packet(context.packets, packet)
    copy = take_packet(context, row.buffer)
    if copy == NONE:
        return NONE
    int64_view(context.buffer_references, context.buffer_count)[row.buffer] += 1
    size = PACKET_BYTES
    memcpy(context.packets + copy * size, context.packets + packet * size, size)
    return copy


@internal
def hold(world: WorldRecord, packet: int, port_index: int, time_ns: int, swapped: int) -> None:
    """Keep a frame back until a time."""
    count = world.held_count
    if count == HELD_ROOM:
        world.failure = 1
        return
    row = Held(world.held, count)
    row.time_ns = time_ns
    row.number = world.held_number
    row.packet = packet
    row.port = port_index
    row.swapped = swapped
    world.held_count = count + 1
    world.held_number += 1


@internal
def first_held(world: WorldRecord) -> int:
    """Return the position of the held frame that is due first, or NONE."""
    best = 0 if world.held_count else NONE
    for i in range(1, world.held_count):
        row = Held(world.held, i)
        other = Held(world.held, best)
        if row.time_ns < other.time_ns or (
            row.time_ns == other.time_ns and row.number < other.number
        ):
            best = i
    return best


@internal
def held_time(world: WorldRecord) -> int:
    """Return when the next held frame is due, or NEVER."""
    return NEVER if world.held_count == 0 else Held(world.held, first_held(world)).time_ns


@internal
def swapped_at(world: WorldRecord, port_index: int) -> int:
    """Return the position of the frame that waits for its successor at a port index, or NONE."""
    for i in range(world.held_count):
        row = Held(world.held, i)
        if row.swapped and row.port == port_index:
            return i
    return NONE


@internal
def let_go(world: WorldRecord, position: int) -> int:
    """Take a frame out of those held; return its packet."""
    packet = Held(world.held, position).packet
    world.held_count -= 1
    last = world.held + world.held_count * _HELD_BYTES
    memmove(world.held + position * _HELD_BYTES, last, _HELD_BYTES)
    return packet


@internal
def frame_view(context: Context, packet: int) -> Frame:
    """Return the buffer that a packet's frame is in."""
    row = Packet(context.packets, packet)
    stride = context.buffer_stride
    data: Frame = uint8_view(context.buffers + row.buffer * stride, stride)
    return data
