"""Gantt charts of fused operators: when the workgroups of a rank computed and put, and what the
links of its host carried meanwhile."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from weft.experiments.families.flow_times import FlowTimes
from weft.experiments.families.fused.part import FusedTimes
from weft.experiments.plots.gantt import Chart
from weft.experiments.plots.palette import label_of
from weft.experiments.plots.trace import complete, named
from weft.experiments.results.results import LinkResult, Run
from weft.experiments.results.summary import short_duration

PAINTS = {"tile": "#0072b2", "put": "#e69f00"}
TITLES = {"tile": "a tile is computed", "put": "a slice is put"}
LINK_PAINT = "#009e73"
GROUP_IN, LINK_IN, HEAD_IN = 0.13, 0.36, 0.62
"""The heights of a workgroup, of a link and of what stands around a run, in inches."""
MOST_GROUPS = 32
"""Of a rank with more workgroups the first ones are drawn."""
MOST_THREADS = 1024
"""Numbers of a rank's workgroups are below this."""
TIERS = {"host_up": "link from the host", "host_down": "link to the host"}


def chart_of(run: Run) -> Chart | None:
    """Return the chart of the slowest rank of an operator, or None where no times are known."""
    fused = run.part(FusedTimes)
    if fused is None or not fused.rank:
        return None
    rank = max(run.ranks, key=lambda each: (each.completion_ns or 0, -each.rank)).rank
    pairs = zip(fused.rank, fused.workgroup, strict=True)
    groups = min(MOST_GROUPS, 1 + max((group for own, group in pairs if own == rank), default=0))
    links = _links(run, rank)
    return Chart(
        "What workgroups did, and what links carried meanwhile",
        "Gantt charts of operators by workgroup and link",
        run.completion_ns or 1,
        HEAD_IN + GROUP_IN * groups + LINK_IN * len(links),
        {
            **{TITLES[what]: PAINTS[what] for what in PAINTS},
            "how busy a link is, from none to wholly": LINK_PAINT,
        },
        partial(_draw, run, fused, rank, groups, links),
        partial(_events, run, fused),
    )


def _links(run: Run, rank: int) -> list[LinkResult]:
    """Return the links of a rank's host whose loads over time are known, the one from it first."""
    host = next(each.host for each in run.ranks if each.rank == rank)
    found: dict[str, LinkResult] = {}
    for link in run.links:
        if host in (end.partition(":")[0] for end in (link.from_node, link.to_node)):
            found.setdefault(link.tier, link)  # a rank sends by its host's first link
    return [found[tier] for tier in TIERS if tier in found and found[tier].load_bytes]


def _draw(
    run: Run,
    fused: FusedTimes,
    rank: int,
    groups: int,
    links: list[LinkResult],
    axes: Axes,
    unit_ns: float,
) -> None:
    assert run.completion_ns is not None
    for what, paint in PAINTS.items():
        bars = [
            (group, begin_ns, end_ns)
            for own, group, kind, begin_ns, end_ns in zip(
                fused.rank, fused.workgroup, fused.what, fused.begin_ns, fused.end_ns, strict=True
            )
            if own == rank and kind == what and group < groups
        ]
        axes.barh(
            [group + 0.5 for group, _, _ in bars],
            [(end_ns - begin_ns) / unit_ns for _, begin_ns, end_ns in bars],
            0.9,
            [begin_ns / unit_ns for _, begin_ns, _ in bars],
            color=paint,
            edgecolor="white",
            linewidth=0.15,
        )
    ticks, names = [groups / 2], [f"{groups} workgroups" if groups > 1 else "1 workgroup"]
    bottom, height = float(groups), LINK_IN / GROUP_IN
    for link in links:
        most = run.scenario["rate_bps"] / 8 * run.load_bin_ns / 1e9
        busy = [min(1.0, load / most) for load in link.load_bytes]
        times = [place * run.load_bin_ns / unit_ns for place in range(len(busy) + 1)]
        axes.stairs(
            [bottom + height - 0.85 * height * part for part in busy],
            times,
            baseline=bottom + height,
            fill=True,
            color=LINK_PAINT,
        )
        ticks.append(bottom + height / 2)
        names.append(TIERS[link.tier])
        bottom += height
    axes.set_yticks(ticks, names)
    axes.set_ylim(bottom, 0)
    axes.grid(False)
    took = short_duration(run.completion_ns)
    parts = (
        f"computing {short_duration(fused.compute_ns)} ({fused.clock}), communicating "
        f"{short_duration(fused.communication_ns)} alone"
    )
    axes.set_title(f"{label_of(run.algorithm)}, rank {rank}: {took}; {parts}", loc="left")


def _events(run: Run, fused: FusedTimes, process: int) -> Iterator[dict[str, Any]]:
    """Yield what workgroups did: a thread for each workgroup of each rank; and the flows that each
    rank sends."""
    for rank, group in sorted({*zip(fused.rank, fused.workgroup, strict=True)}):
        name = f"rank {rank}, workgroup {group}"
        yield named("thread_name", process, _thread(rank, group), name)
    for rank, group, what, begin_ns, end_ns in zip(
        fused.rank, fused.workgroup, fused.what, fused.begin_ns, fused.end_ns, strict=True
    ):
        yield complete(what, TITLES[what], process, _thread(rank, group), begin_ns, end_ns)
    if (flows := run.part(FlowTimes)) is not None:
        yield from flows.events(process, lambda source: _thread(source, MOST_THREADS))


def _thread(rank: int, group: int) -> int:
    return rank * (MOST_THREADS + 1) + group
