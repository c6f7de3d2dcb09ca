"""The report's charts, drawn by matplotlib in coordinates that count pixels, in the page's
colours."""

import html
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from weft.experiments.plots.canvas import INK, SOFT, empty_figure
from weft.experiments.plots.draw_heatmap import draw_loads
from weft.experiments.plots.heatmap import HeatMap
from weft.experiments.plots.palette import LINE, PAPER, colour, label_of, with_page_colours
from weft.experiments.results.metric import metric_of
from weft.experiments.results.summary import (
    TIERS,
    Summary,
    byte_unit,
    short_duration,
    three_digits,
    time_unit,
)

WIDTH, LABELS = 1000.0, 190.0
"""The widths of a chart and of what is written left of its bars, in pixels."""
CHARACTER, LEAST_TEXT = 8.6, 160.0
"""Width to keep for a character of what is written at a bar's end, in a wide typeface, and for all
of it at the least."""
GAP, AXIS = 26.0, 30.0
"""The heights between groups of bars and of what stands below them, in pixels."""
HEAT_LEFT, HEAT_RIGHT, HEAT_AXIS = 150.0, 30.0, 28.0
ROW, LEAST_HEIGHT, MOST_HEIGHT = 11.0, 120.0, 620.0
"""The height of a row of a heat map, and the least and the greatest height of all rows."""
PIXELS_AN_INCH = 72.0
"""The resolution of matplotlib's SVG files."""


@dataclass(frozen=True)
class ChartBar:
    """One horizontal bar."""

    label: str
    value: float
    colour: str
    text: str
    """What is written at the end of the bar."""
    mark: float | None
    """Where the theory's line stands, on the same scale."""
    tooltip: str
    points: Sequence[float] = ()
    """The single measurements, which are drawn as points."""

    @property
    def end(self) -> float:
        """Return where the last thing that is drawn of the bar stands, on the scale of its
        value."""
        return max(self.value, self.mark or 0.0, *self.points)


def completion_times(summaries: Sequence[Summary]) -> Markup | None:
    """Draw the completion times as bars against the bound, with single runs as points; return None
    if no run has a time."""
    drawn = [
        ChartBar(
            label_of(each.algorithm),
            done,
            colour(each.algorithm),
            f"{short_duration(done)}{_range(each)}, {_over(each)}",
            each.bound_ns or None,
            f"{label_of(each.algorithm)}: {short_duration(done)}",
            each.completions_ns if len(each.completions_ns) > 1 else (),
        )
        for each in summaries
        if (done := each.completion_ns) is not None
    ]
    if not drawn:
        return None
    words = "; ".join(f"{bar.label} {bar.text}" for bar in drawn)
    return _bars([("", drawn)], time_unit(max(bar.value for bar in drawn)), 40.0, words)


def _range(summary: Summary) -> str:
    times = summary.completions_ns
    if len(times) < 2:
        return ""
    if summary.exact:
        return ", exact"
    unit, size = time_unit(max(times))
    return f" ({three_digits(min(times) / size)} to {three_digits(max(times) / size)} {unit})"


def _over(summary: Summary) -> str:
    part = metric_of("excess").mean(summary)
    return "no bound" if part is None else f"{100 * part:+.1f} % to the bound"


def tier_bytes(summaries: Sequence[Summary]) -> Markup | None:
    """Draw the bytes on every tier, measured against the model; None if there are none at all."""
    unit, unit_bytes = byte_unit(max(size for each in summaries for size in each.tiers.values()))
    groups = []
    for tier, name in TIERS.items():
        figures = [
            (each.algorithm, each.tiers[tier], each.model.get(tier, 0)) for each in summaries
        ]
        if not any(size or model for _, size, model in figures):
            continue
        bars = [
            ChartBar(
                label_of(algorithm),
                size,
                colour(algorithm),
                f"{three_digits(size / unit_bytes)} {unit}{_against(size, model)}",
                model or None,
                f"{label_of(algorithm)}, {name}: {size:.0f} bytes",
            )
            for algorithm, size, model in figures
        ]
        groups.append((name, bars))
    if not groups:
        return None
    words = "; ".join(f"{name}: {bar.label} {bar.text}" for name, group in groups for bar in group)
    return _bars(groups, (unit, unit_bytes), 22.0, words)


def _against(measured: float, model: int) -> str:
    return f", {100 * (measured / model - 1):+.1f} % to the model" if model else ""


def _bars(
    groups: Sequence[tuple[str, Sequence[ChartBar]]],
    unit: tuple[str, int],
    thickness: float,
    description: str,
) -> Markup:
    """Draw groups of horizontal bars on one scale from zero.

    Args:
        groups: the name and the bars of each group; if the name is empty, each bar has its own.
        unit: the unit of the scale's marks: its name and its size.
        thickness: that of a bar, in pixels of a chart that is `WIDTH` wide.
        description: the chart in words, for those who cannot see it.
    """
    every = [bar for _, group in groups for bar in group]
    largest = max((bar.end for bar in every), default=0.0) or 1.0
    text = max([LEAST_TEXT, *(len(bar.text) * CHARACTER for bar in every)])
    scale = (WIDTH - LABELS - text) / largest
    gaps = [GAP if name else GAP / 1.6 for name, _ in groups]
    height = 6.0 + thickness * len(every) + sum(gaps) - GAP / 2
    with _chart(LABELS, text, height, AXIS) as axes:
        places = _mark_scale(axes, largest, unit, scale, height + 18)
        axes.vlines(places[1:], 0, height, color=LINE, linewidth=1, zorder=0)
        axes.vlines(0, 0, height, color=SOFT, linewidth=1, zorder=0)
        y = 6.0
        for (name, group), gap in zip(groups, gaps, strict=True):
            if name:
                _write(axes, -14, y + thickness * len(group) / 2 + 5, name, 15, weight="bold")
            for bar in group:
                _draw_bar(axes, bar, y, thickness, scale)
                if not name:
                    _write(axes, -14, y + thickness / 2 + 5, bar.label, 15, weight="bold")
                y += thickness
            y += gap
        return _inline(axes, description, "chart")


