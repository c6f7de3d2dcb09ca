"""What acknowledgements tell beside that packets arrived: their congestion marks, and for REPS the
UDP source ports that they came from.

Acknowledgements that each packet has, or each change of its mark, wait in a ring of the endpoint,
since a queue pair's row has room for one alone. DCTCP's rule (RFC 8257, 3.2): what one
acknowledgement tells of are packets that were all marked, or packets that were not.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.frames import finish_from, row_address
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import PSN_MASK, SYNDROME_ACK
from weft.agents.wire.packets import put_bth, put_word, set_congested
from weft.base.jit import table_at

Words = npt.NDArray[np.int64]

ACKNOWLEDGE = 0x11


@internal
def push_echo(
    endpoint: Words, index: int, psn: int, aeth: int, mark: int, source_port: int
) -> bool:
    """Line up an acknowledgement; False if the ring is full."""
    if endpoint[at.ECHOES] - endpoint[at.ECHOES_SENT] >= at.ECHO_ROOM:
        return False
    rows = table_at(endpoint[at.ECHO_TABLE], at.ECHO_ROOM, at.ECHO_WORDS)
    row = rows[endpoint[at.ECHOES] & (at.ECHO_ROOM - 1)]
    row[at.ECHO_PAIR] = index
    row[at.ECHO_PSN] = psn
    row[at.ECHO_AETH] = aeth
    row[at.ECHO_MARK] = mark
    row[at.ECHO_FROM] = source_port
    endpoint[at.ECHOES] += 1
    return True


@internal
def push_acknowledgement(
    endpoint: Words, pair: Words, index: int, end: int, mark: int, source_port: int
) -> bool:
    """Line up an ACK of everything before `end`; False if the ring is full."""
    aeth = (SYNDROME_ACK << 24) | (pair[at.MESSAGES] & PSN_MASK)
    if not push_echo(endpoint, index, end - 1, aeth, mark, source_port):
        return False
    pair[at.ACKNOWLEDGE_PENDING] = 0
    pair[at.SINCE_ACKNOWLEDGE] = 0
    return True


@internal
def echo_arrival(
    endpoint: Words, pair: Words, fields: Words, index: int, before: int, unacknowledged: int
) -> None:
    """A request has come, in its turn or again; before it `before` was expected, and
    `unacknowledged` packets had no acknowledgement yet.

    While READs wait to be answered nothing behind them is acknowledged, but with selective repeat,
    where the requester knows how to take it.
    """
    mark = fields[wire.MARKED]
    if endpoint[at.ECHO] == at.ECHO_EVERY:
        if pair[at.ACKNOWLEDGE_PENDING] and (
            pair[at.READS] == 0 or endpoint[at.RECOVERY] == at.SELECTIVE
        ):
            push_acknowledgement(
                endpoint, pair, index, pair[at.EXPECTED], mark, fields[wire.SOURCE_PORT]
            )
    elif mark != pair[at.CE_STATE] and unacknowledged and pair[at.READS] == 0:
        waits = pair[at.ACKNOWLEDGE_PENDING]
        if push_acknowledgement(
            endpoint, pair, index, before, pair[at.CE_STATE], pair[at.ECHO_PORT]
        ):
            pair[at.ACKNOWLEDGE_PENDING] = waits
            pair[at.SINCE_ACKNOWLEDGE] = pair[at.EXPECTED] - before
    pair[at.CE_STATE] = mark
    pair[at.ECHO_PORT] = fields[wire.SOURCE_PORT]


@internal
def put_acknowledgement(
    endpoint: Words,
    pair: Words,
    batch: Words,
    count: int,
    psn: int,
    aeth: int,
    mark: int,
    source_port: int,
    now: int,
) -> int:
    """Write an acknowledgement into row `count` of a batch; returns its frame bytes.

    It leaves from the source port of what it acknowledges where that is of interest; else from that
    of the data, or from another where that way seems to be dead.
    """
    row = row_address(batch, count)
    used = put_bth(row, ACKNOWLEDGE, 0, 0, pair[at.PEER_NUMBER], psn)
    used = put_word(row, used, aeth)
    if mark:
        set_congested(row)
        endpoint[at.MARKS_ECHOED] += 1
    if endpoint[at.ENTROPY] == at.FIXED or source_port == 0:
        source_port = pair[at.SOURCE_PORT]
        if pair[at.ACKNOWLEDGE_PORT]:
            source_port = pair[at.ACKNOWLEDGE_PORT]
    return finish_from(endpoint, pair, batch, count, used, now, source_port, pair[at.TOS])


@internal
def send_echo(endpoint: Words, pairs: Words, batch: Words, count: int, now: int) -> int:
    """The acknowledgement that has waited longest; returns its frame bytes, or 0 if its queue pair
    has failed."""
    rows = table_at(endpoint[at.ECHO_TABLE], at.ECHO_ROOM, at.ECHO_WORDS)
    row = rows[endpoint[at.ECHOES_SENT] & (at.ECHO_ROOM - 1)]
    endpoint[at.ECHOES_SENT] += 1
    pair = pairs[row[at.ECHO_PAIR]]
    if pair[at.STATE] != at.READY:
        return 0
    if row[at.ECHO_AETH] >> 24 == SYNDROME_ACK:
        endpoint[at.ACKNOWLEDGEMENTS_SENT] += 1
    else:
        endpoint[at.NAKS_SENT] += 1
    return put_acknowledgement(
        endpoint,
        pair,
        batch,
        count,
        row[at.ECHO_PSN],
        row[at.ECHO_AETH],
        row[at.ECHO_MARK],
        row[at.ECHO_FROM],
        now,
    )
