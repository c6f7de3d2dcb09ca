"""What an endpoint sends: timers, control, then data round robin, into the rows of a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.datagrams import FRAME_OVERHEAD_BYTES
from agents.transport import layout as at
from agents.transport.compiled_state import (
    add_event,
    fail,
    find_memory,
    go_back,
    timeout_of,
    work_row,
)
from agents.wire.compiled import (
    compiled,
    memcpy,
    store8,
    store16,
    store32,
    table_at,
)
from agents.wire.headers import (
    ICRC_BYTES,
    MULTICAST_QPN,
    PSN_MASK,
    SYNDROME_ACK,
    SYNDROME_REMOTE_ACCESS_ERROR,
)
from agents.wire.packets import put_bth, put_icrc, put_reth, put_word

Words = npt.NDArray[np.int64]

NEVER = 1 << 62
_BILLION = 1_000_000_000

# Opcodes by place in the message: first, middle, last, only.
_SEND_FIRST, _SEND_MIDDLE, _SEND_LAST, _SEND_ONLY = 0x00, 0x01, 0x02, 0x04
_WRITE_FIRST, _WRITE_MIDDLE, _WRITE_LAST, _WRITE_ONLY = 0x06, 0x07, 0x08, 0x0A
_READ_REQUEST, _ACKNOWLEDGE, _UD_SEND_ONLY_WITH_IMMEDIATE = 0x0C, 0x11, 0x65
_RESPONSE_FIRST, _RESPONSE_MIDDLE, _RESPONSE_LAST, _RESPONSE_ONLY = 0x0D, 0x0E, 0x0F, 0x10


@compiled
def pacing_ns(frame_bytes: int, rate_bps: int) -> int:
    """How long a frame occupies a link, rounded up."""
    return (frame_bytes * 8 * _BILLION + rate_bps - 1) // rate_bps


@compiled
def frame_size(headers: int, payload: int) -> int:
    """The frame bytes of a packet with these bytes of headers (BTH included) and payload."""
    return headers + ((payload + 3) & -4) + ICRC_BYTES + FRAME_OVERHEAD_BYTES


@compiled
def row_address(batch: Words, index: int) -> int:
    """Where row `index` of a batch's data is; `batch` is `Datagrams.addresses`."""
    result: int = batch[at.BATCH_DATA] + index * batch[at.BATCH_STRIDE]
    return result


@compiled
def finish(endpoint: Words, pair: Words, batch: Words, count: int, used: int, now: int) -> int:
    """Seal the packet in row `count`, address it, charge it to the link; returns its frame
    bytes."""
    row = row_address(batch, count)
    source = endpoint[at.ADDRESS]
    destination = pair[at.PEER_ADDRESS]
    source_port = pair[at.SOURCE_PORT]
    size = put_icrc(row, used, source, destination, source_port)
    store32(batch[at.BATCH_LENGTH] + 4 * count, np.uint32(size))
    store32(batch[at.BATCH_SOURCE] + 4 * count, np.uint32(source))
    store32(batch[at.BATCH_DESTINATION] + 4 * count, np.uint32(destination))
    store16(batch[at.BATCH_SOURCE_PORT] + 2 * count, np.uint16(source_port))
    store8(batch[at.BATCH_TOS] + count, np.uint8(pair[at.TOS]))
    frame = size + FRAME_OVERHEAD_BYTES
    endpoint[at.TRANSMITTED_PACKETS] += 1
    endpoint[at.TRANSMITTED_BYTES] += frame
    if endpoint[at.RATE_BPS]:
        begin = max(endpoint[at.LINK_FREE], now - endpoint[at.PACING_CREDIT])
        endpoint[at.LINK_FREE] = begin + pacing_ns(frame, endpoint[at.RATE_BPS])
    return frame


