"""What both directions of the compiled transport do to a queue pair: progress, going back,
failing, finding memory.

`pair` is a row of the endpoint's queue pair table.
"""

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import (
    drop_board,
    drop_idle_board,
    restore,
    retire,
    seek,
    skip_sent_work,
)
from weft.agents.transport.kernels.memory import (
    add_event,
    drop_piece,
    memmove,
    packets_of,
    take_piece,
    work_at,
)
from weft.agents.transport.kernels.relay import go_on, retire_write
from weft.agents.transport.kernels.window import (
    after_acknowledgement,
    after_rash_timeout,
    set_window,
    slow_down,
)
from weft.agents.wire.compiled import internal

_HEAD_BYTES = at.Piece.dtype.itemsize
_READ_BYTES = at.Read.dtype.itemsize

SMALL = 256
"""Bytes of a message that is repeated early: a control message."""


@internal
def find_memory(endpoint: at.EndpointState, address: int, rkey: int, size: int) -> int:
    """Return where `size` bytes at a virtual address are in memory; 0 if the key or the bounds are
    wrong."""
    index = rkey & at.KEY_INDEX_MASK
    if index >= endpoint.regions or size < 0:
        return 0
    region = at.Region(endpoint.region_table, index)
    offset = address - region.address
    inside = region.key == rkey and 0 <= offset <= region.length - size
    return region.memory + offset if inside else 0


@internal
def read_at(pair: at.PairState, place: int) -> at.Read:
    """Return a READ that waits to be answered; there is a block of them as long as any wait."""
    return at.Read(pair.read_block + _HEAD_BYTES, place)


@internal
def take_read_block(endpoint: at.EndpointState, pair: at.PairState) -> bool:
    """Give the queue pair room for READs to be answered; False if there is no memory."""
    pair.read_block = take_piece(endpoint.read_blocks, _HEAD_BYTES + at.READ_ROOM * _READ_BYTES)
    return bool(pair.read_block != 0)


