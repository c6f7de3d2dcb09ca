"""What a worker does in an aggregation job of switches: rounds that leave, results that arrive.

Slots as SwitchML has them (Sapio et al., NSDI 2021, section 3.5): a slot sends round r once it has
the result of round r - N, and again when no result comes in time. A block's exponent is agreed N
rounds before the block. `pair` is the row of the endpoint's table, `words` those of its job, laid
out as `aggregation_layout` says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agents.transport import aggregation_layout as job
from agents.transport import layout as at
from agents.transport.compiled_frames import finish, frame_size, row_address
from agents.transport.compiled_quantize import (
    add_saturating,
    block_exponent,
    dequantize,
    item_bytes,
    load_swapped,
    quantize,
    store_swapped,
)
from agents.transport.compiled_state import add_event, measure, note_change, work_at
from agents.wire import packets as wire
from agents.wire.compiled import internal, items_at, load32, table_at, words_at
from agents.wire.crc import swap32
from agents.wire.headers import MULTICAST_QPN
from agents.wire.packets import put_bth, put_word

Words = npt.NDArray[np.int64]

_OPCODE = 0x65
_ROUND_MASK = 0xFFFFFFFF
_MOST_EARLY_REPEATS = 2
_REPEATED_BEFORE_WAITING_LONGER = 16


@internal
def job_of(pair: Words) -> Words:
    """The words of a queue pair's job."""
    words: Words = words_at(pair[job.JOB], job.JOB_WORDS)
    return words


@internal
def slots_of(words: Words) -> Words:
    """The slot table of a job."""
    table: Words = table_at(words[job.SLOT_TABLE], words[job.SLOTS], job.SLOT_WORDS)
    return table


@internal
def operation_of(work: Words) -> Words:
    """The words of an operation, from its work."""
    operation: Words = words_at(work[at.WORK_ADDRESS], job.OPERATION_WORDS)
    return operation


@internal
def agreed_exponent(operation: Words, slot: Words, block: int) -> int:
    """The exponent of a slot's block as all ranks have it, or UNKNOWN."""
    if block < operation[job.HEADERS]:
        first: int = words_at(operation[job.FIRST_EXPONENTS], operation[job.HEADERS])[block]
        return first
    later: int = slot[job.SLOT_EXPONENT]
    return later


@internal
def owner_of(operation: Words, block: int) -> int:
    """The rank that owns the sum of a block."""
    owner: int = np.int64(np.int32(load32(operation[job.OWNERS] + 4 * block)))
    return owner


@internal
def span_of(words: Words, operation: Words, block: int) -> tuple[int, int]:
    """A block's first element and how many it has."""
    size = words[job.VALUES]
    if operation[job.OWNERS] == 0:
        first = block * size
        return first, min(size, operation[job.COUNT] - first)
    first = words_at(operation[job.FIRSTS], operation[job.BLOCKS])[block]
    end = words_at(operation[job.ENDS], words[job.RANKS])[owner_of(operation, block)]
    return first, min(size, end - first)


@internal
def own_exponent(words: Words, operation: Words, block: int) -> int:
    """The exponent of this rank's part of a block."""
    first, count = span_of(words, operation, block)
    kind = operation[job.DATA_KIND]
    return block_exponent(kind, operation[job.INPUT] + first * item_bytes(kind), count)


@internal
def scale_of(words: Words, exponent: int) -> float:
    """What the values of a block are multiplied by; 0 if all are zero."""
    if exponent == job.NO_EXPONENT:
        return 0.0
    scale: float = 2.0 ** np.float64(words[job.HEADROOM_BITS] - exponent)
    return scale


@internal
def factor_of(words: Words, exponent: int) -> float:
    """What the sums of a block are multiplied by; 0 if all are zero."""
    if exponent == job.NO_EXPONENT:
        return 0.0
    factor: float = 2.0 ** np.float64(exponent - words[job.HEADROOM_BITS])
    return factor


@internal
def enqueue(words: Words, slot: Words, number: int) -> None:
    """Have a slot served; it is in the queue once."""
    if slot[job.SLOT_QUEUED]:
        return
    slot[job.SLOT_QUEUED] = 1
    place = (words[job.QUEUE_HEAD] + words[job.QUEUE_COUNT]) & (words[job.SLOTS] - 1)
    words_at(words[job.QUEUE_TABLE], words[job.SLOTS])[place] = number
    words[job.QUEUE_COUNT] += 1


@internal
def offer(pair: Words, words: Words, slot: Words, number: int) -> None:
    """Look whether a slot's next round can be sent: it is posted, its block's exponent agreed."""
    round_number = slot[job.SLOT_ROUND]
    slot[job.SLOT_STATE] = job.IDLE
    if round_number >= pair[at.POSTED_END]:
        return
    current = max(slot[job.SLOT_WORK], pair[at.FIRST_WORK])
    while work_at(pair, current)[at.WORK_END] <= round_number:
        current += 1
    slot[job.SLOT_WORK] = current
    work = work_at(pair, current)
    operation = operation_of(work)
    block = round_number - work[at.WORK_FIRST] - operation[job.HEADERS]
    if (
        operation[job.DATA_KIND] != job.INT32
        and block >= 0
        and agreed_exponent(operation, slot, block) == job.UNKNOWN
    ):
        slot[job.SLOT_STATE] = job.WAITING
        return
    slot[job.SLOT_STATE] = job.TO_SEND
    slot[job.SLOT_RETRIES] = 0
    slot[job.SLOT_REPEATS] = 0
    enqueue(words, slot, number)


