"""What a receive worker does with packets: straight into their sinks, or through a staging ring.

The staging ring is what a NIC without a connected transport needs (SC24, SmartNIC offload, UD): a
packet's payload is put into the next slot, a completion entry says what it is; completions are
polled in windows, and only then the bit is tested and the payload copied to its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.chunks import deliver_chunk, is_chunk, is_member
from weft.agents.transport.kernels.receive import open_packet, receive_batch
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import MULTICAST_QPN
from weft.base.jit import full_fence, load32, memcpy, release_fence, table_at, types, words_at

Words = npt.NDArray[np.int64]

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


@internal
def stage(worker: Words, fields: Words, row: int, destination: int) -> None:
    """Put a chunk's payload into the next slot of the ring, and its completion entry beside it.

    A payload larger than a slot fits no sink either: it keeps its length, which gives it away.
    """
    slot = worker[at.WORKER_STAGED] % worker[at.WORKER_SLOTS]
    length = fields[wire.PAYLOAD_LENGTH]
    memcpy(
        worker[at.WORKER_STAGING] + slot * worker[at.WORKER_SLOT_BYTES],
        row + fields[wire.PAYLOAD_OFFSET],
        min(length, worker[at.WORKER_SLOT_BYTES]),
    )
    entry = table_at(worker[at.WORKER_COMPLETIONS], worker[at.WORKER_SLOTS], at.COMPLETION_WORDS)[
        slot
    ]
    entry[at.COMPLETION_DESTINATION] = destination
    entry[at.COMPLETION_QKEY] = fields[wire.QKEY]
    entry[at.COMPLETION_IMMEDIATE] = fields[wire.IMMEDIATE]
    entry[at.COMPLETION_LENGTH] = length
    worker[at.WORKER_STAGED] += 1


@internal
def poll_completions(worker: Words) -> None:
    """Take a window of completions: each payload to its place, then their slots are free again."""
    polled = worker[at.WORKER_POLLED]
    end = min(worker[at.WORKER_STAGED], polled + worker[at.WORKER_WINDOW])
    entries = table_at(worker[at.WORKER_COMPLETIONS], worker[at.WORKER_SLOTS], at.COMPLETION_WORDS)
    while polled < end:
        slot = polled % worker[at.WORKER_SLOTS]
        entry = entries[slot]
        deliver_chunk(
            worker,
            entry[at.COMPLETION_DESTINATION],
            entry[at.COMPLETION_QKEY],
            entry[at.COMPLETION_IMMEDIATE],
            worker[at.WORKER_STAGING] + slot * worker[at.WORKER_SLOT_BYTES],
            entry[at.COMPLETION_LENGTH],
        )
        polled += 1
    worker[at.WORKER_POLLED] = end


@internal
def receive_staged(worker: Words, batch: Words, count: int) -> None:
    """Stage the chunks among the rows of a batch, then take their completions."""
    fields = words_at(worker[at.SCRATCH], wire.FIELDS)
    for number in range(count):
        if not open_packet(worker, batch, number, fields):
            continue
        if fields[wire.QUEUE_PAIR] != MULTICAST_QPN:
            worker[at.UNKNOWN_QUEUE_PAIR] += 1
            continue
        source = np.int64(load32(batch[at.BATCH_SOURCE] + 4 * number))
        destination = np.int64(load32(batch[at.BATCH_DESTINATION] + 4 * number))
        if is_chunk(worker, fields, source) and is_member(worker, destination, fields[wire.QKEY]):
            row = batch[at.BATCH_DATA] + number * batch[at.BATCH_STRIDE]
            stage(worker, fields, row, destination)
            if worker[at.WORKER_STAGED] - worker[at.WORKER_POLLED] == worker[at.WORKER_SLOTS]:
                poll_completions(worker)
    while worker[at.WORKER_POLLED] < worker[at.WORKER_STAGED]:
        poll_completions(worker)


@compiled
def receive_chunks(worker: Words, batch: Words, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch; `batch` is `Datagrams.addresses`."""
    worker[at.WORKER_ROUND] += 1
    full_fence()
    if worker[at.WORKER_STAGING] == 0:
        receive_batch(worker, batch, count, now)
    else:
        receive_staged(worker, batch, count)
    release_fence()
    worker[at.WORKER_ROUND] += 1


@compiled
def wait_for_batch(worker: Words) -> None:
    """Wait until a batch that another thread is receiving now is done with: it may have read what
    was changed just before."""
    full_fence()
    before = worker[at.WORKER_ROUND]
    while before & 1 and worker[at.WORKER_ROUND] == before:
        _sched_yield()
        full_fence()
