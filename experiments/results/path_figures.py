"""Figures of how a run's flows shared the fabric: loads of links, marks, reordering, and what it
cost."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from weft.experiments.results.results import LinkResult, Run
from weft.experiments.results.spread import Spread
from weft.topo.network import FABRIC_TIERS


@dataclass(frozen=True)
class PathFigures:
    """Hold the figures of one run. They count packets, unless the name says otherwise."""

    imbalance: float | None
    """Bytes of the fullest link between switches, over the mean of all that lead the same way; the
    larger of both ways. None where there is none, or where none carried anything."""
    flows: int
    """Queue pairs by which data left, each with a UDP source port of its own to begin with."""
    marks: int
    """Data packets that arrived with a congestion mark."""
    reordered: int
    """Packets that arrived before an earlier one of their queue pair and were kept."""
    reorder_distance: int
    """By how many packets a packet was at most ahead of the one that was due."""
    dropped_ahead: int
    """Packets that arrived ahead of their turn and were thrown away, as go-back-N does."""
    retransmitted: int
    path_changes: int
    """How often a sender gave a queue pair another path."""


def path_figures(run: Run) -> PathFigures:
    """Return the figures that follow from what a run's ranks and links counted."""
    return PathFigures(
        imbalance=imbalance(run.links),
        flows=_sum(run, "flow_count"),
        marks=_sum(run, "marks_received"),
        reordered=_sum(run, "reordered_packets"),
        reorder_distance=max(_each(run, "reorder_distance_peak"), default=0),
        dropped_ahead=_sum(run, "out_of_order_packets"),
        retransmitted=run.retransmitted_packets,
        path_changes=_sum(run, "path_changes"),
    )


def mean_figures(runs: Sequence[PathFigures]) -> PathFigures:
    """Return the means over several runs, with packets to the nearest whole one."""
    names = [item.name for item in fields(PathFigures)]
    spreads = {name: Spread.of(getattr(run, name) for run in runs) for name in names}
    found = {name: spread.mean if spread else None for name, spread in spreads.items()}
    ratio = found.pop("imbalance")
    return PathFigures(ratio, **{name: round(value or 0) for name, value in found.items()})


def imbalance(links: Sequence[LinkResult]) -> float | None:
    """Return the imbalance of links as `PathFigures.imbalance` has it."""
    by_tier = (
        np.array([link.tx_bytes for link in links if link.tier == tier], np.float64)
        for tier in FABRIC_TIERS
    )
    return max(
        (float(loads.max() / loads.mean()) for loads in by_tier if loads.any()), default=None
    )


def _each(run: Run, name: str) -> list[int]:
    return [int(rank.statistics.get(name, 0)) for rank in run.ranks]


def _sum(run: Run, name: str) -> int:
    return sum(_each(run, name))
