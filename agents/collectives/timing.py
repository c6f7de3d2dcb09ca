"""Expected times, pacing rates and time limits of the collectives.

A link's rate counts Ethernet frame bytes without FCS. N = bytes per rank, P = ranks, B = link rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from weft.agents.collectives.overheads import UD_OVERHEAD_BYTES

TIMEOUT_BASE_NS = 10_000_000_000
TIMEOUT_FACTOR = 10


def frames_bytes(size_bytes: int, chunk_bytes: int, overhead_bytes: int) -> int:
    """Return frame bytes that carry so many payload bytes in packets of at most ``chunk_bytes``."""
    return size_bytes + -(-size_bytes // chunk_bytes) * overhead_bytes


def send_time_ns(size_bytes: int, rate_bps: int) -> int:
    """Return how long a link takes to send so many frame bytes."""
    return -(-size_bytes * 8_000_000_000 // rate_bps)


def operation_timeout_ns(size: int, total_bytes: int, rate_bps: int, repeat_ns: int = 0) -> int:
    """Return the default time limit of an operation, counted from its start on each rank.

    10 s and 10 times what a link takes for all ranks' data. Where links lose packets, that is 10
    times `repeat_ns` for each KiB of these data, too, and for 4 KiB of each rank, the messages by
    which they meet. Past it every rank that has not finished fails. A peer that does not answer is
    usually found earlier, by the retry limit of the reliable transport.
    """
    factor = TIMEOUT_FACTOR if size > 1 else 0
    repeated_ns = repeat_ns * (-(-total_bytes // 1024) + 4 * size)
    return TIMEOUT_BASE_NS + factor * (send_time_ns(total_bytes, rate_bps) + repeated_ns)


def chain_of(rank: int, size: int, chains: int) -> tuple[int, int]:
    """Return (first, end) of the contiguous segment of ranks that a rank's chain consists of."""
    chain = rank * chains // size
    return -(-chain * size // chains), -(-(chain + 1) * size // chains)


@dataclass(frozen=True)
class Pace:
    """A pace says how fast the roots of a multicast operation may send so that no receiver's link
    is overrun.

    A chain's share of the link is its share of all bytes, so that all chains end together. With
    all ranks active (M = P) a receiver does not hear itself, and the link is filled at the rank
    that has the least of its own: with equal shards each root gets B/(P-1). With fewer chains some
    rank only receives, and they share B.

    Args:
        shards: bytes of every rank.
        chains: M.
        packet_bytes: payload of a packet.
        rate_bps: B, of every host's link, or of the slowest one on the way; 0: not known, and
            nothing is paced.
        beside_bytes: frame bytes that other operations put on the fullest link meanwhile; they
            get their part of it, so that nothing waits in queues.
    """

    shards: Sequence[int]
    chains: int
    packet_bytes: int
    rate_bps: int
    beside_bytes: int = 0

    @cached_property
    def _frames(self) -> list[int]:
        """Return the frame bytes of every rank."""
        of_size = {
            size: frames_bytes(size, self.packet_bytes, UD_OVERHEAD_BYTES)
            for size in {*self.shards}
        }
        return [of_size[size] for size in self.shards]

    @cached_property
    def received_bytes(self) -> int:
        """Return the frame bytes of the operation that pass the fullest link."""
        own = min(self._frames) if self.chains >= len(self.shards) else 0
        return max(1, sum(self._frames) - own)

    @property
    def _carried(self) -> int:
        """Return all frame bytes that pass the fullest link meanwhile."""
        return self.received_bytes + self.beside_bytes

    def rate_of(self, rank: int) -> int:
        """Return the rate at which a root sends while it is active, in frame bits a second; 0 means
        without limit."""
        if not self.rate_bps:
            return 0
        first, end = chain_of(rank, len(self.shards), self.chains)
        share = sum(self._frames[first:end])
        return min(self.rate_bps, max(1, self.rate_bps * share // self._carried))

    @property
    def expected_ns(self) -> int:
        """Return how long the data phase takes without loss and latency; 0 if the rate is not
        known."""
        if not self.rate_bps or len(self.shards) < 2:
            return 0
        return send_time_ns(self._carried, self.rate_bps)

    def packet_ns(self) -> int:
        """Return how long one packet of the largest shard takes on a link; 0 if the rate is not
        known."""
        if not self.rate_bps:
            return 0
        packet = min(self.packet_bytes, max(self.shards, default=0))
        return send_time_ns(packet + UD_OVERHEAD_BYTES, self.rate_bps)


PAPER_SCALING = 5
QUIET_CHUNKS = 16
"""Silence of so many chunk times (of the receiver's full link) means that no more is coming."""
QUIET_MIN_NS = 2_000_000
"""But never less than this: a few hops' queues, and a late process on a busy machine."""
UNSTARTED_NS = 100_000_000
"""How long to wait for roots that have not sent anything yet: an activation packet may have been
lost, and its retry costs less than to fetch a whole shard."""


class Cutoff(Protocol):
    """A cutoff decides how long an operation waits for multicast packets before it fetches the
    rest."""

    def first_check(self, start_ns: int) -> int:
        """Return when to ``check`` for the first time, given when the data phase began."""

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        """Ask whether to go on waiting.

        Args:
            received: packets so far.
            missing: packets that have not come.
            unstarted: some root that has a turn still to come has sent nothing at all.

        Returns:
            when to ask again, or None: stop waiting now.
        """


@dataclass(frozen=True)
class FixedCutoff:
    """A fixed cutoff comes after one wait; 0 ns for operations that multicast nothing."""

    wait_ns: int

    @staticmethod
    def of_paper(expected_ns: int) -> "FixedCutoff":
        """Return a cutoff after 5 times the expected time (SC24, arXiv 2408.13356)."""
        return FixedCutoff(PAPER_SCALING * max(expected_ns, QUIET_MIN_NS))

    def first_check(self, start_ns: int) -> int:
        """Return the start plus the fixed time."""
        return start_ns + self.wait_ns

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        """Return None: the wait is over at the first check."""
        return None


class AdaptiveCutoff:
    """An adaptive cutoff comes near the expected time, and is put off while there is progress.

    What comes slower than expected, from a link at a part of its rate or on a busy machine, is
    given longer, by the measured rate: an extension is some packets' time at the rate at which they
    have come so far, and the extensions end at 5 times the time that all packets take at that rate.

    Args:
        expected_ns: of the data phase, from known rates.
        packet_ns: time of one packet on the receiver's link.
    """

    def __init__(self, expected_ns: int, packet_ns: int) -> None:
        self._quiet_ns = max(QUIET_MIN_NS, QUIET_CHUNKS * packet_ns)
        self._expected_ns = expected_ns
        self._start_ns = 0
        self._latest_ns: int | None = None
        self._unstarted_until_ns = 0
        self._received = 0

    def first_check(self, start_ns: int) -> int:
        """Return the time by which all data should have come without loss."""
        self._start_ns = start_ns
        self._unstarted_until_ns = start_ns + self._expected_ns + self._quiet_ns + UNSTARTED_NS
        return start_ns + self._expected_ns

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        """Return when to ask again while packets still come in time, or None to stop waiting."""
        if self._latest_ns is None:
            measured_ns = (now_ns - self._start_ns) * (received + missing) // max(received, 1)
            all_ns = max(measured_ns if received else 0, self._expected_ns + self._quiet_ns)
            self._latest_ns = self._start_ns + PAPER_SCALING * all_ns
        progress = received > self._received
        self._received = received
        if progress:
            self._unstarted_until_ns = now_ns + UNSTARTED_NS
        waiting_for_turn = unstarted and now_ns < self._unstarted_until_ns
        if now_ns >= self._latest_ns or not (progress or waiting_for_turn):
            return None
        measured_ns = (now_ns - self._start_ns) // received if received >= QUIET_CHUNKS else 0
        return now_ns + max(self._quiet_ns, QUIET_CHUNKS * measured_ns)