@internal
def finish_operations(endpoint: Words, pair: Words, index: int) -> None:
    """Complete the operations that have all their results, in order."""
    done = 0
    while pair[at.FIRST_WORK] < pair[at.NEXT_WORK]:
        if operation_of(work_at(pair, pair[at.FIRST_WORK]))[job.REMAINING]:
            break
        pair[at.FIRST_WORK] += 1
        done += 1
    if done:
        add_event(endpoint, at.EVENT_WORK_DONE, index, done, 0, 0, 0, 0)


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
def repeat_overtaken(words: Words) -> None:
    """Have sent again early what is probably lost: results came of packets that were sent later.

    All workers do so; the switches need the packet of one of them, and none can know of which.
    """
    slots = slots_of(words)
    places = words_at(words[job.ORDER_TABLE], 2 * words[job.SLOTS])
    mask = 2 * words[job.SLOTS] - 1
    first = max(words[job.SEARCHED_ORDER], words[job.NEXT_ORDER] - 2 * words[job.SLOTS])
    end = max(words[job.HIGHEST_ORDER] - words[job.REORDERING] + 1, first)
    for order in range(first, end):
        number = places[order & mask]
        slot = slots[number]
        if (
            slot[job.SLOT_ORDER] == order
            and slot[job.SLOT_STATE] == job.SENT
            and slot[job.SLOT_REPEATS] < _MOST_EARLY_REPEATS
        ):
            slot[job.SLOT_STATE] = job.TO_REPEAT
            enqueue(words, slot, number)
    words[job.SEARCHED_ORDER] = end


@internal
def note_response(pair: Words, words: Words, slot: Words, now: int) -> None:
    """A slot's result has come: measure how long it took, find what it has overtaken."""
    if slot[job.SLOT_REPEATS] == 0:
        pair[at.TIMED_AT] = slot[job.SLOT_SENT_AT]
        measure(pair, now)
        pair[at.RETRIES] = 0
        words[job.REPEATED_RESULTS] = 0
        if slot[job.SLOT_ORDER] > words[job.HIGHEST_ORDER]:
            words[job.HIGHEST_ORDER] = slot[job.SLOT_ORDER]
            repeat_overtaken(words)
        return
    words[job.REPEATED_RESULTS] += 1
    if words[job.REPEATED_RESULTS] >= max(words[job.SLOTS], _REPEATED_BEFORE_WAITING_LONGER):
        words[job.REPEATED_RESULTS] = 0
        pair[at.RETRIES] += 1


@internal
def give_up(endpoint: Words, pair: Words, index: int, reason: int, work: int) -> None:
    """Stop the job; Python ends its operations in failure."""
    pair[at.STATE] = at.FAILED
    pair[at.TIMER] = 0
    add_event(endpoint, at.EVENT_FAILED, index, reason, work, 0, 0, 0)


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


@internal
def own_values(
    words: Words, operation: Words, slot: Words, block: int, scratch: int
) -> npt.NDArray[np.int32]:
    """This rank's part of a block as integers, zeros behind it; in one of two places of memory."""
    size = words[job.VALUES]
    values: npt.NDArray[np.int32] = items_at(
        words[job.SCRATCH_TABLE] + 4 * size * scratch, size, np.int32
    )
    first, count = span_of(words, operation, block)
    kind = operation[job.DATA_KIND]
    scale = 0.0
    if kind != job.INT32:
        scale = scale_of(words, agreed_exponent(operation, slot, block))
    quantize(kind, operation[job.INPUT] + first * item_bytes(kind), count, scale, values)
    for index in range(count, size):
        values[index] = 0
    return values


@internal
def find_job(endpoint: Words, destination: int) -> int:
    """The row of the job with this address, or -1."""
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], endpoint[at.QUEUE_PAIRS], at.QUEUE_PAIR_WORDS)
    index: int = endpoint[at.FIRST_AGGREGATION] - 1
    while index >= 0 and pairs[index][at.PEER_ADDRESS] != destination:
        index = pairs[index][job.NEXT_AGGREGATION] - 1
    return index


