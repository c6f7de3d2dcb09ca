"""Gantt charts of fused operators: when the workgroups of a rank computed and put, and what the
links of its host carried meanwhile; as pictures, and as trace events."""

import json
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from weft.experiments.plots.canvas import axes_over_time, empty_figure, saved
from weft.experiments.plots.palette import label_of
from weft.experiments.plots.trace import complete, flow_events, named
from weft.experiments.results.results import LinkResult, Results, Run
from weft.experiments.results.summary import short_duration

PAINTS = {"tile": "#0072b2", "put": "#e69f00"}
TITLES = {"tile": "a tile is computed", "put": "a slice is put"}
LINK_PAINT = "#009e73"
GROUP_IN, LINK_IN, HEAD_IN = 0.13, 0.36, 0.62
"""The heights of a workgroup, of a link and of what stands around a run, in inches."""
MAX_RUNS = 6
MOST_GROUPS = 32
"""Of a rank with more workgroups the first ones are drawn."""
TIERS = {"host_up": "link from the host", "host_down": "link to the host"}


def shown_runs(results: Results) -> list[Run]:
    """Return the first verified run of each algorithm and point that has times of workgroups, at
    most `MAX_RUNS`."""
    found: dict[tuple[str, str], Run] = {}
    for run in results.runs:
        if run.fused is not None and run.fused.rank and run.verified:
            point = json.dumps([run.scenario.get(name) for name in results.swept], default=str)
            found.setdefault((run.algorithm, point), run)
    return list(found.values())[:MAX_RUNS]


def draw_workgroups(runs: Sequence[Run], ending: str) -> bytes:
    """Return a picture, ``svg`` or ``png``, with a chart for the slowest rank of each run, all on
    one scale."""
    ends_ns = [run.completion_ns or 1 for run in runs]
    groups = [min(MOST_GROUPS, _workgroups(run, _slowest(run))) for run in runs]
    links = [len(_links(run, _slowest(run))) for run in runs]
    heights = [
        HEAD_IN + GROUP_IN * count + LINK_IN * rows
        for count, rows in zip(groups, links, strict=True)
    ]
    with empty_figure(sum(heights) + 0.4) as figure:
        cells, unit_ns = axes_over_time(figure, ends_ns, heights, sum(heights))
        for run, axes, count in zip(runs, cells, groups, strict=True):
            _draw(axes, run, count, unit_ns)
            axes.set_xlim(0, max(ends_ns) / unit_ns * 1.01)
        handles = [Patch(color=PAINTS[what], label=TITLES[what]) for what in PAINTS]
        handles.append(Patch(color=LINK_PAINT, label="how busy a link is, from none to wholly"))
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return saved(figure, ending, "Gantt charts of operators by workgroup and link")


def _slowest(run: Run) -> int:
    return max(run.ranks, key=lambda each: (each.completion_ns or 0, -each.rank)).rank


def _workgroups(run: Run, rank: int) -> int:
    fused = run.fused
    assert fused is not None
    pairs = zip(fused.rank, fused.workgroup, strict=True)
    return 1 + max((group for own, group in pairs if own == rank), default=0)


def _links(run: Run, rank: int) -> list[LinkResult]:
    """Return the links of a rank's host whose loads over time are known, the one from it first."""
    host = next(each.host for each in run.ranks if each.rank == rank)
    found: dict[str, LinkResult] = {}
    for link in run.links:
        if host in (end.partition(":")[0] for end in (link.from_node, link.to_node)):
            found.setdefault(link.tier, link)  # a rank sends by its host's first link
    return [found[tier] for tier in TIERS if tier in found and found[tier].load_bytes]


def _draw(axes: Axes, run: Run, groups: int, unit_ns: float) -> None:
    fused, rank = run.fused, _slowest(run)
    assert fused is not None and run.completion_ns is not None
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
    for link in _links(run, rank):
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


def trace_events(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what workgroups did in the trace event format: a process for each run, a thread for
    each workgroup of each rank, times in us; and the flows that each rank sends."""
    events: list[dict[str, Any]] = []
    for process, run in enumerate(runs):
        fused = run.fused
        assert fused is not None
        events.append(named("process_name", process, 0, run.algorithm))
        for rank, group in sorted({*zip(fused.rank, fused.workgroup, strict=True)}):
            name = f"rank {rank}, workgroup {group}"
            events.append(named("thread_name", process, _thread(rank, group), name))
        for rank, group, what, begin_ns, end_ns in zip(
            fused.rank, fused.workgroup, fused.what, fused.begin_ns, fused.end_ns, strict=True
        ):
            events.append(
                complete(what, TITLES[what], process, _thread(rank, group), begin_ns, end_ns)
            )
        events += flow_events(process, run, lambda source: _thread(source, MOST_THREADS))
    return events


MOST_THREADS = 1024
"""Numbers of a rank's workgroups are below this."""


def _thread(rank: int, group: int) -> int:
    return rank * (MOST_THREADS + 1) + group
