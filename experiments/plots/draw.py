"""The drawing of plots, with matplotlib. Import this only to draw, since it takes a while."""

import contextlib
import textwrap
from collections.abc import Iterator, Sequence
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, NullLocator

from weft.base import files
from weft.experiments.plots.canvas import (
    INK,
    SOFT,
    WIDTH_IN,
    empty_figure,
    saved,
    write_head,
)
from weft.experiments.plots.draw_heatmap import draw_heat_maps
from weft.experiments.plots.heatmap import heat_maps_of
from weft.experiments.plots.palette import colour, label_of, phase_colour
from weft.experiments.plots.series import (
    Lines,
    Panels,
    PlotLine,
    asked_of,
    lines_of,
    links_of,
    phases_of,
    selected,
    tiers_of,
)
from weft.experiments.plots.timeline import draw_timelines, timelines_of
from weft.experiments.results.metric import metric_of
from weft.experiments.results.results import Results
from weft.experiments.results.summary import common_of
from weft.experiments.scenario.plot_spec import PlotSpec
from weft.topo.worlds.registry import has_real_time

HEIGHT_IN = 4.6
PANEL_IN = 2.7
"""Height of a row of panels."""
NAME_CHARACTERS = 10
"""The most characters in a line of a tick that is no number; a longer one has several lines."""
CHARACTER = 0.0145
"""Width of a tick label's character, as a fraction of the x axis."""
DASHES = ("-", "-.", (0, (1, 1)), (0, (5, 1, 1, 1, 1, 1)))
DOUBTFUL: Any = {"marker": "x", "ms": 5}
PREDICTED: Any = {"marker": "P", "mfc": "white"}
MARKERS = ("o", "s", "^", "D", "v", "P")
"""The marks for the values of what is swept beside the x axis."""


def write_plots(results: Results, folder: Path) -> tuple[Path, ...]:
    """Draw all plots of results into a folder, each as NAME.svg and NAME.png.

    Returns the SVG files. Raises `InputError` if a file cannot be written.
    """
    written = []
    for name, content in draw_plots(results):
        file = folder / name
        with files.told_as_input(f"cannot write the plot to {str(file)!r}"):
            files.write_whole(file, content)
        written.append(file)
    return tuple(file for file in written if file.suffix == ".svg")


def draw_plots(results: Results) -> Iterator[tuple[str, bytes]]:
    """Return all plots of results as files: each has a name, and a function that draws its
    content."""
    for spec in results.plots:
        with _drawn(results, spec) as figure:
            for ending in ("svg", "png"):
                yield f"{spec.name}.{ending}", saved(figure, ending)


def svg_of(results: Results, spec: PlotSpec) -> bytes:
    """Return one plot as the content of an SVG file."""
    with _drawn(results, spec) as figure:
        return saved(figure, "svg")


def title_of(spec: PlotSpec) -> str:
    """Return the heading of the plot."""
    return (
        spec.title
        or {
            "lines": spec.y and metric_of(spec.y).title.format(**asked_of(spec)),
            "phases": "Phases of the slowest rank",
            "tiers": "Bytes by kind of link",
            "timeline": "Operations on each rank",
            "heatmap": f"Load of {links_of(spec)} over time",
        }[spec.kind]
    )


@contextlib.contextmanager
def _drawn(results: Results, spec: PlotSpec) -> Iterator[Figure]:
    """Draw a plot; it is saved inside the block, under the same settings."""
    with empty_figure(HEIGHT_IN) as figure:
        if spec.kind == "lines":
            if (shown := lines_of(results, spec)).lines:
                from_zero = metric_of(spec.y).from_zero
                _draw_lines(figure, shown, log=spec.log, from_zero=from_zero)
        elif spec.kind == "timeline":
            if timelines := timelines_of(results, spec):
                _legend(figure, draw_timelines(figure, timelines))
        elif spec.kind == "heatmap":
            if maps := heat_maps_of(results, spec):
                draw_heat_maps(figure, maps)
        else:
            panels = phases_of(results, spec) if spec.kind == "phases" else tiers_of(results, spec)
            if panels.panels:
                _draw_panels(figure, panels, stacked=spec.kind == "phases")
        if not figure.axes:
            figure.text(0.5, 0.5, "no verified runs to plot", ha="center", color=SOFT)
        shown_of = [each.scenario for point in selected(results, spec) for each in point]
        write_head(figure, title_of(spec), common_of(shown_of, results.swept) if shown_of else "")
        yield figure