@compiled
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
    row = row_address(batch, count)
    used = put_bth(row, _ACKNOWLEDGE, 0, 0, pair[at.PEER_NUMBER], psn)
    used = put_word(row, used, (syndrome << 24) | (pair[at.MESSAGES] & PSN_MASK))
    pair[at.NAK_PENDING] = 0
    pair[at.ACKNOWLEDGE_PENDING] = 0
    pair[at.SINCE_ACKNOWLEDGE] = 0
    return finish(endpoint, pair, batch, count, used, now)


@compiled
def next_read_packets(endpoint: Words, pair: Words, work: int) -> int:
    """How many responses the next request of a READ asks for; segments keep their boundaries."""
    segment = endpoint[at.READ_SEGMENT]
    offset = pair[at.SEND_NEXT] - pair[work + at.WORK_FIRST]
    left = pair[work + at.WORK_END] - pair[at.SEND_NEXT]
    result: int = min(segment - offset % segment, left)
    return result


@compiled
def can_request(endpoint: Words, pair: Words) -> bool:
    """Whether there is a request to send and the window takes it."""
    if pair[at.STATE] != at.READY or pair[at.SEND_NEXT] >= pair[at.POSTED_END]:
        return False
    flight = pair[at.SEND_NEXT] - pair[at.UNACKNOWLEDGED]
    if flight == 0:
        return True
    if pair[at.PROBING]:
        return False
    work = work_row(pair, pair[at.SEND_WORK])
    window = pair[at.WINDOW] >> 8
    more = 1
    if pair[work + at.WORK_KIND] == at.READ:
        # Two segments at least, or the responder would wait for each next request.
        window = max(window, 2 * endpoint[at.READ_SEGMENT])
        more = next_read_packets(endpoint, pair, work)
    result: bool = flight + more <= window
    return result


@compiled
def request_is_read(pair: Words) -> bool:
    """Whether the next request is a READ."""
    work = work_row(pair, pair[at.SEND_WORK])
    result: bool = pair[work + at.WORK_KIND] == at.READ
    return result


@compiled
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
    pair[at.SEND_NEXT] = end
    if end > pair[at.SEND_HIGHEST]:
        pair[at.SEND_HIGHEST] = end
    work = work_row(pair, pair[at.SEND_WORK])
    if end >= pair[work + at.WORK_END]:
        pair[at.SEND_WORK] += 1


