"""What an endpoint sends: timers, control, then data round robin, into the rows of a batch.

What a call costs depends on the queue pairs that have something to do alone. Three trees of times
(`layout`) find those: of retransmission timers, of control, of data. A queue pair's leaves follow
from its row; whoever changes a row notes it, or looks at it again at once. Queue pairs are found in
the order of their rows, so who is served next does not depend on how they became active.
"""

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation import (
    needs_opening,
    open_rounds,
    send_round,
    serve_slots,
)
from weft.agents.transport.kernels.board import lose_all
from weft.agents.transport.kernels.chunks import NEVER, chunk_time, send_chunk
from weft.agents.transport.kernels.echo import send_echo
from weft.agents.transport.kernels.entropy import leave_path
from weft.agents.transport.kernels.frames import frame_size
from weft.agents.transport.kernels.memory import pair_at
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
    timeout_of,
)
from weft.agents.transport.kernels.window import slow_down
from weft.agents.wire.compiled import entry, internal
from weft.agents.wire.headers import (
    PSN_MASK,
)
from weft.base.jit import words_at


@internal
def set_time(tree: int, leaves: int, leaf: int, time: int) -> None:
    """Set the time of a leaf of the tree at an address."""
    times = words_at(tree, 2 * leaves)
    place = leaves + leaf
    while times[place] != time:
        times[place] = time
        if place == 1:
            return
        time = min(time, times[place ^ 1])
        place >>= 1


@internal
def next_due(tree: int, leaves: int, first: int, limit: int) -> int:
    """Return the first leaf from `first` on whose time is not after `limit`, or -1."""
    times = words_at(tree, 2 * leaves)
    if first >= leaves or times[1] > limit:
        return -1
    place = leaves + first
    while times[place] > limit:
        while place & 1:  # to the right of it and of these nodes is what is above them
            place >>= 1
        if place == 0:
            return -1
        place += 1
    while place < leaves:
        place *= 2
        if times[place] > limit:
            place += 1
    return place - leaves


@internal
def look_again(endpoint: at.EndpointState, pair: at.PairState, index: int, in_turn: bool) -> None:
    """Set the times of a queue pair's leaves by its row.

    A READ request is control. One that comes up while data is sent takes its turn there, too
    (`in_turn`).
    """
    timer = pair.timer if pair.state == at.READY and pair.timer else NEVER
    control = request = response = NEVER
    if pair.kind == at.UD:
        begins = pair.chunks_idle and pair.first_work < pair.next_work
        request = 0 if begins else chunk_time(endpoint, pair)
    elif pair.kind == at_job.AGGREGATION:
        waits = at_job.JobState(pair.job).queue_count != 0 or needs_opening(pair)
        request = 0 if pair.state == at.READY and waits else NEVER
    elif pair.state == at.READY:
        if acknowledgement_waits(pair):
            control = 0
        if pair.reads:
            response = 0
        if can_request(endpoint, pair):
            read = request_is_read(pair)
            if read:
                control = 0
            if in_turn or not read:
                request = 0
    rows = endpoint.tree_rows
    set_time(endpoint.timer_tree, rows, index, timer)
    set_time(endpoint.control_tree, rows, index, control)
    set_time(endpoint.data_tree, 2 * rows, 2 * index, request)
    set_time(endpoint.data_tree, 2 * rows, 2 * index + 1, response)


@internal
def look_at_changed(endpoint: at.EndpointState) -> None:
    """Look again at all rows that changed; they stay noted."""
    for index in words_at(endpoint.changed_table, endpoint.changed):
        look_again(endpoint, pair_at(endpoint, index), index, False)


@internal
def take_changed(endpoint: at.EndpointState, now: int) -> None:
    """Look again at all rows that changed, start the pace of new runs of chunks."""
    for index in words_at(endpoint.changed_table, endpoint.changed):
        pair = pair_at(endpoint, index)
        pair.is_changed = 0
        if pair.kind == at.UD and pair.chunks_idle and pair.first_work < pair.next_work:
            pair.chunks_idle = 0
            pair.chunk_due = max(pair.chunk_due, now)
        if pair.kind == at_job.AGGREGATION and pair.state == at.READY and needs_opening(pair):
            open_rounds(endpoint, pair, index)
        look_again(endpoint, pair, index, False)
    endpoint.changed = 0


@internal
def find_deadline(endpoint: at.EndpointState) -> int:
    """Return when transmit must be called next, by the trees; 0 means at once, NEVER not at all."""
    control = min(words_at(endpoint.timer_tree, 2)[1], words_at(endpoint.control_tree, 2)[1])
    if echo_waits(endpoint):
        control = 0
    data = words_at(endpoint.data_tree, 2)[1]
    endpoint.data_time = data
    if data < NEVER and endpoint.rate_bps:
        data = max(data, endpoint.link_free)
    endpoint.deadline = min(control, data)
    return endpoint.deadline


@internal
def serve_timeout(endpoint: at.EndpointState, pair: at.PairState, index: int, now: int) -> None:
    """Serve a connection whose timer has expired: send again, or give up what timed out too
    often."""
    if pair.retries >= endpoint.retry_limit and now - pair.last_progress >= endpoint.give_up:
        fail(endpoint, pair, index, at.REASON_TIMEOUT, pair.unacknowledged & PSN_MASK)
        return
    endpoint.statistics.timeouts += 1
    pair.retries += 1
    pair.probing = 1
    leave_path(endpoint, pair, index, now)
    if endpoint.recovery == at.SELECTIVE:
        lose_all(endpoint, pair)
        slow_down(endpoint, pair)
    else:
        go_back(endpoint, pair)
    pair.timer = now + timeout_of(endpoint, pair)


