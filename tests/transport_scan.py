"""A transport that looks at every row of the queue pair table at every call: what the one that
looks at active rows must equal, packet for packet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.datagrams import Datagrams
from weft.agents.transport import Endpoint
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.chunks import NEVER, chunk_time, send_chunk
from weft.agents.transport.kernels.echo import send_echo
from weft.agents.transport.kernels.frames import frame_size
from weft.agents.transport.kernels.requester import can_request, request_is_read, send_request
from weft.agents.transport.kernels.responder import (
    acknowledgement_waits,
    send_acknowledgement,
    send_response,
)
from weft.agents.transport.kernels.transmit import echo_waits, serve_timeout
from weft.agents.wire.compiled import internal
from weft.base.jit import numba, table_at

Words = npt.NDArray[np.int64]


@internal
def scan_timers(endpoint: Words, pairs: Words, now: int) -> None:
    """Serve the timers of all rows."""
    for index in range(endpoint[at.QUEUE_PAIRS]):
        pair = pairs[index]
        if pair[at.KIND] == at.UD:
            if pair[at.CHUNKS_IDLE] and pair[at.FIRST_WORK] < pair[at.NEXT_WORK]:
                pair[at.CHUNKS_IDLE] = 0
                pair[at.CHUNK_DUE] = max(pair[at.CHUNK_DUE], now)
            continue
        if pair[at.TIMER] == 0 or pair[at.TIMER] > now:
            continue
        serve_timeout(endpoint, pair, index, now)


@internal
def scan_deadline(endpoint: Words, pairs: Words) -> int:
    """The earliest that any row waits for."""
    control = 0 if echo_waits(endpoint) else NEVER
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
    endpoint[at.DEADLINE] = min(control, data)
    return min(control, data)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def scanned_deadline(endpoint: Words) -> int:
    """`deadline_of`, looking at all rows."""
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], endpoint[at.QUEUE_PAIRS], at.QUEUE_PAIR_WORDS)
    return scan_deadline(endpoint, pairs)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def scanned_transmit(endpoint: Words, batch: Words, now: int, budget: int) -> int:
    """`transmit_batch`, looking at all rows."""
    total = endpoint[at.QUEUE_PAIRS]
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], total, at.QUEUE_PAIR_WORDS)
    room = batch[at.BATCH_CAPACITY]
    count = 0
    scan_timers(endpoint, pairs, now)
    if endpoint[at.WAS_IDLE]:
        endpoint[at.LINK_FREE] = max(endpoint[at.LINK_FREE], now)
    full = False
    while echo_waits(endpoint) and not full:
        if count == room or budget < frame_size(16, 0):
            full = True
            break
        frame = send_echo(endpoint, pairs, batch, count, now)
        budget -= frame
        count += frame > 0
    for index in range(0 if full else total):
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
    while not full and count < room and idle_turns < 2 * total:
        if endpoint[at.RATE_BPS] and endpoint[at.LINK_FREE] > now:
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
    scan_deadline(endpoint, pairs)
    endpoint[at.WAS_IDLE] = 1 if endpoint[at.DATA_TIME] > now else 0
    return count


class ScanningEndpoint(Endpoint):
    """An endpoint that looks at all its queue pairs whenever it is called."""

    def transmit(self, now_ns: int, budget_bytes: int = 1 << 60) -> Datagrams:
        sending = self._sending
        sending.count = scanned_transmit(self.words, sending.addresses, now_ns, budget_bytes)
        if self.words[at.EVENTS]:
            self.take_events(sending)
        return sending

    def deadline(self) -> int | None:
        found = int(scanned_deadline(self.words))
        return None if found >= NEVER else found
