"""Results of switches that arrive at a worker: to their places, and on to the next round.

Slots, exponents and rounds as `compiled_aggregation` has them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation_state import (
    agreed_exponent,
    enqueue,
    factor_of,
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
from weft.agents.transport.kernels.memory import work_at
from weft.agents.transport.kernels.quantize import (
    add_saturating,
    dequantize,
    item_bytes,
    load_swapped,
)
from weft.agents.transport.kernels.state import measure, note_change
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.crc import swap32
from weft.base.jit import items_at, load32, table_at, words_at

Words = npt.NDArray[np.int64]

_OPCODE = 0x65
_ROUND_MASK = 0xFFFFFFFF
_MOST_EARLY_REPEATS = 2
_REPEATED_BEFORE_WAITING_LONGER = 16


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
