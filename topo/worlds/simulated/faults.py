"""Compiled: what packet faults do to a frame that reaches the far end of a link."""

from __future__ import annotations

from typing import Any

from weft.base.jit import load8
from weft.switch.engine.layout import (
    BUFFER_COUNT,
    BUFFER_REFERENCES,
    BUFFER_STRIDE,
    BUFFERS,
    NONE,
    P_BUFFER,
    P_FRAME,
    P_FRAME_LENGTH,
    PACKET_WORDS,
)
from weft.switch.engine.native import int64_view, uint8_view
from weft.switch.engine.queues import packet_row, take_packet
from weft.topo.worlds.simulated.frames import mix, read16, read32
from weft.topo.worlds.simulated.layout import (
    CORRUPT,
    HELD_ROOM,
    HELD_WORDS,
    K_NUMBER,
    K_PACKET,
    K_PORT,
    K_SWAPPED,
    K_TIME_NS,
    NEVER,
    R_ACTION,
    R_CHUNK,
    R_DESTINATION,
    R_DONE,
    R_FIRST,
    R_LAST,
    R_RECEIVER,
    R_SEEN,
    R_SOURCE,
    RULE_WORDS,
    STACK_BYTES,
    W_FAILURE,
    W_HELD,
    W_HELD_COUNT,
    W_HELD_NUMBER,
    W_PEERS,
    W_PORT_INDICES,
    W_RULE_OPCODES,
    W_RULE_PLACES,
    W_RULES,
)
from weft.topo.worlds.simulated.native import internal

_SEND_WITH_IMMEDIATE = (0x03, 0x05)
_WRITE_LAST_WITH_IMMEDIATE = 0x09
_WRITE_ONLY_WITH_IMMEDIATE = 0x0B
_CHUNK = 0x65


@internal
def rule_row(world: Any, rule: int) -> Any:
    """The words of a rule."""
    return int64_view(world[W_RULES] + rule * RULE_WORDS * 8, RULE_WORDS)


@internal
def held_row(world: Any, position: int) -> Any:
    """The words of a held frame."""
    return int64_view(world[W_HELD] + position * HELD_WORDS * 8, HELD_WORDS)


@internal
def chunk_of(data: Any, at: int, opcode: int) -> int:
    """The chunk or block that an immediate names, or NONE: `at` is where the BTH begins."""
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
def rule_applies(world: Any, rule: int, port_index: int, data: Any, at: int, length: int) -> bool:
    """Whether a rule's action is due on a frame (at ``data[at]``) that left ``port_index``."""
    words = rule_row(world, rule)
    if load8(world[W_RULE_PLACES] + rule * world[W_PORT_INDICES] + port_index) == 0:
        return False
    if length < STACK_BYTES + 16 or read16(data, at + 12) != 0x0800:
        return False
    opcode = int(data[at + STACK_BYTES])
    if load8(world[W_RULE_OPCODES] + rule * 256 + opcode) == 0:
        return False
    if words[R_SOURCE] != NONE and words[R_SOURCE] != read32(data, at + 26):
        return False
    if words[R_DESTINATION] != NONE:
        destination = read32(data, at + 30)
        far_end = int64_view(world[W_PEERS], world[W_PORT_INDICES])[port_index]
        reaches = destination >> 28 == 0xE and far_end == words[R_RECEIVER]
        if destination != words[R_DESTINATION] and not reaches:
            return False
    if words[R_CHUNK] != NONE and words[R_CHUNK] != chunk_of(data, at + STACK_BYTES, opcode):
        return False
    words[R_SEEN] += 1
    if words[R_SEEN] < words[R_FIRST] or words[R_SEEN] > words[R_LAST]:
        return False
    words[R_DONE] += 1
    if words[R_ACTION] == CORRUPT:
        # One bit behind the IPv4 and UDP headers, so that the ICRC has to find it.
        bits = (length - STACK_BYTES) * 8
        bit = (mix(words[R_DONE], rule) >> 8 & 0xFFFFFFFF) % bits
        data[at + STACK_BYTES + (bit >> 3)] ^= 1 << (bit & 7)
    return True


@internal
def copy_of(context: Any, packet: int) -> int:
    """A second packet with the same frame, or NONE."""
    row = packet_row(context, packet)
    copy = take_packet(context, row[P_BUFFER])
    if copy == NONE:
        return NONE
    int64_view(context[BUFFER_REFERENCES], context[BUFFER_COUNT])[row[P_BUFFER]] += 1
    other = packet_row(context, copy)
    for i in range(PACKET_WORDS):
        other[i] = row[i]
    return copy


@internal
def hold(world: Any, packet: int, port_index: int, time_ns: int, swapped: int) -> None:
    """Keep a frame until a time."""
    count = world[W_HELD_COUNT]
    if count == HELD_ROOM:
        world[W_FAILURE] = 1
        return
    row = held_row(world, count)
    row[K_TIME_NS] = time_ns
    row[K_NUMBER] = world[W_HELD_NUMBER]
    row[K_PACKET] = packet
    row[K_PORT] = port_index
    row[K_SWAPPED] = swapped
    world[W_HELD_COUNT] = count + 1
    world[W_HELD_NUMBER] += 1


@internal
def first_held(world: Any) -> int:
    """The position of the held frame that is due first, or NONE."""
    best = NONE
    for i in range(world[W_HELD_COUNT]):
        row = held_row(world, i)
        if best == NONE:
            best = i
            continue
        other = held_row(world, best)
        if row[K_TIME_NS] < other[K_TIME_NS] or (
            row[K_TIME_NS] == other[K_TIME_NS] and row[K_NUMBER] < other[K_NUMBER]
        ):
            best = i
    return best


@internal
def held_time(world: Any) -> int:
    """When the next held frame is due, or NEVER."""
    if world[W_HELD_COUNT] == 0:
        return NEVER
    return held_row(world, first_held(world))[K_TIME_NS]  # type: ignore[no-any-return]


@internal
def swapped_at(world: Any, port_index: int) -> int:
    """The position of the frame that waits for its successor at a port index, or NONE."""
    for i in range(world[W_HELD_COUNT]):
        row = held_row(world, i)
        if row[K_SWAPPED] and row[K_PORT] == port_index:
            return i
    return NONE


@internal
def let_go(world: Any, position: int) -> int:
    """Take a frame out of those held: its packet."""
    row = held_row(world, position)
    packet = row[K_PACKET]
    last = held_row(world, world[W_HELD_COUNT] - 1)
    for i in range(HELD_WORDS):
        row[i] = last[i]
    world[W_HELD_COUNT] -= 1
    return packet  # type: ignore[no-any-return]


@internal
def frame_view(context: Any, packet: int) -> Any:
    """The buffer that a packet's frame is in."""
    row = packet_row(context, packet)
    stride = context[BUFFER_STRIDE]
    return uint8_view(context[BUFFERS] + row[P_BUFFER] * stride, stride)


@internal
def frame_length(context: Any, packet: int) -> int:
    """A frame's bytes."""
    return packet_row(context, packet)[P_FRAME_LENGTH]  # type: ignore[no-any-return]


@internal
def frame_start(context: Any, packet: int) -> int:
    """Where in its buffer a frame begins."""
    return packet_row(context, packet)[P_FRAME]  # type: ignore[no-any-return]
