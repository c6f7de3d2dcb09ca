"""What both directions of the compiled transport do to a queue pair: progress, going back,
failing, finding memory.

`endpoint` is an endpoint's words, `pair` a row of its queue pair table; both are laid out as
`layout` says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.board import drop_board, drop_idle_board, restore, retire, seek
from weft.agents.transport.kernels.memory import add_event, free, malloc, packets_of, work_at
from weft.agents.wire.compiled import compiled, internal
from weft.base.jit import table_at, words_at

Words = npt.NDArray[np.int64]

MINIMUM_WINDOW = 4 * 256
SMALL = 256
"""Bytes of a message that is repeated early: a control message."""


@internal
def find_memory(endpoint: Words, address: int, rkey: int, size: int) -> int:
    """Where `size` bytes at a virtual address are in memory; 0 if the key or the bounds are
    wrong."""
    index = rkey & at.KEY_INDEX_MASK
    if index >= endpoint[at.REGIONS] or size < 0:
        return 0
    region = table_at(endpoint[at.REGION_TABLE], endpoint[at.REGIONS], at.REGION_WORDS)[index]
    offset = address - region[at.REGION_ADDRESS]
    if region[at.REGION_KEY] != rkey or offset < 0 or size > region[at.REGION_LENGTH] - offset:
        return 0
    found: int = region[at.REGION_MEMORY] + offset
    return found


@internal
def note_change(endpoint: Words, pair: Words, index: int) -> None:
    """Have the next transmit look at what the queue pair has to do."""
    if pair[at.IS_CHANGED]:
        return
    pair[at.IS_CHANGED] = 1
    count = endpoint[at.CHANGED]
    words_at(endpoint[at.CHANGED_TABLE], endpoint[at.TREE_ROWS])[count] = index
    endpoint[at.CHANGED] = count + 1


@internal
def reads_of(pair: Words) -> Words:
    """The block of READs that wait to be answered; there is one as long as any wait."""
    words: Words = words_at(pair[at.READ_BLOCK], at.READ_BLOCK_WORDS)
    return words


@internal
def take_read_block(endpoint: Words, pair: Words) -> bool:
    """Give the queue pair room for READs to be answered; False if there is no memory."""
    block = endpoint[at.FREE_READ_BLOCKS]
    if block:
        endpoint[at.FREE_READ_BLOCKS] = words_at(block, at.READ_TABLE)[at.NEXT_FREE_READ_BLOCK]
    else:
        block = malloc(8 * at.READ_BLOCK_WORDS)
        if block == 0:
            return False
        words_at(block, at.READ_TABLE)[at.NEXT_READ_BLOCK] = endpoint[at.READ_BLOCKS]
        endpoint[at.READ_BLOCKS] = block
    pair[at.READ_BLOCK] = block
    return True


@internal
def drop_reads(endpoint: Words, pair: Words) -> None:
    """No READ waits to be answered any more: another queue pair may have the room."""
    pair[at.READS] = 0
    block = pair[at.READ_BLOCK]
    if block:
        words_at(block, at.READ_TABLE)[at.NEXT_FREE_READ_BLOCK] = endpoint[at.FREE_READ_BLOCKS]
        endpoint[at.FREE_READ_BLOCKS] = block
        pair[at.READ_BLOCK] = 0


@compiled
def free_read_blocks(endpoint: Words) -> None:
    """Give back all memory of READs to be answered: the endpoint is not used any more."""
    block = endpoint[at.READ_BLOCKS]
    while block:
        following = words_at(block, at.READ_TABLE)[at.NEXT_READ_BLOCK]
        free(block)
        block = following
    endpoint[at.READ_BLOCKS] = 0
    endpoint[at.FREE_READ_BLOCKS] = 0


@internal
def is_cheap_to_repeat(pair: Words) -> bool:
    """Whether the oldest packet that is not acknowledged is a READ request or a small message."""
    if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
        return False
    work = work_at(pair, pair[at.FIRST_WORK])
    result: bool = work[at.WORK_KIND] == at.READ or work[at.WORK_LENGTH] <= SMALL
    return result


@internal
def timeout_of(endpoint: Words, pair: Words) -> int:
    """The retransmission timeout now, back-off included.

    RFC 6298 without its coarse clock, and with the time that passes until an acknowledgement is
    asked for. What is cheap to repeat is so after twice the time that everything in flight takes
    on the link, and a timeout of its own: collectives wait for their control messages and READs
    with nothing else to do, and a rash repetition costs one packet. Where each timeout takes
    another path, back-off begins once all have been tried.
    """
    minimum = endpoint[at.MINIMUM_TIMEOUT]
    if pair[at.SMOOTHED_RTT] == 0:
        timeout = endpoint[at.INITIAL_TIMEOUT]
    else:
        timeout = pair[at.SMOOTHED_RTT] + 4 * pair[at.RTT_VARIATION]
        timeout += endpoint[at.ACKNOWLEDGE_INTERVAL]
    rash = endpoint[at.CONGESTION] != at.DCTCP  # there, queues may be full on every way
    if rash and endpoint[at.RATE_BPS] and is_cheap_to_repeat(pair):
        flight = pair[at.SEND_HIGHEST] - pair[at.UNACKNOWLEDGED]
        flight_ns = flight * endpoint[at.PATH_MTU] * 8_000_000_000 // endpoint[at.RATE_BPS]
        early_ns = endpoint[at.CONTROL_TIMEOUT]
        minimum = min(minimum, early_ns + 2 * flight_ns)
        if pair[at.SMOOTHED_RTT] == 0:
            timeout = min(timeout, 2 * early_ns + 2 * flight_ns)
    timeout = max(timeout, minimum)
    limit = max(timeout, endpoint[at.MAXIMUM_TIMEOUT])
    for _ in range(pair[at.RETRIES] - pair[at.PORT_COUNT]):
        if timeout >= limit:
            break
        timeout *= 2
    limited: int = min(timeout, limit)
    return limited


@internal
def go_back(pair: Words) -> None:
    """Send again from the oldest packet that is not acknowledged; slow down once a window."""
    pair[at.SEND_NEXT] = pair[at.UNACKNOWLEDGED]
    pair[at.SEND_WORK] = pair[at.FIRST_WORK]
    pair[at.ACKNOWLEDGE_ASKED] = pair[at.UNACKNOWLEDGED]
    pair[at.TIMED_PSN] = -1
    slow_down(pair)


@internal
def slow_down(pair: Words) -> None:
    """Something is lost: halve the window, once a window."""
    if pair[at.UNACKNOWLEDGED] >= pair[at.RECOVERY_END]:
        halved = max(MINIMUM_WINDOW, pair[at.WINDOW] // 2)
        pair[at.WINDOW] = min(pair[at.WINDOW], halved)
        pair[at.RECOVERY_END] = pair[at.SEND_HIGHEST]


@internal
def undo_go_back(endpoint: Words, pair: Words) -> None:
    """A timeout was rash: more is acknowledged than the probe, so go on where we were.

    As RFC 5682 (F-RTO) does. If the end of what was sent is missing all the same, a NAK or the next
    timeout says so.
    """
    pair[at.SEND_NEXT] = pair[at.SEND_HIGHEST]
    while pair[at.SEND_WORK] < pair[at.NEXT_WORK]:
        work = work_at(pair, pair[at.SEND_WORK])
        if work[at.WORK_END] > pair[at.SEND_NEXT]:
            break
        pair[at.SEND_WORK] += 1
    pair[at.WINDOW] = min(2 * pair[at.WINDOW], endpoint[at.MAXIMUM_WINDOW] * 256)


@internal
def fail(endpoint: Words, pair: Words, index: int, reason: int, psn: int) -> None:
    """Stop the queue pair; Python completes what is posted with errors."""
    pair[at.STATE] = at.FAILED
    pair[at.TIMER] = 0
    drop_reads(endpoint, pair)
    drop_board(endpoint, pair)
    pair[at.NAK_PENDING] = 0
    pair[at.ACKNOWLEDGE_PENDING] = 0
    add_event(endpoint, at.EVENT_FAILED, index, reason, psn, 0, 0, 0)


@internal
def measure(pair: Words, now: int) -> None:
    """Take in the round trip of the packet that was being timed (RFC 6298)."""
    sample = max(1, now - pair[at.TIMED_AT])
    pair[at.TIMED_PSN] = -1
    smoothed = pair[at.SMOOTHED_RTT]
    if smoothed == 0:
        pair[at.SMOOTHED_RTT] = sample
        pair[at.RTT_VARIATION] = sample // 2
    else:
        variation = pair[at.RTT_VARIATION]
        pair[at.RTT_VARIATION] = variation + (abs(sample - smoothed) - variation) // 4
        pair[at.SMOOTHED_RTT] = smoothed + (sample - smoothed) // 8


@internal
def advance(endpoint: Words, pair: Words, index: int, reached: int, now: int) -> None:
    """Everything before `reached` is acknowledged: complete work, open the window, restart the
    timer."""
    before = pair[at.UNACKNOWLEDGED]
    if reached <= before:
        return
    selective = pair[at.BOARD] != 0
    if selective:
        retire(endpoint, pair, reached)
    pair[at.UNACKNOWLEDGED] = reached
    if pair[at.TIMED_PSN] >= 0 and reached > pair[at.TIMED_PSN]:
        measure(pair, now)
    pair[at.RETRIES] = 0
    if pair[at.PROBING] and reached > before + 1:
        if selective:
            restore(endpoint, pair)
            pair[at.WINDOW] = min(2 * pair[at.WINDOW], endpoint[at.MAXIMUM_WINDOW] * 256)
        else:
            undo_go_back(endpoint, pair)
    pair[at.PROBING] = 0
    pair[at.LAST_PROGRESS] = now
    limit = endpoint[at.MAXIMUM_WINDOW] * 256
    grown = pair[at.WINDOW] + (reached - before) * 65536 // pair[at.WINDOW]
    pair[at.WINDOW] = min(limit, grown)
    done = 0
    while pair[at.FIRST_WORK] < pair[at.NEXT_WORK]:
        work = work_at(pair, pair[at.FIRST_WORK])
        if work[at.WORK_END] > reached:
            break
        pair[at.FIRST_WORK] += 1
        done += 1
    if done:
        add_event(endpoint, at.EVENT_WORK_DONE, index, done, 0, 0, 0, 0)
    if pair[at.SEND_NEXT] < reached:
        pair[at.SEND_NEXT] = reached
    if pair[at.ACKNOWLEDGE_ASKED] < reached:
        pair[at.ACKNOWLEDGE_ASKED] = reached
    if pair[at.SEND_WORK] < pair[at.FIRST_WORK]:
        pair[at.SEND_WORK] = pair[at.FIRST_WORK]
    if selective:
        seek(endpoint, pair)
        drop_idle_board(endpoint, pair)
    if reached < pair[at.SEND_HIGHEST]:
        pair[at.TIMER] = now + timeout_of(endpoint, pair)
    else:
        pair[at.TIMER] = 0


@internal
def acknowledge(endpoint: Words, pair: Words, index: int, reached: int, now: int) -> bool:
    """Take an acknowledgement of everything before `reached`; False if a READ before that lacks
    data.

    Of a READ only its responses acknowledge anything (specification, 9.7.5.1.1: implied NAK).
    """
    number = pair[at.FIRST_WORK]
    stop = reached
    whole = True
    while number < pair[at.NEXT_WORK]:
        work = work_at(pair, number)
        if work[at.WORK_FIRST] >= reached:
            break
        if work[at.WORK_KIND] == at.READ:
            stop = max(work[at.WORK_FIRST], pair[at.UNACKNOWLEDGED])
            whole = False
            break
        number += 1
    advance(endpoint, pair, index, stop, now)
    return whole


@internal
def refuse(endpoint: Words, pair: Words, syndrome: int) -> None:
    """Answer the expected packet with a NAK that ends the connection at the peer."""
    endpoint[at.ACCESS_ERRORS] += 1
    pair[at.NAK_PENDING] = syndrome
    pair[at.IN_MESSAGE] = at.NO_MESSAGE


@internal
def queue_read(
    endpoint: Words, pair: Words, address: int, key: int, size: int, first: int, repeated: int
) -> bool:
    """Line up a READ to be answered, in PSN order; False if there is no room for it.

    A READ that is asked for again while its responses wait is answered from where it is asked for.
    """
    end = first + packets_of(size, endpoint[at.PATH_MTU])
    if pair[at.READS] == 0 and not take_read_block(endpoint, pair):
        return False
    reads = reads_of(pair)
    place = at.READ_TABLE
    stop = at.READ_TABLE + pair[at.READS] * at.READ_WORDS
    while place < stop and reads[place + at.READ_END] < end:
        place += at.READ_WORDS
    same = place < stop and reads[place + at.READ_END] == end
    if same:
        if reads[place + at.READ_NEXT] <= first:
            return True
    elif pair[at.READS] == at.READ_ROOM:
        return False
    else:
        word = stop - 1
        while word >= place:
            reads[word + at.READ_WORDS] = reads[word]
            word -= 1
        pair[at.READS] += 1
    reads[place + at.READ_FIRST] = first
    reads[place + at.READ_NEXT] = first
    reads[place + at.READ_END] = end
    reads[place + at.READ_ADDRESS] = address
    reads[place + at.READ_KEY] = key
    reads[place + at.READ_LENGTH] = size
    reads[place + at.READ_REPEATED] = repeated
    return True
