"""What a requester makes of echoed congestion marks: DCTCP's window, PLB's rounds, REPS's cache.

A round is what is in flight when it begins, so about a round trip.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.entropy import change_path, keep_entropy
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import HAS_PAYLOAD

Words = npt.NDArray[np.int64]

CONGESTED_ROUNDS = 3
"""PLB: so many congested rounds in a row are reason to take another path."""
SMALLEST_WINDOW = 256
"""Of DCTCP, in 1/256 packets: many senders to one receiver may each have one packet on its way."""


@internal
def end_round(endpoint: Words, pair: Words, now: int) -> None:
    """Judge a round by its marks (DCTCP: RFC 8257, 3.3; PLB: SIGCOMM 2022, section 3)."""
    marked = pair[at.MARKED]
    acked = pair[at.ACKED]
    if endpoint[at.CONGESTION] == at.DCTCP:
        pair[at.ALPHA] += (marked * at.ONE_ALPHA // acked - pair[at.ALPHA]) // 16
        if marked:
            smaller = pair[at.WINDOW] - pair[at.WINDOW] * pair[at.ALPHA] // (2 * at.ONE_ALPHA)
            pair[at.WINDOW] = max(SMALLEST_WINDOW, smaller)
    if endpoint[at.ENTROPY] == at.PLB:
        pair[at.CONGESTED_ROUNDS] = pair[at.CONGESTED_ROUNDS] + 1 if 4 * marked > acked else 0
        if pair[at.CONGESTED_ROUNDS] >= CONGESTED_ROUNDS:
            change_path(endpoint, pair)
    pair[at.MARKED] = 0
    pair[at.ACKED] = 0
    pair[at.ROUND_END] = pair[at.SEND_HIGHEST]


@internal
def take_feedback(endpoint: Words, pair: Words, fields: Words, before: int, now: int) -> None:
    """An acknowledgement or a READ response has come; `before` it, that was unacknowledged."""
    response = fields[wire.PROPERTY_BITS] & HAS_PAYLOAD
    mark = fields[wire.MARKED] if response else fields[wire.CONGESTED]
    packets = pair[at.UNACKNOWLEDGED] - before
    if endpoint[at.ECHO] == at.ECHO_EVERY or response:
        packets = 1
    if endpoint[at.ENTROPY] == at.REPS and not response and not mark:
        keep_entropy(endpoint, pair, fields[wire.SOURCE_PORT])
    pair[at.ACKED] += packets
    if mark:
        pair[at.MARKED] += packets
    if pair[at.ACKED] and pair[at.UNACKNOWLEDGED] >= pair[at.ROUND_END]:
        end_round(endpoint, pair, now)
