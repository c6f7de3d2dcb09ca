"""Results of switches that arrive at a worker: to their places, and on to the next round.

Slots, exponents and rounds as `aggregation` has them.
"""

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation import (
    OPCODE,
    ROUND_BITS,
    ROUND_MASK,
    agreed_exponent,
    enqueue,
    factor_of,
    finish_operations,
    offer,
    own_values,
    owner_of,
    span_of,
)
from weft.agents.transport.kernels.memory import note_change, pair_at, work_at
from weft.agents.transport.kernels.payload import take_weights
from weft.agents.transport.kernels.quantize import (
    add_saturating,
    dequantize,
    item_bytes,
    load_swapped,
    store_nan,
)
from weft.agents.transport.kernels.state import measure
from weft.agents.transport.payload_layout import UNLIKE
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.crc import swap32
from weft.base.jit import items_at, load32, words_at

_HALF_ROUNDS = 1 << (ROUND_BITS - 1)
_MOST_EARLY_REPEATS = 2
_REPEATED_BEFORE_WAITING_LONGER = 16


@internal
def repeat_overtaken(job: at_job.JobState) -> None:
    """Have sent again early what is probably lost: results came of packets that were sent later.

    All workers do so; the switches need the packet of one of them, and none can know of which.
    """
    places = words_at(job.order_table, 2 * job.slots)
    mask = 2 * job.slots - 1
    first = max(job.searched_order, job.next_order - 2 * job.slots)
    end = max(job.highest_order - job.reordering + 1, first)
    for order in range(first, end):
        number = places[order & mask]
        slot = at_job.Slot(job.slot_table, number)
        if slot.order == order and slot.state == at_job.SENT and slot.repeats < _MOST_EARLY_REPEATS:
            slot.state = at_job.TO_REPEAT
            enqueue(job, slot, number)
    job.searched_order = end


@internal
def note_response(pair: at.PairState, job: at_job.JobState, slot: at_job.Slot, now: int) -> None:
    """Take note that a slot's result has come: measure how long it took, find what it has
    overtaken."""
    if slot.repeats == 0:
        pair.timed_at = slot.sent_at
        measure(pair, now)
        pair.retries = 0
        job.repeated_results = 0
        if slot.order > job.highest_order:
            job.highest_order = slot.order
            repeat_overtaken(job)
        return
    job.repeated_results += 1
    if job.repeated_results >= max(job.slots, _REPEATED_BEFORE_WAITING_LONGER):
        job.repeated_results = 0
        pair.retries += 1


@internal
def find_job(endpoint: at.EndpointState, destination: int) -> int:
    """Return the row of the job with this address, or -1."""
    index: int = endpoint.first_aggregation - 1
    while index >= 0 and pair_at(endpoint, index).peer_address != destination:
        index = pair_at(endpoint, index).next_aggregation - 1
    return index


@internal
def receive_result(
    endpoint: at.EndpointState,
    fields: wire.Fields,
    row: int,
    source: int,
    index: int,
    now: int,
) -> None:
    """Take a packet that has arrived of the aggregation job in row `index`."""
    if source == endpoint.address:
        endpoint.statistics.own_loopback += 1
        return
    pair = pair_at(endpoint, index)
    job = at_job.JobState(pair.job)
    header = row + fields.payload_offset
    length = fields.payload_length
    if fields.opcode != OPCODE or length < at_job.HEADER_BYTES:
        job.statistics.malformed += 1
        return
    flags = swap32(np.int64(load32(header + 8))) >> 24
    values_bytes = 4 * job.values if flags & at_job.HAS_VALUES else 0
    if length != at_job.HEADER_BYTES + values_bytes or not flags & at_job.IS_RESULT:
        job.statistics.malformed += 1
        return
    if swap32(np.int64(load32(header))) != job.epoch:
        job.statistics.other_epoch += 1
        return
    if pair.state != at.READY:
        return
    low = swap32(np.int64(load32(header + 4)))
    high = swap32(np.int64(load32(header + 12))) & 0xFFFF
    near = pair.send_highest
    apart = ((high << 32 | low) - near + _HALF_ROUNDS) & ROUND_MASK
    round_number = near + apart - _HALF_ROUNDS
    number = round_number & (job.slots - 1)
    slot = at_job.Slot(job.slot_table, number)
    pair.last_progress = now
    if slot.round != round_number or (slot.state != at_job.SENT and slot.state != at_job.TO_REPEAT):
        job.statistics.duplicate_results += 1
        endpoint.statistics.duplicate_packets += 1
        return
    take_result(endpoint, pair, index, job, slot, number, header, flags, now)


