"""What a receive worker does with packets: straight into their sinks, or through a staging ring.

The staging ring is what a NIC without a connected transport needs (SC24, SmartNIC offload, UD): a
packet's payload is put into the next slot, a completion entry says what it is; completions are
polled in windows, and only then the bit is tested and the payload copied to its place.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.chunks import deliver_chunk, is_chunk, is_member
from weft.agents.transport.kernels.receive import open_packet, take_batch
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import MULTICAST_QPN
from weft.base.jit import full_fence, load32, memcpy, release_fence, types

_sched_yield: Any = types.ExternalFunction("sched_yield", types.int32())


@internal
def stage(worker: at.WorkerState, fields: wire.Fields, row: int, destination: int) -> None:
    """Put a chunk's payload into the next slot of the ring, and its completion entry beside it.

    A payload larger than a slot fits no sink either: it keeps its length, which gives it away.
    """
    slot = worker.staged % worker.slots
    length = fields.payload_length
    memcpy(
        worker.staging + slot * worker.slot_bytes,
        row + fields.payload_offset,
        min(length, worker.slot_bytes),
    )
    entry = at.Staged(worker.completions, slot)
    entry.destination = destination
    entry.qkey = fields.qkey
    entry.immediate = fields.immediate
    entry.length = length
    worker.staged += 1


@internal
def poll_completions(worker: at.WorkerState) -> None:
    """Take a window of completions: each payload to its place, then their slots are free again."""
    polled = worker.polled
    end = min(worker.staged, polled + worker.window)
    while polled < end:
        slot = polled % worker.slots
        entry = at.Staged(worker.completions, slot)
        deliver_chunk(
            worker.endpoint,
            entry.destination,
            entry.qkey,
            entry.immediate,
            worker.staging + slot * worker.slot_bytes,
            entry.length,
        )
        polled += 1
    worker.polled = end


@internal
def receive_staged(worker: at.WorkerState, batch: at.Batch, count: int) -> None:
    """Stage the chunks among the rows of a batch, then take their completions."""
    endpoint = worker.endpoint
    fields = wire.Fields(endpoint.scratch)
    for number in range(count):
        if not open_packet(endpoint, batch, number, fields):
            continue
        if fields.queue_pair != MULTICAST_QPN:
            endpoint.statistics.unknown_queue_pair += 1
            continue
        source = np.int64(load32(batch.source + 4 * number))
        destination = np.int64(load32(batch.destination + 4 * number))
        if is_chunk(endpoint, fields, source) and is_member(endpoint, destination, fields.qkey):
            row = batch.data + number * batch.stride
            stage(worker, fields, row, destination)
            if worker.staged - worker.polled == worker.slots:
                poll_completions(worker)
    while worker.polled < worker.staged:
        poll_completions(worker)


@compiled
def receive_chunks(state: int, rows: int, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch. The worker's state and the batch are at
    addresses."""
    worker, batch = at.WorkerState(state), at.Batch(rows)
    worker.round += 1
    full_fence()
    if worker.staging == 0:
        take_batch(worker.endpoint, batch, count, now)
    else:
        receive_staged(worker, batch, count)
    release_fence()
    worker.round += 1


@compiled
def wait_for_batch(state: int) -> None:
    """Wait until a batch that another thread is receiving now is done with: it may have read what
    was changed just before. The worker's state is at an address."""
    worker = at.WorkerState(state)
    full_fence()
    before = worker.round
    while before & 1 and worker.round == before:
        _sched_yield()
        full_fence()
