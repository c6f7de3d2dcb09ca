"""Connections that have carried many packets, without the time that takes: counters are set."""

from collections.abc import Iterable

from weft.agents.transport.queue_pairs import RcQueuePair

ROUND = 1 << 24
"""How many packets of a connection until its PSN is the same again."""

_SENT = (
    "unacknowledged", "send_next", "send_highest", "posted_end", "recovery_end",
    "acknowledge_asked", "round_end",
)  # fmt: skip


def begin_anew(pairs: Iterable[RcQueuePair], packets: int) -> None:
    """Set queue pairs, on which nothing may be under way, as if each end had sent so many packets
    in all. After whole rounds, PSNs are due that were due at the very first. Both ends of each
    connection are to be among them."""
    for pair in pairs:
        row = pair._endpoint.row_of(pair.row)
        assert pair.remote is not None and not pair.outstanding and not row.board
        for name in _SENT:
            setattr(row, name, pair.initial_psn + packets)
        row.expected = pair.remote.initial_psn + packets
