"""A metric: one figure of runs, with all that tables, reports, plots, exports and the figures of
the documentation say of it.

Weft's own are the rows of the modules in `weft.experiments.results.metrics`; other packages bring
theirs by entry points in the group ``weft.metrics``.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from weft.base.units import format_size
from weft.experiments.results.queue_counts import PriorityQueueCounts
from weft.experiments.results.results import LinkResult, Run
from weft.experiments.results.spread import Spread
from weft.experiments.results.summary import (
    Summary,
    byte_unit,
    short_duration,
    short_rate,
    short_size,
    three_digits,
)
from weft.experiments.scenario.metric_names import all_metrics

Figure = float | None
Write = Callable[[float], str]
Compared = Callable[[Summary, Summary | None, Sequence[str]], Figure]
"""A function that gives a figure of a summary; it is handed that of the denominator, too, where
there is one, and the links that are asked for."""


def short_count(packets: float) -> str:
    """Return a number in at most five characters, ``12345`` or ``123k``, since 100 columns have
    room for no more."""
    if packets < 100_000:
        return str(packets)
    size, unit = (10**3, "k") if packets < 10**6 else (10**6, "M")
    return f"{three_digits(packets / size)}{unit}"


@dataclass(frozen=True)
class Unit:
    """What figures are counted in, and how they are written: on the terminal, and in reports."""

    terminal: Write
    report: Write
    common: Callable[[float], tuple[str, int]] = lambda largest: ("", 1)
    """The unit that figures up to the largest share, and its size: on an axis, and in a column
    whose heading names it."""

    def scaled(self, size: int) -> "Unit":
        """Return the unit with figures that are written over a size, without a name."""

        def write(value: float) -> str:
            return three_digits(value / size)

        return Unit(write, write)


TIME = Unit(short_duration, short_duration, lambda largest: ("ms", 10**6))
RATE = Unit(short_rate, short_rate, lambda largest: ("Mbit/s", 10**6))
BYTES = Unit(short_size, lambda size: format_size(round(size)), byte_unit)
COUNT = Unit(short_count, "{:,}".format)
"""Whole numbers."""
RATIO = Unit(three_digits, three_digits)
PERCENT = Unit("{:.0%}".format, "{:.0%}".format)

SCALES: dict[str, tuple[str, Callable[[float], float]]] = {
    "": ("", float),
    "ms": ("ms", lambda value: value / 1e6),
    "us": ("us", lambda value: value / 1e3),
    "mib": ("MiB", lambda value: value / 2**20),
    "percent": ("%", lambda value: 100 * value),
}
"""The units of kept figures, by the end of their names: how they are written, and how figures come
to be in them."""
TABLES = ("run", "runs", "points")
"""The terminal's tables: of single runs of one point, of several, and of several points."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A figure of runs, of ranks, of links or of queues."""

    name: str
    about: str
    """What it is."""
    unit: Unit
    run: Callable[[Run], Figure] | None = None
    """How it is read from a run..."""
    rank: Callable[[Any], Figure] | None = None
    """... from a rank, a `RankResult` or what else a kind of work has..."""
    link: Callable[[LinkResult], Figure] | None = None
    """... from a direction of a link..."""
    queue: Callable[[PriorityQueueCounts], Figure] | None = None
    """... and from the queue of a priority."""
    runs: Callable[[Summary], Figure] | None = None
    """What it is of several runs, if that is not the mean of those that verified."""
    when: Callable[[Summary], object] = lambda each: True
    """Where it makes sense: a table has it if that is so for one of its rows."""
    column: str = ""
    """Its column in exports; without one, it is not exported."""
    heading: str = ""
    """Its heading on the terminal, where ``{unit}`` stands for the unit of the whole column;
    without one, tables there lack it."""
    tables: Sequence[str] = TABLES
    """The tables on the terminal that have room for it."""
    is_ranged: bool = False
    """Whether tables show the least and the most of several runs, too."""
    label: str = ""
    """Its heading in reports, as `heading`."""
    hint: str = ""
    """What the report says to whoever points at the heading."""
    sections: Sequence[str] = ("figures",)
    """The report's sections that have it: ``figures``, ``paths``, ``ranks``, ``links``,
    ``queues``."""
    unknown: str = "-"
    """What reports write where there is no figure."""
    axis: str = ""
    """What plots write at the y axis. ``{unit}`` stands for the unit, ``{links}``, ``{numerator}``
    and ``{denominator}`` for what a plot asks for."""
    title: str = ""
    """The heading of plots that scenario files ask for; without one, pages alone have plots."""
    value: Compared | None = None
    """What plots show of a summary, if that is not its mean."""
    theory: Compared = lambda each, below, links: None
    """The bound or the model, which plots show as well."""
    from_zero: bool = False
    """Whether the y axis begins at zero."""
    of_links: bool = False
    """Whether plots choose the links."""
    kept: Sequence[str] = ()
    """The units (`SCALES`) in which figures of the documentation are kept; their names end so."""
    is_of_the_machine: bool = False
    """Whether it says nothing of the network where a run's fidelity is not ``ok``, as times do."""

    @property
    def is_count(self) -> bool:
        """Return whether it is a whole number of each run; tables have the sum of several."""
        return self.unit is COUNT

    def spread(self, summary: Summary) -> Spread | None:
        """Return its mean and range over the runs that verified, or over all if none did."""
        read = self.run
        return Spread.of(read(run) for run in summary.verified or summary.runs) if read else None

    def mean(self, summary: Summary) -> Figure:
        """Return what it is of several runs; a count is the nearest whole number."""
        if self.runs is not None:
            return self.runs(summary)
        found = self.spread(summary)
        if found is None:
            return None
        return round(found.mean) if self.is_count else found.mean

    def told(self, summary: Summary) -> Figure:
        """Return what tables tell of several runs: the sum of all where it is a count."""
        if self.is_count and self.run is not None:
            return sum(self.run(run) or 0 for run in summary.runs)
        return self.mean(summary)


def metrics() -> Sequence[Metric]:
    """Return all metrics in the order of tables."""
    return [*all_metrics().values()]


def metrics_in(section: str) -> list[Metric]:
    """Return the metrics that a section of reports has columns of."""
    return [metric for metric in metrics() if metric.label and section in metric.sections]


def metric_of(name: str) -> Metric:
    """Return the metric of a name, which is one of `metrics`."""
    found: Metric = all_metrics()[name]
    return found


def columns_of(
    chosen: Iterable[Metric], summaries: Sequence[Summary], text: str
) -> Iterator[Metric]:
    """Yield the metrics that make sense for one of the summaries. Those whose headings name their
    unit are all written in one.

    Args:
        text: which heading is shown, ``heading`` or ``label``.
    """
    shown = [each for each in chosen if not summaries or any(map(each.when, summaries))]
    named = [each for each in shown if "{unit}" in getattr(each, text)]
    for metric in shown:
        if metric in named:
            alike = [each for each in named if each.unit is metric.unit]
            figures = [each.told(summary) or 0 for each in alike for summary in summaries]
            unit, size = metric.unit.common(max(figures, default=0))
            heading = getattr(metric, text).format(unit=unit)
            metric = replace(metric, unit=metric.unit.scaled(size), **{text: heading})
        yield metric