@internal
def drop_reads(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Forget the READs that wait to be answered: another queue pair may have the room."""
    pair.reads = 0
    if pair.read_block:
        drop_piece(endpoint.read_blocks, pair.read_block)
        pair.read_block = 0


@internal
def move_reads(pair: at.PairState, place: int, to: int) -> None:
    """Move the READs from one place on so that the first of them comes to another."""
    reads = pair.read_block + _HEAD_BYTES
    size = (pair.reads - place) * _READ_BYTES
    memmove(reads + to * _READ_BYTES, reads + place * _READ_BYTES, size)


@internal
def is_cheap_to_repeat(pair: at.PairState) -> bool:
    """Return whether the oldest packet that is not acknowledged is a READ request or a small
    message."""
    work = work_at(pair, pair.first_work)
    return pair.first_work != pair.next_work and (work.kind == at.READ or work.length <= SMALL)


@internal
def backed_off(endpoint: at.EndpointState, timeout: int, doublings: int) -> int:
    """Return a timeout after so many doublings, but not beyond the longest."""
    limit = max(timeout, endpoint.maximum_timeout)
    while doublings > 0 and timeout < limit:
        timeout *= 2
        doublings -= 1
    return min(timeout, limit)


@internal
def timeout_of(endpoint: at.EndpointState, pair: at.PairState) -> int:
    """Return the retransmission timeout now, back-off included.

    RFC 6298 without its coarse clock, and with the time that passes until an acknowledgement is
    asked for. What is cheap to repeat is so after twice the time that everything in flight takes
    on the link, and a timeout of its own: collectives wait for their control messages and READs
    with nothing else to do, and a rash repetition costs one packet. Where each timeout takes
    another path, back-off begins once all have been tried.
    """
    minimum = endpoint.minimum_timeout
    measured = pair.smoothed_rtt + 4 * pair.rtt_variation + endpoint.acknowledge_interval
    timeout = measured if pair.smoothed_rtt else endpoint.initial_timeout
    if endpoint.repeats_early and endpoint.rate_bps and is_cheap_to_repeat(pair):
        flight = pair.send_highest - pair.unacknowledged
        flight_ns = flight * endpoint.path_mtu * 8_000_000_000 // endpoint.rate_bps
        minimum = min(minimum, endpoint.control_timeout + 2 * flight_ns)
        if pair.smoothed_rtt == 0:
            timeout = min(timeout, 2 * endpoint.control_timeout + 2 * flight_ns)
    return backed_off(endpoint, max(timeout, minimum), pair.retries - pair.port_count)


@internal
def go_back(endpoint: at.EndpointState, pair: at.PairState) -> None:
    """Send again from the oldest packet that is not acknowledged; slow down once a window."""
    pair.send_next = pair.unacknowledged
    pair.send_work = pair.first_work
    pair.acknowledge_asked = pair.unacknowledged
    pair.timed_psn = -1
    slow_down(endpoint, pair)


@internal
def undo_go_back(pair: at.PairState) -> None:
    """Go on where we were, as a timeout was rash: more is acknowledged than the probe.

    As RFC 5682 (F-RTO) does. If the end of what was sent is missing all the same, a NAK or the next
    timeout says so.
    """
    pair.send_next = pair.send_highest
    skip_sent_work(pair)


@internal
def fail(endpoint: at.EndpointState, pair: at.PairState, index: int, reason: int, psn: int) -> None:
    """Stop the queue pair; Python completes what is posted with errors."""
    pair.state = at.FAILED
    pair.timer = 0
    drop_reads(endpoint, pair)
    drop_board(endpoint, pair)
    pair.nak_pending = pair.acknowledge_pending = 0
    event = add_event(endpoint, at.EVENT_FAILED, index)
    event.value = reason
    event.sequence = psn


@internal
def measure(pair: at.PairState, now: int) -> None:
    """Take in the round trip of the packet that was being timed (RFC 6298)."""
    sample = max(1, now - pair.timed_at)
    pair.timed_psn = -1
    if pair.smoothed_rtt == 0:
        pair.smoothed_rtt = sample
        pair.rtt_variation = sample // 2
    else:
        change = sample - pair.smoothed_rtt
        pair.rtt_variation += (abs(change) - pair.rtt_variation) // 4
        pair.smoothed_rtt += change // 8


@internal
def advance(
    endpoint: at.EndpointState, pair: at.PairState, index: int, reached: int, now: int
) -> None:
    """Complete work, open the window and restart the timer: everything before `reached` is
    acknowledged."""
    before = pair.unacknowledged
    if reached <= before:
        return
    selective = pair.board != 0
    if selective:
        retire(endpoint, pair, reached)
    pair.unacknowledged = reached
    if pair.timed_psn >= 0 and reached > pair.timed_psn:
        measure(pair, now)
    pair.retries = 0
    if pair.probing and reached > before + 1:
        if selective:
            restore(endpoint, pair)
        else:
            undo_go_back(pair)
        set_window(endpoint, pair, after_rash_timeout(endpoint, pair))
    pair.probing = 0
    pair.last_progress = now
    set_window(endpoint, pair, after_acknowledgement(endpoint, pair, reached - before, now))
    first = pair.first_work
    relay = complete_work(endpoint, pair, index, reached)
    is_done = pair.first_work > first
    pair.send_next = max(pair.send_next, reached)
    pair.acknowledge_asked = max(pair.acknowledge_asked, reached)
    pair.send_work = max(pair.send_work, pair.first_work)
    if selective:
        seek(endpoint, pair)
        drop_idle_board(endpoint, pair)
    pair.timer = now + timeout_of(endpoint, pair) if reached < pair.send_highest else 0
    if is_done and endpoint.first_relay:
        go_on(endpoint, index, relay)


@internal
def complete_work(endpoint: at.EndpointState, pair: at.PairState, index: int, reached: int) -> int:
    """Complete all work that ends before `reached`; return the address of a relay that has posted
    some of it, or 0."""
    first = pair.first_work
    told = relay = 0
    while pair.first_work < pair.next_work:
        work = work_at(pair, pair.first_work)
        if work.end > reached:
            break
        if work.chunk_bytes_or_relay == at.NO_RELAY:
            told += 1
        else:
            relay = max(relay, retire_write(endpoint, work))
        pair.first_work += 1
    awaited = pair.work_waits or endpoint.room_awaited
    if told or (awaited and pair.first_work > first):
        add_event(endpoint, at.EVENT_WORK_DONE, index).value = told
        endpoint.idle_events += endpoint.sends_can_wait
    return relay


@internal
def acknowledge(
    endpoint: at.EndpointState, pair: at.PairState, index: int, reached: int, now: int
) -> bool:
    """Take an acknowledgement of everything before `reached`; False if a READ before that lacks
    data.

    Of a READ only its responses acknowledge anything (specification, 9.7.5.1.1: implied NAK).
    """
    number = pair.first_work
    while number < pair.next_work and work_at(pair, number).first < reached:
        work = work_at(pair, number)
        if work.kind == at.READ:
            advance(endpoint, pair, index, max(work.first, pair.unacknowledged), now)
            return False
        number += 1
    advance(endpoint, pair, index, reached, now)
    return True


@internal
def refuse(endpoint: at.EndpointState, pair: at.PairState, syndrome: int) -> None:
    """Answer the expected packet with a NAK that ends the connection at the peer."""
    endpoint.statistics.access_errors += 1
    pair.nak_pending = syndrome
    pair.in_message = at.NO_MESSAGE


@internal
def queue_read(
    endpoint: at.EndpointState,
    pair: at.PairState,
    address: int,
    key: int,
    size: int,
    first: int,
    repeated: int,
) -> bool:
    """Line up a READ to be answered, in PSN order, and return False if there is no room for it.

    A READ that is asked for again while its responses wait is answered from where it is asked for.
    """
    end = first + packets_of(size, endpoint.path_mtu)
    if pair.reads == 0 and not take_read_block(endpoint, pair):
        return False
    place = 0
    while place < pair.reads and read_at(pair, place).end < end:
        place += 1
    read = read_at(pair, place)
    if place < pair.reads and read.end == end:
        if read.next <= first:
            return True
    elif pair.reads == at.READ_ROOM:
        return False
    else:
        move_reads(pair, place, place + 1)
        pair.reads += 1
    read.first = read.next = first
    read.end = end
    read.address = address
    read.key = key
    read.length = size
    read.repeated = repeated
    return True
