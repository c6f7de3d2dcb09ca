"""How many workers a rate takes: an interval, computed from what a few of them were measured to
receive.

The least number is what the rate takes if every worker is as quick as one alone, since workers
share no state. They do share the machine (memory, caches, what else the cores have in common), so
two are less than twice as quick as one. A law is fitted to those numbers of workers that had a core
each. It says that every other worker adds a share s, the contention, of a lone one's time to each
worker's,

    rate(W) = W rate(1) / (1 + s (W - 1)),

which is Amdahl's law with s for the part that only one can do at a time; its limit is rate(1) / s.
The largest number is what a rate takes by that law. It is an extrapolation beyond the cores that
there are: other machines may have more memory bandwidth, or share more.

What threads of a SmartNIC do is modelled, not measured: the published cycles for a chunk at the
published clock.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Needed:
    """How many workers a rate takes."""

    least: int
    """How many workers it takes if each is as quick as one alone."""
    most: int | None
    """How many workers it takes by the fitted law; None if by that law no number is enough."""
    extrapolated: bool
    """Whether that is more workers than there are cores to measure."""


@dataclass(frozen=True)
class Scaling:
    """The rate at which workers receive, by their number; rates are anything per
    second."""

    alone: float
    """What one worker receives by itself."""
    contention: float
    """The share s of the law; 0 if workers share nothing."""
    counts: tuple[int, ...]
    """The numbers of workers that the law was fitted to."""
    cores: int

    @property
    def limit(self) -> float | None:
        """Return the rate that no number of workers exceeds; None if they share nothing."""
        return self.alone / self.contention if self.contention else None

    def rate(self, workers: int) -> float:
        """Return the rate of this many workers together, by the law."""
        return workers * self.alone / (1 + self.contention * (workers - 1))

    def needed(self, rate: float) -> Needed:
        """Return how many workers a rate needs at least and at most."""
        least = math.ceil(rate / self.alone)
        most = None
        if rate <= self.alone:
            most = 1
        elif rate * self.contention < self.alone:
            share = self.alone - rate * self.contention
            most = max(least, math.ceil(rate * (1 - self.contention) / share))
        return Needed(least, most, most is None or most > self.cores)


def fitted(rates: Mapping[int, float], cores: int) -> Scaling | None:
    """Fit the law by least squares to the rates of those numbers of workers that had a core each,
    and return it.

    Returns None unless one worker and one other number of them were measured so.
    """
    own = {count: rate for count, rate in sorted(rates.items()) if count <= cores}
    if 1 not in own or len(own) < 2:
        return None
    more = {count: count * own[1] / rate - 1 for count, rate in own.items() if count > 1}
    slope = sum((count - 1) * lost for count, lost in more.items())
    contention = max(0.0, slope / sum((count - 1) ** 2 for count in more))
    return Scaling(own[1], contention, tuple(own), cores)


@dataclass(frozen=True)
class OffloadedThread:
    """A thread of a SmartNIC as others have published it."""

    cycles_per_chunk: float
    clock_hz: float

    @property
    def chunk_ns(self) -> float:
        """Return how many ns a chunk takes the thread."""
        return self.cycles_per_chunk / self.clock_hz * 1e9

    def threads(self, chunks_per_s: float) -> int:
        """Return how many threads a rate takes if each is as quick as one alone."""
        return math.ceil(chunks_per_s * self.chunk_ns / 1e9)
