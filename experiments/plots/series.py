"""The figures of a plot, made from results: all that is drawn, as plain numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from weft.agents.collectives.registry import named
from weft.experiments.plots.palette import in_order, label_of
from weft.experiments.results.comparison import compare
from weft.experiments.results.metric import metric_of
from weft.experiments.results.results import Results
from weft.experiments.results.summary import TIERS as TIER_NAMES
from weft.experiments.results.summary import Summary, by_point, byte_unit
from weft.experiments.scenario.choices import COUNTS
from weft.experiments.scenario.options import field_of, read_option, said
from weft.experiments.scenario.plot_spec import TIERS, PlotSpec

Value = Callable[[Summary, Summary | None], float | None]
"""A function that gives what is plotted of a summary; its second argument is the summary of the
denominator, where there is one."""


@dataclass(frozen=True)
class Axis:
    """The x axis: numbers stand at their value, and anything else at its place in order."""

    label: str
    positions: tuple[float, ...]
    """In ascending order; anything but numbers is at 0, 1, 2, in order of appearance."""
    ticks: tuple[str, ...]
    """One for each position."""
    numeric: bool


@dataclass(frozen=True)
class PlotLine:
    """One algorithm, or two that are compared, in one world, at one value of what else is swept."""

    algorithm: str
    """That colours it."""
    label: str
    world: str
    other: str
    """The values of options that are swept beside the x axis and the world; empty without any."""
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    """The least and the greatest of several runs, whose mean `y` is; `y` itself of a single one."""
    model: tuple[float | None, ...]
    """The bound or model at each x."""
    doubtful: tuple[bool, ...]
    """Where the fidelity is ``invalid``: where the machine was measured, not the network."""
    predicted: tuple[bool, ...]
    """Of speed-up: where `y` is what the simulated world predicts, since times that cannot be
    believed are not compared."""


@dataclass(frozen=True)
class Lines:
    """All that a plot of kind ``lines`` is drawn from."""

    axis: Axis
    y_label: str
    model_label: str
    lines: tuple[PlotLine, ...]


@dataclass(frozen=True)
class Panel:
    """The bars of one algorithm (phases), or of one point (tiers)."""

    title: str
    groups: tuple[str, ...]
    """The labels below the bars."""
    values: dict[str, tuple[float, ...]]
    """By the name of a bar or part: one value for each group."""
    models: dict[str, tuple[float, ...]]


@dataclass(frozen=True)
class Panels:
    """All that a plot of bars is drawn from."""

    x_label: str
    y_label: str
    names: tuple[str, ...]
    """The names of all parts or bars, in the order in which they are drawn."""
    panels: tuple[Panel, ...]


def selected(results: Results, spec: PlotSpec) -> list[list[Summary]]:
    """Return the verified summaries that a plot shows, by point."""
    wanted: dict[str, list[Any]] = {
        name: [read_option(name, value) for value in values] for name, values in spec.where.items()
    }
    algorithms = [name for names in wanted.pop("algorithm", []) for name in names]

    def is_wanted(summary: Summary) -> bool:
        if algorithms and summary.algorithm not in algorithms:
            return False
        asked = {name: summary.scenario.get(field_of(name)) for name in wanted}
        return all(_plain(asked[name]) in map(_plain, wanted[name]) for name in wanted)

    points = ([each for each in point if is_wanted(each)] for point in by_point(results))
    return [timed for point in points if (timed := [each for each in point if each.completion_ns])]


def _plain(value: object) -> object:
    return [str(item) for item in value] if isinstance(value, (list, tuple)) else value


def lines_of(results: Results, spec: PlotSpec) -> Lines:
    """Return the lines of a plot: one for each algorithm, world and value of what else is swept."""
    points = selected(results, spec)
    axis = axis_of([each for point in points for each in point], spec.x)
    metric, links = metric_of(spec.y), TIERS[spec.tier]

    def value(each: Summary, below: Summary | None) -> float | None:
        return metric.value(each, below, links) if metric.value else metric.mean(each)

    sizes = [value(each, None) or 0 for point in points for each in point]
    # A logarithmic axis is in the unit of the least, so that its ticks are no fractions.
    unit, size = metric.unit.common((min if "y" in spec.log else max)(sizes, default=0))
    others = _others(results, spec, [each for point in points for each in point])
    # The places of each line, each with its figures in the order of `PlotLine`'s fields
    # from `x` on.
    found: dict[tuple[str, str, str], list[tuple[Any, ...]]] = {}
    for point in points:
        below = next((each for each in point if each.algorithm == spec.denominator), None)
        for each in point:
            name = each.algorithm
            if spec.y == "bytes-ratio":
                if name != spec.numerator:
                    continue
                name = f"{label_of(spec.numerator)} / {label_of(spec.denominator)}"
            if spec.y == "speed-up" and name == spec.denominator:
                continue
            y = value(each, below)
            if y is None:
                continue
            compared = compare(each, below) if spec.y == "speed-up" and below else None
            predicted = compared is not None and not compared.measured
            low, high = (y, y) if predicted else _range_of(value, y, each, below)
            doubtful = not metric.of_links and each.fidelity not in ("ok", "strained")
            doubtful = doubtful and not predicted
            key = name, str(each.scenario.get("world")), _labelled(each, others)
            x = axis.positions[_place(axis, each, spec.x)]
            theory = metric.theory(each, below, links) if spec.model else None
            scaled = (None if each is None else each / size for each in (y, low, high, theory))
            place = (x, *scaled, doubtful, predicted)
            found.setdefault(key, []).append(place)
    numerator = named(spec.numerator)
    ratio_colour = spec.denominator if numerator and numerator.multicasts else spec.numerator
    lines = []
    for (name, world, other), places in found.items():
        figures = zip(*sorted(places, key=itemgetter(0)), strict=True)
        colour = ratio_colour if spec.y == "bytes-ratio" else name
        lines.append(PlotLine(colour, label_of(name), world, other, *figures))
    y_label = metric.axis.format(unit=unit, **asked_of(spec))
    return Lines(axis, y_label, "model" if metric.of_links else "bound", tuple(lines))


def _range_of(value: Value, y: float, each: Summary, below: Summary | None) -> tuple[float, float]:
    """Return the least and the greatest of what is plotted of the single runs; of ratios, those of
    runs of one seed and repetition."""
    if len(each.runs) == 1 and (below is None or len(below.runs) == 1):
        return y, y
    others = below.draws if below is not None else {}
    found = [value(single, others.get(draw, below)) for draw, single in each.draws.items()]
    known = [y, *(single for single in found if single is not None)]
    return min(known), max(known)


def asked_of(spec: PlotSpec) -> dict[str, str]:
    """Return the words that labels and titles have of what a plot asks for."""
    return {
        "links": links_of(spec),
        "numerator": spec.numerator,
        "denominator": spec.denominator,
    }


def links_of(spec: PlotSpec) -> str:
    """Return, in words, which links a plot shows: ``all links``, ``host up links``."""
    return f"{spec.tier.replace('-', ' ')} links"


def axis_of(summaries: Sequence[Summary], x: str) -> Axis:
    """Return the x axis of a plot, with a tick for each value that summaries have of a swept
    option, or for each number of ranks."""
    values = list(dict.fromkeys(_x(each, x) for each in summaries))
    numeric = all(isinstance(value, (int, float)) for value in values)
    if numeric:
        values.sort()
    ticks = tuple(str(value) if x == "ranks" else said(x, value) for value in values)
    positions = tuple(map(float, values if numeric else range(len(values))))
    return Axis(x.replace("-", " "), positions, ticks, numeric)


def _x(each: Summary, x: str) -> Any:
    if x == "ranks":
        return each.ranks
    value = each.scenario.get(field_of(x))
    return (
        value if isinstance(value, (int, float)) and not isinstance(value, bool) else said(x, value)
    )


def _place(axis: Axis, each: Summary, x: str) -> int:
    value = _x(each, x)
    if axis.numeric:
        return axis.positions.index(float(value))
    return axis.ticks.index(said(x, value) if not isinstance(value, str) else value)


def _others(results: Results, spec: PlotSpec, summaries: Sequence[Summary]) -> list[str]:
    """Return the swept options that differ and that neither the x axis nor the world tells."""
    hidden = {"world", *(COUNTS if spec.x == "ranks" else ())}
    return [
        name
        for name in results.swept
        if name != spec.x
        and field_of(name) not in hidden
        and len({said(name, each.scenario.get(field_of(name))) for each in summaries}) > 1
    ]


def _labelled(each: Summary, options: Sequence[str]) -> str:
    return ", ".join(
        f"{name.replace('-', ' ')} {said(name, each.scenario.get(field_of(name)))}"
        for name in options
    )


def phases_of(results: Results, spec: PlotSpec) -> Panels:
    """Return stacked bars of the slowest rank's phases, in ms, with a panel for each algorithm."""
    summaries = [each for point in selected(results, spec) for each in point if each.phases_ns]
    axis = axis_of(summaries, spec.x)
    others = _others(results, spec, summaries)
    panels: dict[str, list[Summary]] = {}
    worlds = {each.scenario.get("world") for each in summaries}
    for each in summaries:
        world = f"{each.scenario.get('world')}" if len(worlds) > 1 else ""
        title = ", ".join(filter(None, (label_of(each.algorithm), world, _labelled(each, others))))
        panels.setdefault(title, []).append(each)
    names = tuple(in_order(name for each in summaries for name in each.phases_ns))
    drawn = []
    for title, members in panels.items():
        members.sort(key=lambda each: _place(axis, each, spec.x))
        drawn.append(
            Panel(
                title,
                tuple(axis.ticks[_place(axis, each, spec.x)] for each in members),
                {
                    name: tuple(each.phases_ns.get(name, 0) / 1e6 for each in members)
                    for name in names
                },
                {},
            )
        )
    return Panels(axis.label, "time of the slowest rank (ms)", names, tuple(drawn))


def tiers_of(results: Results, spec: PlotSpec) -> Panels:
    """Return bars of bytes by tier and algorithm, and the model of each, with a panel for each
    point."""
    points = selected(results, spec)
    every = [each for point in points for each in point]
    used = [tier for tier in TIER_NAMES if any(each.tiers[tier] for each in every)]
    # In the unit of the panel with the least.
    largest = [max(each.tiers[tier] for each in point for tier in used) for point in points if used]
    unit, size = byte_unit(min(largest, default=0))
    scenarios = [each.scenario for each in every]
    told = [
        name
        for name in results.swept
        if len({said(name, scenario.get(field_of(name))) for scenario in scenarios}) > 1
    ]
    panels = tuple(
        Panel(
            _labelled(point[0], told),
            tuple(TIER_NAMES[tier] for tier in used),
            {each.algorithm: tuple(each.tiers[t] / size for t in used) for each in point},
            {each.algorithm: tuple(each.model.get(t, 0) / size for t in used) for each in point}
            if spec.model
            else {},
        )
        for point in points
    )
    names = tuple(dict.fromkeys(each.algorithm for each in every))
    return Panels("", f"bytes on all links of the kind ({unit})", names, panels)
