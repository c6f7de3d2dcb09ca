"""Memory of the compiled transport: events for Python, posted work, what libc gives.

`endpoint` is an endpoint's words, `pair` a row of its queue pair table; both are laid out as
`layout` says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import PSN_MASK
from weft.base.jit import table_at, types, words_at

Words = npt.NDArray[np.int64]

malloc = types.ExternalFunction("malloc", types.intp(types.intp))
"""malloc(size) of libc; memory that compiled code takes when a packet makes it necessary."""
free = types.ExternalFunction("free", types.void(types.intp))


@internal
def add_event(
    endpoint: Words,
    kind: int,
    index: int,
    first: int,
    second: int,
    third: int,
    fourth: int,
    fifth: int,
) -> None:
    """Tell Python what happened; there is room for it by construction."""
    count = endpoint[at.EVENTS]
    if count >= endpoint[at.EVENT_ROOM]:
        return
    events = table_at(endpoint[at.EVENT_TABLE], endpoint[at.EVENT_ROOM], at.EVENT_WORDS)
    row = events[count]
    row[0] = kind
    row[1] = index
    row[2] = first
    row[3] = second
    row[4] = third
    row[5] = fourth
    row[6] = fifth
    endpoint[at.EVENTS] = count + 1


@internal
def extend(psn: int, near: int) -> int:
    """The unbounded sequence number next to `near` that has this PSN."""
    return near + ((psn - near + 0x800000) & PSN_MASK) - 0x800000


@internal
def work_at(pair: Words, number: int) -> Words:
    """The words of a piece of posted work."""
    ring = pair[at.WORK_RING]
    if ring == 0:
        ring = np.int64(pair.ctypes.data) + 8 * at.WORK_TABLE
    place = number & (pair[at.WORK_ROOM] - 1)
    words: Words = words_at(ring + place * (8 * at.WORK_WORDS), at.WORK_WORDS)
    return words


@internal
def packets_of(length: int, path_mtu: int) -> int:
    """How many packets, and so PSNs, a message of `length` bytes takes."""
    return max(1, (length + path_mtu - 1) // path_mtu)
