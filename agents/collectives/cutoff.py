"""When to stop waiting for multicast chunks and to fetch what is missing.

The paper waits 5 times the expected time (SC24, "Cutoff timer"), which costs that much at any loss.
The adaptive cutoff stays near the expected time: it looks first when the data should be there, and
then grants short extensions as long as chunks go on arriving.
"""

from __future__ import annotations

from typing import Protocol

PAPER_SCALING = 5
QUIET_CHUNKS = 16
"""Silence of so many chunk times (of the receiver's full link) means that no more is coming."""
QUIET_MIN_NS = 2_000_000
"""But never less than this: a few hops' queues, and a late process on a busy machine."""
UNSTARTED_NS = 100_000_000
"""How long to wait for roots that have not sent anything yet: an activation packet may have been
lost, and its retry costs less than to fetch a whole shard."""


class Cutoff(Protocol):
    def first_check(self, start_ns: int) -> int:
        """When to ``check`` for the first time, given when the data phase began."""
        ...

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        """Ask whether to go on waiting.

        Args:
            received: packets so far.
            missing: packets that have not come.
            unstarted: some root that has a turn still to come has sent nothing at all.

        Returns:
            when to ask again, or None: stop waiting now.
        """
        ...


class PaperCutoff:
    """A fixed 5 times the expected time."""

    def __init__(self, expected_ns: int) -> None:
        self._expected_ns = max(expected_ns, QUIET_MIN_NS)

    def first_check(self, start_ns: int) -> int:
        return start_ns + PAPER_SCALING * self._expected_ns

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        return None


class FetchOnlyCutoff:
    """No waiting: for operations that multicast nothing."""

    def first_check(self, start_ns: int) -> int:
        return start_ns

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
        return None


class AdaptiveCutoff:
    """Near the expected time, extended while there is progress.

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
        self._start_ns = start_ns
        self._unstarted_until_ns = start_ns + self._expected_ns + self._quiet_ns + UNSTARTED_NS
        return start_ns + self._expected_ns

    def check(self, now_ns: int, received: int, missing: int, unstarted: bool) -> int | None:
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
