"""What a worker sends in an aggregation job of switches: rounds, at their time, and again; which
block a slot has, its exponent and its values.

Slots as SwitchML has them (Sapio et al., NSDI 2021, section 3.5): a slot sends round r once it has
the result of round r - N, and again when no result comes in time. A block's exponent is agreed N
rounds before the block. `pair` is the row of the endpoint's table.

When a job moves to other switches, these know of nothing. A rank may wait for round r while others
have its result, and wait for r + N of the slot; none is further apart. So each sends again what it
has sent last and the round before that, which is kept as a packet: the values may be gone. Where a
row of a switch has r - N of those that wait for r, r + N of the others takes it: r - N has been
added already.
"""

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.frames import finish, frame_size, row_address
from weft.agents.transport.kernels.memory import add_event, memmove, work_at
from weft.agents.transport.kernels.quantize import (
    block_exponent,
    item_bytes,
    quantize,
    store_swapped,
)
from weft.agents.transport.kernels.state import backed_off
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import MULTICAST_QPN, PSN_MASK
from weft.agents.wire.packets import put_bth, put_words
from weft.base.jit import items_at, load32, words_at

OPCODE = 0x65
ROUND_BITS = 48
ROUND_MASK = (1 << ROUND_BITS) - 1
EPOCH_OFFSET = 24
"""Of the epoch in a packet: behind BTH, DETH and ImmDt."""


@internal
def agreed_exponent(operation: at_job.AggregationOperation, slot: at_job.Slot, block: int) -> int:
    """Return the exponent of a slot's block as all ranks have it, or UNKNOWN."""
    if block < operation.headers:
        return int(words_at(operation.first_exponents, operation.headers)[block])
    return slot.exponent


@internal
def owner_of(operation: at_job.AggregationOperation, block: int) -> int:
    """Return the rank that owns the sum of a block."""
    return int(np.int64(np.int32(load32(operation.owners + 4 * block))))


@internal
def span_of(
    job: at_job.JobState, operation: at_job.AggregationOperation, block: int
) -> tuple[int, int]:
    """Return a block's first element and how many it has."""
    first, end = block * job.values, operation.count
    if operation.owners:
        first = words_at(operation.firsts, operation.blocks)[block]
        end = words_at(operation.ends, job.ranks)[owner_of(operation, block)]
    return first, min(job.values, end - first)


@internal
def scale_of(job: at_job.JobState, exponent: int) -> float:
    """Return what the values of a block are multiplied by; 0 if all are zero, or one is not
    finite."""
    if exponent == at_job.NO_EXPONENT or exponent == at_job.NOT_FINITE:
        return 0.0
    return float(2.0 ** np.float64(job.headroom_bits - exponent))


@internal
def factor_of(job: at_job.JobState, exponent: int) -> float:
    """Return what the sums of a block are multiplied by; 0 if all are zero."""
    if exponent == at_job.NO_EXPONENT:
        return 0.0
    return float(2.0 ** np.float64(exponent - job.headroom_bits))


@internal
def own_values(
    job: at_job.JobState,
    operation: at_job.AggregationOperation,
    slot: at_job.Slot,
    block: int,
    scratch: int,
    counted: bool,
) -> npt.NDArray[np.int32]:
    """Return this rank's part of a block as integers, zeros behind it; in one of two places of
    memory. What the block loses by that is counted if it has not been before."""
    size = job.values
    values: npt.NDArray[np.int32] = items_at(job.scratch_table + 4 * size * scratch, size, np.int32)
    first, count = span_of(job, operation, block)
    if operation.weight:
        for index in range(size):
            values[index] = operation.weight if index < count else 0
        return values
    kind = operation.data_kind
    exponent = agreed_exponent(operation, slot, block)
    scale = 0.0 if kind == at_job.INT32 else scale_of(job, exponent)
    if exponent == at_job.NOT_FINITE and kind != at_job.INT32:
        values[:] = 0
        if not counted:
            operation.not_finite += 1
        return values
    lost = quantize(kind, operation.input + first * item_bytes(kind), count, scale, values)
    if lost and not counted:
        operation.lossy += 1
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
    slot.work = max(slot.work, pair.first_work)
    while work_at(pair, slot.work).end <= round_number:
        slot.work += 1
    work = work_at(pair, slot.work)
    operation = at_job.AggregationOperation(work.address)
    block = round_number - work.first - operation.headers
    if (
        operation.data_kind != at_job.INT32
        and block >= 0
        and agreed_exponent(operation, slot, block) == at_job.UNKNOWN
    ):
        slot.state = at_job.WAITING
        return
    slot.state = at_job.TO_SEND
    slot.retries = slot.repeats = 0
    enqueue(job, slot, number)


