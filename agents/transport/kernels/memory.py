"""Memory of the compiled transport: events for Python, posted work, what libc gives.

`pair` is a row of the endpoint's queue pair table.
"""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import PSN_MASK
from weft.base.jit import Words, types, words_at

calloc = types.ExternalFunction("calloc", types.intp(types.intp, types.intp))
"""calloc(count, size) of libc: as malloc, of zeros."""
malloc = types.ExternalFunction("malloc", types.intp(types.intp))
"""malloc(size) of libc; memory that compiled code takes when a packet makes it necessary."""
memmove = types.ExternalFunction("memmove", types.intp(types.intp, types.intp, types.intp))
"""memmove(to, from, size) of libc, as memcpy for what overlaps."""
free = types.ExternalFunction("free", types.void(types.intp))


@internal
def pair_at(endpoint: at.EndpointState, index: int) -> at.PairState:
    """Return a row of the queue pair table."""
    return at.PairState(endpoint.queue_pair_table, index)


@internal
def event_at(endpoint: at.EndpointState, index: int) -> Words:
    """Return the words of a row of the event table."""
    return words_at(endpoint.event_table + index * (8 * at.EVENT_WORDS), at.EVENT_WORDS)


@internal
def add_event(
    endpoint: at.EndpointState,
    kind: int,
    index: int,
    first: int,
    second: int,
    third: int,
    fourth: int,
    fifth: int,
) -> None:
    """Tell Python what happened; there is room for it by construction."""
    count = endpoint.events
    if count >= endpoint.event_room:
        return
    row = event_at(endpoint, count)
    row[0] = kind
    row[1] = index
    row[2] = first
    row[3] = second
    row[4] = third
    row[5] = fourth
    row[6] = fifth
    endpoint.events = count + 1


@internal
def extend(psn: int, near: int) -> int:
    """Return the unbounded sequence number next to `near` that has this PSN."""
    return near + ((psn - near + 0x800000) & PSN_MASK) - 0x800000


@internal
def work_at(pair: at.PairState, number: int) -> at.Work:
    """Return the words of a piece of posted work."""
    ring = pair.work_ring
    if ring == 0:
        ring = np.int64(pair.first_ring.ctypes.data)
    return at.Work(ring, number & (pair.work_room - 1))


@internal
def packets_of(length: int, path_mtu: int) -> int:
    """Return how many packets, and so PSNs, a message of `length` bytes takes."""
    return max(1, (length + path_mtu - 1) // path_mtu)
