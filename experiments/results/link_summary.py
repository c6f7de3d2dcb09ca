"""Results of links in few rows, where a network has many: of each kind of link the fullest
direction by itself, and all others together."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np

from weft.experiments.results.queue_counts import totals
from weft.experiments.results.results import OTHERS, LinkResult
from weft.experiments.scenario.scenario import Scenario
from weft.topo.network import LINK_TIERS

MOST_ROWS = 30_000
"""How many rows of links a scenario's results have, of all of its runs, unless all are asked
for."""


def has_few_rows(scenario: Scenario) -> bool:
    """Return whether the results of a scenario's links are a summary."""
    if scenario.link_results != "auto":
        return scenario.link_results == "summary"
    runs = len(scenario.algorithms) * scenario.repeat * max(1, len(scenario.seeds or ()))
    return runs * len(scenario.network().directions) > MOST_ROWS


def summarised(links: Sequence[LinkResult]) -> list[LinkResult]:
    """Return, of each kind of link, the row of the direction that carried most, and one of all
    others together."""
    found = []
    for tier in LINK_TIERS:
        of_tier = [link for link in links if link.tier == tier]
        if len(of_tier) < 3:
            found += of_tier
            continue
        fullest = max(of_tier, key=lambda link: link.tx_bytes)
        found += [fullest, _together(tier, [link for link in of_tier if link is not fullest])]
    return found


def _together(tier: str, links: Sequence[LinkResult]) -> LinkResult:
    """Return one row of several directions: sums, and the deepest queue."""
    drops = [link.queue_dropped for link in links if link.queue_dropped is not None]
    queues = [link.max_queue_bytes for link in links if link.max_queue_bytes is not None]
    depths: Counter[int] = Counter()
    for size_bytes, packets in chain.from_iterable(link.queue_depths for link in links):
        depths[size_bytes] += packets
    loads = [link.load_bytes for link in links if link.load_bytes]
    return LinkResult(
        OTHERS,
        OTHERS,
        tier,
        tx_packets=sum(link.tx_packets for link in links),
        tx_bytes=sum(link.tx_bytes for link in links),
        lost=sum(link.lost for link in links),
        queue_dropped=sum(drops) if drops else None,
        max_queue_bytes=max(queues, default=None),
        marked=sum(link.marked for link in links),
        queue_depths=sorted(depths.items()),
        load_bytes=np.array(loads, np.int64).sum(0).tolist() if loads else [],
        queues=totals(link.queues for link in links),
        directions=len(links),
    )
