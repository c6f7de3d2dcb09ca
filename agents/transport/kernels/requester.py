"""The requester side of RC queue pairs: posted work that leaves, and what acknowledges it.

Rules of the InfiniBand specification 1.4, 9.7 (reliable service).
"""

from weft.agents.transport import board_layout as at_board
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import (
    find_lost,
    lose_reads,
    note_arrival,
    note_transmission,
    packets_in_flight,
    restore,
    seek,
    take_board,
)
from weft.agents.transport.kernels.entropy import next_port, take_feedback
from weft.agents.transport.kernels.frames import (
    finish,
    finish_from,
    frame_size,
    place_in_message,
    row_address,
    service_of_data,
)
from weft.agents.transport.kernels.memory import extend, extend_psn, work_at
from weft.agents.transport.kernels.payload import put_payload, take_payload
from weft.agents.transport.kernels.state import (
    acknowledge,
    advance,
    fail,
    go_back,
    timeout_of,
)
from weft.agents.transport.kernels.window import slow_down
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    PSN_MASK,
    SYNDROME_PSN_SEQUENCE_ERROR,
)
from weft.agents.wire.packets import put_bth, put_reth, put_word, set_begins_message
from weft.base.jit import memcpy

_READ_REQUEST = 0x0C
# Opcodes by place in the message.
_SENDS = (0x00, 0x01, 0x02, 0x04)
_WRITES = (0x06, 0x07, 0x08, 0x0A)


@internal
def next_read_packets(endpoint: at.EndpointState, pair: at.PairState, work: at.WorkRequest) -> int:
    """Return how many responses the next request of a READ asks for; segments keep their
    boundaries."""
    offset = pair.send_next - work.first
    left_of_segment = endpoint.read_segment - offset % endpoint.read_segment
    return min(left_of_segment, work.end - pair.send_next)


@internal
def can_request(endpoint: at.EndpointState, pair: at.PairState) -> bool:
    """Return whether there is a request to send and the window takes it."""
    if pair.state != at.READY or pair.send_next >= pair.posted_end:
        return False
    flight = pair.send_next - pair.unacknowledged
    room = at.UNLIMITED
    if endpoint.recovery == at.SELECTIVE:
        flight = packets_in_flight(endpoint, pair)
        if pair.send_next == pair.send_highest:
            room = endpoint.board_room - (pair.send_highest - pair.unacknowledged)
    if flight == 0 and room > 0:
        return True
    if pair.probing:
        return False
    work = work_at(pair, pair.send_work)
    window = pair.window >> 8
    more = 1
    if work.kind == at.READ:
        # Two segments at least, or the responder would wait for each next request.
        window = max(window, 2 * endpoint.read_segment)
        more = next_read_packets(endpoint, pair, work)
    return flight + more <= window and more <= room


@internal
def request_is_read(pair: at.PairState) -> bool:
    """Return whether the next request is a READ."""
    return work_at(pair, pair.send_work).kind == at.READ


@internal
def note_sent(
    endpoint: at.EndpointState, pair: at.PairState, packets: int, timed: bool, now: int
) -> None:
    """Move on in the sequence: timer, round-trip measurement, retransmission count."""
    first = pair.send_next
    end = first + packets
    if first < pair.send_highest:
        endpoint.statistics.retransmitted_packets += 1
        pair.retransmitted_packets += 1
    elif timed and pair.timed_psn < 0:
        pair.timed_psn = first
        pair.timed_at = now
    if pair.unacknowledged == pair.send_highest:
        pair.last_progress = now
    if pair.timer == 0:
        pair.timer = now + timeout_of(endpoint, pair)
    if pair.board:
        note_transmission(endpoint, pair, first, end, request_is_read(pair))
    pair.send_next = end
    pair.send_highest = max(pair.send_highest, end)
    if end >= work_at(pair, pair.send_work).end:
        pair.send_work += 1
    if pair.board:
        seek(endpoint, pair)