def svg_of_lines(
    shown: Lines, title: str, common: str, description: str, *, log: str, from_zero: bool
) -> bytes:
    """Return lines as the content of an SVG file.

    Args:
        common: a text that stands below the title.
        description: a text in the file that readers of the picture do not see.
        log: which axes have a logarithmic scale: x, y or xy.
        from_zero: whether the y axis begins at zero.
    """
    with empty_figure(HEIGHT_IN) as figure:
        _draw_lines(figure, shown, log=log, from_zero=from_zero)
        write_head(figure, title, common)
        return saved(figure, "svg", description)


def _draw_lines(figure: Figure, shown: Lines, *, log: str, from_zero: bool) -> None:
    axes = figure.add_subplot()
    worlds = list(dict.fromkeys(line.world for line in shown.lines))
    others = list(dict.fromkeys(line.other for line in shown.lines))
    both = len(worlds) > 1
    colours = list(dict.fromkeys(line.algorithm for line in shown.lines))
    for line in shown.lines:
        # Of lines that coincide, the ones below are seen at the edges of those above.
        width = max(1.6, 3.0 - 0.6 * colours.index(line.algorithm))
        _draw_line(axes, line, others.index(line.other), both, width)
    models = _draw_models(axes, shown)
    _scale(axes, shown, log, from_zero)
    keys = _line_keys(shown, others, sorted(worlds, key=_is_measured) if both else ())
    _legend(figure, [*keys, *_sign_keys(shown, bool(models))])


def _is_measured(world: str) -> bool:
    return bool(world) and has_real_time(world)


def _line_keys(shown: Lines, others: Sequence[str], worlds: Sequence[str]) -> list[Any]:
    """Return the part of a legend that says what the colours, dashes and marks of lines mean.

    Args:
        worlds: those of the lines, if there are several.
    """
    keys: list[Any] = [
        Patch(color=colour(name), label=label)
        if worlds
        else Line2D([], [], color=colour(name), lw=2, marker="o", label=label)
        for label, name in dict.fromkeys((line.label, line.algorithm) for line in shown.lines)
    ]
    styles = zip(cycle(DASHES), cycle(MARKERS), others if len(others) > 1 else (), strict=False)
    keys += [
        Line2D([], [], color=SOFT, lw=1.6, ls=dashes, marker=marker, label=other)
        for dashes, marker, other in styles
    ]
    solid: Any = {"lw": 2}
    hollow: Any = {"ls": "none", "marker": "o", "mfc": "white", "mew": 1.8}
    keys += [
        Line2D([], [], color=SOFT, label=world, **(hollow if _is_measured(world) else solid))
        for world in worlds
    ]
    return keys


def _sign_keys(shown: Lines, models: bool) -> list[Any]:
    """Return the part of a legend that explains the other signs, if the plot has them."""
    sign: Any = {"color": INK, "ls": "none"}
    lines = shown.lines
    keys = (
        (models, Line2D([], [], color=INK, lw=1.1, ls=(0, (4, 3)), label=shown.model_label)),
        (
            any(line.low != line.y or line.high != line.y for line in lines),
            Patch(color=SOFT, alpha=0.3, label="least to greatest"),
        ),
        (
            any(any(line.doubtful) for line in lines),
            Line2D([], [], label="fidelity invalid, or a run failed", **sign, **DOUBTFUL),
        ),
        (
            any(any(line.predicted) for line in lines),
            Line2D([], [], label="predicted (fidelity not ok)", **sign, **PREDICTED),
        ),
    )
    return [key for is_there, key in keys if is_there]


def _legend(figure: Figure, handles: list[Any]) -> None:
    """Draw the legend below everything, in as few rows as its words leave room for."""
    columns = len(handles)
    while columns > 1:
        # As matplotlib has it, the first columns are longer by one where they are not all alike.
        rows, longer = divmod(len(handles), columns)
        ends = [
            (rows + 1) * min(at, longer) + rows * max(0, at - longer) for at in range(columns + 1)
        ]
        widest = [
            max(len(str(handle.get_label())) for handle in handles[begin:end])
            for begin, end in pairwise(ends)
        ]
        if sum(widest) + 9 * len(widest) <= 108:
            break
        columns -= 1
    figure.legend(handles=handles, loc="outside lower left", ncols=columns)


