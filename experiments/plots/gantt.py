"""Gantt charts of runs, as kinds of work have them; as pictures, and as trace events for Perfetto
and chrome://tracing."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.experiments.plots.trace import named
from weft.experiments.results.results import Results, Run
from weft.experiments.scenario.families import families

NAMES = ("gantt.svg", "gantt.png", "gantt.trace.json")
"""The files of a results folder."""


@dataclass(frozen=True)
class Chart:
    """What is drawn of one run, with time to the right."""

    title: str
    """The heading of the charts of all runs in a report..."""
    about: str
    """... and what an SVG file says of itself."""
    end_ns: int
    height_in: float
    """How high it is, with what stands around it, in inches."""
    colours: Mapping[str, str]
    """The colours of what is drawn, by what the legend calls it."""
    draw: Callable[[Any, float], None]
    """It draws on matplotlib's axes, whose unit of time has so many ns."""
    events: Callable[[int], Iterable[dict[str, Any]]]
    """It returns the trace events of a process by its number (`weft.experiments.plots.trace`)."""
    most: int = 6
    """The most runs that are drawn below each other."""


def charts_of(results: Results) -> list[tuple[Run, Chart]]:
    """Return the first verified run of each algorithm and point with its chart, of the first kind
    of work that has any."""
    for family in families():
        found: dict[tuple[str, str], tuple[Run, Chart]] = {}
        for run in results.runs:
            if run.verified and run.scenario["collective"] in family.algorithms():
                point = json.dumps([run.scenario.get(name) for name in results.swept], default=str)
                chart = family.chart(run) if (run.algorithm, point) not in found else None
                if chart is not None:
                    found[run.algorithm, point] = run, chart
        if found:
            charts = [*found.values()]
            return charts[: charts[0][1].most]
    return []


def gantt_svg(results: Results) -> tuple[str, bytes] | None:
    """Return a title and the charts, or None if no run has any."""
    charts = [chart for _, chart in charts_of(results)]
    return (charts[0].title, _drawn(charts, "svg")) if charts else None


def gantt_files(results: Results) -> Iterator[tuple[str, bytes | str]]:
    """Yield the files of the charts by name, `NAMES`; none where no run has anything to draw."""
    charts = charts_of(results)
    if charts:
        yield NAMES[0], _drawn([chart for _, chart in charts], "svg")
        yield NAMES[1], _drawn([chart for _, chart in charts], "png")
        events = [
            event
            for process, (run, chart) in enumerate(charts)
            for event in (
                named("process_name", process, 0, run.algorithm),
                *chart.events(process),
            )
        ]
        yield NAMES[2], json.dumps({"traceEvents": events}) + "\n"


def _drawn(charts: list[Chart], ending: str) -> bytes:
    """Return a picture, ``svg`` or ``png``, with all charts on one scale."""
    from matplotlib.patches import Patch

    from weft.experiments.plots.canvas import axes_over_time, empty_figure, saved

    ends_ns = [chart.end_ns for chart in charts]
    heights = [chart.height_in for chart in charts]
    with empty_figure(sum(heights) + 0.4) as figure:
        cells, unit_ns = axes_over_time(figure, ends_ns, heights, sum(heights))
        for chart, axes in zip(charts, cells, strict=True):
            chart.draw(axes, unit_ns)
            axes.set_xlim(0, max(ends_ns) / unit_ns * 1.01)
        colours = {text: colour for chart in charts for text, colour in chart.colours.items()}
        handles = [Patch(color=colour, label=text) for text, colour in colours.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return saved(figure, ending, charts[0].about)
