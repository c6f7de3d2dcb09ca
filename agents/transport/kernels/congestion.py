"""What a requester makes of echoed congestion marks: DCTCP's window, PLB's rounds, REPS's cache.

A round is what is in flight when it begins, so about a round trip.
"""

from __future__ import annotations

from weft.agents.transport import layout as at
from weft.agents.transport.kernels.entropy import change_path, keep_entropy
from weft.agents.wire import packets as wire
from weft.agents.wire.compiled import internal
from weft.agents.wire.headers import HAS_PAYLOAD

CONGESTED_ROUNDS = 3
"""PLB: so many congested rounds in a row are reason to take another path."""
SMALLEST_WINDOW = 256
"""Of DCTCP, in 1/256 packets: many senders to one receiver may each have one packet on its way."""


@internal
def end_round(endpoint: at.EndpointState, pair: at.PairState, now: int) -> None:
    """Judge a round by its marks (DCTCP: RFC 8257, 3.3; PLB: SIGCOMM 2022, section 3)."""
    marked = pair.marked
    acked = pair.acked
    if endpoint.congestion == at.DCTCP:
        pair.alpha += (marked * at.ONE_ALPHA // acked - pair.alpha) // 16
        if marked:
            smaller = pair.window - pair.window * pair.alpha // (2 * at.ONE_ALPHA)
            pair.window = max(SMALLEST_WINDOW, smaller)
    if endpoint.entropy == at.PLB:
        pair.congested_rounds = pair.congested_rounds + 1 if 4 * marked > acked else 0
        if pair.congested_rounds >= CONGESTED_ROUNDS:
            change_path(endpoint, pair)
    pair.marked = 0
    pair.acked = 0
    pair.round_end = pair.send_highest


@internal
def take_feedback(
    endpoint: at.EndpointState, pair: at.PairState, fields: wire.Fields, before: int, now: int
) -> None:
    """An acknowledgement or a READ response has come; `before` it, that was unacknowledged."""
    response = fields.property_bits & HAS_PAYLOAD
    mark = fields.marked if response else fields.congested
    packets = pair.unacknowledged - before
    if endpoint.echo == at.ECHO_EVERY or response:
        packets = 1
    if endpoint.entropy == at.REPS and not response and not mark:
        keep_entropy(endpoint, pair, fields.source_port)
    pair.acked += packets
    if mark:
        pair.marked += packets
    if pair.acked and pair.unacknowledged >= pair.round_end:
        end_round(endpoint, pair, now)