def _draw_line(axes: Axes, line: PlotLine, other: int, both: bool, width: float) -> None:
    measured = _is_measured(line.world)
    marker = MARKERS[other % len(MARKERS)]
    colour_of = colour(line.algorithm)
    axes.plot(
        line.x,
        line.y,
        color=colour_of,
        linestyle="none" if both and measured else DASHES[other % len(DASHES)],
        linewidth=width,
        marker=marker if measured or not both else "none",
        markersize=7 if both else 5,
        markerfacecolor="white" if both else colour_of,
        markeredgewidth=1.8,
        zorder=4 if measured else 3,
    )
    for flags, sign in ((line.doubtful, DOUBTFUL), (line.predicted, PREDICTED)):
        places = [(x, y) for x, y, flag in zip(line.x, line.y, flags, strict=True) if flag]
        if places:
            style = {"color": INK, "ls": "none", "ms": 7, "zorder": 6, **sign}
            axes.plot(*zip(*places, strict=True), **style)
    if line.low == line.y == line.high:
        return
    if len(line.x) > 1 and not (both and measured):
        axes.fill_between(
            line.x, line.low, line.high, color=colour_of, alpha=0.18, linewidth=0, zorder=1
        )
    else:  # single places have no band
        below = [y - low for y, low in zip(line.y, line.low, strict=True)]
        above = [high - y for y, high in zip(line.y, line.high, strict=True)]
        axes.errorbar(
            line.x, line.y, yerr=[below, above], fmt="none", ecolor=colour_of, elinewidth=1.2,
            capsize=3, zorder=2,
        )  # fmt: skip


def _draw_models(axes: Axes, shown: Lines) -> bool:
    """Draw dashed lines of the bounds or models; those that coincide are drawn once, in grey."""
    models: dict[tuple[tuple[float, float], ...], set[str]] = {}
    for line in shown.lines:
        points = tuple(
            (x, model) for x, model in zip(line.x, line.model, strict=True) if model is not None
        )
        if points:
            models.setdefault(points, set()).add(line.algorithm)
    # What another line has already shown of an algorithm need not be drawn again.
    drawn: list[tuple[tuple[tuple[float, float], ...], set[str]]] = []
    for points, algorithms in sorted(models.items(), key=lambda item: -len(item[0])):
        same = next((of for more, of in drawn if set(points) <= set(more)), None)
        if same is None:
            drawn.append((points, algorithms))
        else:
            same |= algorithms
    for points, algorithms in drawn:
        xs, ys = zip(*points, strict=True)
        alone = len(algorithms) == 1 and len(drawn) > 1
        if len(set(ys)) == 1 and len(drawn) == 1:
            axes.axhline(ys[0], color=INK, linewidth=1.1, linestyle=(0, (4, 3)), zorder=5)
        else:
            axes.plot(
                xs, ys, color=colour(min(algorithms)) if alone else INK, linewidth=1.1,
                linestyle=(0, (4, 3)), zorder=1 if alone else 5,
            )  # fmt: skip
    return bool(drawn)


def _scale(axes: Axes, shown: Lines, log: str, from_zero: bool) -> None:
    axes.set(xlabel=shown.axis.label, ylabel=shown.y_label)
    positions, ticks = shown.axis.positions, shown.axis.ticks
    if not shown.axis.numeric:
        wrap = textwrap.TextWrapper(NAME_CHARACTERS, break_long_words=False)
        ticks = tuple(wrap.fill(tick) for tick in ticks)
    if "x" in log and shown.axis.numeric and max(positions) > 0 <= min(positions):
        least = min(position for position in positions if position > 0)
        if min(positions) > 0:
            axes.set_xscale("log", base=2)
        else:  # nothing, too, has a place on this scale
            axes.set_xscale("symlog", base=2, linthresh=least, linscale=0.5)
            axes.set_xlim(-0.3 * least, 1.15 * max(positions))
    kept = _roomy(axes, positions, ticks)
    axes.set_xticks([positions[index] for index in kept], [ticks[index] for index in kept])
    axes.xaxis.set_minor_locator(NullLocator())
    everything = [y for line in shown.lines for y in (*line.low, *line.model) if y is not None]
    highest = max([*everything, *(y for line in shown.lines for y in line.high)])
    if "y" in log and min(everything) > 0:
        axes.set_yscale("log")
        wide = max(everything) > 30 * min(everything)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_formatter(FuncFormatter(lambda y, _: _minor(y, wide)))
    elif from_zero:
        axes.set_ylim(0, 1.06 * highest or 1)
    else:
        lowest = min(everything)
        room = 0.06 * (max(highest - lowest, 0.1 * highest) or 1)
        axes.set_ylim(lowest - room, highest + 1.5 * room)