@internal
def receive_result(
    endpoint: Words, fields: Words, row: int, source: int, destination: int, now: int
) -> None:
    """A packet of an aggregation job has arrived."""
    if source == endpoint[at.ADDRESS]:
        endpoint[at.OWN_LOOPBACK] += 1
        return
    index = find_job(endpoint, destination)
    if index < 0:
        endpoint[at.UNKNOWN_QUEUE_PAIR] += 1
        return
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], endpoint[at.QUEUE_PAIRS], at.QUEUE_PAIR_WORDS)
    pair = pairs[index]
    words = job_of(pair)
    header = row + fields[wire.PAYLOAD_OFFSET]
    length = fields[wire.PAYLOAD_LENGTH]
    if fields[wire.OPCODE] != _OPCODE or length < job.HEADER_BYTES:
        words[job.MALFORMED] += 1
        return
    flags = swap32(np.int64(load32(header + 8))) >> 24
    expected = job.HEADER_BYTES
    if flags & job.HAS_VALUES:
        expected += 4 * words[job.VALUES]
    if length != expected or not flags & job.IS_RESULT:
        words[job.MALFORMED] += 1
        return
    if swap32(np.int64(load32(header))) != words[job.EPOCH]:
        words[job.OTHER_EPOCH] += 1
        return
    if pair[at.STATE] != at.READY:
        return
    low = swap32(np.int64(load32(header + 4)))
    near = pair[at.SEND_HIGHEST]
    round_number = near + ((low - near + 0x80000000) & _ROUND_MASK) - 0x80000000
    number = round_number & (words[job.SLOTS] - 1)
    slot = slots_of(words)[number]
    pair[at.LAST_PROGRESS] = now
    if slot[job.SLOT_ROUND] != round_number or (
        slot[job.SLOT_STATE] != job.SENT and slot[job.SLOT_STATE] != job.TO_REPEAT
    ):
        words[job.DUPLICATE_RESULTS] += 1
        endpoint[at.DUPLICATE_PACKETS] += 1
        return
    take_result(endpoint, pair, index, words, slot, number, header, flags, now)


@internal
def take_result(
    endpoint: Words,
    pair: Words,
    index: int,
    words: Words,
    slot: Words,
    number: int,
    header: int,
    flags: int,
    now: int,
) -> None:
    """The result of a slot's round is here: to its place, and on to the slot's next round."""
    round_number = slot[job.SLOT_ROUND]
    work = work_at(pair, slot[job.SLOT_WORK])
    operation = operation_of(work)
    exponent = swap32(np.int64(load32(header + 12))) >> 16
    exponent = ((exponent + 0x8000) & 0xFFFF) - 0x8000
    if exponent == job.NOT_FINITE:
        give_up(endpoint, pair, index, job.REASON_NOT_FINITE, slot[job.SLOT_WORK])
        return
    place = round_number - work[at.WORK_FIRST]
    block = place - operation[job.HEADERS]
    if exponent != job.NO_EXPONENT and abs(exponent) > job.LARGEST_EXPONENT:
        words[job.MALFORMED] += 1
        return
    if block >= 0 and not take_sum(words, operation, slot, block, header, flags):
        words[job.MALFORMED] += 1
        return
    words[job.RESULTS] += 1
    words[job.OUTSTANDING] -= 1
    operation[job.REMAINING] -= 1
    slot[job.SLOT_ROUND] = round_number + words[job.SLOTS]
    slot[job.SLOT_STATE] = job.IDLE
    note_response(pair, words, slot, now)
    slot[job.SLOT_EXPONENT] = exponent
    if block < 0:
        words_at(operation[job.FIRST_EXPONENTS], operation[job.HEADERS])[place] = exponent
    offer(pair, words, slot, number)
    if block < 0:
        agreed = round_number + operation[job.HEADERS]
        other = agreed & (words[job.SLOTS] - 1)
        waiting = slots_of(words)[other]
        if waiting[job.SLOT_STATE] == job.WAITING and waiting[job.SLOT_ROUND] == agreed:
            offer(pair, words, waiting, other)
    if words[job.OUTSTANDING] == 0:
        pair[at.TIMER] = 0
    finish_operations(endpoint, pair, index)
    note_change(endpoint, pair, index)


@internal
def take_sum(
    words: Words, operation: Words, slot: Words, block: int, header: int, flags: int
) -> bool:
    """Write a block's sum into the output, if this rank needs it; False if it is not there."""
    own_shard = operation[job.OWNERS] != 0
    if own_shard and owner_of(operation, block) != words[job.RANK]:
        return True
    size = words[job.VALUES]
    has_values = flags & job.HAS_VALUES != 0
    if not has_values and not (own_shard and words[job.RANKS] == 1):
        return False
    first, count = span_of(words, operation, block)
    sums = items_at(words[job.SCRATCH_TABLE], size, np.int32)
    if has_values:
        load_swapped(header + job.HEADER_BYTES, count, sums)
    else:
        for index in range(count):
            sums[index] = 0
    saturated = flags & job.IS_SATURATED != 0
    if own_shard:
        own = own_values(words, operation, slot, block, 1)
        if add_saturating(sums, own, count):
            saturated = True
        first -= operation[job.SHARD_FIRST]
    if saturated:
        operation[job.SATURATED] += 1
        words[job.SATURATED_BLOCKS] += 1
    kind = operation[job.DATA_KIND]
    factor = 0.0
    if kind != job.INT32:
        factor = factor_of(words, agreed_exponent(operation, slot, block))
    place = operation[job.OUTPUT] + first * item_bytes(kind)
    dequantize(kind, sums, count, factor, operation[job.DIVISOR], place)
    return True
