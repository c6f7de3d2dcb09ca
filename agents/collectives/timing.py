"""Expected times, pacing rates and time limits of the collectives.

A link's rate counts Ethernet frame bytes without FCS. N = bytes per rank, P = ranks, B = link rate.
"""

from __future__ import annotations

UD_OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 8 + 4 + 4
"""Ethernet, IPv4, UDP, BTH, DETH, immediate and ICRC around a multicast chunk."""
RC_OVERHEAD_BYTES = 14 + 20 + 8 + 12 + 4
"""Ethernet, IPv4, UDP, BTH and ICRC around a middle packet of an RDMA WRITE."""

TIMEOUT_BASE_NS = 10_000_000_000
TIMEOUT_FACTOR = 10


def frames_bytes(size_bytes: int, chunk_bytes: int, overhead_bytes: int) -> int:
    """Frame bytes that carry so many payload bytes in packets of at most ``chunk_bytes``."""
    packets = -(-size_bytes // chunk_bytes)
    return size_bytes + packets * overhead_bytes


def send_time_ns(size_bytes: int, rate_bps: int) -> int:
    """How long a link takes to send so many frame bytes."""
    return -(-size_bytes * 8_000_000_000 // rate_bps)


def operation_timeout_ns(size: int, shard_bytes: int, rate_bps: int) -> int:
    """The default time limit of an Allgather, counted from its start on each rank.

    10 s and 10 times N(P-1)/B. Past it every rank that has not finished fails. A peer that does not
    answer is usually found earlier, by the retry limit of the reliable transport.
    """
    return TIMEOUT_BASE_NS + TIMEOUT_FACTOR * send_time_ns(shard_bytes * max(0, size - 1), rate_bps)


def root_rate_bps(size: int, chains: int, rate_bps: int) -> int:
    """At which rate each of M active roots may send so that no receiver's link is overrun.

    With all ranks active (M = P) a receiver hears P-1 of them, so each gets B/(P-1); with fewer
    some rank only receives, and each gets B/M.
    """
    return rate_bps // max(1, size - 1 if chains >= size else chains)


def expected_data_ns(
    size: int, chains: int, shard_bytes: int, chunk_bytes: int, rate_bps: int
) -> int:
    """The data phase of a multicast Allgather without loss, without latency: steps x time of one
    paced shard."""
    if size <= 1:
        return 0
    steps = -(-size // chains)
    frames = frames_bytes(shard_bytes, chunk_bytes, UD_OVERHEAD_BYTES)
    return steps * send_time_ns(frames, root_rate_bps(size, chains, rate_bps))
