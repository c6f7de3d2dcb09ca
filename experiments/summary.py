"""The runs of a results document, summed up by algorithm, for the table and the report."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from experiments.results import Results, Run

TIERS = {
    "host_up": "host up",
    "host_down": "host down",
    "fabric_up": "fabric up",
    "fabric_down": "fabric down",
}
"""Names of the tiers' directions, in the order in which they are shown."""

VERDICTS = ("ok", "strained", "invalid")
"""Of fidelity, from best to worst."""


@dataclass(frozen=True)
class Summary:
    """All the repetitions of one algorithm. Medians are of the verified runs, None without any."""

    algorithm: str
    runs: tuple[Run, ...]

    @property
    def verified(self) -> tuple[Run, ...]:
        """The runs whose data is right; only they have times."""
        return tuple(run for run in self.runs if run.verified)

    @property
    def completions_ns(self) -> list[int]:
        """Of the verified runs, in order of repetition."""
        return [run.completion_ns for run in self.verified if run.completion_ns is not None]

    @property
    def completion_ns(self) -> float | None:
        """The median."""
        return statistics.median(self.completions_ns) if self.completions_ns else None

    @property
    def bound_ns(self) -> int:
        """The least time that theory allows; the same for all repetitions."""
        return self.runs[0].bound_ns

    @property
    def over_bound(self) -> float | None:
        """By what fraction of the bound the median exceeds it."""
        if self.completion_ns is None or not self.bound_ns:
            return None
        return self.completion_ns / self.bound_ns - 1

    @property
    def goodput_bps(self) -> float | None:
        """The median."""
        rates = [run.goodput_bps for run in self.verified if run.goodput_bps is not None]
        return statistics.median(rates) if rates else None

    @property
    def shown(self) -> Run:
        """The one run whose details stand for all: verified, with the median completion time."""
        candidates = [run for run in self.verified if run.completion_ns is not None]
        if not candidates:
            return self.runs[0]
        candidates.sort(key=lambda run: run.completion_ns or 0)
        return candidates[(len(candidates) - 1) // 2]

    @property
    def tiers(self) -> dict[str, float]:
        """Median bytes by tier and direction, of the verified runs, or of all if there are none."""
        runs = self.verified or self.runs
        return {tier: statistics.median(run.tiers[tier] for run in runs) for tier in TIERS}

    @property
    def retransmitted_packets(self) -> int:
        """Of all ranks in all runs."""
        return sum(run.retransmitted_packets for run in self.runs)

    @property
    def dropped(self) -> int:
        """Packets lost anywhere, in all runs."""
        return sum(run.dropped for run in self.runs)

    @property
    def fidelity(self) -> str:
        """The worst verdict of all runs."""
        return max((run.fidelity.verdict for run in self.runs), key=_badness)


def _badness(verdict: str) -> int:
    return VERDICTS.index(verdict) if verdict in VERDICTS else len(VERDICTS)


def summarize(results: Results) -> Sequence[Summary]:
    """One summary an algorithm, in the order in which they ran first."""
    runs: dict[str, list[Run]] = {}
    for run in results.runs:
        runs.setdefault(run.algorithm, []).append(run)
    return [Summary(algorithm, tuple(of)) for algorithm, of in runs.items()]


def worst_fidelity(results: Results) -> str:
    """The worst verdict of all runs; ``ok`` without any."""
    return max((run.fidelity.verdict for run in results.runs), key=_badness, default="ok")


def byte_unit(largest: float) -> tuple[str, int]:
    """The binary unit in which figures up to `largest` bytes read well, and its bytes."""
    for name, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if largest >= size:
            return name, size
    return "B", 1


def time_unit(longest_ns: float) -> tuple[str, int]:
    """The unit in which durations up to `longest_ns` read well, and its nanoseconds."""
    for name, size in (("s", 10**9), ("ms", 10**6), ("us", 10**3)):
        if longest_ns >= size:
            return name, size
    return "ns", 1


def three_digits(value: float) -> str:
    """At least three significant digits, no exponent: ``0.0123``, ``7.16``, ``57.3``, ``1260``."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.{2 if abs(value) < 10 else 1}f}"


def short_duration(duration_ns: float) -> str:
    """``598 ms``, ``1.26 s``, ``31.5 us``."""
    unit, size = time_unit(duration_ns)
    return f"{three_digits(duration_ns / size)} {unit}" if size > 1 else f"{duration_ns:.0f} ns"


def short_rate(rate_bps: float) -> str:
    """``93.4 Mbit/s``."""
    for unit, size in (("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)):
        if rate_bps >= size:
            return f"{three_digits(rate_bps / size)} {unit}"
    return f"{three_digits(rate_bps)} bit/s"
