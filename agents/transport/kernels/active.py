"""Which queue pairs have something to do, and when: what a call costs depends on these alone.

Three trees of times (`layout`): of retransmission timers, of control, of data. A queue pair's
leaves follow from its row; whoever changes a row notes it, or looks at it again at once. They are
found in the order of their rows, so who is served next does not depend on how they became active.
"""

from __future__ import annotations

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation import needs_opening, open_rounds
from weft.agents.transport.kernels.aggregation_state import job_of
from weft.agents.transport.kernels.chunks import NEVER, chunk_time
from weft.agents.transport.kernels.memory import pair_at
from weft.agents.transport.kernels.requester import can_request, request_is_read
from weft.agents.transport.kernels.responder import acknowledgement_waits
from weft.agents.wire.compiled import internal
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
    """The first leaf from `first` on whose time is not after `limit`, or -1."""
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
    timer = NEVER
    control = NEVER
    request = NEVER
    response = NEVER
    if pair.kind == at.UD:
        request = 0 if pair.chunks_idle else chunk_time(endpoint, pair)
        if pair.first_work == pair.next_work:
            request = NEVER
    elif pair.kind == at_job.AGGREGATION:
        if pair.state == at.READY:
            if pair.timer:
                timer = pair.timer
            if job_of(pair).queue_count or needs_opening(pair):
                request = 0
    elif pair.state == at.READY:
        if pair.timer:
            timer = pair.timer
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
    changed = words_at(endpoint.changed_table, endpoint.tree_rows)
    for number in range(endpoint.changed):
        index = changed[number]
        look_again(endpoint, pair_at(endpoint, index), index, False)


@internal
def take_changed(endpoint: at.EndpointState, now: int) -> None:
    """Look again at all rows that changed, start the pace of new runs of chunks."""
    changed = words_at(endpoint.changed_table, endpoint.tree_rows)
    for number in range(endpoint.changed):
        index = changed[number]
        pair = pair_at(endpoint, index)
        pair.is_changed = 0
        if pair.kind == at.UD and pair.chunks_idle and pair.first_work < pair.next_work:
            pair.chunks_idle = 0
            pair.chunk_due = max(pair.chunk_due, now)
        if pair.kind == at_job.AGGREGATION and needs_opening(pair):
            open_rounds(endpoint, pair, index)
        look_again(endpoint, pair, index, False)
    endpoint.changed = 0


@internal
def find_deadline(endpoint: at.EndpointState) -> int:
    """When transmit must be called next, by the trees; 0 for at once, NEVER for not at all."""
    control = min(words_at(endpoint.timer_tree, 2)[1], words_at(endpoint.control_tree, 2)[1])
    if endpoint.echoes > endpoint.echoes_sent:
        control = 0
    data = words_at(endpoint.data_tree, 2)[1]
    endpoint.data_time = data
    if data < NEVER and endpoint.rate_bps:
        data = max(data, endpoint.link_free)
    deadline: int = min(control, data)
    endpoint.deadline = deadline
    return deadline
