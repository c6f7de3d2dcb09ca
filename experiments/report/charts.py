"""The report's charts, as SVG whose colours come from the page's style sheet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

from weft.experiments.plots.palette import phase_class
from weft.experiments.report.markup import Markup, element

WIDTH = 1000.0
LABELS = 190.0
"""Width of what is written left of the bars."""
CHARACTER = 8.6
"""Width to keep for a character of what is written at a bar's end, in a wide typeface."""
GAP = 26.0
AXIS = 30.0


@dataclass(frozen=True)
class Bar:
    """One horizontal bar."""

    label: str
    value: float
    colour: str
    """Name of a class of the style sheet."""
    text: str
    """What is written at its end."""
    mark: float | None = None
    """Where the theory's line stands, on the same scale."""
    points: Sequence[float] = ()
    """Single measurements."""
    tooltip: str = ""


def bars(
    groups: Sequence[tuple[str, Sequence[Bar]]],
    unit: tuple[str, int],
    *,
    thickness: float = 22.0,
    description: str,
) -> Markup:
    """Groups of horizontal bars on one scale from zero.

    Args:
        groups: name (may be empty) and bars of each.
        unit: what the scale is marked in, its name and how much it is.
        thickness: of a bar, in px at full width.
        description: the chart in words, for who cannot see it.
    """
    every = [bar for _, group in groups for bar in group]
    ends = [end for bar in every for end in (bar.value, bar.mark or 0.0, *bar.points)]
    largest = max(ends, default=0.0) or 1.0
    written = max((len(bar.text) for bar in every), default=0) * CHARACTER
    scale = (WIDTH - LABELS - max(written, 160.0)) / largest
    parts: list[Markup] = []
    y = 6.0
    rows: list[Markup] = []
    for name, group in groups:
        if name:
            middle = y + thickness * len(group) / 2
            rows.append(_text(LABELS - 14, middle + 5, name, "end", "label"))
        for bar in group:
            rows += _bar(bar, y, thickness, scale, named=not name)
            y += thickness
        y += GAP if name else GAP / 1.6
    y -= GAP / 2
    unit_name, unit_size = unit
    for tick in ticks(largest, unit_size):
        x = LABELS + tick * scale
        line_class = "axis" if tick == 0 else "grid"
        parts.append(element("line", x1=x, x2=x, y1=0.0, y2=y, class_=line_class))
        label = f"{tick / unit_size:g} {unit_name}" if tick else "0"
        parts.append(_text(x, y + 18, label, "middle", "tick"))
    return element(
        "svg",
        element("title", description),
        *parts,
        *rows,
        viewBox=f"0 0 {WIDTH:.0f} {y + AXIS:.0f}",
        class_="chart",
        role="img",
    )


def _bar(bar: Bar, y: float, thickness: float, scale: float, named: bool) -> list[Markup]:
    inset = min(3.0, thickness * 0.12)
    height = thickness - 2 * inset
    middle = y + thickness / 2
    length = bar.value * scale
    tooltip = element("title", bar.tooltip) if bar.tooltip else None
    parts = []
    if named:
        parts.append(_text(LABELS - 14, middle + 5, bar.label, "end", "label"))
    parts.append(
        element(
            "rect",
            tooltip,
            x=LABELS,
            y=y + inset,
            width=max(length, 0.0),
            height=height,
            rx=2.0,
            class_=f"bar {bar.colour}",
        )
    )
    if len(bar.points) > 1:
        parts += [
            element("circle", cx=LABELS + point * scale, cy=_spread(middle, height, index),
                    r=2.6, class_="point")
            for index, point in enumerate(bar.points)
        ]  # fmt: skip
    end = length
    if bar.mark is not None:
        x = LABELS + bar.mark * scale
        parts.append(element("line", x1=x, x2=x, y1=y - 1.0, y2=y + thickness + 1.0, class_="mark"))
        end = max(end, bar.mark * scale)
    end = max([end, *(point * scale for point in bar.points)])
    parts.append(_text(LABELS + end + 10, middle + 5, bar.text, "start", "value"))
    return parts


def _spread(middle: float, height: float, index: int) -> float:
    """Where a point stands across its bar: side by side rather than one on another."""
    return middle + height * (0.6180339887 * index % 1 - 0.5) * 0.6


def _text(x: float, y: float, text: str, anchor: str, class_: str) -> Markup:
    return element("text", text, x=x, y=y, text_anchor=anchor, class_=class_)


def ticks(largest: float, unit: float = 1.0, wanted: int = 5) -> list[float]:
    """Round multiples of a unit from zero up to `largest`, about as many as wanted."""
    step = unit * 10.0 ** floor(log10(largest / unit / wanted))
    step *= next(factor for factor in (1, 2, 5, 10) if step * factor * wanted >= largest * 0.9)
    return [step * index for index in range(floor(largest / step + 1e-9) + 1)]


def phases(parts: Sequence[tuple[str, float, str]], largest: float) -> Markup:
    """One rank's phases, one after the other: (name, duration, what the tooltip says) of each.

    `largest` is the longest sum of all the ranks, which takes the whole width.
    """
    x = 0.0
    drawn = []
    for name, duration, tooltip in parts:
        width = 300.0 * duration / largest if largest else 0.0
        drawn.append(
            element(
                "rect",
                element("title", tooltip),
                x=x,
                y=0.0,
                width=width,
                height=14.0,
                class_=phase_class(name),
            )
        )
        x += width
    return element(
        "svg",
        *drawn,
        viewBox="0 0 300 14",
        preserveAspectRatio="none",
        class_="phases",
        role="img",
    )
