"""Depths of queues and loads of links over time: how results are made from what switches count."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile
from operator import not_

from msgspec.structs import replace

from weft.experiments.results.results import LinkResult
from weft.topo.network import LINK_TIERS

Depths = Sequence[tuple[int, ...]]
"""A distribution as pairs (bytes, packets), ascending, as in `LinkResult.queue_depths`."""

BINS_OF_BOUND = 128
"""How many bins of time the least time of a run has; the switches have room for twice as many
before they double the bins."""
LEAST_BIN_NS = 1_000
MOST_FIGURES = 1 << 16
"""The most bins that a run has, over all directions of links; in large networks bins are longer."""
FEWEST_BINS = 16


def first_bin_ns(bound_ns: int) -> int:
    """Return how long bins of time are at first, in ns, for a run that takes at least this long."""
    return max(LEAST_BIN_NS, bound_ns // BINS_OF_BOUND)


def merged(distributions: Iterable[Depths]) -> list[tuple[int, int]]:
    """Return the distribution of the packets of several distributions together."""
    total: dict[int, int] = {}
    for depths in distributions:
        for size_bytes, packets in depths:
            total[size_bytes] = total.get(size_bytes, 0) + packets
    return sorted(total.items())


def quantile(depths: Depths, fraction: float) -> int:
    """Return the least depth in bytes that at least this fraction of the packets did not exceed.

    It is 0 if there are no packets.
    """
    if not depths:
        return 0
    seen = list(accumulate(packets for _, packets in depths))
    return depths[bisect_left(seen, fraction * seen[-1])][0]


def queue_figures(links: Sequence[LinkResult]) -> dict[str, dict[str, int]]:
    """Return `Run.queues`: the figures of each kind of link whose queues are known.

    Figures are at most an eighth too large (`weft.switch.engine.dataplane.telemetry`); ``max`` is
    exact, and counts the packet that entered last, too.
    """
    found: dict[str, dict[str, int]] = {}
    for tier in LINK_TIERS:
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
    """Return what the fullest direction of a link carried, and what a direction carried on average,
    in bytes; both are 0 if there are no links. The fullest one has a row of its own."""
    largest = max((link.tx_bytes for link in links if link.directions == 1), default=0)
    count = sum(link.directions for link in links)
    return largest, sum(link.tx_bytes for link in links) / count if count else 0.0


def trimmed(
    links: Sequence[LinkResult], bin_ns: int, end_ns: int | None
) -> tuple[list[LinkResult], int]:
    """Return the links with bins of time up to the end of the run, and the length of the bins in
    ns.

    If `end_ns` is None, bins end with what the links carried. Bins are joined in pairs until
    results have room for them. Their length is 0 if no link carried anything.
    """
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
    """Return how many bins at the end hold nothing."""
    return sum(1 for _ in takewhile(not_, reversed(bins)))
