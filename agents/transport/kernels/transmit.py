"""What an endpoint sends: timers, control, then data round robin, into the rows of a batch."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.active import (
    find_deadline,
    look_again,
    look_at_changed,
    next_due,
    take_changed,
)
from weft.agents.transport.kernels.aggregation import send_round, serve_slots
from weft.agents.transport.kernels.board import lose_all
from weft.agents.transport.kernels.chunks import send_chunk
from weft.agents.transport.kernels.echo import send_echo
from weft.agents.transport.kernels.entropy import leave_path
from weft.agents.transport.kernels.frames import frame_size
from weft.agents.transport.kernels.requester import (
    can_request,
    request_is_read,
    send_request,
)
from weft.agents.transport.kernels.responder import (
    acknowledgement_waits,
    send_acknowledgement,
    send_response,
)
from weft.agents.transport.kernels.state import (
    fail,
    go_back,
    slow_down,
    timeout_of,
)
from weft.agents.wire.compiled import compiled, internal
from weft.agents.wire.headers import (
    PSN_MASK,
)
from weft.base.jit import table_at

Words = npt.NDArray[np.int64]


@internal
def serve_timeout(endpoint: Words, pair: Words, index: int, now: int) -> None:
    """The timer of a connection has expired: send again, or give up what timed out too often."""
    if (
        pair[at.RETRIES] >= endpoint[at.RETRY_LIMIT]
        and now - pair[at.LAST_PROGRESS] >= endpoint[at.GIVE_UP]
    ):
        fail(endpoint, pair, index, at.REASON_TIMEOUT, pair[at.UNACKNOWLEDGED] & PSN_MASK)
        return
    endpoint[at.TIMEOUTS] += 1
    pair[at.RETRIES] += 1
    pair[at.PROBING] = 1
    leave_path(endpoint, pair, index, now)
    if endpoint[at.RECOVERY] == at.SELECTIVE:
        lose_all(endpoint, pair)
        slow_down(pair)
    else:
        go_back(pair)
    pair[at.TIMER] = now + timeout_of(endpoint, pair)


@internal
def echo_waits(endpoint: Words) -> bool:
    """Whether acknowledgements with echoes are lined up."""
    result: bool = endpoint[at.ECHOES] > endpoint[at.ECHOES_SENT]
    return result


@internal
def serve_timers(endpoint: Words, pairs: Words, now: int) -> None:
    """Retransmit what timed out, give up what has timed out too often."""
    rows = endpoint[at.TREE_ROWS]
    index = next_due(endpoint[at.TIMER_TREE], rows, 0, now)
    while index >= 0:
        pair = pairs[index]
        if pair[at.KIND] == job.AGGREGATION:
            serve_slots(endpoint, pair, index, now)
        else:
            serve_timeout(endpoint, pair, index, now)
        look_again(endpoint, pair, index, False)
        index = next_due(endpoint[at.TIMER_TREE], rows, index + 1, now)


@internal
def next_lane(endpoint: Words, pairs: Words, pair: Words, now: int) -> int:
    """The leaf of the data tree whose turn it is among a queue pair's lanes, one of which is due:
    however many they are, their peer gets no more of the link than another."""
    rows = 2 * endpoint[at.TREE_ROWS]
    start = 2 * pair[at.FIRST_LANE]
    turn = pairs[pair[at.FIRST_LANE]][at.LANE_TURN]
    found = next_due(endpoint[at.DATA_TREE], rows, start + turn, now)
    if found < 0 or found >= start + 2 * pair[at.LANES]:
        found = next_due(endpoint[at.DATA_TREE], rows, start, now)
    return found


@compiled
def deadline_of(endpoint: Words) -> int:
    """When transmit must be called next, for an endpoint whose state changed since its last
    transmit."""
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], endpoint[at.QUEUE_PAIRS], at.QUEUE_PAIR_WORDS)
    look_at_changed(endpoint, pairs)
    return find_deadline(endpoint)


@compiled
def transmit_batch(endpoint: Words, batch: Words, now: int, budget: int) -> int:
    """Fill a batch; returns how many rows. `batch` is `Datagrams.addresses`."""
    total = endpoint[at.QUEUE_PAIRS]
    pairs = table_at(endpoint[at.QUEUE_PAIR_TABLE], total, at.QUEUE_PAIR_WORDS)
    rows = endpoint[at.TREE_ROWS]
    room = batch[at.BATCH_CAPACITY]
    count = 0
    take_changed(endpoint, pairs, now)
    serve_timers(endpoint, pairs, now)
    if endpoint[at.WAS_IDLE]:
        endpoint[at.LINK_FREE] = max(endpoint[at.LINK_FREE], now)
    full = False
    while echo_waits(endpoint) and not full:
        if count == room or budget < frame_size(16, 0):
            full = True
        else:
            frame = send_echo(endpoint, pairs, batch, count, now)
            if frame > 0:
                budget -= frame
                count += 1
    index = -1 if full else next_due(endpoint[at.CONTROL_TREE], rows, 0, now)
    while index >= 0:
        pair = pairs[index]
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
        look_again(endpoint, pair, index, False)
        if full:
            break
        index = next_due(endpoint[at.CONTROL_TREE], rows, index + 1, now)
    turn = endpoint[at.ROTATION]
    paced = endpoint[at.RATE_BPS] != 0
    while not full and count < room:
        if paced and endpoint[at.LINK_FREE] > now:
            break
        found = next_due(endpoint[at.DATA_TREE], 2 * rows, turn + 1, now)
        if found < 0:
            found = next_due(endpoint[at.DATA_TREE], 2 * rows, 0, now)
        if found < 0:
            break
        start = end = found
        if pairs[found >> 1][at.LANES] > 1:
            start = 2 * pairs[found >> 1][at.FIRST_LANE]
            end = start + 2 * pairs[found >> 1][at.LANES] - 1
            found = next_lane(endpoint, pairs, pairs[found >> 1], now)
        index = found >> 1
        pair = pairs[index]
        if pair[at.KIND] == at.UD:
            frame = send_chunk(endpoint, pair, index, batch, count, budget, now)
        elif pair[at.KIND] == job.AGGREGATION:
            frame = send_round(endpoint, pair, batch, count, budget, now)
        elif found & 1:
            frame = send_response(endpoint, pair, batch, count, budget, now)
        else:
            frame = send_request(endpoint, pair, batch, count, budget, now)
        if frame == 0:
            turn = start - 1 if start > 0 else 2 * total - 1
            break
        turn = end
        if end > start:
            pairs[start >> 1][at.LANE_TURN] = (found + 1 - start) % (end + 1 - start)
        look_again(endpoint, pair, index, True)
        if frame > 0:
            budget -= frame
            count += 1
    endpoint[at.ROTATION] = turn
    # READ requests that came up and did not get their turn are control, from now on alone.
    index = -1 if full else next_due(endpoint[at.CONTROL_TREE], rows, 0, now)
    while index >= 0:
        look_again(endpoint, pairs[index], index, False)
        index = next_due(endpoint[at.CONTROL_TREE], rows, index + 1, now)
    find_deadline(endpoint)
    endpoint[at.WAS_IDLE] = 1 if endpoint[at.DATA_TIME] > now else 0
    return count
