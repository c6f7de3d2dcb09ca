"""What a worker sends in an aggregation job of switches: rounds, at their time, and again.

Slots as SwitchML has them (Sapio et al., NSDI 2021, section 3.5): a slot sends round r once it has
the result of round r - N, and again when no result comes in time. A block's exponent is agreed N
rounds before the block. `pair` is the row of the endpoint's table, `words` those of its job, laid
out as `aggregation_layout` says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation_state import (
    enqueue,
    finish_operations,
    give_up,
    job_of,
    offer,
    operation_of,
    own_values,
    owner_of,
    slots_of,
    span_of,
)
from weft.agents.transport.kernels.frames import finish, frame_size, row_address
from weft.agents.transport.kernels.memory import work_at
from weft.agents.transport.kernels.quantize import block_exponent, item_bytes, store_swapped
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import MULTICAST_QPN
from weft.agents.wire.packets import put_bth, put_word
from weft.base.jit import words_at

Words = npt.NDArray[np.int64]

_OPCODE = 0x65
_ROUND_MASK = 0xFFFFFFFF


@internal
def own_exponent(words: Words, operation: Words, block: int) -> int:
    """The exponent of this rank's part of a block."""
    first, count = span_of(words, operation, block)
    kind = operation[job.DATA_KIND]
    return block_exponent(kind, operation[job.INPUT] + first * item_bytes(kind), count)


@internal
def needs_opening(pair: Words) -> bool:
    """Whether operations have been posted that slots know nothing of."""
    result: bool = pair[at.NEXT_WORK] != job_of(pair)[job.OPENED_WORK]
    return result


@internal
def open_rounds(endpoint: Words, pair: Words, index: int) -> None:
    """Give the rounds of new operations to the slots that wait for them."""
    words = job_of(pair)
    slots = slots_of(words)
    mask = words[job.SLOTS] - 1
    first = words[job.OPENED]
    for round_number in range(first, min(pair[at.POSTED_END], first + words[job.SLOTS])):
        slot = slots[round_number & mask]
        if slot[job.SLOT_STATE] == job.IDLE and slot[job.SLOT_ROUND] == round_number:
            offer(pair, words, slot, round_number & mask)
    words[job.OPENED] = pair[at.POSTED_END]
    words[job.OPENED_WORK] = pair[at.NEXT_WORK]
    finish_operations(endpoint, pair, index)


@internal
def response_timeout(endpoint: Words, pair: Words, retries: int) -> int:
    """How long to wait for a result, back-off included (RFC 6298, without its coarse clock).

    All that the slots hold may be on its way through one link, though the rounds that were measured
    were short ones: no timeout is less than twice that. `RETRIES` of the row says how often all
    rounds for a while had to be repeated: then results take longer than they did, which no result
    of a round that was sent once can tell.
    """
    timeout = endpoint[at.INITIAL_TIMEOUT]
    if pair[at.SMOOTHED_RTT]:
        timeout = pair[at.SMOOTHED_RTT] + 4 * pair[at.RTT_VARIATION]
    timeout = max(timeout, endpoint[at.MINIMUM_TIMEOUT])
    if endpoint[at.RATE_BPS]:
        words = job_of(pair)
        size_bytes = words[job.SLOTS] * frame_size(24, job.HEADER_BYTES + 4 * words[job.VALUES])
        flight_ns = size_bytes * 8_000_000_000 // endpoint[at.RATE_BPS]
        timeout = max(timeout, endpoint[at.MINIMUM_TIMEOUT] + 2 * flight_ns)
    limit = max(timeout, endpoint[at.MAXIMUM_TIMEOUT])
    for _ in range(retries + pair[at.RETRIES]):
        if timeout >= limit:
            break
        timeout *= 2
    limited: int = min(timeout, limit)
    return limited


@internal
def serve_slots(endpoint: Words, pair: Words, index: int, now: int) -> None:
    """Have what timed out sent again; give the job up if it has been silent for too long."""
    words = job_of(pair)
    if words[job.OUTSTANDING] and now - pair[at.LAST_PROGRESS] >= words[job.SILENCE]:
        give_up(endpoint, pair, index, at.REASON_TIMEOUT, pair[at.FIRST_WORK])
        return
    slots = slots_of(words)
    earliest = 0
    for number in range(words[job.SLOTS]):
        slot = slots[number]
        if slot[job.SLOT_STATE] != job.SENT:
            continue
        if slot[job.SLOT_EXPIRES] <= now:
            slot[job.SLOT_STATE] = job.TO_REPEAT
            slot[job.SLOT_RETRIES] += 1
            endpoint[at.TIMEOUTS] += 1
            enqueue(words, slot, number)
        elif earliest == 0 or slot[job.SLOT_EXPIRES] < earliest:
            earliest = slot[job.SLOT_EXPIRES]
    pair[at.TIMER] = earliest


