"""The loops of progress-engine threads: from a source of packets into a receive worker, without
the GIL.

They return to Python when a sink is whole, when the source has no more, or when they are told to
stop (`stop[0]` is not 0).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.drivers.compiled_udp import receive_many, wait_ready
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.worker import receive_chunks
from weft.agents.wire.compiled import compiled

Words = npt.NDArray[np.int64]

_EAGAIN = 11
_EINTR = 4
_POLLIN = 1


@compiled
def carry_ring(worker: Words, ring: Words, first: int, end: int, batch: int, stop: Words) -> int:
    """Receive rows `first` to `end - 1` of a ring of packets, `batch` at a time; returns the row
    after the last. `ring` is `Datagrams.addresses`."""
    part = ring.copy()
    while first < end and stop[0] == 0 and worker[at.EVENTS] == 0:
        count = min(batch, end - first)
        part[at.BATCH_DATA] = ring[at.BATCH_DATA] + first * ring[at.BATCH_STRIDE]
        part[at.BATCH_LENGTH] = ring[at.BATCH_LENGTH] + 4 * first
        part[at.BATCH_SOURCE] = ring[at.BATCH_SOURCE] + 4 * first
        part[at.BATCH_DESTINATION] = ring[at.BATCH_DESTINATION] + 4 * first
        part[at.BATCH_SOURCE_PORT] = ring[at.BATCH_SOURCE_PORT] + 2 * first
        part[at.BATCH_TOS] = ring[at.BATCH_TOS] + first
        receive_chunks(worker, part, count, 0)
        first += count
    return first


@compiled
def carry_sockets(
    worker: Words,
    descriptors: Words,
    groups: Words,
    batch: Words,
    messages: Words,
    watched: Words,
    timeout: Words,
    stop: Words,
) -> int:
    """Receive from sockets, each bound to one group; returns 0, or minus the errno of one.

    `watched` are their pollfd and, last, that of a descriptor which can be read from when `stop` is
    set. `timeout` is (s, ns), or (-1, 0) for no end: how long nothing may come.
    """
    while stop[0] == 0 and worker[at.EVENTS] == 0:
        received = 0
        for index in range(len(descriptors)):
            count = receive_many(descriptors[index], batch, messages, groups[index])
            if count > 0:
                receive_chunks(worker, batch, count, 0)
                received += count
            elif count not in (0, -_EAGAIN, -_EINTR):
                return count
        if received == 0 and worker[at.EVENTS] == 0:
            for index in range(len(descriptors)):
                watched[index] = descriptors[index] | _POLLIN << 32
            watched[len(watched) - 1] = (watched[len(watched) - 1] & 0xFFFFFFFF) | _POLLIN << 32
            if wait_ready(watched, len(watched), timeout) == 0:
                return 0
    return 0