@compiled
def send_request(
    endpoint: Words, pair: Words, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next packet of posted work; returns its frame bytes, or 0 if the budget does not take
    it."""
    work = work_row(pair, pair[at.SEND_WORK])
    kind = pair[work + at.WORK_KIND]
    mtu = endpoint[at.PATH_MTU]
    psn = pair[at.SEND_NEXT]
    index = psn - pair[work + at.WORK_FIRST]
    offset = index * mtu
    length = pair[work + at.WORK_LENGTH]
    row = row_address(batch, count)
    peer = pair[at.PEER_NUMBER]
    if kind == at.READ:
        if budget < frame_size(28, 0):
            return 0
        packets = next_read_packets(endpoint, pair, work)
        size = min(packets * mtu, length - offset)
        used = put_bth(row, _READ_REQUEST, 0, 1, peer, psn)
        used = put_reth(
            row, used, pair[work + at.WORK_REMOTE_ADDRESS] + offset, pair[work + at.WORK_RKEY], size
        )
        note_sent(endpoint, pair, packets, True, now)
        return finish(endpoint, pair, batch, count, used, now)
    first = index == 0
    last = psn + 1 == pair[work + at.WORK_END]
    immediate = last and (kind == at.SEND_WITH_IMMEDIATE or kind == at.WRITE_WITH_IMMEDIATE)
    write = kind >= at.WRITE
    size = min(mtu, length - offset)
    headers = 12 + (16 if write and first else 0) + (4 if immediate else 0)
    if budget < frame_size(headers, size):
        return 0
    if first and last:
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
    if write and first:
        used = put_reth(
            row, used, pair[work + at.WORK_REMOTE_ADDRESS], pair[work + at.WORK_RKEY], length
        )
    if immediate:
        used = put_word(row, used, pair[work + at.WORK_IMMEDIATE])
    memcpy(row + used, pair[work + at.WORK_ADDRESS] + offset, size)
    note_sent(endpoint, pair, 1, ask, now)
    return finish(endpoint, pair, batch, count, used + size, now)


@compiled
def drop_first_read(pair: Words) -> None:
    """The first waiting READ is answered: close up the others."""
    pair[at.READS] -= 1
    end = at.READ_TABLE + pair[at.READS] * at.READ_WORDS
    for word in range(at.READ_TABLE, end):
        pair[word] = pair[word + at.READ_WORDS]


@compiled
def send_response(
    endpoint: Words, pair: Words, batch: Words, count: int, budget: int, now: int
) -> int:
    """The next packet of the first waiting READ; returns its frame bytes, or 0 for the budget.

    If its memory was deregistered in between, a NAK follows in its place (-1).
    """
    read = at.READ_TABLE
    mtu = endpoint[at.PATH_MTU]
    psn = pair[read + at.READ_NEXT]
    first = psn == pair[read + at.READ_FIRST]
    last = psn + 1 == pair[read + at.READ_END]
    offset = (psn - pair[read + at.READ_FIRST]) * mtu
    size = min(mtu, pair[read + at.READ_LENGTH] - offset)
    headers = 16 if first or last else 12
    if budget < frame_size(headers, size):
        return 0
    memory = 0
    if size > 0:
        memory = find_memory(
            endpoint, pair[read + at.READ_ADDRESS] + offset, pair[read + at.READ_KEY], size
        )
        if memory == 0:
            endpoint[at.ACCESS_ERRORS] += 1
            pair[at.READS] = 0
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
    if pair[read + at.READ_REPEATED]:
        endpoint[at.RETRANSMITTED_PACKETS] += 1
    pair[read + at.READ_NEXT] = psn + 1
    if last:
        drop_first_read(pair)
    return finish(endpoint, pair, batch, count, used + size, now)


@compiled
def chunk_time(endpoint: Words, pair: Words) -> int:
    """When the next chunk may leave by its queue pair's own rate; NEVER if there is none."""
    if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
        return NEVER
    due: int = pair[at.CHUNK_DUE]
    return due


@compiled
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
        used = put_bth(
            row, _UD_SEND_ONLY_WITH_IMMEDIATE, size, 0, MULTICAST_QPN, pair[at.CHUNK_PSN]
        )
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


@compiled
def serve_timers(endpoint: Words, pairs: Words, now: int) -> None:
    """Retransmit what timed out, give up what has timed out too often, start the pace of new
    runs."""
    for index in range(endpoint[at.QUEUE_PAIRS]):
        pair = pairs[index]
        if pair[at.KIND] == at.UD:
            if pair[at.CHUNKS_IDLE] and pair[at.FIRST_WORK] < pair[at.NEXT_WORK]:
                pair[at.CHUNKS_IDLE] = 0
                pair[at.CHUNK_DUE] = max(pair[at.CHUNK_DUE], now)
            continue
        if pair[at.TIMER] == 0 or pair[at.TIMER] > now:
            continue
        if (
            pair[at.RETRIES] >= endpoint[at.RETRY_LIMIT]
            and now - pair[at.LAST_PROGRESS] >= endpoint[at.GIVE_UP]
        ):
            fail(endpoint, pair, index, at.REASON_TIMEOUT, pair[at.UNACKNOWLEDGED] & PSN_MASK)
            continue
        endpoint[at.TIMEOUTS] += 1
        pair[at.RETRIES] += 1
        pair[at.PROBING] = 1
        go_back(pair)
        pair[at.TIMER] = now + timeout_of(endpoint, pair)


@compiled
def acknowledgement_waits(pair: Words) -> bool:
    """Whether an ACK or NAK may go: not before the READ responses that come before it."""
    result: bool = pair[at.READS] == 0 and (
        pair[at.ACKNOWLEDGE_PENDING] != 0 or pair[at.NAK_PENDING] != 0
    )
    return result


@compiled
def find_deadline(endpoint: Words, pairs: Words) -> int:
    """When transmit must be called next; 0 for at once, NEVER for not at all."""
    control = NEVER
    data = NEVER
    for index in range(endpoint[at.QUEUE_PAIRS]):
        pair = pairs[index]
        if pair[at.KIND] == at.UD:
            if pair[at.FIRST_WORK] < pair[at.NEXT_WORK]:
                due = 0 if pair[at.CHUNKS_IDLE] else chunk_time(endpoint, pair)
                data = min(data, due)
            continue
        if pair[at.STATE] != at.READY:
            continue
        if acknowledgement_waits(pair):
            control = 0
        if pair[at.READS]:
            data = 0
        if can_request(endpoint, pair):
            if request_is_read(pair):
                control = 0
            else:
                data = 0
        if pair[at.TIMER]:
            control = min(control, pair[at.TIMER])
    endpoint[at.DATA_TIME] = data
    if data < NEVER and endpoint[at.RATE_BPS]:
        data = max(data, endpoint[at.LINK_FREE])
    deadline = min(control, data)
    endpoint[at.DEADLINE] = deadline
    return deadline


@compiled
def deadline_of(endpoint: Words) -> int:
    """`find_deadline` for an endpoint whose state changed since its last transmit."""
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], endpoint[at.QUEUE_PAIRS], at.QUEUE_PAIR_WORDS)
    return find_deadline(endpoint, pairs)


