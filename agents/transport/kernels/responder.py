"""The responder side of RC queue pairs: requests that arrive, and what answers them.

Rules of the InfiniBand specification 1.4, 9.7 (reliable service).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import board_of
from weft.agents.transport.kernels.echo import echo_arrival, put_acknowledgement
from weft.agents.transport.kernels.entropy import move_acknowledgements
from weft.agents.transport.kernels.frames import (
    finish_from,
    frame_size,
    row_address,
    service_of_data,
)
from weft.agents.transport.kernels.kept import pass_over, receive_ahead, take_kept
from weft.agents.transport.kernels.memory import add_event, extend, packets_of
from weft.agents.transport.kernels.state import (
    drop_reads,
    find_memory,
    queue_read,
    reads_of,
    refuse,
)
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    HAS_IMMEDIATE,
    HAS_PAYLOAD,
    IS_FIRST,
    IS_LAST,
    IS_SEND,
    IS_WRITE,
    PSN_MASK,
    SYNDROME_ACK,
    SYNDROME_INVALID_REQUEST,
    SYNDROME_PSN_SEQUENCE_ERROR,
    SYNDROME_REMOTE_ACCESS_ERROR,
)
from weft.agents.wire.packets import put_bth, put_word
from weft.base.jit import memcpy

Words = npt.NDArray[np.int64]

# Opcodes by place in the message.
_RESPONSE_FIRST, _RESPONSE_MIDDLE, _RESPONSE_LAST, _RESPONSE_ONLY = 0x0D, 0x0E, 0x0F, 0x10


@internal
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
        if endpoint[at.RECOVERY] == at.SELECTIVE and not fields[wire.BEGINS_MESSAGE]:
            pair[at.WRITE_LENGTH] += total
        else:
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


@internal
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
        address, key = fields[wire.REMOTE_ADDRESS], fields[wire.RKEY]
        if not queue_read(endpoint, pair, address, key, size, expected, 0):
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


@internal
def pass_behind(endpoint: Words, pair: Words, index: int, expected: int) -> None:
    """What was kept behind the expected request has its turn, too."""
    if pair[at.BOARD] == 0:
        return
    packets = pair[at.EXPECTED] - expected
    pair[at.EXPECTED] = expected
    pass_over(endpoint, pair, board_of(endpoint, pair), packets)
    take_kept(endpoint, pair, index)


@internal
def receive_request(
    endpoint: Words, pair: Words, fields: Words, row: int, index: int, number: int
) -> None:
    """A request for the responder side (specification, 9.7.4)."""
    sequence = extend(fields[wire.PSN], pair[at.EXPECTED])
    expected = pair[at.EXPECTED]
    unacknowledged = pair[at.SINCE_ACKNOWLEDGE]
    if sequence == expected:
        if receive_expected(endpoint, pair, fields, row, index, number):
            if endpoint[at.RECOVERY] == at.SELECTIVE:
                pass_behind(endpoint, pair, index, expected)
            if endpoint[at.ECHO] and fields[wire.PROPERTY_BITS] & HAS_PAYLOAD:
                echo_arrival(endpoint, pair, fields, index, expected, unacknowledged)
    elif sequence > expected and endpoint[at.RECOVERY] == at.SELECTIVE:
        receive_ahead(endpoint, pair, fields, row, index, number, sequence)
    elif sequence > expected:
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        if not pair[at.NAK_SENT]:
            pair[at.NAK_SENT] = 1
            pair[at.NAK_PENDING] = SYNDROME_PSN_SEQUENCE_ERROR
    else:
        endpoint[at.DUPLICATE_PACKETS] += 1
        if fields[wire.PROPERTY_BITS] & HAS_PAYLOAD:
            pair[at.ACKNOWLEDGE_PENDING] = 1
            move_acknowledgements(endpoint, pair)
            if endpoint[at.ECHO]:
                echo_arrival(endpoint, pair, fields, index, expected, unacknowledged)
            return
        size = fields[wire.DMA_LENGTH]
        end = sequence + packets_of(size, endpoint[at.PATH_MTU])
        known = find_memory(endpoint, fields[wire.REMOTE_ADDRESS], fields[wire.RKEY], size)
        if end <= pair[at.EXPECTED] and (size == 0 or known):
            address, key = fields[wire.REMOTE_ADDRESS], fields[wire.RKEY]
            queue_read(endpoint, pair, address, key, size, sequence, 1)


@internal
def send_acknowledgement(endpoint: Words, pair: Words, batch: Words, count: int, now: int) -> int:
    """An ACK of all that came in order, or a NAK of what did not; returns its frame bytes."""
    syndrome = pair[at.NAK_PENDING]
    psn = pair[at.EXPECTED]
    if syndrome:
        endpoint[at.NAKS_SENT] += 1
    else:
        syndrome = SYNDROME_ACK
        psn -= 1
        endpoint[at.ACKNOWLEDGEMENTS_SENT] += 1
    aeth = (syndrome << 24) | (pair[at.MESSAGES] & PSN_MASK)
    pair[at.NAK_PENDING] = 0
    pair[at.ACKNOWLEDGE_PENDING] = 0
    pair[at.SINCE_ACKNOWLEDGE] = 0
    mark = pair[at.CE_STATE]
    return put_acknowledgement(
        endpoint, pair, batch, count, psn, aeth, mark, pair[at.ECHO_PORT], now
    )


@internal
def drop_first_read(endpoint: Words, pair: Words) -> None:
    """The first waiting READ is answered: close up the others."""
    if pair[at.READS] == 1:
        drop_reads(endpoint, pair)
        return
    reads = reads_of(pair)
    pair[at.READS] -= 1
    end = at.READ_TABLE + pair[at.READS] * at.READ_WORDS
    for word in range(at.READ_TABLE, end):
        reads[word] = reads[word + at.READ_WORDS]


@internal
def send_response(
    endpoint: Words, pair: Words, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next packet of the first waiting READ; returns its frame bytes, or 0 for the budget.

    If its memory was deregistered in between, a NAK follows in its place (-1).
    """
    reads = reads_of(pair)
    read = at.READ_TABLE
    mtu = endpoint[at.PATH_MTU]
    psn = reads[read + at.READ_NEXT]
    first = psn == reads[read + at.READ_FIRST]
    last = psn + 1 == reads[read + at.READ_END]
    offset = (psn - reads[read + at.READ_FIRST]) * mtu
    size = min(mtu, reads[read + at.READ_LENGTH] - offset)
    headers = 16 if first or last else 12
    if budget < frame_size(headers, size):
        return 0
    memory = 0
    if size > 0:
        memory = find_memory(
            endpoint, reads[read + at.READ_ADDRESS] + offset, reads[read + at.READ_KEY], size
        )
        if memory == 0:
            endpoint[at.ACCESS_ERRORS] += 1
            drop_reads(endpoint, pair)
            pair[at.EXPECTED] = psn
            pair[at.NAK_PENDING] = SYNDROME_REMOTE_ACCESS_ERROR
            return -1
    if first and last:
        opcode = _RESPONSE_ONLY
    elif first:
        opcode = _RESPONSE_FIRST
    elif last:
        opcode = _RESPONSE_LAST
    else:
        opcode = _RESPONSE_MIDDLE
    row = row_address(batch, count)
    used = put_bth(row, opcode, size, 0, pair[at.PEER_NUMBER], psn)
    if first or last:
        used = put_word(row, used, (SYNDROME_ACK << 24) | (pair[at.MESSAGES] & PSN_MASK))
    if size > 0:
        memcpy(row + used, memory, size)
    if reads[read + at.READ_REPEATED]:
        endpoint[at.RETRANSMITTED_PACKETS] += 1
    reads[read + at.READ_NEXT] = psn + 1
    if last:
        drop_first_read(endpoint, pair)
    port, tos = pair[at.SOURCE_PORT], service_of_data(endpoint, pair)
    return finish_from(endpoint, pair, batch, count, used + size, now, port, tos)


@internal
def acknowledgement_waits(pair: Words) -> bool:
    """Whether an ACK or NAK may go: not before the READ responses that come before it."""
    result: bool = pair[at.READS] == 0 and (
        pair[at.ACKNOWLEDGE_PENDING] != 0 or pair[at.NAK_PENDING] != 0
    )
    return result