@internal
def finish_operations(endpoint: at.EndpointState, pair: at.PairState, index: int) -> None:
    """Complete the operations that have all their results, in order."""
    first = pair.first_work
    while pair.first_work < pair.next_work:
        if at_job.AggregationOperation(work_at(pair, pair.first_work).address).remaining:
            break
        pair.first_work += 1
    if pair.first_work > first:
        add_event(endpoint, at.EVENT_WORK_DONE, index).value = pair.first_work - first


@internal
def give_up(
    endpoint: at.EndpointState, pair: at.PairState, index: int, reason: int, work: int
) -> None:
    """Stop the job; Python ends its operations in failure."""
    pair.state = at.FAILED
    pair.timer = 0
    event = add_event(endpoint, at.EVENT_FAILED, index)
    event.value = reason
    event.sequence = work


@internal
def own_exponent(job: at_job.JobState, operation: at_job.AggregationOperation, block: int) -> int:
    """Return the exponent of this rank's part of a block."""
    if operation.weight:
        return 0
    first, count = span_of(job, operation, block)
    kind = operation.data_kind
    return block_exponent(kind, operation.input + first * item_bytes(kind), count)


@internal
def needs_opening(pair: at.PairState) -> bool:
    """Return whether operations have been posted that slots know nothing of, or other switches add
    from now on."""
    job = at_job.JobState(pair.job)
    return pair.next_work != job.opened_work or job.is_moved != 0


@internal
def open_rounds(endpoint: at.EndpointState, pair: at.PairState, index: int) -> None:
    """Give the rounds of new operations to the slots that wait for them."""
    job = at_job.JobState(pair.job)
    if job.is_moved:
        job.is_moved = 0
        repeat_all(pair, job)
    for round_number in range(job.opened, min(pair.posted_end, job.opened + job.slots)):
        number = round_number & (job.slots - 1)
        slot = at_job.Slot(job.slot_table, number)
        if slot.state == at_job.IDLE and slot.round == round_number:
            offer(pair, job, slot, number)
    job.opened = pair.posted_end
    job.opened_work = pair.next_work
    finish_operations(endpoint, pair, index)


@internal
def kept_packet(job: at_job.JobState, round_number: int) -> int:
    """Return the address of the row in which the packet of a round is kept."""
    return int(job.keep_table + (round_number & (2 * job.slots - 1)) * job.keep_bytes)


@internal
def repeat_all(pair: at.PairState, job: at_job.JobState) -> None:
    """Have sent again what each slot waits for, and what it sent in the round before."""
    pair.retries = 0
    for number in range(job.slots):
        slot = at_job.Slot(job.slot_table, number)
        before = slot.round - job.slots
        if job.keep_table and before >= 0:
            slot.again = 1 if at_job.KeptPacket(kept_packet(job, before)).end == before + 1 else 0
        if slot.state == at_job.SENT:
            slot.state = at_job.TO_REPEAT
        if slot.state == at_job.TO_REPEAT:
            slot.retries = 0
        if slot.again or slot.state == at_job.TO_REPEAT:
            enqueue(job, slot, number)


@internal
def response_timeout(endpoint: at.EndpointState, pair: at.PairState, retries: int) -> int:
    """Return how long to wait for a result, back-off included (RFC 6298, without its coarse clock).

    All that the slots hold may be on its way through one link, though the rounds that were measured
    were short ones: no timeout is less than twice that. `RETRIES` of the row says how often all
    rounds for a while had to be repeated: then results take longer than they did, which no result
    of a round that was sent once can tell.
    """
    measured = pair.smoothed_rtt + 4 * pair.rtt_variation
    timeout = measured if pair.smoothed_rtt else endpoint.initial_timeout
    flight_ns = 0
    if endpoint.rate_bps:
        job = at_job.JobState(pair.job)
        size_bytes = job.slots * frame_size(24, at_job.HEADER_BYTES + 4 * job.values)
        flight_ns = size_bytes * 8_000_000_000 // endpoint.rate_bps
    timeout = max(timeout, endpoint.minimum_timeout + 2 * flight_ns)
    return backed_off(endpoint, timeout, retries + pair.retries)


@internal
def serve_slots(endpoint: at.EndpointState, pair: at.PairState, index: int, now: int) -> None:
    """Have what timed out sent again; give the job up if it has been silent for too long."""
    job = at_job.JobState(pair.job)
    if job.outstanding and now - pair.last_progress >= job.silence:
        give_up(endpoint, pair, index, at.REASON_TIMEOUT, pair.first_work)
        return
    earliest = 0
    for number in range(job.slots):
        slot = at_job.Slot(job.slot_table, number)
        if slot.state != at_job.SENT:
            continue
        if slot.expires <= now:
            slot.state = at_job.TO_REPEAT
            slot.retries += 1
            slot.again = min(slot.again, 1)
            endpoint.statistics.timeouts += 1
            enqueue(job, slot, number)
        elif earliest == 0 or slot.expires < earliest:
            earliest = slot.expires
    pair.timer = earliest


