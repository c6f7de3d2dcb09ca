"""Timelines: when operations of a run were under way on each rank, and when none was."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from weft.experiments.plots.canvas import axes_over_time
from weft.experiments.plots.palette import label_of
from weft.experiments.plots.series import selected
from weft.experiments.results.results import RankResult, Results
from weft.experiments.results.summary import Summary
from weft.experiments.scenario.family import family_of
from weft.experiments.scenario.kinds import kinds_of
from weft.experiments.scenario.plot_spec import PlotSpec
from weft.experiments.scenario.scenario import title_of

MAX_RUNS = 6
MAX_RANKS = 8
"""The most ranks that are shown. If there are more, half of those shown are the fastest and half
the slowest."""
ROW_IN, HEAD_IN = 0.3, 0.75
"""The heights of a rank and of what stands around a run, in inches."""
PAINTS: dict[str, tuple[str, str]] = {
    "allgather": ("#0072b2", "#5aaae6"),
    "reduce-scatter": ("#d55e00", "#f08c3c"),
}
"""By collective, the colours of one operation and of the next."""
OTHER_PAINTS = ("#44546a", "#a9b8cb")
IDLE = "#dfe4ea"


@dataclass(frozen=True)
class OperationBar:
    """One operation on one rank; times are in ns from the common start."""

    collective: str
    layer: int
    begin_ns: int
    """If operations take turns on the links, an operation does not begin before the previous one
    has ended."""
    end_ns: int


@dataclass(frozen=True)
class RankRow:
    """The bars of one rank."""

    rank: int
    lanes: tuple[tuple[OperationBar, ...], ...]
    """Bars by the place that they are drawn at: a collective has one lane, or more where its
    operations overlap."""
    idle: dict[str, tuple[tuple[int, int], ...]]
    """By collective: (begin, end) in ns of the times, up to the end of the run, in which none of
    its operations was under way."""


@dataclass(frozen=True)
class Timeline:
    """The rows of one run."""

    title: str
    rows: tuple[RankRow, ...]
    end_ns: int


def timelines_of(results: Results, spec: PlotSpec) -> list[Timeline]:
    """Return the timelines of those runs of a plot that have times of operations, at most
    `MAX_RUNS`."""
    summaries = [each for point in selected(results, spec) for each in point]
    shown = [each for each in summaries if any(rank.spans_ns for rank in each.shown.ranks)]
    return [_timeline(each, results.swept) for each in shown[:MAX_RUNS]]


def _timeline(summary: Summary, swept: Sequence[str]) -> Timeline:
    run = summary.shown
    ranks = sorted(run.ranks, key=lambda rank: (rank.completion_ns or 0, rank.rank))
    if len(ranks) > MAX_RANKS:
        ranks = ranks[: MAX_RANKS // 2] + ranks[-MAX_RANKS // 2 :]
    else:
        ranks.sort(key=lambda rank: rank.rank)
    end_ns = run.completion_ns or 0
    title = ", ".join([label_of(summary.algorithm), *summary.place_among(swept)])
    return Timeline(title, tuple(_row(summary, rank, end_ns) for rank in ranks), end_ns)


def _row(summary: Summary, rank: RankResult, end_ns: int) -> RankRow:
    collective = str(summary.scenario["collective"])
    in_turn = any(each.in_turn for each in kinds_of(collective, summary.algorithm))
    lanes: dict[str, list[list[OperationBar]]] = {}
    latest: dict[str, int] = {}
    for place, (begun_ns, done_ns) in enumerate(rank.spans_ns):
        name, layer = family_of(collective).operation_name(collective, place)
        begin_ns = min(max(begun_ns, latest.get(name, 0)), done_ns) if in_turn else begun_ns
        latest[name] = done_ns
        bar = OperationBar(name, layer, begin_ns, done_ns)
        mine = lanes.setdefault(name, [])
        free = next((lane for lane in mine if lane[-1].end_ns <= begin_ns), None)
        if free is None:
            mine.append([bar])
        else:
            free.append(bar)
    idle = {name: gaps([bar for lane in of for bar in lane], end_ns) for name, of in lanes.items()}
    return RankRow(rank.rank, tuple(tuple(lane) for of in lanes.values() for lane in of), idle)


def gaps(bars: Sequence[OperationBar], end_ns: int) -> tuple[tuple[int, int], ...]:
    """Return the times before `end_ns` in which there is no bar."""
    ordered = sorted(bars, key=lambda bar: bar.begin_ns)
    done_ns = accumulate((bar.end_ns for bar in ordered), max, initial=0)
    begins_ns = (*(bar.begin_ns for bar in ordered), end_ns)
    between = zip(done_ns, begins_ns, strict=True)
    return tuple((done, begins) for done, begins in between if done < begins)


def _lanes(timeline: Timeline) -> int:
    return max((len(row.lanes) for row in timeline.rows), default=1)


def draw_timelines(figure: Figure, timelines: Sequence[Timeline]) -> list[Any]:
    """Draw timelines into an empty figure and return the legend's handles."""
    heights = [HEAD_IN + _lanes(each) * ROW_IN * len(each.rows) / 2 for each in timelines]
    ends_ns = [each.end_ns for each in timelines]
    cells, unit_ns = axes_over_time(figure, ends_ns, heights, sum(heights))
    for timeline, axes in zip(timelines, cells, strict=True):
        _draw(axes, timeline, unit_ns)
        axes.set_xlim(0, max(ends_ns) / unit_ns * 1.01)
    names = dict.fromkeys(
        bar.collective for each in timelines for row in each.rows for lane in row.lanes
        for bar in lane
    )  # fmt: skip
    return [
        *(Patch(color=_paints(name)[0], label=title_of(name)) for name in names),
        Patch(color=IDLE, label="none of them under way"),
    ]


