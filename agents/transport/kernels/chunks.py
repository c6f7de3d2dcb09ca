"""Handling of multicast chunks: those that arrive go into their sinks, those that leave go at their
pace."""

import numpy as np

from weft.agents.transport import layout as at
from weft.agents.transport import sink_layout as at_sink
from weft.agents.transport.kernels.frames import finish, frame_size, pacing_ns, row_address
from weft.agents.transport.kernels.memory import (
    add_event,
    work_at,
)
from weft.agents.transport.kernels.payload import put_payload, take_payload
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import entry, internal
from weft.agents.wire.headers import (
    MULTICAST_QPN,
    PSN_MASK,
)
from weft.agents.wire.packets import put_bth, put_words
from weft.base.jit import (
    load8,
    load64,
    load64_signed,
    release_fence,
    store8,
    words_at,
)

NEVER = 1 << 62
"""Later than every time."""

_CHUNK_OPCODE = 0x65
_QKEYS = 1 << 24
"""How many Q_Keys a group has: one for each 256 operations."""
_ONES = np.uint64(0x0101010101010101)


@internal
def find_place(sink: at_sink.SinkState, chunk: int, length: int) -> tuple[int, int]:
    """Return the shard of a chunk of `length` bytes and where it goes in the buffer; (-1, 0) if
    there is no such chunk."""
    if chunk >= sink.chunks:
        return -1, 0
    shards = sink.shards
    firsts = 3 * shards
    low = 0
    high = shards - 1
    tables = words_at(sink.tables, 4 * shards + 1)
    while low < high:
        middle = (low + high + 1) // 2
        if tables[firsts + middle] <= chunk:
            low = middle
        else:
            high = middle - 1
    begin = (chunk - tables[firsts + low]) * sink.chunk_bytes
    left = tables[2 * shards + low] - begin
    if left <= 0 or length != min(left, sink.chunk_bytes):
        return -1, 0
    return low, sink.buffer + tables[shards + low] + begin


@internal
def take_chunk(
    endpoint: at.EndpointState,
    sink: at_sink.SinkState,
    chunk: int,
    payload: int,
    length: int,
    source: int,
) -> int:
    """Put a chunk in its place; 0 if it is new, 1 if it was there, 2 if it fits no chunk, 3 if it
    is not for this host to send."""
    shard, place = find_place(sink, chunk, length)
    if shard < 0:
        sink.out_of_bounds += 1
        return 2
    sender = words_at(sink.tables, 5 * sink.shards + 1)[4 * sink.shards + 1 + shard]
    if sender != 0 and sender != source:
        return 3
    present = sink.present + chunk
    if load8(present) or (load64_signed(sink.marked) and load8(sink.fetched + chunk)):
        sink.duplicates += 1
        return 1
    take_payload(endpoint, place, payload, length, 0, False, 0)
    release_fence()
    store8(present, np.uint8(1))
    words_at(sink.tables, sink.shards)[shard] -= 1
    sink.missing -= 1
    sink.received += 1
    return 0


@internal
def is_whole(sink: at_sink.SinkState) -> bool:
    """Return whether no chunk is missing, marked ones included; for where packets arrive."""
    if sink.missing == 0:
        return True
    if sink.missing > load64_signed(sink.marked):
        return False
    chunk = sink.whole_before
    while chunk < sink.chunks and (load8(sink.present + chunk) or load8(sink.fetched + chunk)):
        chunk += 1
    sink.whole_before = chunk
    return chunk == sink.chunks


@entry
def count_missing(address: int, first: int, end: int) -> int:
    """Return how many of the chunks `first` to `end - 1` neither arrived nor were marked, of the
    sink at an address."""
    sink = at_sink.SinkState(address)
    present = sink.present
    fetched = sink.fetched
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
def is_chunk(endpoint: at.EndpointState, fields: wire.Fields, source: int) -> bool:
    """Return whether a packet to the multicast QP number is somebody else's chunk; counts what is
    not."""
    if source == endpoint.address:
        endpoint.statistics.own_loopback += 1
        return False
    if fields.opcode != _CHUNK_OPCODE:
        endpoint.statistics.unknown_opcode += 1
        return False
    return True


