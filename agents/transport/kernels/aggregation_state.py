"""What both directions of an aggregation job do: which block a slot has, its exponent, its values;
what a slot sends next, what is complete.

`pair` is the row of the endpoint's table.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.memory import add_event, work_at
from weft.agents.transport.kernels.quantize import item_bytes, quantize
from weft.agents.wire.compiled import internal
from weft.base.jit import items_at, load32, words_at


@internal
def job_of(pair: at.PairState) -> at_job.JobState:
    """The job of a queue pair's job."""
    return at_job.JobState(pair.job)


@internal
def slot_at(job: at_job.JobState, number: int) -> at_job.Slot:
    """The slot table of a job."""
    return at_job.Slot(job.slot_table, number)


@internal
def operation_of(work: at.Work) -> at_job.AggregationOperation:
    """The job of an operation, from its work."""
    return at_job.AggregationOperation(work.address)


@internal
def agreed_exponent(operation: at_job.AggregationOperation, slot: at_job.Slot, block: int) -> int:
    """The exponent of a slot's block as all ranks have it, or UNKNOWN."""
    if block < operation.headers:
        first: int = words_at(operation.first_exponents, operation.headers)[block]
        return first
    return slot.exponent


@internal
def owner_of(operation: at_job.AggregationOperation, block: int) -> int:
    """The rank that owns the sum of a block."""
    owner: int = np.int64(np.int32(load32(operation.owners + 4 * block)))
    return owner


@internal
def span_of(
    job: at_job.JobState, operation: at_job.AggregationOperation, block: int
) -> tuple[int, int]:
    """A block's first element and how many it has."""
    size = job.values
    if operation.owners == 0:
        first = block * size
        return first, min(size, operation.count - first)
    first = words_at(operation.firsts, operation.blocks)[block]
    end = words_at(operation.ends, job.ranks)[owner_of(operation, block)]
    return first, min(size, end - first)


@internal
def scale_of(job: at_job.JobState, exponent: int) -> float:
    """What the values of a block are multiplied by; 0 if all are zero."""
    if exponent == at_job.NO_EXPONENT:
        return 0.0
    scale: float = 2.0 ** np.float64(job.headroom_bits - exponent)
    return scale


@internal
def factor_of(job: at_job.JobState, exponent: int) -> float:
    """What the sums of a block are multiplied by; 0 if all are zero."""
    if exponent == at_job.NO_EXPONENT:
        return 0.0
    factor: float = 2.0 ** np.float64(exponent - job.headroom_bits)
    return factor


@internal
def own_values(
    job: at_job.JobState,
    operation: at_job.AggregationOperation,
    slot: at_job.Slot,
    block: int,
    scratch: int,
) -> npt.NDArray[np.int32]:
    """This rank's part of a block as integers, zeros behind it; in one of two places of memory."""
    size = job.values
    values: npt.NDArray[np.int32] = items_at(job.scratch_table + 4 * size * scratch, size, np.int32)
    first, count = span_of(job, operation, block)
    kind = operation.data_kind
    scale = 0.0
    if kind != at_job.INT32:
        scale = scale_of(job, agreed_exponent(operation, slot, block))
    quantize(kind, operation.input + first * item_bytes(kind), count, scale, values)
    for index in range(count, size):
        values[index] = 0
    return values


@internal
def enqueue(job: at_job.JobState, slot: at_job.Slot, number: int) -> None:
    """Have a slot served; it is in the queue once."""
    if slot.queued:
        return
    slot.queued = 1
    place = (job.queue_head + job.queue_count) & (job.slots - 1)
    words_at(job.queue_table, job.slots)[place] = number
    job.queue_count += 1


@internal
def offer(pair: at.PairState, job: at_job.JobState, slot: at_job.Slot, number: int) -> None:
    """Look whether a slot's next round can be sent: it is posted, its block's exponent agreed."""
    round_number = slot.round
    slot.state = at_job.IDLE
    if round_number >= pair.posted_end:
        return
    current = max(slot.work, pair.first_work)
    while work_at(pair, current).end <= round_number:
        current += 1
    slot.work = current
    work = work_at(pair, current)
    operation = operation_of(work)
    block = round_number - work.first - operation.headers
    if (
        operation.data_kind != at_job.INT32
        and block >= 0
        and agreed_exponent(operation, slot, block) == at_job.UNKNOWN
    ):
        slot.state = at_job.WAITING
        return
    slot.state = at_job.TO_SEND
    slot.retries = 0
    slot.repeats = 0
    enqueue(job, slot, number)


@internal
def finish_operations(endpoint: at.EndpointState, pair: at.PairState, index: int) -> None:
    """Complete the operations that have all their results, in order."""
    done = 0
    while pair.first_work < pair.next_work:
        if operation_of(work_at(pair, pair.first_work)).remaining:
            break
        pair.first_work += 1
        done += 1
    if done:
        add_event(endpoint, at.EVENT_WORK_DONE, index, done, 0, 0, 0, 0)


@internal
def give_up(
    endpoint: at.EndpointState, pair: at.PairState, index: int, reason: int, work: int
) -> None:
    """Stop the job; Python ends its operations in failure."""
    pair.state = at.FAILED
    pair.timer = 0
    add_event(endpoint, at.EVENT_FAILED, index, reason, work, 0, 0, 0)
