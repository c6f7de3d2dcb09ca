"""How late something was: counts in buckets an eighth of a power of two wide, so no sample is
kept."""

from __future__ import annotations


class Lateness:
    """A distribution of times in ns; percentiles are right to an eighth."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}
        self.samples = 0
        self.maximum_ns = 0

    def add(self, late_ns: int) -> None:
        """Count one sample; what is negative counts as 0."""
        late_ns = max(late_ns, 0)
        shift = max(late_ns.bit_length() - 4, 0)
        bucket = shift << 4 | late_ns >> shift
        self._counts[bucket] = self._counts.get(bucket, 0) + 1
        self.samples += 1
        self.maximum_ns = max(self.maximum_ns, late_ns)

    def percentile(self, fraction: float) -> int:
        """The time (ns) that this fraction of the samples does not exceed, but for the width of a
        bucket."""
        left = fraction * self.samples
        for bucket in sorted(self._counts):
            left -= self._counts[bucket]
            if left <= 0:
                shift, leading = bucket >> 4, bucket & 15
                return min(((leading + 1) << shift) - 1, self.maximum_ns)
        return self.maximum_ns

    def summary(self) -> dict[str, int]:
        """`p50`, `p99` and `max` in ns; zeros without samples."""
        return {
            "p50": self.percentile(0.5),
            "p99": self.percentile(0.99),
            "max": self.maximum_ns,
        }
