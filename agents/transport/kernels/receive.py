"""What an endpoint does with packets that arrive: a batch in one call.

Requests go to the responder side of an RC queue pair, READ responses and acknowledgements to its
requester side, chunks to the sink of their operation.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import FRAME_OVERHEAD_BYTES
from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation_results import receive_result
from weft.agents.transport.kernels.chunks import deliver_chunk, is_chunk
from weft.agents.transport.kernels.requester import (
    receive_acknowledgement,
    receive_response,
)
from weft.agents.transport.kernels.responder import (
    receive_request,
)
from weft.agents.transport.kernels.state import note_change
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import (
    HAS_PAYLOAD,
    IS_RESPONSE,
    MULTICAST_QPN,
)
from weft.base.jit import load8, load16, load32, table_at, words_at

Words = npt.NDArray[np.int64]

_FIRST_UD_OPCODE = 0x60


@internal
def count_fault(endpoint: Words, status: int) -> None:
    """Count a packet that did not parse."""
    if status == wire.BAD_ICRC:
        endpoint[at.BAD_ICRC] += 1
    elif status == wire.TRUNCATED:
        endpoint[at.TRUNCATED] += 1
    else:
        endpoint[at.UNKNOWN_OPCODE] += 1


@internal
def open_packet(endpoint: Words, batch: Words, number: int, fields: Words) -> bool:
    """Check and count row `number` of a batch and find its fields; False if it is to be dropped."""
    row = batch[at.BATCH_DATA] + number * batch[at.BATCH_STRIDE]
    size = np.int64(np.int32(load32(batch[at.BATCH_LENGTH] + 4 * number)))
    source = np.int64(load32(batch[at.BATCH_SOURCE] + 4 * number))
    destination = np.int64(load32(batch[at.BATCH_DESTINATION] + 4 * number))
    source_port = np.int64(load16(batch[at.BATCH_SOURCE_PORT] + 2 * number))
    endpoint[at.RECEIVED_PACKETS] += 1
    endpoint[at.RECEIVED_BYTES] += size + FRAME_OVERHEAD_BYTES
    if load8(batch[at.BATCH_TOS] + number) & 3 == 3:
        endpoint[at.CONGESTION_MARKS] += 1
    status = wire.TRUNCATED
    if size <= batch[at.BATCH_STRIDE]:
        status = wire.parse(row, size, source, destination, source_port, fields)
    if status != wire.GOOD:
        count_fault(endpoint, status)
        return False
    fields[wire.MARKED] = load8(batch[at.BATCH_TOS] + number) & 3 == 3
    fields[wire.SOURCE_PORT] = source_port
    return True


@compiled
def receive_batch(endpoint: Words, batch: Words, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch; `batch` is `Datagrams.addresses`."""
    total = endpoint[at.QUEUE_PAIRS]
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], total, at.QUEUE_PAIR_WORDS)
    fields = words_at(endpoint[at.SCRATCH], wire.FIELDS)
    for number in range(count):
        row = batch[at.BATCH_DATA] + number * batch[at.BATCH_STRIDE]
        source = np.int64(load32(batch[at.BATCH_SOURCE] + 4 * number))
        destination = np.int64(load32(batch[at.BATCH_DESTINATION] + 4 * number))
        if not open_packet(endpoint, batch, number, fields):
            continue
        if fields[wire.QUEUE_PAIR] == MULTICAST_QPN:
            if fields[wire.QKEY] == job.AGGREGATION_QKEY:
                receive_result(endpoint, fields, row, source, destination, now)
            elif is_chunk(endpoint, fields, source):
                deliver_chunk(
                    endpoint,
                    destination,
                    fields[wire.QKEY],
                    fields[wire.IMMEDIATE],
                    row + fields[wire.PAYLOAD_OFFSET],
                    fields[wire.PAYLOAD_LENGTH],
                )
            continue
        index = fields[wire.QUEUE_PAIR] - endpoint[at.FIRST_NUMBER]
        if index < 0 or index >= total or destination != endpoint[at.ADDRESS]:
            endpoint[at.UNKNOWN_QUEUE_PAIR] += 1
            continue
        pair = pairs[index]
        if (
            pair[at.KIND] != at.RC
            or pair[at.STATE] == at.UNCONNECTED
            or pair[at.PEER_ADDRESS] != source
            or fields[wire.OPCODE] >= _FIRST_UD_OPCODE
        ):
            endpoint[at.UNKNOWN_QUEUE_PAIR] += 1
            continue
        if pair[at.STATE] == at.FAILED:
            continue
        note_change(endpoint, pair, index)
        bits = fields[wire.PROPERTY_BITS]
        if fields[wire.MARKED] and bits & HAS_PAYLOAD:
            endpoint[at.MARKS_RECEIVED] += 1
        if not bits & IS_RESPONSE:
            receive_request(endpoint, pair, fields, row, index, number)
        elif bits & HAS_PAYLOAD:
            receive_response(endpoint, pair, fields, row, index, now)
        else:
            receive_acknowledgement(endpoint, pair, fields, index, now)
