"""What an endpoint does with packets that arrive: a batch in one call.

Requests go to the responder side of an RC queue pair, READ responses and acknowledgements to its
requester side, chunks to the sink of their operation. Rules of the InfiniBand specification 1.4,
9.7 (reliable service).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.datagrams import FRAME_OVERHEAD_BYTES
from agents.transport import layout as at
from agents.transport.compiled_state import (
    acknowledge,
    add_event,
    advance,
    extend,
    fail,
    find_memory,
    go_back,
    packets_of,
    work_row,
)
from agents.wire import packets as wire
from agents.wire.compiled import (
    compiled,
    load8,
    load16,
    load32,
    memcpy,
    store8,
    table_at,
    words_at,
)
from agents.wire.headers import (
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    IS_FIRST,
    IS_LAST,
    IS_RESPONSE,
    IS_SEND,
    IS_WRITE,
    MULTICAST_QPN,
    PSN_MASK,
    SYNDROME_INVALID_REQUEST,
    SYNDROME_PSN_SEQUENCE_ERROR,
    SYNDROME_REMOTE_ACCESS_ERROR,
)

Words = npt.NDArray[np.int64]

_CHUNK_OPCODE = 0x65
_FIRST_UD_OPCODE = 0x60


@compiled
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


@compiled
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


@compiled
def refuse(endpoint: Words, pair: Words, syndrome: int) -> None:
    """Answer the expected packet with a NAK that ends the connection at the peer."""
    endpoint[at.ACCESS_ERRORS] += 1
    pair[at.NAK_PENDING] = syndrome
    pair[at.IN_MESSAGE] = at.NO_MESSAGE


@compiled
def queue_read(endpoint: Words, pair: Words, fields: Words, first: int, repeated: int) -> bool:
    """Line up a READ to be answered, in PSN order; False if there is no room for it.

    A READ that is asked for again while its responses wait is answered from where it is asked for.
    """
    end = first + packets_of(fields[wire.DMA_LENGTH], endpoint[at.PATH_MTU])
    place = at.READ_TABLE
    stop = at.READ_TABLE + pair[at.READS] * at.READ_WORDS
    while place < stop and pair[place + at.READ_END] < end:
        place += at.READ_WORDS
    same = place < stop and pair[place + at.READ_END] == end
    if same:
        if pair[place + at.READ_NEXT] <= first:
            return True
    elif pair[at.READS] == at.READ_ROOM:
        return False
    else:
        word = stop - 1
        while word >= place:
            pair[word + at.READ_WORDS] = pair[word]
            word -= 1
        pair[at.READS] += 1
    pair[place + at.READ_FIRST] = first
    pair[place + at.READ_NEXT] = first
    pair[place + at.READ_END] = end
    pair[place + at.READ_ADDRESS] = fields[wire.REMOTE_ADDRESS]
    pair[place + at.READ_KEY] = fields[wire.RKEY]
    pair[place + at.READ_LENGTH] = fields[wire.DMA_LENGTH]
    pair[place + at.READ_REPEATED] = repeated
    return True


@compiled
def receive_write(endpoint: Words, pair: Words, fields: Words, row: int, index: int) -> bool:
    """The expected packet of an RDMA WRITE; False if it was refused."""
    bits = fields[wire.PROPERTY_BITS]
    length = fields[wire.PAYLOAD_LENGTH]
    if bits & IS_FIRST:
        total = fields[wire.DMA_LENGTH]
        if total and not find_memory(
            endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], total
        ):
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        pair[at.WRITE_ADDRESS] = fields[wire.REMOTE_ADDRESS]
        pair[at.WRITE_KEY] = fields[wire.RKEY]
        pair[at.WRITE_REMAINING] = total
        pair[at.WRITE_LENGTH] = total
    remaining = pair[at.WRITE_REMAINING] - length
    if remaining < 0 or (bits & IS_LAST and remaining != 0):
        refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
        return False
    if length:
        memory = find_memory(endpoint, pair[at.WRITE_ADDRESS], pair[at.WRITE_KEY], length)
        if memory == 0:
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        memcpy(memory, row + fields[wire.PAYLOAD_OFFSET], length)
        pair[at.WRITE_ADDRESS] += length
        pair[at.WRITE_REMAINING] = remaining
    pair[at.IN_MESSAGE] = at.NO_MESSAGE if bits & IS_LAST else at.WRITE_MESSAGE
    if bits & HAS_IMMEDIATE:
        add_event(
            endpoint,
            at.EVENT_WRITE_WITH_IMMEDIATE,
            index,
            fields[wire.IMMEDIATE],
            pair[at.WRITE_LENGTH],
            0,
            0,
            0,
        )
    return True


@compiled
def receive_expected(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, number: int
) -> bool:
    """The request with the expected PSN; `number` is its row of the batch. False if it was
    refused."""
    bits = fields[wire.PROPERTY_BITS]
    expected = pair[at.EXPECTED]
    message = at.NO_MESSAGE
    if bits & IS_SEND:
        message = at.SEND_MESSAGE
    elif bits & IS_WRITE:
        message = at.WRITE_MESSAGE
    length = fields[wire.PAYLOAD_LENGTH]
    mtu = endpoint[at.PATH_MTU]
    wrong_place = pair[at.IN_MESSAGE] != (at.NO_MESSAGE if bits & IS_FIRST else message)
    if wrong_place or length > mtu or (not bits & IS_LAST and length != mtu):
        refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
        return False
    if message == at.NO_MESSAGE:
        size = fields[wire.DMA_LENGTH]
        if size and not find_memory(endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], size):
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        if not queue_read(endpoint, pair, fields, expected, 0):
            return False
        pair[at.EXPECTED] = expected + packets_of(size, mtu)
        pair[at.ACKNOWLEDGE_PENDING] = 0
        pair[at.SINCE_ACKNOWLEDGE] = 0
    else:
        if message == at.WRITE_MESSAGE:
            if not receive_write(endpoint, pair, fields, row, index):
                return False
        else:
            pair[at.IN_MESSAGE] = at.NO_MESSAGE if bits & IS_LAST else at.SEND_MESSAGE
            add_event(
                endpoint,
                at.EVENT_FRAGMENT,
                index,
                number,
                fields[wire.PAYLOAD_OFFSET],
                length,
                bits & (IS_FIRST | IS_LAST | HAS_IMMEDIATE),
                fields[wire.IMMEDIATE],
            )
        pair[at.EXPECTED] = expected + 1
        pair[at.SINCE_ACKNOWLEDGE] += 1
        if (
            fields[wire.ACKNOWLEDGE_REQUEST]
            or pair[at.SINCE_ACKNOWLEDGE] >= endpoint[at.ACKNOWLEDGE_EVERY]
        ):
            pair[at.ACKNOWLEDGE_PENDING] = 1
    if bits & IS_LAST:
        pair[at.MESSAGES] += 1
    pair[at.NAK_SENT] = 0
    if pair[at.NAK_PENDING] == SYNDROME_PSN_SEQUENCE_ERROR:
        pair[at.NAK_PENDING] = 0
        pair[at.ACKNOWLEDGE_PENDING] = 1
    return True


@compiled
def receive_request(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, number: int
) -> None:
    """A request for the responder side (specification, 9.7.4)."""
    sequence = extend(fields[wire.PSN], pair[at.EXPECTED])
    if sequence == pair[at.EXPECTED]:
        receive_expected(endpoint, pair, fields, row, index, number)
    elif sequence > pair[at.EXPECTED]:
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        if not pair[at.NAK_SENT]:
            pair[at.NAK_SENT] = 1
            pair[at.NAK_PENDING] = SYNDROME_PSN_SEQUENCE_ERROR
    else:
        endpoint[at.DUPLICATE_PACKETS] += 1
        if fields[wire.PROPERTY_BITS] & HAS_PAYLOAD:
            pair[at.ACKNOWLEDGE_PENDING] = 1
            return
        size = fields[wire.DMA_LENGTH]
        end = sequence + packets_of(size, endpoint[at.PATH_MTU])
        known = find_memory(endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], size)
        if end <= pair[at.EXPECTED] and (size == 0 or known):
            queue_read(endpoint, pair, fields, sequence, 1)


@compiled
def go_back_once(pair: Words) -> None:
    """Something is missing: send or ask again, but once for each, however often we hear of it."""
    if pair[at.REWOUND_AT] != pair[at.UNACKNOWLEDGED]:
        pair[at.REWOUND_AT] = pair[at.UNACKNOWLEDGED]
        go_back(pair)


@compiled
def receive_acknowledgement(
    endpoint: Words, pair: Words, fields: Words, index: int, now: int
) -> None:
    """An ACK or a NAK for the requester side (specification, 9.7.5)."""
    sequence = extend(fields[wire.PSN], pair[at.UNACKNOWLEDGED])
    if sequence >= pair[at.SEND_HIGHEST]:
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        return
    syndrome = fields[wire.SYNDROME]
    if syndrome >> 5 == 0:
        if sequence < pair[at.UNACKNOWLEDGED]:
            return
        if not acknowledge(endpoint, pair, index, sequence + 1, now):
            go_back_once(pair)
        return
    endpoint[at.NAKS_RECEIVED] += 1
    if sequence < pair[at.UNACKNOWLEDGED] or syndrome >> 5 != 3:
        return
    if not acknowledge(endpoint, pair, index, sequence, now):
        go_back_once(pair)
    elif syndrome == SYNDROME_PSN_SEQUENCE_ERROR:
        pair[at.PROBING] = 0
        go_back_once(pair)
    else:
        fail(endpoint, pair, index, syndrome, fields[wire.PSN])


@compiled
def receive_response(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, now: int
) -> None:
    """A READ response for the requester side; it acknowledges what was sent before it, too."""
    sequence = extend(fields[wire.PSN], pair[at.UNACKNOWLEDGED])
    if sequence >= pair[at.SEND_HIGHEST]:
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        return
    if sequence < pair[at.UNACKNOWLEDGED]:
        endpoint[at.DUPLICATE_PACKETS] += 1
        return
    if sequence > pair[at.UNACKNOWLEDGED] and (
        not acknowledge(endpoint, pair, index, sequence, now) or pair[at.STATE] != at.READY
    ):
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        go_back_once(pair)
        return
    work = work_row(pair, pair[at.FIRST_WORK])
    if pair[at.FIRST_WORK] == pair[at.NEXT_WORK] or pair[work + at.WORK_KIND] != at.READ:
        endpoint[at.ACCESS_ERRORS] += 1
        return
    offset = (sequence - pair[work + at.WORK_FIRST]) * endpoint[at.PATH_MTU]
    size = min(endpoint[at.PATH_MTU], pair[work + at.WORK_LENGTH] - offset)
    if fields[wire.PAYLOAD_LENGTH] != size:
        endpoint[at.ACCESS_ERRORS] += 1
        return
    if size > 0:
        memcpy(pair[work + at.WORK_ADDRESS] + offset, row + fields[wire.PAYLOAD_OFFSET], size)
    advance(endpoint, pair, index, sequence + 1, now)


@compiled
def count_fault(endpoint: Words, status: int) -> None:
    """Count a packet that did not parse."""
    if status == wire.BAD_ICRC:
        endpoint[at.BAD_ICRC] += 1
    elif status == wire.TRUNCATED:
        endpoint[at.TRUNCATED] += 1
    else:
        endpoint[at.UNKNOWN_OPCODE] += 1


@compiled
def receive_batch(endpoint: Words, batch: Words, count: int, now: int) -> None:
    """Take in rows 0 to `count - 1` of a batch; `batch` is `Datagrams.addresses`."""
    total = endpoint[at.QUEUE_PAIRS]
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], total, at.QUEUE_PAIR_WORDS)
    fields = words_at(endpoint[at.SCRATCH], wire.FIELDS)
    for number in range(count):
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
            continue
        if fields[wire.QUEUE_PAIR] == MULTICAST_QPN:
            receive_multicast(endpoint, fields, row, source, destination)
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
        bits = fields[wire.PROPERTY_BITS]
        if not bits & IS_RESPONSE:
            receive_request(endpoint, pair, fields, row, index, number)
        elif bits & HAS_PAYLOAD:
            receive_response(endpoint, pair, fields, row, index, now)
        else:
            receive_acknowledgement(endpoint, pair, fields, index, now)


__all__ = ["PSN_MASK", "receive_batch", "take_chunk"]
