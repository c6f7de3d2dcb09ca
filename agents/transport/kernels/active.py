"""Which queue pairs have something to do, and when: what a call costs depends on these alone.

Three trees of times (`layout`): of retransmission timers, of control, of data. A queue pair's
leaves follow from its row; whoever changes a row notes it, or looks at it again at once. They are
found in the order of their rows, so who is served next does not depend on how they became active.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport import layout as at
from weft.agents.transport.kernels.aggregation import needs_opening, open_rounds
from weft.agents.transport.kernels.aggregation_state import job_of
from weft.agents.transport.kernels.chunks import NEVER, chunk_time
from weft.agents.transport.kernels.requester import can_request, request_is_read
from weft.agents.transport.kernels.responder import acknowledgement_waits
from weft.agents.wire.compiled import internal
from weft.base.jit import words_at

Words = npt.NDArray[np.int64]


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
def look_again(endpoint: Words, pair: Words, index: int, in_turn: bool) -> None:
    """Set the times of a queue pair's leaves by its row.

    A READ request is control. One that comes up while data is sent takes its turn there, too
    (`in_turn`).
    """
    timer = NEVER
    control = NEVER
    request = NEVER
    response = NEVER
    if pair[at.KIND] == at.UD:
        request = 0 if pair[at.CHUNKS_IDLE] else chunk_time(endpoint, pair)
        if pair[at.FIRST_WORK] == pair[at.NEXT_WORK]:
            request = NEVER
    elif pair[at.KIND] == job.AGGREGATION:
        if pair[at.STATE] == at.READY:
            if pair[at.TIMER]:
                timer = pair[at.TIMER]
            if job_of(pair)[job.QUEUE_COUNT] or needs_opening(pair):
                request = 0
    elif pair[at.STATE] == at.READY:
        if pair[at.TIMER]:
            timer = pair[at.TIMER]
        if acknowledgement_waits(pair):
            control = 0
        if pair[at.READS]:
            response = 0
        if can_request(endpoint, pair):
            read = request_is_read(pair)
            if read:
                control = 0
            if in_turn or not read:
                request = 0
    rows = endpoint[at.TREE_ROWS]
    set_time(endpoint[at.TIMER_TREE], rows, index, timer)
    set_time(endpoint[at.CONTROL_TREE], rows, index, control)
    set_time(endpoint[at.DATA_TREE], 2 * rows, 2 * index, request)
    set_time(endpoint[at.DATA_TREE], 2 * rows, 2 * index + 1, response)


@internal
def look_at_changed(endpoint: Words, pairs: Words) -> None:
    """Look again at all rows that changed; they stay noted."""
    changed = words_at(endpoint[at.CHANGED_TABLE], endpoint[at.TREE_ROWS])
    for number in range(endpoint[at.CHANGED]):
        index = changed[number]
        look_again(endpoint, pairs[index], index, False)


@internal
def take_changed(endpoint: Words, pairs: Words, now: int) -> None:
    """Look again at all rows that changed, start the pace of new runs of chunks."""
    changed = words_at(endpoint[at.CHANGED_TABLE], endpoint[at.TREE_ROWS])
    for number in range(endpoint[at.CHANGED]):
        index = changed[number]
        pair = pairs[index]
        pair[at.IS_CHANGED] = 0
        if (
            pair[at.KIND] == at.UD
            and pair[at.CHUNKS_IDLE]
            and pair[at.FIRST_WORK] < pair[at.NEXT_WORK]
        ):
            pair[at.CHUNKS_IDLE] = 0
            pair[at.CHUNK_DUE] = max(pair[at.CHUNK_DUE], now)
        if pair[at.KIND] == job.AGGREGATION and needs_opening(pair):
            open_rounds(endpoint, pair, index)
        look_again(endpoint, pair, index, False)
    endpoint[at.CHANGED] = 0


@internal
def find_deadline(endpoint: Words) -> int:
    """When transmit must be called next, by the trees; 0 for at once, NEVER for not at all."""
    control = min(
        words_at(endpoint[at.TIMER_TREE], 2)[1], words_at(endpoint[at.CONTROL_TREE], 2)[1]
    )
    if endpoint[at.ECHOES] > endpoint[at.ECHOES_SENT]:
        control = 0
    data = words_at(endpoint[at.DATA_TREE], 2)[1]
    endpoint[at.DATA_TIME] = data
    if data < NEVER and endpoint[at.RATE_BPS]:
        data = max(data, endpoint[at.LINK_FREE])
    deadline: int = min(control, data)
    endpoint[at.DEADLINE] = deadline
    return deadline
