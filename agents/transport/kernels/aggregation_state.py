"""What both directions of an aggregation job do: which block a slot has, its exponent, its values;
what a slot sends next, what is complete.

`pair` is the row of the endpoint's table, `words` those of its job, laid out as
`aggregation_layout` says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import add_event, work_at
from weft.agents.transport.kernels.quantize import item_bytes, quantize
from weft.agents.wire.compiled import internal
from weft.base.jit import items_at, load32, table_at, words_at

Words = npt.NDArray[np.int64]


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
def give_up(endpoint: Words, pair: Words, index: int, reason: int, work: int) -> None:
    """Stop the job; Python ends its operations in failure."""
    pair[at.STATE] = at.FAILED
    pair[at.TIMER] = 0
    add_event(endpoint, at.EVENT_FAILED, index, reason, work, 0, 0, 0)
