"""Memory of the compiled transport: events for Python, posted work, what libc gives.

`pair` is a row of the endpoint's queue pair table.
"""

from typing import Any

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import entry, internal
from weft.agents.wire.headers import (
    HAS_IMMEDIATE,
    IS_FIRST,
    IS_LAST,
    PSN_MASK,
    SEQUENCE_BITS,
    SEQUENCE_MASK,
)
from weft.base.deferred import external
from weft.base.jit import words_at

MOST_IDLE_EVENTS = 64
"""How many events may wait for others."""
_HALF_ROUND = 1 << (SEQUENCE_BITS - 1)

_calloc: Any = external("calloc", "intp", "intp", "intp")
"""calloc(count, size) of libc: memory that compiled code takes when a packet makes it necessary."""
memmove = external("memmove", "intp", "intp", "intp", "intp")
"""memmove(to, from, size) of libc, as memcpy for what overlaps."""
_free: Any = external("free", "void", "intp")


@internal
def take_piece(pool: at.Pool, size: int) -> int:
    """Return the address of a piece of a pool, where pieces have `size` bytes; 0 if there is no
    memory. One that was used before is as it was left."""
    piece: int = pool.free
    if piece:
        pool.free = at.Piece(piece).next_free
        return piece
    piece = _calloc(size, 1)
    if piece:
        at.Piece(piece).next_made = pool.made
        pool.made = piece
    return piece


@internal
def drop_piece(pool: at.Pool, piece: int) -> None:
    """Let others have a piece."""
    at.Piece(piece).next_free = pool.free
    pool.free = piece


@internal
def free_pool(pool: at.Pool) -> None:
    """Give back the memory of all pieces."""
    piece = pool.made
    while piece:
        following = at.Piece(piece).next_made
        _free(piece)
        piece = following
    pool.made = pool.free = 0


@entry
def free_pools(state: int) -> None:
    """Give back what compiled code took for an endpoint, whose state is at an address and not used
    any more."""
    endpoint = at.EndpointState(state)
    free_pool(endpoint.read_blocks)
    free_pool(endpoint.boards)


@internal
def pair_at(endpoint: at.EndpointState, index: int) -> at.PairState:
    """Return a row of the queue pair table."""
    return at.PairState(endpoint.queue_pair_table, index)


@internal
def note_change(endpoint: at.EndpointState, pair: at.PairState, index: int) -> None:
    """Have the next transmit look at what the queue pair has to do."""
    if pair.is_changed:
        return
    pair.is_changed = 1
    count = endpoint.changed
    words_at(endpoint.changed_table, endpoint.tree_rows)[count] = index
    endpoint.changed = count + 1


@internal
def add_event(endpoint: at.EndpointState, kind: int, index: int) -> at.Event:
    """Return a row of the event table, which tells Python what happened to a queue pair; its other
    fields are the caller's to fill. There is room for it by construction."""
    count = endpoint.events
    event = at.Event(endpoint.event_table, count)
    event.kind = kind
    event.queue_pair = index
    endpoint.events = min(count + 1, endpoint.event_room)
    return event


@internal
def has_news(endpoint: at.EndpointState) -> bool:
    """Return whether there are events that do not wait, or too many that do."""
    return endpoint.events > min(endpoint.idle_events, MOST_IDLE_EVENTS)


@internal
def add_fragment(
    endpoint: at.EndpointState, kind: int, fields: wire.Fields, index: int, number: int
) -> at.Event:
    """Tell Python of a part of a SEND, in row `number` of the batch; return the event."""
    event = add_event(endpoint, kind, index)
    event.value = number
    event.offset = fields.payload_offset
    event.length = fields.payload_length
    event.bits = fields.property_bits & (IS_FIRST | IS_LAST | HAS_IMMEDIATE)
    event.immediate = fields.immediate
    return event


@internal
def extend(psn: int, near: int) -> int:
    """Return the unbounded sequence number next to `near` whose lower `SEQUENCE_BITS` a packet
    has."""
    return near + ((psn - near + _HALF_ROUND) & SEQUENCE_MASK) - _HALF_ROUND


@internal
def extend_psn(psn: int, near: int) -> int:
    """Return the unbounded sequence number next to `near` that has a PSN of 24 bits, named in a
    packet whose own number is known."""
    return near + ((psn - near + 0x800000) & PSN_MASK) - 0x800000


@internal
def work_at(pair: at.PairState, number: int) -> at.WorkRequest:
    """Return the words of a piece of posted work."""
    ring = pair.work_ring if pair.work_ring else np.int64(pair.first_ring.ctypes.data)
    return at.WorkRequest(ring, number & (pair.work_room - 1))


@internal
def packets_of(length: int, path_mtu: int) -> int:
    """Return how many packets, and so PSNs, a message of `length` bytes takes."""
    return max(1, (length + path_mtu - 1) // path_mtu)