@internal
def take_result(
    endpoint: at.EndpointState,
    pair: at.PairState,
    index: int,
    job: at_job.JobState,
    slot: at_job.Slot,
    number: int,
    header: int,
    flags: int,
    now: int,
) -> None:
    """Take the result of a slot's round to its place, and go on to the slot's next round."""
    round_number = slot.round
    work = work_at(pair, slot.work)
    operation = at_job.AggregationOperation(work.address)
    exponent = swap32(np.int64(load32(header + 12))) >> 16
    exponent = ((exponent + 0x8000) & 0xFFFF) - 0x8000
    place = round_number - work.first
    block = place - operation.headers
    is_number = exponent != at_job.NO_EXPONENT and exponent != at_job.NOT_FINITE
    if is_number and abs(exponent) > at_job.LARGEST_EXPONENT:
        job.statistics.malformed += 1
        return
    if block >= 0 and not take_sum(endpoint, index, job, operation, slot, block, header, flags):
        job.statistics.malformed += 1
        return
    job.statistics.results += 1
    job.outstanding -= 1
    operation.remaining -= 1
    slot.round = round_number + job.slots
    slot.state = at_job.IDLE
    slot.again = 0
    note_response(pair, job, slot, now)
    slot.exponent = exponent
    if block < 0:
        words_at(operation.first_exponents, operation.headers)[place] = exponent
    offer(pair, job, slot, number)
    if block < 0:
        agreed = round_number + operation.headers
        other = agreed & (job.slots - 1)
        waiting = at_job.Slot(job.slot_table, other)
        if waiting.state == at_job.WAITING and waiting.round == agreed:
            offer(pair, job, waiting, other)
    if job.outstanding == 0:
        pair.timer = 0
    finish_operations(endpoint, pair, index)
    note_change(endpoint, pair, index)


@internal
def take_sum(
    endpoint: at.EndpointState,
    index: int,
    job: at_job.JobState,
    operation: at_job.AggregationOperation,
    slot: at_job.Slot,
    block: int,
    header: int,
    flags: int,
) -> bool:
    """Write a block's sum into the output, if this rank needs it; False if it is not there."""
    own_shard = operation.owners != 0
    if own_shard and owner_of(operation, block) != job.rank:
        return True
    size = job.values
    has_values = flags & at_job.HAS_VALUES != 0
    if not has_values and not (own_shard and operation.unaided):
        return False
    first, count = span_of(job, operation, block)
    own_first = first
    sums = items_at(job.scratch_table, size, np.int32)
    if has_values:
        load_swapped(header + at_job.HEADER_BYTES, count, sums)
    else:
        for place in range(count):
            sums[place] = 0
    saturated = flags & at_job.IS_SATURATED != 0
    if own_shard:
        own = own_values(job, operation, slot, block, 1, False)
        saturated = add_saturating(sums, own, count) or saturated
        first -= operation.shard_first
    if saturated:
        operation.saturated += 1
        job.statistics.saturated_blocks += 1
    kind = operation.data_kind
    exponent = agreed_exponent(operation, slot, block)
    output = operation.output + first * item_bytes(kind)
    if operation.weight:
        source = operation.input + own_first * item_bytes(kind)
        size_bytes = count * item_bytes(kind)
        take_weights(endpoint, output, source, size_bytes, common(sums, count), index)
        return True
    if exponent == at_job.NOT_FINITE and kind != at_job.INT32:
        store_nan(kind, output, count)
        return True
    factor = 0.0 if kind == at_job.INT32 else factor_of(job, exponent)
    dequantize(kind, sums, count, factor, operation.divisor, output)
    return True


@internal
def common(sums: npt.NDArray[np.int32], count: int) -> int:
    """Return the number that all of an array's first elements are, or UNLIKE."""
    for place in range(1, count):
        if sums[place] != sums[0]:
            return UNLIKE
    return int(sums[0])