@internal
def echo_waits(endpoint: at.EndpointState) -> bool:
    """Return whether acknowledgements with echoes are lined up."""
    return endpoint.echoes > endpoint.echoes_sent


@internal
def serve_timers(endpoint: at.EndpointState, now: int) -> None:
    """Retransmit what timed out, give up what has timed out too often."""
    rows = endpoint.tree_rows
    index = next_due(endpoint.timer_tree, rows, 0, now)
    while index >= 0:
        pair = pair_at(endpoint, index)
        if pair.kind == at_job.AGGREGATION:
            serve_slots(endpoint, pair, index, now)
        else:
            serve_timeout(endpoint, pair, index, now)
        look_again(endpoint, pair, index, False)
        index = next_due(endpoint.timer_tree, rows, index + 1, now)


@internal
def next_lane(endpoint: at.EndpointState, pair: at.PairState, now: int) -> int:
    """Return the leaf of the data tree whose turn it is among a queue pair's lanes, one of which is
    due: however many they are, their peer gets no more of the link than another."""
    rows = 2 * endpoint.tree_rows
    start = 2 * pair.first_lane
    turn = pair_at(endpoint, pair.first_lane).lane_turn
    found = next_due(endpoint.data_tree, rows, start + turn, now)
    if found < 0 or found >= start + 2 * pair.lanes:
        found = next_due(endpoint.data_tree, rows, start, now)
    return found


@entry
def deadline_of(state: int) -> int:
    """Return when transmit must be called next, for an endpoint whose state, at an address, has
    changed since its last transmit."""
    endpoint = at.EndpointState(state)
    look_at_changed(endpoint)
    return find_deadline(endpoint)


@entry
def transmit_batch(state: int, rows: int, now: int, budget: int) -> int:
    """Fill a batch; returns how many rows. The endpoint's state and the batch are at addresses."""
    return fill_batch(at.EndpointState(state), at.Batch(rows), now, budget)


@internal
def fill_batch(endpoint: at.EndpointState, batch: at.Batch, now: int, budget: int) -> int:
    """Do as `transmit_batch`, for compiled code."""
    rows = endpoint.tree_rows
    room = batch.capacity
    count = 0
    take_changed(endpoint, now)
    serve_timers(endpoint, now)
    if endpoint.was_idle:
        endpoint.link_free = max(endpoint.link_free, now)
    full = False
    while echo_waits(endpoint) and not full:
        full = count == room or budget < frame_size(16, 0)
        frame = 0 if full else send_echo(endpoint, batch, count, now)
        if frame > 0:
            budget -= frame
            count += 1
    index = -1 if full else next_due(endpoint.control_tree, rows, 0, now)
    while index >= 0:
        pair = pair_at(endpoint, index)
        if acknowledgement_waits(pair):
            if count == room or budget < frame_size(16, 0):
                full = True
                break
            budget -= send_acknowledgement(endpoint, pair, batch, count, now)
            count += 1
        while can_request(endpoint, pair) and request_is_read(pair):
            frame = send_request(endpoint, pair, batch, count, budget, now) if count < room else 0
            if frame == 0:
                full = True
                break
            budget -= frame
            count += 1
        look_again(endpoint, pair, index, False)
        if full:
            break
        index = next_due(endpoint.control_tree, rows, index + 1, now)
    turn = endpoint.rotation
    ahead = now + endpoint.burst
    while not full and count < room:
        if endpoint.rate_bps and endpoint.link_free > ahead:
            break
        found = next_due(endpoint.data_tree, 2 * rows, turn + 1, ahead)
        if found < 0:
            found = next_due(endpoint.data_tree, 2 * rows, 0, ahead)
        if found < 0:
            break
        start = end = found
        pair = pair_at(endpoint, found >> 1)
        if pair.lanes > 1:
            start = 2 * pair.first_lane
            end = start + 2 * pair.lanes - 1
            found = next_lane(endpoint, pair, ahead)
        index = found >> 1
        pair = pair_at(endpoint, index)
        if pair.kind == at.UD:
            frame = send_chunk(endpoint, pair, index, batch, count, budget, now)
        elif pair.kind == at_job.AGGREGATION:
            frame = send_round(endpoint, pair, batch, count, budget, now)
        elif found & 1:
            frame = send_response(endpoint, pair, batch, count, budget, now)
        else:
            frame = send_request(endpoint, pair, batch, count, budget, now)
        if frame == 0:
            turn = start - 1 if start > 0 else 2 * endpoint.queue_pairs - 1
            break
        turn = end
        if end > start:
            pair_at(endpoint, start >> 1).lane_turn = (found + 1 - start) % (end + 1 - start)
        look_again(endpoint, pair, index, True)
        if frame > 0:
            budget -= frame
            count += 1
    endpoint.rotation = turn
    # READ requests that came up and did not get their turn are control, from now on alone.
    index = -1 if full else next_due(endpoint.control_tree, rows, 0, now)
    while index >= 0:
        look_again(endpoint, pair_at(endpoint, index), index, False)
        index = next_due(endpoint.control_tree, rows, index + 1, now)
    find_deadline(endpoint)
    endpoint.was_idle = 1 if endpoint.data_time > now else 0
    return count