@internal
def send_request(
    endpoint: at.EndpointState,
    pair: at.PairState,
    batch: at.Batch,
    count: int,
    budget: int,
    now: int,
) -> int:
    """Send the next packet of posted work; return its frame bytes, or 0 if the budget does not take
    it."""
    selective = endpoint.recovery == at.SELECTIVE
    if selective and not take_board(endpoint, pair):
        return 0
    work = work_at(pair, pair.send_work)
    kind = work.kind
    mtu = endpoint.path_mtu
    psn = pair.send_next
    offset = (psn - work.first) * mtu
    length = work.length
    row = row_address(batch, count)
    peer = pair.peer_number
    if kind == at.READ:
        if budget < frame_size(28, 0):
            return 0
        packets = next_read_packets(endpoint, pair, work)
        size = min(packets * mtu, length - offset)
        used = put_bth(row, _READ_REQUEST, 0, 1, peer, psn)
        used = put_reth(row, used, work.remote_address_or_qkey + offset, work.rkey_or_batch, size)
        note_sent(endpoint, pair, packets, True, now)
        return finish(endpoint, pair, batch, count, used, now)
    first = psn == work.first
    last = psn + 1 == work.end
    immediate = last and (kind == at.SEND_WITH_IMMEDIATE or kind == at.WRITE_WITH_IMMEDIATE)
    write = kind >= at.WRITE
    size = min(mtu, length - offset)
    addressed = write and (first or selective)
    headers = 12 + (16 if addressed else 0) + (4 if immediate else 0)
    if budget < frame_size(headers, size):
        return 0
    alone = write and selective
    place = place_in_message(first or alone, last or alone)
    opcode = (_WRITES if write else _SENDS)[place] + immediate
    window = pair.window >> 8
    ask = (
        last
        or pair.probing != 0
        or psn + 1 - pair.acknowledge_asked >= max(1, window // 4)
        or psn + 1 - pair.unacknowledged >= window
        or now - pair.asked_at >= endpoint.acknowledge_interval
    )
    if ask:
        pair.asked_at = now
        pair.acknowledge_asked = psn + 1
    used = put_bth(row, opcode, size, 1 if ask else 0, peer, psn)
    if selective and first:
        set_begins_message(row)
    if addressed:
        remote = work.remote_address_or_qkey + (offset if selective else 0)
        named = size if selective else length
        used = put_reth(row, used, remote, work.rkey_or_batch, named)
    if immediate:
        used = put_word(row, used, work.immediate)
    if write:
        put_payload(endpoint, row + used, work.address + offset, size)
    else:
        memcpy(row + used, work.address + offset, size)
    note_sent(endpoint, pair, 1, ask or endpoint.echo == at.ECHO_EVERY, now)
    tos = service_of_data(endpoint, pair)
    port = next_port(endpoint, pair, now) if endpoint.entropy == at.REPS else pair.source_port
    return finish_from(endpoint, pair, batch, count, used + size, now, port, tos)


@internal
def go_back_once(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Send or ask again for what is missing, but once for each, however often we hear of it."""
    if pair.rewound_at != pair.unacknowledged:
        pair.rewound_at = pair.unacknowledged
        go_back(endpoint, pair)


@internal
def receive_acknowledgement(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, index: int, now: int
) -> None:
    """Take an ACK or a NAK for the requester side, and what it says of congestion."""
    before = pair.unacknowledged
    if endpoint.recovery == at.SELECTIVE:
        receive_selective_acknowledgement(endpoint, pair, fields, index, now)
    else:
        receive_cumulative_acknowledgement(endpoint, pair, fields, index, now)
    if endpoint.echo:
        take_feedback(endpoint, pair, fields, before, now)


@internal
def receive_selective_acknowledgement(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, index: int, now: int
) -> None:
    """Take an ACK, or a NAK that names a packet that came ahead of a gap.

    It may arrive before the READ responses that were sent before it; so it is kept in mind, and
    nothing is asked for again.
    """
    syndrome = fields.syndrome
    reached = extend(fields.psn, pair.unacknowledged)
    if syndrome >> 5 == 0:
        reached += 1
    elif syndrome >> 5 == 3:
        endpoint.statistics.naks_received += 1
    else:
        return
    if reached > pair.send_highest:
        endpoint.statistics.out_of_order_packets += 1
        return
    if pair.board == 0 or pair.unacknowledged == pair.send_highest:
        return
    if syndrome >> 5 == 3 and syndrome != SYNDROME_PSN_SEQUENCE_ERROR:
        refused = pair.unacknowledged <= reached < pair.send_highest
        if refused and acknowledge(endpoint, pair, index, reached, now):
            fail(endpoint, pair, index, syndrome, fields.psn & PSN_MASK)
        return
    if syndrome == SYNDROME_PSN_SEQUENCE_ERROR:
        named = extend_psn(fields.message_sequence, reached)
        if named > reached and note_arrival(endpoint, pair, named) and pair.probing:
            restore(endpoint, pair)
            pair.probing = 0
    take_promise(endpoint, pair, index, reached, now)
    if pair.board:
        if at_board.Board(pair.board).sacked_count and find_lost(endpoint, pair):
            pair.timed_psn = -1
            slow_down(endpoint, pair)
        seek(endpoint, pair)


@internal
def take_promise(
    endpoint: at.EndpointState, pair: at.PairState, index: int, reached: int, now: int
) -> None:
    """Take note that everything before `reached` has arrived at the peer; the data of READs may be
    missing."""
    board = at_board.Board(pair.board)
    board.promised = max(board.promised, reached)
    if board.promised > pair.unacknowledged:
        acknowledge(endpoint, pair, index, board.promised, now)


@internal
def ask_again(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Ask again for READ responses that are missing."""
    if endpoint.recovery != at.SELECTIVE:
        go_back_once(endpoint, pair)
    elif pair.rewound_at != pair.unacknowledged:
        pair.rewound_at = pair.unacknowledged
        lose_reads(endpoint, pair)
        slow_down(endpoint, pair)
        seek(endpoint, pair)


@internal
def receive_cumulative_acknowledgement(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, index: int, now: int
) -> None:
    """Take an ACK or a NAK for the requester side (specification, 9.7.5)."""
    sequence = extend(fields.psn, pair.unacknowledged)
    if sequence >= pair.send_highest:
        endpoint.statistics.out_of_order_packets += 1
        return
    syndrome = fields.syndrome
    if syndrome >> 5 == 0:
        if sequence < pair.unacknowledged:
            return
        if not acknowledge(endpoint, pair, index, sequence + 1, now):
            go_back_once(endpoint, pair)
        return
    endpoint.statistics.naks_received += 1
    if sequence < pair.unacknowledged or syndrome >> 5 != 3:
        return
    if not acknowledge(endpoint, pair, index, sequence, now):
        go_back_once(endpoint, pair)
    elif syndrome == SYNDROME_PSN_SEQUENCE_ERROR:
        pair.probing = 0
        go_back_once(endpoint, pair)
    else:
        fail(endpoint, pair, index, syndrome, fields.psn & PSN_MASK)


@internal
def receive_response(
    endpoint: at.EndpointState,
    pair: at.PairState,
    fields: wire.Fields,
    row: int,
    index: int,
    now: int,
) -> None:
    """Take a READ response for the requester side; it acknowledges what was sent before it, too."""
    sequence = extend(fields.psn, pair.unacknowledged)
    if sequence >= pair.send_highest:
        endpoint.statistics.out_of_order_packets += 1
        return
    if sequence < pair.unacknowledged:
        endpoint.statistics.duplicate_packets += 1
        return
    if sequence > pair.unacknowledged and (
        not acknowledge(endpoint, pair, index, sequence, now) or pair.state != at.READY
    ):
        endpoint.statistics.out_of_order_packets += 1
        ask_again(endpoint, pair)
        return
    work = work_at(pair, pair.first_work)
    if pair.first_work == pair.next_work or work.kind != at.READ:
        endpoint.statistics.access_errors += 1
        return
    offset = (sequence - work.first) * endpoint.path_mtu
    size = min(endpoint.path_mtu, work.length - offset)
    if fields.payload_length != size:
        endpoint.statistics.access_errors += 1
        return
    if size > 0:
        place = row + fields.payload_offset
        take_payload(endpoint, work.address + offset, place, size, index, offset > 0, 1)
    before = pair.unacknowledged
    advance(endpoint, pair, index, sequence + 1, now)
    if endpoint.echo:
        take_feedback(endpoint, pair, fields, before, now)
    if endpoint.recovery == at.SELECTIVE and pair.board:
        take_promise(endpoint, pair, index, sequence + 1, now)
