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
def carry_ring(
    state: int, packets: int, batch_at_hand: int, first: int, end: int, batch: int, stop: Words
) -> int:
    """Receive rows `first` to `end - 1` of a ring of packets, `batch` at a time; returns the row
    after the last. The worker's state and the packets are at addresses, and so is a copy of the
    packets' `Batch`, which is written to."""
    worker, ring, part = at.WorkerState(state), at.Batch(packets), at.Batch(batch_at_hand)
    while first < end and stop[0] == 0 and worker.endpoint.events == 0:
        count = min(batch, end - first)
        part.data = ring.data + first * ring.stride
        part.length = ring.length + 4 * first
        part.source = ring.source + 4 * first
        part.destination = ring.destination + 4 * first
        part.source_port = ring.source_port + 2 * first
        part.tos = ring.tos + first
        receive_chunks(state, batch_at_hand, count, 0)
        first += count
    return first


@compiled
def carry_sockets(
    state: int,
    descriptors: Words,
    groups: Words,
    batch: int,
    messages: Words,
    watched: Words,
    timeout: Words,
    stop: Words,
) -> int:
    """Receive from sockets, each bound to one group; returns 0, or minus the errno of one.

    `watched` are their pollfd and, last, that of a descriptor which can be read from when `stop` is
    set. `timeout` is (s, ns), or (-1, 0) for no end: how long nothing may come.
    """
    worker = at.WorkerState(state)
    while stop[0] == 0 and worker.endpoint.events == 0:
        received = 0
        for index in range(len(descriptors)):
            count = receive_many(descriptors[index], batch, messages, groups[index])
            if count > 0:
                receive_chunks(state, batch, count, 0)
                received += count
            elif count not in (0, -_EAGAIN, -_EINTR):
                return count
        if received == 0 and worker.endpoint.events == 0:
            for index in range(len(descriptors)):
                watched[index] = descriptors[index] | _POLLIN << 32
            watched[len(watched) - 1] = (watched[len(watched) - 1] & 0xFFFFFFFF) | _POLLIN << 32
            if wait_ready(watched, len(watched), timeout) == 0:
                return 0
    return 0