@internal
def send_round(
    endpoint: Words, pair: Words, batch: Words, count: int, budget: int, now: int
) -> int:
    """The round of the slot that is next; returns its frame bytes, 0 if the budget does not take
    it, -1 if the slot has nothing to send any more."""
    words = job_of(pair)
    number = words_at(words[job.QUEUE_TABLE], words[job.SLOTS])[words[job.QUEUE_HEAD]]
    slot = slots_of(words)[number]
    state = slot[job.SLOT_STATE]
    due = state == job.TO_SEND or state == job.TO_REPEAT
    if due and budget < frame_size(24, job.HEADER_BYTES + 4 * words[job.VALUES]):
        return 0
    words[job.QUEUE_HEAD] = (words[job.QUEUE_HEAD] + 1) & (words[job.SLOTS] - 1)
    words[job.QUEUE_COUNT] -= 1
    slot[job.SLOT_QUEUED] = 0
    if not due:
        return -1
    note_sent(endpoint, pair, words, slot, number, now)
    row = row_address(batch, count)
    used = put_round(pair, words, slot, row)
    return finish(endpoint, pair, batch, count, used, now)


@internal
def note_sent(
    endpoint: Words, pair: Words, words: Words, slot: Words, number: int, now: int
) -> None:
    """Start a slot's timer and count what it sends."""
    words[job.ROUNDS_SENT] += 1
    if slot[job.SLOT_STATE] == job.TO_REPEAT:
        words[job.ROUNDS_REPEATED] += 1
        slot[job.SLOT_REPEATS] += 1
        endpoint[at.RETRANSMITTED_PACKETS] += 1
    else:
        if words[job.OUTSTANDING] == 0:
            pair[at.LAST_PROGRESS] = now
        words[job.OUTSTANDING] += 1
    slot[job.SLOT_STATE] = job.SENT
    slot[job.SLOT_SENT_AT] = now
    order = words[job.NEXT_ORDER]
    slot[job.SLOT_ORDER] = order
    places = words_at(words[job.ORDER_TABLE], 2 * words[job.SLOTS])
    places[order & (2 * words[job.SLOTS] - 1)] = number
    words[job.NEXT_ORDER] = order + 1
    expires = now + response_timeout(endpoint, pair, slot[job.SLOT_RETRIES])
    slot[job.SLOT_EXPIRES] = expires
    if pair[at.TIMER] == 0 or expires < pair[at.TIMER]:
        pair[at.TIMER] = expires
    pair[at.SEND_HIGHEST] = max(pair[at.SEND_HIGHEST], slot[job.SLOT_ROUND] + 1)


@internal
def put_round(pair: Words, words: Words, slot: Words, row: int) -> int:
    """Write the packet of a slot's round, up to its ICRC; returns its size."""
    round_number = slot[job.SLOT_ROUND]
    work = work_at(pair, slot[job.SLOT_WORK])
    operation = operation_of(work)
    floats = operation[job.DATA_KIND] != job.INT32
    place = round_number - work[at.WORK_FIRST]
    block = place - operation[job.HEADERS]
    flags = 0
    owner = 0
    exponent = job.NO_EXPONENT
    if block < 0:
        exponent = own_exponent(words, operation, place)
    else:
        flags = job.HAS_VALUES
        if operation[job.OWNERS]:
            owner = owner_of(operation, block)
            flags = job.IS_SCATTER
            if owner != words[job.RANK]:
                flags |= job.HAS_VALUES
        following = block + words[job.SLOTS]
        if floats and following < operation[job.BLOCKS]:
            exponent = own_exponent(words, operation, following)
    size = job.HEADER_BYTES
    if flags & job.HAS_VALUES:
        size += 4 * words[job.VALUES]
    used = put_bth(row, _OPCODE, size, 0, MULTICAST_QPN, round_number)
    used = put_word(row, used, pair[at.QKEY])
    used = put_word(row, used, pair[at.NUMBER])
    used = put_word(row, used, operation[job.OPERATION_NUMBER])
    used = put_word(row, used, words[job.EPOCH])
    used = put_word(row, used, round_number & _ROUND_MASK)
    used = put_word(row, used, flags << 24 | owner)
    used = put_word(row, used, (exponent & 0xFFFF) << 16)
    if flags & job.HAS_VALUES:
        values = own_values(words, operation, slot, block, 0)
        store_swapped(values, row + used, words[job.VALUES])
        used += 4 * words[job.VALUES]
    return used
