"""Histograms of durations, which the packet loop fills and whose quantiles Python reads."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from weft.base.jit import Record, record
from weft.switch.engine.dataplane.layout import Words
from weft.switch.engine.native.compiled import jit

STOOD_NS = 10_000_000
"""From this lateness on, the loop stood still. Schedulers are late by some ms now and then."""
HISTOGRAM = 40 * 16
"""How many buckets durations are counted in: 16 a power of two."""


@record
class Durations(Record):
    """Counts of durations by their length."""

    greatest_ns: int
    counts: Annotated[Words, HISTOGRAM]


@jit
def count_duration(durations: Durations, duration_ns: int) -> None:
    """Count a duration in a histogram of 16 steps per power of two."""
    duration_ns = max(duration_ns, 0)
    durations.greatest_ns = max(durations.greatest_ns, duration_ns)
    exponent = 0
    value = duration_ns
    while value >= 32:
        value >>= 1
        exponent += 1
    bucket = duration_ns if exponent == 0 else (exponent + 1) * 16 + (value - 16)
    durations.counts[min(bucket, HISTOGRAM - 1)] += 1


def lateness(histogram: NDArray[np.int64], fraction: float) -> int:
    """Return a quantile, in ns, of a histogram that `count_duration` filled: the upper end
    of its bucket."""
    total = int(histogram.sum())
    if total == 0:
        return 0
    bucket = int(np.searchsorted(np.cumsum(histogram), fraction * total))
    if bucket < 32:
        return bucket
    exponent = bucket // 16 - 1
    return ((bucket % 16) + 17 << exponent) - 1