@internal
def send_round(
    endpoint: at.EndpointState,
    pair: at.PairState,
    batch: at.Batch,
    count: int,
    budget: int,
    now: int,
) -> int:
    """Send the round of the slot that is next; return its frame bytes, 0 if the budget does not
    take it, -1 if the slot has nothing to send any more."""
    job = at_job.JobState(pair.job)
    number = words_at(job.queue_table, job.slots)[job.queue_head]
    slot = at_job.Slot(job.slot_table, number)
    state = slot.state
    sends_round = state == at_job.TO_SEND or state == at_job.TO_REPEAT
    due = sends_round or slot.again == 1
    if due and budget < frame_size(24, at_job.HEADER_BYTES + 4 * job.values):
        return 0
    job.queue_head = (job.queue_head + 1) & (job.slots - 1)
    job.queue_count -= 1
    slot.queued = 0
    if not due:
        return -1
    if slot.again == 1:
        slot.again = 2
        if sends_round:
            enqueue(job, slot, number)
        endpoint.statistics.retransmitted_packets += 1
        used = put_kept(job, slot.round - job.slots, row_address(batch, count))
        return finish(endpoint, pair, batch, count, used, now)
    note_sent(endpoint, pair, job, slot, number, now)
    used = put_round(pair, job, slot, row_address(batch, count))
    if job.keep_table:
        keep_round(job, slot.round, row_address(batch, count), used)
    return finish(endpoint, pair, batch, count, used, now)


@internal
def note_sent(
    endpoint: at.EndpointState,
    pair: at.PairState,
    job: at_job.JobState,
    slot: at_job.Slot,
    number: int,
    now: int,
) -> None:
    """Start a slot's timer and count what it sends."""
    job.statistics.rounds_sent += 1
    if slot.state == at_job.TO_REPEAT:
        job.statistics.rounds_repeated += 1
        slot.repeats += 1
        endpoint.statistics.retransmitted_packets += 1
    else:
        if job.outstanding == 0:
            pair.last_progress = now
        job.outstanding += 1
    slot.state = at_job.SENT
    slot.sent_at = now
    slot.order = job.next_order
    places = words_at(job.order_table, 2 * job.slots)
    places[slot.order & (2 * job.slots - 1)] = number
    job.next_order += 1
    slot.expires = now + response_timeout(endpoint, pair, slot.retries)
    if pair.timer == 0 or slot.expires < pair.timer:
        pair.timer = slot.expires
    pair.send_highest = max(pair.send_highest, slot.round + 1)


@internal
def put_round(pair: at.PairState, job: at_job.JobState, slot: at_job.Slot, row: int) -> int:
    """Write the packet of a slot's round, up to its ICRC; returns its size."""
    round_number = slot.round
    work = work_at(pair, slot.work)
    operation = at_job.AggregationOperation(work.address)
    floats = operation.data_kind != at_job.INT32
    place = round_number - work.first
    block = place - operation.headers
    flags = owner = 0
    exponent = at_job.NO_EXPONENT
    if block < 0:
        exponent = own_exponent(job, operation, place)
    else:
        flags = 0 if operation.silent else at_job.HAS_VALUES
        if operation.owners:
            owner = owner_of(operation, block)
            if owner == job.rank:
                flags = 0
            flags |= at_job.IS_SCATTER
        following = block + job.slots
        if floats and following < operation.blocks:
            exponent = own_exponent(job, operation, following)
    values_bytes = 4 * job.values if flags & at_job.HAS_VALUES else 0
    size = at_job.HEADER_BYTES + values_bytes
    used = put_bth(row, OPCODE, size, 0, MULTICAST_QPN, round_number & PSN_MASK)
    deth = (pair.qkey, pair.number, operation.number)
    low, high = round_number & 0xFFFFFFFF, round_number >> 32 & 0xFFFF
    header = (job.epoch, low, flags << 24 | owner, (exponent & 0xFFFF) << 16 | high)
    used = put_words(row, put_words(row, used, deth), header)
    if values_bytes:
        store_swapped(
            own_values(job, operation, slot, block, 0, slot.repeats > 0), row + used, job.values
        )
    return used + values_bytes


@internal
def keep_round(job: at_job.JobState, round_number: int, row: int, used: int) -> None:
    """Keep the packet of a round as it was written."""
    place = kept_packet(job, round_number)
    kept = at_job.KeptPacket(place)
    kept.end = round_number + 1
    kept.length = used
    memmove(place + at_job.KEPT_HEADER_BYTES, row, used)


@internal
def put_kept(job: at_job.JobState, round_number: int, row: int) -> int:
    """Write the packet of a round that is kept, with the epoch of now, up to its ICRC; returns its
    size."""
    place = kept_packet(job, round_number)
    used = at_job.KeptPacket(place).length
    memmove(row, place + at_job.KEPT_HEADER_BYTES, used)
    put_words(row, EPOCH_OFFSET, (job.epoch,))
    return int(used)
