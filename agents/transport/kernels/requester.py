"""The requester side of RC queue pairs: posted work that leaves, and what acknowledges it.

Rules of the InfiniBand specification 1.4, 9.7 (reliable service).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import (
    board_of,
    find_lost,
    lose_reads,
    note_arrival,
    note_transmission,
    packets_in_flight,
    restore,
    seek,
    take_board,
)
from weft.agents.transport.kernels.congestion import take_feedback
from weft.agents.transport.kernels.entropy import next_port
from weft.agents.transport.kernels.frames import (
    finish,
    finish_from,
    frame_size,
    row_address,
    service_of_data,
)
from weft.agents.transport.kernels.memory import extend, work_at
from weft.agents.transport.kernels.state import (
    acknowledge,
    advance,
    fail,
    go_back,
    slow_down,
    timeout_of,
)
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import (
    SYNDROME_PSN_SEQUENCE_ERROR,
)
from weft.agents.wire.packets import put_bth, put_reth, put_word, set_begins_message
from weft.base.jit import memcpy

Words = npt.NDArray[np.int64]

_READ_REQUEST = 0x0C
# Opcodes by place in the message.
_SEND_FIRST, _SEND_MIDDLE, _SEND_LAST, _SEND_ONLY = 0x00, 0x01, 0x02, 0x04
_WRITE_FIRST, _WRITE_MIDDLE, _WRITE_LAST, _WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A


@internal
def next_read_packets(endpoint: Words, pair: Words, work: Words) -> int:
    """How many responses the next request of a READ asks for; segments keep their boundaries."""
    segment = endpoint[at.READ_SEGMENT]
    offset = pair[at.SEND_NEXT] - work[at.WORK_FIRST]
    left = work[at.WORK_END] - pair[at.SEND_NEXT]
    result: int = min(segment - offset % segment, left)
    return result


@internal
def can_request(endpoint: Words, pair: Words) -> bool:
    """Whether there is a request to send and the window takes it."""
    if pair[at.STATE] != at.READY or pair[at.SEND_NEXT] >= pair[at.POSTED_END]:
        return False
    flight = pair[at.SEND_NEXT] - pair[at.UNACKNOWLEDGED]
    room = at.UNLIMITED
    if endpoint[at.RECOVERY] == at.SELECTIVE:
        flight = packets_in_flight(endpoint, pair)
        if pair[at.SEND_NEXT] == pair[at.SEND_HIGHEST]:
            outstanding = pair[at.SEND_HIGHEST] - pair[at.UNACKNOWLEDGED]
            room = endpoint[at.BOARD_ROOM] - outstanding
    if flight == 0 and room > 0:
        return True
    if pair[at.PROBING]:
        return False
    work = work_at(pair, pair[at.SEND_WORK])
    window = pair[at.WINDOW] >> 8
    more = 1
    if work[at.WORK_KIND] == at.READ:
        # Two segments at least, or the responder would wait for each next request.
        window = max(window, 2 * endpoint[at.READ_SEGMENT])
        more = next_read_packets(endpoint, pair, work)
    result: bool = flight + more <= window and more <= room
    return result


@internal
def request_is_read(pair: Words) -> bool:
    """Whether the next request is a READ."""
    work = work_at(pair, pair[at.SEND_WORK])
    result: bool = work[at.WORK_KIND] == at.READ
    return result


@internal
def note_sent(endpoint: Words, pair: Words, packets: int, timed: bool, now: int) -> None:
    """Move on in the sequence: timer, round-trip measurement, retransmission count."""
    first = pair[at.SEND_NEXT]
    end = first + packets
    if first < pair[at.SEND_HIGHEST]:
        endpoint[at.RETRANSMITTED_PACKETS] += 1
    elif timed and pair[at.TIMED_PSN] < 0:
        pair[at.TIMED_PSN] = first
        pair[at.TIMED_AT] = now
    if pair[at.UNACKNOWLEDGED] == pair[at.SEND_HIGHEST]:
        pair[at.LAST_PROGRESS] = now
    if pair[at.TIMER] == 0:
        pair[at.TIMER] = now + timeout_of(endpoint, pair)
    if pair[at.BOARD]:
        note_transmission(endpoint, pair, first, end, request_is_read(pair))
    pair[at.SEND_NEXT] = end
    if end > pair[at.SEND_HIGHEST]:
        pair[at.SEND_HIGHEST] = end
    work = work_at(pair, pair[at.SEND_WORK])
    if end >= work[at.WORK_END]:
        pair[at.SEND_WORK] += 1
    if pair[at.BOARD]:
        seek(endpoint, pair)


@internal
def send_request(
    endpoint: Words, pair: Words, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next packet of posted work; returns its frame bytes, or 0 if the budget does not take
    it."""
    selective = endpoint[at.RECOVERY] == at.SELECTIVE
    if selective and not take_board(endpoint, pair):
        return 0
    work = work_at(pair, pair[at.SEND_WORK])
    kind = work[at.WORK_KIND]
    mtu = endpoint[at.PATH_MTU]
    psn = pair[at.SEND_NEXT]
    index = psn - work[at.WORK_FIRST]
    offset = index * mtu
    length = work[at.WORK_LENGTH]
    row = row_address(batch, count)
    peer = pair[at.PEER_NUMBER]
    if kind == at.READ:
        if budget < frame_size(28, 0):
            return 0
        packets = next_read_packets(endpoint, pair, work)
        size = min(packets * mtu, length - offset)
        used = put_bth(row, _READ_REQUEST, 0, 1, peer, psn)
        used = put_reth(row, used, work[at.WORK_REMOTE_ADDRESS] + offset, work[at.WORK_RKEY], size)
        note_sent(endpoint, pair, packets, True, now)
        return finish(endpoint, pair, batch, count, used, now)
    first = index == 0
    last = psn + 1 == work[at.WORK_END]
    immediate = last and (kind == at.SEND_WITH_IMMEDIATE or kind == at.WRITE_WITH_IMMEDIATE)
    write = kind >= at.WRITE
    size = min(mtu, length - offset)
    addressed = write and (first or selective)
    headers = 12 + (16 if addressed else 0) + (4 if immediate else 0)
    if budget < frame_size(headers, size):
        return 0
    if (first and last) or (write and selective):
        opcode = _WRITE_ONLY if write else _SEND_ONLY
    elif first:
        opcode = _WRITE_FIRST if write else _SEND_FIRST
    elif last:
        opcode = _WRITE_LAST if write else _SEND_LAST
    else:
        opcode = _WRITE_MIDDLE if write else _SEND_MIDDLE
    if immediate:
        opcode += 1
    window = pair[at.WINDOW] >> 8
    ask = (
        last
        or pair[at.PROBING] != 0
        or psn + 1 - pair[at.ACKNOWLEDGE_ASKED] >= max(1, window // 4)
        or psn + 1 - pair[at.UNACKNOWLEDGED] >= window
        or now - pair[at.ASKED_AT] >= endpoint[at.ACKNOWLEDGE_INTERVAL]
    )
    if ask:
        pair[at.ASKED_AT] = now
        pair[at.ACKNOWLEDGE_ASKED] = psn + 1
    used = put_bth(row, opcode, size, 1 if ask else 0, peer, psn)
    if selective and first:
        set_begins_message(row)
    if addressed:
        if selective:
            length = size
        remote = work[at.WORK_REMOTE_ADDRESS] + (offset if selective else 0)
        used = put_reth(row, used, remote, work[at.WORK_RKEY], length)
    if immediate:
        used = put_word(row, used, work[at.WORK_IMMEDIATE])
    memcpy(row + used, work[at.WORK_ADDRESS] + offset, size)
    note_sent(endpoint, pair, 1, ask or endpoint[at.ECHO] == at.ECHO_EVERY, now)
    port, tos = pair[at.SOURCE_PORT], service_of_data(endpoint, pair)
    if endpoint[at.ENTROPY] == at.REPS:
        port = next_port(endpoint, pair, now)
    return finish_from(endpoint, pair, batch, count, used + size, now, port, tos)


@internal
def go_back_once(pair: Words) -> None:
    """Something is missing: send or ask again, but once for each, however often we hear of it."""
    if pair[at.REWOUND_AT] != pair[at.UNACKNOWLEDGED]:
        pair[at.REWOUND_AT] = pair[at.UNACKNOWLEDGED]
        go_back(pair)


@internal
def receive_acknowledgement(
    endpoint: Words, pair: Words, fields: Words, index: int, now: int
) -> None:
    """An ACK or a NAK for the requester side, and what it says of congestion."""
    before = pair[at.UNACKNOWLEDGED]
    if endpoint[at.RECOVERY] == at.SELECTIVE:
        receive_selective_acknowledgement(endpoint, pair, fields, index, now)
    else:
        receive_cumulative_acknowledgement(endpoint, pair, fields, index, now)
    if endpoint[at.ECHO]:
        take_feedback(endpoint, pair, fields, before, now)


@internal
def receive_selective_acknowledgement(
    endpoint: Words, pair: Words, fields: Words, index: int, now: int
) -> None:
    """An ACK, or a NAK that names a packet that came ahead of a gap.

    It may arrive before the READ responses that were sent before it; so it is kept in mind, and
    nothing is asked for again.
    """
    syndrome = fields[wire.SYNDROME]
    reached = extend(fields[wire.PSN], pair[at.UNACKNOWLEDGED])
    if syndrome >> 5 == 0:
        reached += 1
    elif syndrome >> 5 == 3:
        endpoint[at.NAKS_RECEIVED] += 1
    else:
        return
    if reached > pair[at.SEND_HIGHEST]:
        endpoint[at.OUT_OF_ORDER_PACKETS] += 1
        return
    if pair[at.BOARD] == 0 or pair[at.UNACKNOWLEDGED] == pair[at.SEND_HIGHEST]:
        return
    if syndrome >> 5 == 3 and syndrome != SYNDROME_PSN_SEQUENCE_ERROR:
        refused = pair[at.UNACKNOWLEDGED] <= reached < pair[at.SEND_HIGHEST]
        if refused and acknowledge(endpoint, pair, index, reached, now):
            fail(endpoint, pair, index, syndrome, fields[wire.PSN])
        return
    if syndrome == SYNDROME_PSN_SEQUENCE_ERROR:
        named = extend(fields[wire.MESSAGE_SEQUENCE], pair[at.UNACKNOWLEDGED])
        if named > reached and note_arrival(endpoint, pair, named) and pair[at.PROBING]:
            restore(endpoint, pair)
            pair[at.PROBING] = 0
    take_promise(endpoint, pair, index, reached, now)
    if pair[at.BOARD]:
        if board_of(endpoint, pair)[at.SACKED_COUNT] and find_lost(endpoint, pair):
            pair[at.TIMED_PSN] = -1
            slow_down(pair)
        seek(endpoint, pair)


@internal
def take_promise(endpoint: Words, pair: Words, index: int, reached: int, now: int) -> None:
    """Everything before `reached` has arrived at the peer; the data of READs may be missing."""
    board = board_of(endpoint, pair)
    board[at.PROMISED] = max(board[at.PROMISED], reached)
    if board[at.PROMISED] > pair[at.UNACKNOWLEDGED]:
        acknowledge(endpoint, pair, index, board[at.PROMISED], now)


@internal
def ask_again(endpoint: Words, pair: Words) -> None:
    """READ responses are missing."""
    if endpoint[at.RECOVERY] != at.SELECTIVE:
        go_back_once(pair)
    elif pair[at.REWOUND_AT] != pair[at.UNACKNOWLEDGED]:
        pair[at.REWOUND_AT] = pair[at.UNACKNOWLEDGED]
        lose_reads(endpoint, pair)
        slow_down(pair)
        seek(endpoint, pair)


@internal
def receive_cumulative_acknowledgement(
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


@internal
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
        ask_again(endpoint, pair)
        return
    work = work_at(pair, pair[at.FIRST_WORK])
    if pair[at.FIRST_WORK] == pair[at.NEXT_WORK] or work[at.WORK_KIND] != at.READ:
        endpoint[at.ACCESS_ERRORS] += 1
        return
    offset = (sequence - work[at.WORK_FIRST]) * endpoint[at.PATH_MTU]
    size = min(endpoint[at.PATH_MTU], work[at.WORK_LENGTH] - offset)
    if fields[wire.PAYLOAD_LENGTH] != size:
        endpoint[at.ACCESS_ERRORS] += 1
        return
    if size > 0:
        memcpy(work[at.WORK_ADDRESS] + offset, row + fields[wire.PAYLOAD_OFFSET], size)
    before = pair[at.UNACKNOWLEDGED]
    advance(endpoint, pair, index, sequence + 1, now)
    if endpoint[at.ECHO]:
        take_feedback(endpoint, pair, fields, before, now)
    if endpoint[at.RECOVERY] == at.SELECTIVE and pair[at.BOARD]:
        take_promise(endpoint, pair, index, sequence + 1, now)