def _roomy(axes: Axes, positions: Sequence[float], ticks: Sequence[str]) -> list[int]:
    """Return the ticks, from the last one down, whose labels do not run into each other."""
    places = [float(place) for place in axes.xaxis.get_transform().transform(positions)]
    span = max(places) - min(places)
    kept: list[int] = []
    for index in reversed(range(len(places))):
        room = CHARACTER * (max(map(len, ticks[index].splitlines()), default=0) + 2) * span
        if not kept or places[kept[-1]] - places[index] >= room:
            kept.append(index)
    return kept


def _minor(y: float, wide: bool) -> str:
    """Return the label of a tick at 2, 3, 4 times a power of ten: it has one if there are only few
    powers."""
    text = f"{y:g}"
    return "" if wide or text.strip("0.")[:1] not in "235" else text


def _draw_panels(figure: Figure, shown: Panels, *, stacked: bool) -> None:
    """Draw panels side by side, at most three in a row; stacks are on one scale."""
    count = len(shown.panels)
    columns = 2 if count == 4 else min(count, 3)
    rows = -(-count // columns)
    figure.set_size_inches(WIDTH_IN, max(HEIGHT_IN, 1.4 + PANEL_IN * rows))
    grid = figure.subplots(rows, columns, sharey=stacked, squeeze=False)
    cells = [axes for row in grid for axes in row]
    for axes in cells[count:]:
        axes.set_visible(False)
    for panel, axes in zip(shown.panels, cells, strict=False):
        places = list(range(len(panel.groups)))
        axes.grid(False, axis="x")
        if panel.title:
            axes.set_title(panel.title, loc="left", color=INK)
        _draw_bars(axes, shown, panel.values, panel.models, stacked=stacked)
        crowded = max(map(len, panel.groups)) * len(places) * columns > 60
        names = panel.groups if stacked else [name.replace(" ", "\n", 1) for name in panel.groups]
        axes.set_xticks(places, names)
        axes.tick_params(axis="x", length=0, labelsize=9 if crowded else 10)
        if shown.x_label:
            axes.set_xlabel(shown.x_label)
    figure.supylabel(shown.y_label, fontsize=11, color=INK)
    paint = phase_colour if stacked else colour
    handles: list[Any] = [Patch(color=paint(name), label=label_of(name)) for name in shown.names]
    if any(panel.models for panel in shown.panels):
        handles.append(Line2D([], [], color=INK, lw=2, label="model (payload alone)"))
    _legend(figure, handles)


def _draw_bars(
    axes: Axes,
    shown: Panels,
    values: dict[str, tuple[float, ...]],
    models: dict[str, tuple[float, ...]],
    *,
    stacked: bool,
) -> None:
    if stacked:
        bottom = [0.0] * len(next(iter(values.values())))
        for name in shown.names:
            axes.bar(
                range(len(bottom)), values[name], 0.66, bottom=bottom, color=phase_colour(name),
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
            bottom = [low + value for low, value in zip(bottom, values[name], strict=True)]
        return
    names = [name for name in shown.names if name in values]
    width = 0.8 / len(names)
    for index, name in enumerate(names):
        places = [group + (index + 0.5) * width - 0.4 for group in range(len(values[name]))]
        axes.bar(places, values[name], width * 0.9, color=colour(name))
        if name in models:
            axes.hlines(
                models[name],
                [place - width * 0.5 for place in places],
                [place + width * 0.5 for place in places],
                color=INK,
                linewidth=2,
            )
