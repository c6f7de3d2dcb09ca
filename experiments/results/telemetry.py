"""Queues' depths and links' loads over time: from what switches count to what results hold."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, takewhile
from operator import not_

from weft.experiments.results.results import TIERS, LinkResult

Depths = Sequence[tuple[int, int]]
"""A distribution: (bytes, packets), ascending, as `LinkResult.queue_depths`."""

BINS_OF_BOUND = 128
"""Bins of time are chosen so that the least time of a run has so many; the switches have room for
twice as many before they double them."""
LEAST_BIN_NS = 1_000
MOST_FIGURES = 1 << 16
"""Of a run, bins of all directions of links together; those of large networks are longer."""
FEWEST_BINS = 16


def first_bin_ns(bound_ns: int) -> int:
    """How long bins of time are at first, for a run that takes so long at the least."""
    return max(LEAST_BIN_NS, bound_ns // BINS_OF_BOUND)


def merged(distributions: Iterable[Depths]) -> list[tuple[int, int]]:
    """One distribution of all packets of several."""
    total: dict[int, int] = {}
    for depths in distributions:
        for size_bytes, packets in depths:
            total[size_bytes] = total.get(size_bytes, 0) + packets
    return sorted(total.items())


def quantile(depths: Depths, fraction: float) -> int:
    """The least depth in bytes that so large a part of the packets found at the most; 0 of none."""
    if not depths:
        return 0
    seen = list(accumulate(packets for _, packets in depths))
    return depths[bisect_left(seen, fraction * seen[-1])][0]


def queue_figures(links: Sequence[LinkResult]) -> dict[str, dict[str, int]]:
    """`Run.queues`: of each kind of link whose queues are known. Figures are at most an eighth too
    large (`weft.switch.engine.telemetry`), ``max`` is exact and counts the last to enter, too."""
    found = {}
    for tier in TIERS:
        of_tier = [link for link in links if link.tier == tier]
        depths = merged(link.queue_depths for link in of_tier)
        if depths:
            most = max(link.max_queue_bytes or 0 for link in of_tier)
            found[tier] = {
                "packets": sum(packets for _, packets in depths),
                "p50": min(quantile(depths, 0.5), most),
                "p99": min(quantile(depths, 0.99), most),
                "max": most,
            }
    return found


def load_spread(links: Sequence[LinkResult]) -> tuple[int, float]:
    """What the direction of a link with the most to carry carried, and what each did on average, in
    bytes; 0 of none."""
    loads = [link.tx_bytes for link in links]
    return (max(loads), sum(loads) / len(loads)) if loads else (0, 0.0)


def trimmed(
    links: Sequence[LinkResult], bin_ns: int, end_ns: int | None
) -> tuple[list[LinkResult], int]:
    """Links with bins of time up to the end of the run (None: of what they carried), and no more
    than results have room for; and how long the bins are then, 0 if no link carried anything."""
    bins = [link.load_bytes for link in links]
    used = max((len(each) - _idle_at_end(each) for each in bins), default=0)
    if used and end_ns is not None:
        used = -(-end_ns // bin_ns)
    bins = [each[:used] + [0] * (used - len(each)) for each in bins]
    while used > FEWEST_BINS and used * len(bins) > MOST_FIGURES:
        bins = [[sum(each[place : place + 2]) for place in range(0, len(each), 2)] for each in bins]
        used, bin_ns = -(-used // 2), 2 * bin_ns
    return (
        [replace(link, load_bytes=each) for link, each in zip(links, bins, strict=True)],
        bin_ns if used else 0,
    )


def _idle_at_end(bins: Sequence[int]) -> int:
    """How many of the last bins hold nothing."""
    return sum(1 for _ in takewhile(not_, reversed(bins)))
