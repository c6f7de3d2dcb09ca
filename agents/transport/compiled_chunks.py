"""Multicast chunks: those that arrive, into their sinks; those that leave, at their pace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.transport import layout as at
from agents.transport.compiled_frames import finish, frame_size, pacing_ns, row_address
from agents.transport.compiled_state import (
    add_event,
    work_row,
)
from agents.wire import packets as wire
from agents.wire.compiled import (
    internal,
    load8,
    memcpy,
    store8,
    table_at,
    words_at,
)
from agents.wire.headers import (
    MULTICAST_QPN,
    PSN_MASK,
)
from agents.wire.packets import put_bth, put_word

Words = npt.NDArray[np.int64]

NEVER = 1 << 62
"""Later than every time."""

_CHUNK_OPCODE = 0x65


@internal
def take_chunk(sink: Words, chunk: int, payload: int, length: int) -> int:
    """Put a chunk in its place; 0 if it is new, 1 if it was there, 2 if it fits no chunk."""
    shards = sink[at.SINK_SHARDS]
    if chunk >= sink[at.SINK_CHUNKS]:
        sink[at.SINK_OUT_OF_BOUNDS] += 1
        return 2
    firsts = at.SINK_WORDS + 3 * shards
    low = 0
    high = shards - 1
    while low < high:
        middle = (low + high + 1) // 2
        if sink[firsts + middle] <= chunk:
            low = middle
        else:
            high = middle - 1
    begin = (chunk - sink[firsts + low]) * sink[at.SINK_CHUNK_BYTES]
    left = sink[at.SINK_WORDS + 2 * shards + low] - begin
    if left <= 0 or length != min(left, sink[at.SINK_CHUNK_BYTES]):
        sink[at.SINK_OUT_OF_BOUNDS] += 1
        return 2
    present = sink[at.SINK_PRESENT] + chunk
    if load8(present):
        sink[at.SINK_DUPLICATES] += 1
        return 1
    store8(present, np.uint8(1))
    offset = sink[at.SINK_WORDS + shards + low] + begin
    memcpy(sink[at.SINK_BUFFER] + offset, payload, length)
    sink[at.SINK_WORDS + low] -= 1
    sink[at.SINK_MISSING] -= 1
    sink[at.SINK_RECEIVED] += 1
    return 0


@internal
def receive_multicast(
    endpoint: Words, fields: Words, row: int, source: int, destination: int
) -> None:
    """A UD packet to the multicast QP number: to the sink of its group, Q_Key and operation."""
    if source == endpoint[at.ADDRESS]:
        endpoint[at.OWN_LOOPBACK] += 1
        return
    if fields[wire.OPCODE] != _CHUNK_OPCODE:
        endpoint[at.UNKNOWN_OPCODE] += 1
        return
    groups = table_at(endpoint[at.GROUP_TABLE], endpoint[at.GROUPS], at.GROUP_WORDS)
    operation = fields[wire.IMMEDIATE] >> 24
    chunk = fields[wire.IMMEDIATE] & 0xFFFFFF
    member = False
    for index in range(endpoint[at.GROUPS]):
        group = groups[index]
        if group[at.GROUP_ADDRESS] != destination or group[at.GROUP_QKEY] != fields[wire.QKEY]:
            continue
        member = True
        address = group[at.GROUP_SINKS + operation]
        if address == 0:
            continue
        sink = words_at(address, at.SINK_WORDS)
        sink = words_at(address, at.SINK_WORDS + 4 * sink[at.SINK_SHARDS] + 1)
        result = take_chunk(
            sink, chunk, row + fields[wire.PAYLOAD_OFFSET], fields[wire.PAYLOAD_LENGTH]
        )
        if result == 1:
            endpoint[at.DUPLICATE_CHUNKS] += 1
        elif result == 2:
            endpoint[at.CHUNKS_OUT_OF_BOUNDS] += 1
        else:
            endpoint[at.CHUNKS_RECEIVED] += 1
            if sink[at.SINK_MISSING] == 0:
                pair = group[at.GROUP_QUEUE_PAIR]
                add_event(endpoint, at.EVENT_CHUNKS_RECEIVED, pair, operation, 0, 0, 0, 0)
        return
    if member:
        endpoint[at.WRONG_OPERATION] += 1
    else:
        endpoint[at.UNKNOWN_QUEUE_PAIR] += 1


@internal
def chunk_time(endpoint: Words, pair: Words) -> int:
    """When the next chunk may leave by its queue pair's own rate; NEVER if there is none."""
    if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
        return NEVER
    due: int = pair[at.CHUNK_DUE]
    return due


@internal
def send_chunk(
    endpoint: Words, pair: Words, index: int, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next chunk of the first run, at its time; returns its frame bytes, or 0 for the budget.

    A run that has no chunk (left) is completed instead (-1).
    """
    work = work_row(pair, pair[at.FIRST_WORK])
    chunk = pair[work + at.WORK_FIRST]
    rate = pair[work + at.WORK_RATE_BPS]
    if chunk < pair[work + at.WORK_END]:
        offset = chunk * pair[work + at.WORK_CHUNK_BYTES]
        size = min(pair[work + at.WORK_CHUNK_BYTES], pair[work + at.WORK_LENGTH] - offset)
        if budget < frame_size(24, size):
            return 0
        row = row_address(batch, count)
        used = put_bth(row, _CHUNK_OPCODE, size, 0, MULTICAST_QPN, pair[at.CHUNK_PSN])
        used = put_word(row, used, pair[at.QKEY])
        used = put_word(row, used, pair[at.NUMBER])
        used = put_word(row, used, (pair[work + at.WORK_IMMEDIATE] + chunk) & 0xFFFFFFFF)
        memcpy(row + used, pair[work + at.WORK_ADDRESS] + offset, size)
        frame = finish(endpoint, pair, batch, count, used + size, now)
        endpoint[at.CHUNKS_SENT] += 1
        pair[at.CHUNK_PSN] = (pair[at.CHUNK_PSN] + 1) & PSN_MASK
        if rate:
            begin = max(pair[at.CHUNK_DUE], now - endpoint[at.PACING_CREDIT])
            pair[at.CHUNK_DUE] = begin + pacing_ns(frame, rate)
        else:
            pair[at.CHUNK_DUE] = now
        pair[work + at.WORK_FIRST] = chunk + 1
    else:
        frame = -1
    if pair[work + at.WORK_FIRST] >= pair[work + at.WORK_END]:
        pair[at.FIRST_WORK] += 1
        add_event(endpoint, at.EVENT_CHUNKS_SENT, index, 0, 0, 0, 0, 0)
        if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
            pair[at.CHUNKS_IDLE] = 1
    return frame
