"""Multicast chunks: those that arrive, into their sinks; those that leave, at their pace."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.frames import finish, frame_size, pacing_ns, row_address
from weft.agents.transport.kernels.memory import (
    add_event,
    work_at,
)
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import (
    MULTICAST_QPN,
    PSN_MASK,
)
from weft.agents.wire.packets import put_bth, put_word
from weft.base.jit import (
    load8,
    load64,
    load64_signed,
    memcpy,
    release_fence,
    store8,
    table_at,
    words_at,
)

Words = npt.NDArray[np.int64]

NEVER = 1 << 62
"""Later than every time."""

_CHUNK_OPCODE = 0x65
_ONES = np.uint64(0x0101010101010101)


@internal
def sink_at(address: int) -> Words:
    """All words of the sink at an address, tables included."""
    head = words_at(address, at.SINK_WORDS)
    words: Words = words_at(address, at.SINK_WORDS + 4 * head[at.SINK_SHARDS] + 1)
    return words


@internal
def find_place(sink: Words, chunk: int, length: int) -> tuple[int, int]:
    """The shard of a chunk of `length` bytes and where it goes in the buffer; (-1, 0) if there is
    no such chunk."""
    shards = sink[at.SINK_SHARDS]
    if chunk >= sink[at.SINK_CHUNKS]:
        return -1, 0
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
        return -1, 0
    return low, sink[at.SINK_BUFFER] + sink[at.SINK_WORDS + shards + low] + begin


@internal
def take_chunk(sink: Words, chunk: int, payload: int, length: int) -> int:
    """Put a chunk in its place; 0 if it is new, 1 if it was there, 2 if it fits no chunk."""
    shard, place = find_place(sink, chunk, length)
    if shard < 0:
        sink[at.SINK_OUT_OF_BOUNDS] += 1
        return 2
    present = sink[at.SINK_PRESENT] + chunk
    if load8(present) or (
        load64_signed(sink[at.SINK_MARKED]) and load8(sink[at.SINK_FETCHED] + chunk)
    ):
        sink[at.SINK_DUPLICATES] += 1
        return 1
    memcpy(place, payload, length)
    release_fence()
    store8(present, np.uint8(1))
    sink[at.SINK_WORDS + shard] -= 1
    sink[at.SINK_MISSING] -= 1
    sink[at.SINK_RECEIVED] += 1
    return 0


@internal
def is_whole(sink: Words) -> bool:
    """Whether no chunk is missing, marked ones included; for where packets arrive."""
    missing = sink[at.SINK_MISSING]
    if missing == 0:
        return True
    if missing > load64_signed(sink[at.SINK_MARKED]):
        return False
    chunk = sink[at.SINK_WHOLE_BEFORE]
    while chunk < sink[at.SINK_CHUNKS] and (
        load8(sink[at.SINK_PRESENT] + chunk) or load8(sink[at.SINK_FETCHED] + chunk)
    ):
        chunk += 1
    sink[at.SINK_WHOLE_BEFORE] = chunk
    whole: bool = chunk == sink[at.SINK_CHUNKS]
    return whole


@compiled
def count_missing(sink: Words, first: int, end: int) -> int:
    """How many of the chunks `first` to `end - 1` neither arrived nor were marked."""
    present = sink[at.SINK_PRESENT]
    fetched = sink[at.SINK_FETCHED]
    missing = end - first
    while first + 8 <= end:
        there = load64(present + first) | load64(fetched + first)
        missing -= np.int64((there * _ONES) >> np.uint64(56))
        first += 8
    while first < end:
        missing -= np.int64(load8(present + first) | load8(fetched + first))
        first += 1
    return missing


@internal
def is_chunk(endpoint: Words, fields: Words, source: int) -> bool:
    """Whether a packet to the multicast QP number is somebody else's chunk; counts what is not."""
    if source == endpoint[at.ADDRESS]:
        endpoint[at.OWN_LOOPBACK] += 1
        return False
    if fields[wire.OPCODE] != _CHUNK_OPCODE:
        endpoint[at.UNKNOWN_OPCODE] += 1
        return False
    return True