@compiled
def transmit_batch(endpoint: Words, batch: Words, now: int, budget: int) -> int:
    """Fill a batch; returns how many rows. `batch` is `Datagrams.addresses`."""
    total = endpoint[at.QUEUE_PAIRS]
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], total, at.QUEUE_PAIR_WORDS)
    room = batch[at.BATCH_CAPACITY]
    count = 0
    serve_timers(endpoint, pairs, now)
    if endpoint[at.WAS_IDLE]:
        endpoint[at.LINK_FREE] = max(endpoint[at.LINK_FREE], now)
    full = False
    for index in range(total):
        pair = pairs[index]
        if pair[at.KIND] != at.RC or pair[at.STATE] != at.READY:
            continue
        if acknowledgement_waits(pair):
            if count == room or budget < frame_size(16, 0):
                full = True
                break
            budget -= send_acknowledgement(endpoint, pair, batch, count, now)
            count += 1
        while can_request(endpoint, pair) and request_is_read(pair):
            frame = 0
            if count < room:
                frame = send_request(endpoint, pair, batch, count, budget, now)
            if frame == 0:
                full = True
                break
            budget -= frame
            count += 1
        if full:
            break
    turn = endpoint[at.ROTATION]
    idle_turns = 0
    paced = endpoint[at.RATE_BPS] != 0
    while not full and count < room and idle_turns < 2 * total:
        if paced and endpoint[at.LINK_FREE] > now:
            break
        turn = turn + 1 if turn + 1 < 2 * total else 0
        idle_turns += 1
        index = turn >> 1
        pair = pairs[index]
        if pair[at.STATE] != at.READY:
            continue
        frame = 0
        if pair[at.KIND] == at.UD:
            if turn & 1 or chunk_time(endpoint, pair) > now:
                continue
            frame = send_chunk(endpoint, pair, index, batch, count, budget, now)
        elif turn & 1:
            if pair[at.READS] == 0:
                continue
            frame = send_response(endpoint, pair, batch, count, budget, now)
        else:
            if not can_request(endpoint, pair):
                continue
            frame = send_request(endpoint, pair, batch, count, budget, now)
        if frame == 0:
            turn = turn - 1 if turn > 0 else 2 * total - 1
            break
        idle_turns = 0
        if frame > 0:
            budget -= frame
            count += 1
    endpoint[at.ROTATION] = turn
    find_deadline(endpoint, pairs)
    endpoint[at.WAS_IDLE] = 1 if endpoint[at.DATA_TIME] > now else 0
    return count
