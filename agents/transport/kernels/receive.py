"""What an endpoint, or a receive worker, does with packets that arrive: a batch in one call.

Requests go to the responder side of an RC queue pair, READ responses and acknowledgements to its
requester side, chunks to the sink of their operation. A receive worker puts chunks straight into
their sinks, or through a staging ring, which is what a NIC without a connected transport needs
(SC24, SmartNIC offload, UD): a packet's payload is put into the next slot, and a completion entry
says what it is. Completions are polled in windows, and only then the bit is tested and the payload
copied to its place.
"""

from typing import Any

import numpy as np

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES
from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport import sink_layout as at_sink
from weft.agents.transport.kernels.aggregation_results import find_job, receive_result
from weft.agents.transport.kernels.chunks import deliver_chunk, is_chunk, is_member
from weft.agents.transport.kernels.memory import note_change, pair_at
from weft.agents.transport.kernels.payload import is_bare
from weft.agents.transport.kernels.requester import (
    receive_acknowledgement,
    receive_response,
)
from weft.agents.transport.kernels.responder import (
    receive_request,
)
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import entry, internal
from weft.agents.wire.headers import (
    HAS_PAYLOAD,
    IS_RESPONSE,
    MULTICAST_QPN,
)
from weft.base.deferred import external
from weft.base.jit import full_fence, load8, load16, load32, memcpy, release_fence

_FIRST_UD_OPCODE = 0x60


@internal
def count_fault(endpoint: at.EndpointState, status: int) -> None:
    """Count a packet that did not parse."""
    if status == wire.BAD_ICRC:
        endpoint.statistics.bad_icrc += 1
    elif status == wire.TRUNCATED:
        endpoint.statistics.truncated += 1
    else:
        endpoint.statistics.unknown_opcode += 1


@internal
def open_packet(
    endpoint: at.EndpointState, batch: at.Batch, number: int, fields: wire.Fields
) -> bool:
    """Check and count row `number` of a batch and find its fields; False if it is to be dropped."""
    row = batch.data + number * batch.stride
    size = np.int64(np.int32(load32(batch.length + 4 * number)))
    source = np.int64(load32(batch.source + 4 * number))
    destination = np.int64(load32(batch.destination + 4 * number))
    source_port = np.int64(load16(batch.source_port + 2 * number))
    endpoint.statistics.received_packets += 1
    endpoint.statistics.received_bytes += size + FRAME_OVERHEAD_BYTES
    if load8(batch.tos + number) & 3 == 3:
        endpoint.statistics.congestion_marks += 1
    status = wire.TRUNCATED
    if size <= batch.stride:
        bare = is_bare(endpoint)
        status = wire.parse(row, size, source, destination, source_port, bare, fields)
    if status != wire.GOOD:
        count_fault(endpoint, status)
        return False
    fields.marked = load8(batch.tos + number) & 3 == 3
    fields.source_port = source_port
    return True


@entry
def receive_batch(state: int, rows: int, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch. The endpoint's state and the batch are at
    addresses."""
    take_batch(at.EndpointState(state), at.Batch(rows), count, now)


@internal
def take_batch(endpoint: at.EndpointState, batch: at.Batch, count: int, now: int) -> None:
    """Do as `receive_batch`, for compiled code."""
    total = endpoint.queue_pairs
    fields = wire.Fields(endpoint.scratch)
    for number in range(count):
        row = batch.data + number * batch.stride
        source = np.int64(load32(batch.source + 4 * number))
        destination = np.int64(load32(batch.destination + 4 * number))
        if not open_packet(endpoint, batch, number, fields):
            continue
        if fields.queue_pair == MULTICAST_QPN:
            job = -1
            if fields.qkey == at_job.AGGREGATION_QKEY:  # which may be a group's, too
                job = find_job(endpoint, destination)
            if job >= 0:
                receive_result(endpoint, fields, row, source, job, now)
            elif is_chunk(endpoint, fields, source):
                deliver_chunk(
                    endpoint,
                    source,
                    destination,
                    fields.qkey,
                    fields.immediate,
                    row + fields.payload_offset,
                    fields.payload_length,
                )
            continue
        index = fields.queue_pair - endpoint.first_number
        if index < 0 or index >= total or destination != endpoint.address:
            endpoint.statistics.unknown_queue_pair += 1
            continue
        pair = pair_at(endpoint, index)
        if (
            pair.kind != at.RC
            or pair.state == at.UNCONNECTED
            or pair.peer_address != source
            or fields.opcode >= _FIRST_UD_OPCODE
        ):
            endpoint.statistics.unknown_queue_pair += 1
            continue
        if pair.state == at.FAILED:
            continue
        note_change(endpoint, pair, index)
        bits = fields.property_bits
        if fields.marked and bits & HAS_PAYLOAD:
            endpoint.statistics.marks_received += 1
        if not bits & IS_RESPONSE:
            receive_request(endpoint, pair, fields, row, index, number)
        elif bits & HAS_PAYLOAD:
            receive_response(endpoint, pair, fields, row, index, now)
        else:
            receive_acknowledgement(endpoint, pair, fields, index, now)


_sched_yield: Any = external("sched_yield", "int32")


@internal
def stage(
    worker: at_sink.WorkerState, fields: wire.Fields, row: int, source: int, destination: int
) -> None:
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
    entry = at_sink.Staged(worker.completions, slot)
    entry.source = source
    entry.destination = destination
    entry.qkey = fields.qkey
    entry.immediate = fields.immediate
    entry.length = length
    worker.staged += 1


@internal
def poll_completions(worker: at_sink.WorkerState) -> None:
    """Take a window of completions: each payload to its place, then their slots are free again."""
    end = min(worker.staged, worker.polled + worker.window)
    for polled in range(worker.polled, end):
        slot = polled % worker.slots
        entry = at_sink.Staged(worker.completions, slot)
        deliver_chunk(
            worker.endpoint,
            entry.source,
            entry.destination,
            entry.qkey,
            entry.immediate,
            worker.staging + slot * worker.slot_bytes,
            entry.length,
        )
    worker.polled = end


@internal
def receive_staged(worker: at_sink.WorkerState, batch: at.Batch, count: int) -> None:
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
            stage(worker, fields, row, source, destination)
            if worker.staged - worker.polled == worker.slots:
                poll_completions(worker)
    while worker.polled < worker.staged:
        poll_completions(worker)


@entry
def receive_chunks(state: int, rows: int, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch. The worker's state and the batch are at
    addresses."""
    worker, batch = at_sink.WorkerState(state), at.Batch(rows)
    worker.round += 1
    full_fence()
    if worker.staging == 0:
        take_batch(worker.endpoint, batch, count, now)
    else:
        receive_staged(worker, batch, count)
    release_fence()
    worker.round += 1


@entry
def wait_for_batch(state: int) -> None:
    """Wait until a batch that another thread is receiving now is done with: it may have read what
    was changed just before. The worker's state is at an address."""
    worker = at_sink.WorkerState(state)
    full_fence()
    before = worker.round
    while before & 1 and worker.round == before:
        _sched_yield()
        full_fence()