@internal
def is_member(endpoint: Words, destination: int, qkey: int) -> bool:
    """Whether there is a queue pair on a group with this Q_Key; counts what there is none for."""
    groups = table_at(endpoint[at.GROUP_TABLE], endpoint[at.GROUPS], at.GROUP_WORDS)
    for index in range(endpoint[at.GROUPS]):
        group = groups[index]
        if group[at.GROUP_ADDRESS] == destination and group[at.GROUP_QKEY] == qkey:
            return True
    endpoint[at.UNKNOWN_QUEUE_PAIR] += 1
    return False


@internal
def deliver_chunk(
    endpoint: Words, destination: int, qkey: int, immediate: int, payload: int, length: int
) -> None:
    """A chunk whose payload is at an address: to the sink of its group, Q_Key and operation."""
    groups = table_at(endpoint[at.GROUP_TABLE], endpoint[at.GROUPS], at.GROUP_WORDS)
    operation = immediate >> 24
    chunk = immediate & 0xFFFFFF
    member = False
    for index in range(endpoint[at.GROUPS]):
        group = groups[index]
        if group[at.GROUP_ADDRESS] != destination or group[at.GROUP_QKEY] != qkey:
            continue
        member = True
        address = group[at.GROUP_SINKS + operation]
        if address == 0:
            continue
        sink = sink_at(address)
        result = take_chunk(sink, chunk, payload, length)
        if result == 1:
            endpoint[at.DUPLICATE_CHUNKS] += 1
        elif result == 2:
            endpoint[at.CHUNKS_OUT_OF_BOUNDS] += 1
        else:
            endpoint[at.CHUNKS_RECEIVED] += 1
            if is_whole(sink):
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
    if pair[at.CHUNKS_BEFORE_PAUSE]:
        return 0
    due: int = pair[at.CHUNK_DUE]
    return due


@internal
def send_chunk(
    endpoint: Words, pair: Words, index: int, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next chunk of the first run, at its time; returns its frame bytes, or 0 for the budget.

    A run that has no chunk (left) is completed instead (-1).
    """
    work = work_at(pair, pair[at.FIRST_WORK])
    chunk = work[at.WORK_FIRST]
    rate = work[at.WORK_RATE_BPS]
    if chunk < work[at.WORK_END]:
        offset = chunk * work[at.WORK_CHUNK_BYTES]
        size = min(work[at.WORK_CHUNK_BYTES], work[at.WORK_LENGTH] - offset)
        if budget < frame_size(24, size):
            return 0
        row = row_address(batch, count)
        used = put_bth(row, _CHUNK_OPCODE, size, 0, MULTICAST_QPN, pair[at.CHUNK_PSN])
        used = put_word(row, used, pair[at.QKEY])
        used = put_word(row, used, pair[at.NUMBER])
        used = put_word(row, used, (work[at.WORK_IMMEDIATE] + chunk) & 0xFFFFFFFF)
        memcpy(row + used, work[at.WORK_ADDRESS] + offset, size)
        frame = finish(endpoint, pair, batch, count, used + size, now)
        endpoint[at.CHUNKS_SENT] += 1
        pair[at.CHUNK_PSN] = (pair[at.CHUNK_PSN] + 1) & PSN_MASK
        if rate:
            begin = max(pair[at.CHUNK_DUE], now - endpoint[at.PACING_CREDIT])
            pair[at.CHUNK_DUE] = begin + pacing_ns(frame, rate)
        else:
            pair[at.CHUNK_DUE] = now
        if pair[at.CHUNKS_BEFORE_PAUSE] == 0:
            pair[at.CHUNKS_BEFORE_PAUSE] = work[at.WORK_BATCH]
        pair[at.CHUNKS_BEFORE_PAUSE] -= 1
        work[at.WORK_FIRST] = chunk + 1
    else:
        frame = -1
    if work[at.WORK_FIRST] >= work[at.WORK_END]:
        pair[at.FIRST_WORK] += 1
        pair[at.CHUNKS_BEFORE_PAUSE] = 0
        add_event(endpoint, at.EVENT_CHUNKS_SENT, index, 0, 0, 0, 0, 0)
        if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
            pair[at.CHUNKS_IDLE] = 1
    return frame
