"""The responder side of RC queue pairs: requests that arrive, and what answers them.

Rules of the InfiniBand specification 1.4, 9.7 (reliable service).
"""

from weft.agents.transport import board_layout as at_board
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.echo import echo_arrival, put_acknowledgement
from weft.agents.transport.kernels.entropy import move_acknowledgements
from weft.agents.transport.kernels.frames import (
    finish_from,
    frame_size,
    place_in_message,
    row_address,
    service_of_data,
)
from weft.agents.transport.kernels.kept import pass_over, receive_ahead, take_kept
from weft.agents.transport.kernels.memory import add_fragment, extend, packets_of
from weft.agents.transport.kernels.payload import put_payload, take_payload
from weft.agents.transport.kernels.relay import announce_write
from weft.agents.transport.kernels.state import (
    drop_reads,
    find_memory,
    move_reads,
    queue_read,
    read_at,
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

_FIRST_RESPONSE = 0x0D
"""The first opcode of four, by place in the message."""


@internal
def receive_write(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, row: int, index: int
) -> bool:
    """Take the expected packet of an RDMA WRITE; return False if it was refused."""
    bits = fields.property_bits
    length = fields.payload_length
    if bits & IS_FIRST:
        total = fields.dma_length
        if total and not find_memory(endpoint, fields.remote_address, fields.rkey, total):
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        pair.write_address = fields.remote_address
        pair.write_key = fields.rkey
        pair.write_remaining = total
        goes_on = endpoint.recovery == at.SELECTIVE and not fields.begins_message
        pair.write_length = total + (pair.write_length if goes_on else 0)
    remaining = pair.write_remaining - length
    if remaining < 0 or (bits & IS_LAST and remaining != 0):
        refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
        return False
    if length:
        memory = find_memory(endpoint, pair.write_address, pair.write_key, length)
        if memory == 0:
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        begins = bits & IS_FIRST and (endpoint.recovery != at.SELECTIVE or fields.begins_message)
        place = row + fields.payload_offset
        take_payload(endpoint, memory, place, length, index, not begins, 0)
        pair.write_address += length
        pair.write_remaining = remaining
    pair.in_message = at.NO_MESSAGE if bits & IS_LAST else at.WRITE_MESSAGE
    if bits & HAS_IMMEDIATE:
        announce_write(endpoint, pair, index, fields.immediate)
    return True


@internal
def receive_expected(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    row: int,
    index: int,
    number: int,
) -> bool:
    """Take the request with the expected PSN; `number` is its row of the batch. False if it was
    refused."""
    bits = fields.property_bits
    expected = pair.expected
    message = at.NO_MESSAGE
    if bits & IS_SEND:
        message = at.SEND_MESSAGE
    elif bits & IS_WRITE:
        message = at.WRITE_MESSAGE
    length = fields.payload_length
    mtu = endpoint.path_mtu
    wrong_place = pair.in_message != (at.NO_MESSAGE if bits & IS_FIRST else message)
    if wrong_place or length > mtu or (not bits & IS_LAST and length != mtu):
        refuse(endpoint, pair, SYNDROME_INVALID_REQUEST)
        return False
    if message == at.NO_MESSAGE:
        size = fields.dma_length
        address, key = fields.remote_address, fields.rkey
        if size and not find_memory(endpoint, address, key, size):
            refuse(endpoint, pair, SYNDROME_REMOTE_ACCESS_ERROR)
            return False
        if not queue_read(endpoint, pair, address, key, size, expected, 0):
            return False
        pair.expected = expected + packets_of(size, mtu)
        pair.acknowledge_pending = pair.since_acknowledge = 0
    else:
        if message == at.WRITE_MESSAGE:
            if not receive_write(endpoint, pair, fields, row, index):
                return False
        else:
            pair.in_message = at.NO_MESSAGE if bits & IS_LAST else at.SEND_MESSAGE
            add_fragment(endpoint, at.EVENT_FRAGMENT, fields, index, number)
        pair.expected = expected + 1
        pair.since_acknowledge += 1
        if fields.acknowledge_request or pair.since_acknowledge >= endpoint.acknowledge_every:
            pair.acknowledge_pending = 1
    if bits & IS_LAST:
        pair.messages += 1
    pair.nak_sent = 0
    if pair.nak_pending == SYNDROME_PSN_SEQUENCE_ERROR:
        pair.nak_pending = 0
        pair.acknowledge_pending = 1
    return True


@internal
def pass_behind(endpoint: at.EndpointState, pair: at.PairState, index: int, expected: int) -> None:
    """Give what was kept behind the expected request its turn, too."""
    if pair.board == 0:
        return
    packets = pair.expected - expected
    pair.expected = expected
    pass_over(endpoint, pair, at_board.Board(pair.board), packets)
    take_kept(endpoint, pair, index)


@internal
def receive_request(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    row: int,
    index: int,
    number: int,
) -> None:
    """Take a request for the responder side (specification, 9.7.4)."""
    sequence = extend(fields.psn, pair.expected)
    expected = pair.expected
    unacknowledged = pair.since_acknowledge
    if sequence == expected:
        if receive_expected(endpoint, pair, fields, row, index, number):
            if endpoint.recovery == at.SELECTIVE:
                pass_behind(endpoint, pair, index, expected)
            if endpoint.echo and fields.property_bits & HAS_PAYLOAD:
                echo_arrival(endpoint, pair, fields, index, expected, unacknowledged)
    elif sequence > expected and endpoint.recovery == at.SELECTIVE:
        receive_ahead(endpoint, pair, fields, row, index, number, sequence)
    elif sequence > expected:
        endpoint.statistics.out_of_order_packets += 1
        if not pair.nak_sent:
            pair.nak_sent = 1
            pair.nak_pending = SYNDROME_PSN_SEQUENCE_ERROR
    else:
        endpoint.statistics.duplicate_packets += 1
        if fields.property_bits & HAS_PAYLOAD:
            pair.acknowledge_pending = 1
            move_acknowledgements(endpoint, pair)
            if endpoint.echo:
                echo_arrival(endpoint, pair, fields, index, expected, unacknowledged)
            return
        size = fields.dma_length
        address, key = fields.remote_address, fields.rkey
        end = sequence + packets_of(size, endpoint.path_mtu)
        if end <= pair.expected and (size == 0 or find_memory(endpoint, address, key, size)):
            queue_read(endpoint, pair, address, key, size, sequence, 1)


@internal
def send_acknowledgement(
    endpoint: at.EndpointState, pair: at.PairState, batch: at.Batch, count: int, now: int
) -> int:
    """Send an ACK of all that came in order, or a NAK of what did not; return its frame bytes."""
    syndrome = pair.nak_pending
    psn = pair.expected
    if syndrome:
        endpoint.statistics.naks_sent += 1
    else:
        syndrome = SYNDROME_ACK
        psn -= 1
        endpoint.statistics.acknowledgements_sent += 1
    aeth = (syndrome << 24) | (pair.messages & PSN_MASK)
    pair.nak_pending = pair.acknowledge_pending = pair.since_acknowledge = 0
    mark = pair.ce_state
    return put_acknowledgement(endpoint, pair, batch, count, psn, aeth, mark, pair.echo_port, now)


@internal
def drop_first_read(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Close up the waiting READs behind the first, which is answered."""
    if pair.reads == 1:
        drop_reads(endpoint, pair)
    else:
        move_reads(pair, 1, 0)
        pair.reads -= 1


@internal
def send_response(
    endpoint: at.EndpointState,
    pair: at.PairState,
    batch: at.Batch,
    count: int,
    budget: int,
    now: int,
) -> int:
    """Send the next packet of the first waiting READ; return its frame bytes, or 0 for the budget.

    If its memory was deregistered in between, a NAK follows in its place (-1).
    """
    read = read_at(pair, 0)
    mtu = endpoint.path_mtu
    psn = read.next
    first = psn == read.first
    last = psn + 1 == read.end
    offset = (psn - read.first) * mtu
    size = min(mtu, read.length - offset)
    headers = 16 if first or last else 12
    if budget < frame_size(headers, size):
        return 0
    memory = 0
    if size > 0:
        memory = find_memory(endpoint, read.address + offset, read.key, size)
        if memory == 0:
            endpoint.statistics.access_errors += 1
            drop_reads(endpoint, pair)
            pair.expected = psn
            pair.nak_pending = SYNDROME_REMOTE_ACCESS_ERROR
            return -1
    opcode = _FIRST_RESPONSE + place_in_message(first, last)
    row = row_address(batch, count)
    used = put_bth(row, opcode, size, 0, pair.peer_number, psn)
    if first or last:
        used = put_word(row, used, (SYNDROME_ACK << 24) | (pair.messages & PSN_MASK))
    if size > 0:
        put_payload(endpoint, row + used, memory, size)
    if read.repeated:
        endpoint.statistics.retransmitted_packets += 1
    read.next = psn + 1
    if last:
        drop_first_read(endpoint, pair)
    port, tos = pair.source_port, service_of_data(endpoint, pair)
    return finish_from(endpoint, pair, batch, count, used + size, now, port, tos)


@internal
def acknowledgement_waits(pair: at.PairState) -> bool:
    """Return whether an ACK or NAK may go: not before the READ responses that come before it."""
    return pair.reads == 0 and (pair.acknowledge_pending != 0 or pair.nak_pending != 0)