def _draw(axes: Axes, timeline: Timeline, unit_ns: int) -> None:
    lanes = _lanes(timeline)
    step = 1 / lanes
    for place, row in enumerate(timeline.rows):
        for number in range(lanes):
            y = place + (number + 0.5) * step * 0.9
            bars = row.lanes[number] if number < len(row.lanes) else ()
            for begin_ns, end_ns in row.idle[bars[0].collective] if bars else ():
                span = (end_ns - begin_ns) / unit_ns
                axes.barh(y, span, step * 0.8, left=begin_ns / unit_ns, color=IDLE, linewidth=0)
            for bar in bars:
                _draw_bar(axes, bar, y, step * 0.8, unit_ns, timeline.end_ns)
    axes.set_yticks(
        [place + 0.45 for place in range(len(timeline.rows))],
        [f"rank {row.rank}" for row in timeline.rows],
    )
    axes.set_ylim(len(timeline.rows), 0)
    axes.tick_params(axis="y", length=0, labelsize=9)
    axes.grid(False, axis="y")
    axes.set_title(timeline.title, loc="left")


def _draw_bar(
    axes: Axes, bar: OperationBar, y: float, height: float, unit_ns: int, end_ns: int
) -> None:
    colour = _paints(bar.collective)[bar.layer % 2]
    span_ns = bar.end_ns - bar.begin_ns
    axes.barh(
        y, span_ns / unit_ns, height, left=bar.begin_ns / unit_ns, color=colour, edgecolor="white",
        linewidth=0.5, zorder=3,
    )  # fmt: skip
    if span_ns > 0.02 * end_ns:
        axes.text(
            (bar.begin_ns + bar.end_ns) / 2 / unit_ns, y, str(bar.layer), ha="center",
            va="center", fontsize=6, color="white", zorder=4,
        )  # fmt: skip


def _paints(collective: str) -> tuple[str, str]:
    return PAINTS.get(collective, OTHER_PAINTS)