@internal
def operations_before(group: at.GroupRow, destination: int, qkey: int) -> int:
    """Return the number, without its lower 8 bits, of the operations of a group that have a Q_Key,
    or -1 if the packet is for another address, or the Q_Key is not one of the group's."""
    if group.address != destination:
        return -1
    blocks = (qkey - group.qkey) & 0xFFFFFFFF
    return blocks << 8 if blocks < _QKEYS else -1


@internal
def is_member(endpoint: at.EndpointState, destination: int, qkey: int) -> bool:
    """Return whether there is a queue pair on a group that this Q_Key is one of; counts what there
    is none for."""
    for index in range(endpoint.groups):
        if operations_before(at.GroupRow(endpoint.group_table, index), destination, qkey) >= 0:
            return True
    endpoint.statistics.unknown_queue_pair += 1
    return False


@internal
def deliver_chunk(
    endpoint: at.EndpointState,
    source: int,
    destination: int,
    qkey: int,
    immediate: int,
    payload: int,
    length: int,
) -> None:
    """Take a chunk whose payload is at an address to the sink of its group and operation."""
    lower = immediate >> 24
    member = False
    for index in range(endpoint.groups):
        group = at.GroupRow(endpoint.group_table, index)
        upper = operations_before(group, destination, qkey)
        if upper < 0:
            continue
        member = True
        address = group.sinks[lower]
        if address == 0:
            continue
        sink = at_sink.SinkState(address)
        if sink.operation != upper | lower:
            continue
        result = take_chunk(endpoint, sink, immediate & 0xFFFFFF, payload, length, source)
        if result == 1:
            endpoint.statistics.duplicate_chunks += 1
        elif result == 2:
            endpoint.statistics.chunks_out_of_bounds += 1
        elif result == 3:
            endpoint.statistics.foreign_chunks += 1
        else:
            endpoint.statistics.chunks_received += 1
            if is_whole(sink):
                pair = group.queue_pair
                add_event(endpoint, at.EVENT_CHUNKS_RECEIVED, pair).value = lower
        return
    if member:
        endpoint.statistics.wrong_operation += 1
    else:
        endpoint.statistics.unknown_queue_pair += 1


@internal
def chunk_time(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return when the next chunk may leave by its queue pair's own rate; NEVER if there is none."""
    if pair.first_work == pair.next_work:
        return NEVER
    return 0 if pair.chunks_before_pause else pair.chunk_due


@internal
def send_chunk(
    endpoint: at.EndpointState,
    pair: at.PairState,
    index: int,
    batch: at.Batch,
    count: int,
    budget: int,
    now: int,
) -> int:
    """Send the next chunk of the first run, at its time; return its frame bytes, or 0 for the
    budget.

    A run that has no chunk (left) is completed instead (-1).
    """
    work = work_at(pair, pair.first_work)
    chunk = work.first
    rate = work.rate_bps
    if chunk < work.end:
        chunk_bytes = work.chunk_bytes_or_relay
        offset = chunk * chunk_bytes
        size = min(chunk_bytes, work.length - offset)
        if budget < frame_size(24, size):
            return 0
        row = row_address(batch, count)
        used = put_bth(row, _CHUNK_OPCODE, size, 0, MULTICAST_QPN, pair.chunk_psn)
        immediate = (work.immediate + chunk) & 0xFFFFFFFF
        used = put_words(row, used, (work.remote_address_or_qkey, pair.number, immediate))
        put_payload(endpoint, row + used, work.address + offset, size)
        frame = finish(endpoint, pair, batch, count, used + size, now)
        endpoint.statistics.chunks_sent += 1
        pair.chunk_psn = (pair.chunk_psn + 1) & PSN_MASK
        begin = max(pair.chunk_due, now - endpoint.pacing_credit)
        pair.chunk_due = begin + pacing_ns(frame, rate) if rate else now
        if pair.chunks_before_pause == 0:
            pair.chunks_before_pause = work.rkey_or_batch
        pair.chunks_before_pause -= 1
        work.first = chunk + 1
    else:
        frame = -1
    if work.first >= work.end:
        pair.first_work += 1
        pair.chunks_before_pause = 0
        add_event(endpoint, at.EVENT_CHUNKS_SENT, index)
        if pair.first_work == pair.next_work:
            pair.chunks_idle = 1
    return frame