def _draw_bar(axes: Axes, bar: ChartBar, y: float, thickness: float, scale: float) -> None:
    height = thickness - 2 * min(3.0, thickness * 0.12)
    middle = y + thickness / 2
    (drawn,) = axes.barh(middle, bar.value * scale, height, color=bar.colour)
    drawn.set_gid(f"tooltip {bar.tooltip}")
    for index, point in enumerate(bar.points):
        # Points stand side by side across the bar rather than one on another.
        across = middle + height * (0.6180339887 * index % 1 - 0.5) * 0.6
        axes.add_artist(Circle((point * scale, across), 2.6, fc=PAPER, ec=INK, lw=1.2, alpha=0.85))
    if bar.mark is not None:
        axes.vlines(bar.mark * scale, y - 1, y + thickness + 1, color=INK, linewidth=2.5)
    _write(axes, bar.end * scale + 10, middle + 5, bar.text, 15, ha="left")


def heat_map(shown: HeatMap) -> Markup:
    """Draw the map of one run: time goes to the right, and each direction of a link has a row."""
    rows = len(shown.names)
    width = WIDTH - HEAT_LEFT - HEAT_RIGHT
    height = min(MOST_HEIGHT, max(LEAST_HEIGHT, ROW * rows))
    with _chart(HEAT_LEFT, HEAT_RIGHT, height, HEAT_AXIS) as axes:
        draw_loads(axes, shown, (0, width, height, 0))
        axes.spines[:].set(visible=True, color=LINE)
        for place, name in shown.marks():
            _write(axes, -8, place / rows * height + 3.5, name, 9.5, color=SOFT)
        scale = width / shown.end_ns
        places = _mark_scale(axes, shown.end_ns, time_unit(shown.end_ns), scale, height + 20)
        axes.vlines(places, height, height + 5, color=SOFT, linewidth=1)
        return _inline(axes, f"Loads of {rows} directions of links over time", "chart heat")


@contextmanager
def _chart(left: float, right: float, height: float, below: float) -> Iterator[Axes]:
    """Return bare axes whose coordinates are pixels, y downwards, with so many pixels around them.

    Axes are slow at marks and labels of their own: whoever draws writes them."""
    size = WIDTH / PIXELS_AN_INCH, (height + below) / PIXELS_AN_INCH
    with empty_figure(size[1], size[0]) as figure:
        figure.set_layout_engine("none")
        share = below / (height + below)
        axes = figure.add_axes((left / WIDTH, share, 1 - (left + right) / WIDTH, 1 - share))
        axes.spines[:].set_visible(False)
        axes.set(xticks=[], yticks=[], autoscale_on=False)
        axes.set(xlim=(0, WIDTH - left - right), ylim=(height, 0))
        yield axes


def _write(
    axes: Axes, x: float, y: float, text: str, size: float, *, ha: str = "right", **how: Any
) -> None:
    axes.text(x, y, text, size=size, ha=ha, va="baseline", **how)


def _mark_scale(
    axes: Axes, largest: float, unit: tuple[str, int], scale: float, y: float
) -> list[float]:
    """Write round figures along the x axis, at y; return where they stand."""
    name, size = unit
    marks = ticks(largest, size)
    for mark in marks:
        text = f"{mark / size:g} {name}" if mark else "0"
        _write(axes, mark * scale, y, text, 13, ha="center", color=SOFT)
    return [mark * scale for mark in marks]


def ticks(largest: float, unit: float = 1.0) -> list[float]:
    """Return about five round multiples of a unit, from zero up to `largest`."""
    values = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(0, largest / unit)
    return [float(value) * unit for value in values if 0 <= value * unit <= largest * 1.000001]


def _inline(axes: Axes, description: str, classes: str) -> Markup:
    """Return a chart as an element of the page.

    Text stays text, colours are those of the page's style sheet, and tooltips become titles. The
    element has no other names, and no references to anything else.
    """
    for artist in axes.get_children():
        artist.set_clip_on(False)
    figure = axes.figure
    assert isinstance(figure, Figure)
    figure.patch.set_visible(False)
    axes.patch.set_visible(False)
    written = io.StringIO()
    with rc_context({"svg.fonttype": "none"}):
        canvas: Any = FigureCanvasSVG(figure)
        canvas.print_svg(written)  # `savefig` would draw it twice
    drawn = written.getvalue()
    body = drawn[drawn.index("</defs>") + len("</defs>") : drawn.rindex("</svg>")]
    body = re.sub(r'<g id="tooltip ([^"]*)">', r"<g><title>\1</title>", body)
    body = re.sub(r' id="[^"]*"', "", body).replace("xlink:href", "href")
    width, height = figure.get_size_inches() * PIXELS_AN_INCH
    opening = f'<svg viewBox="0 0 {width:.0f} {height:.0f}" class="{classes}" role="img">'
    title = f"<title>{html.escape(description, quote=False)}</title>"
    return Markup(f"{opening}{title}{with_page_colours(body)}</svg>")
