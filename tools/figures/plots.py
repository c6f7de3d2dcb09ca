"""Plots of the documentation: a note in a page says of which figures, and the picture is drawn.

In a page a plot stands between two notes, as a table does::

    <!-- plot loss: over-bound; x loss; lines algorithm; file page/loss.svg; title Time by loss -->
    ![Time by loss](page/loss.svg)
    <!-- end of figures -->

After the metric come what the x axis is, what lines are told apart by (``algorithm``, ``paths`` or
``operator``, which gives the colour, and more options), the picture's file as seen from the page's
folder, its title, and the values that all its figures have. ``log x`` makes an axis logarithmic,
and ``bound yes`` draws the bound of times, too. ``over`` and ``under`` mean the same as in tables,
and as there no quotient is taken where a run is not ``ok``.

Every picture holds the numbers that it shows as its description. By them a check knows whether it
shows the kept figures; how lines look differs between versions of matplotlib.
"""

import html
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, refuse
from weft.base.units import listed, shown
from weft.experiments.plots.series import Axis, Lines, PlotLine
from weft.experiments.results.metric import SCALES, Metric
from weft.experiments.results.spread import Spread
from weft.experiments.scenario.options import OPTIONS, read_option
from weft.tools.figures.kept import (
    AlgorithmRow,
    Kept,
    check_metric,
    check_option,
    kept_metrics,
)
from weft.tools.figures.tables import (
    END,
    blocks,
    caption,
    divided,
    is_exact,
    parse_note,
    rows_with,
    values_of,
)

_PLOTS = blocks("plot")
_NEEDED = {"x": "OPTION", "lines": "algorithm", "file": "FILE.svg", "title": "TEXT"}
_FILE = re.compile(r"[a-z0-9-]+(/[a-z0-9-]+)*\.svg")
_DESCRIPTION = re.compile(r"<dc:description>(.*?)</dc:description>", re.DOTALL)

COLOURED = ("algorithm", "paths", "operator")
"""The options that tell lines apart first, by colour."""


@cache
def drawn_metrics() -> dict[str, tuple[Metric, str]]:
    """Return the kept metrics that plots may show, each with the label of its y axis."""
    return {
        name: (metric, metric.axis.format(unit=SCALES[unit][0]))
        for name, (metric, unit) in kept_metrics().items()
        if metric.axis
    }


@dataclass(frozen=True)
class PlotNote:
    """What a plot shows."""

    name: str
    """The name of the kept figures."""
    metric: str
    x: str
    lines: tuple[str, ...]
    shared: tuple[tuple[str, tuple[str, ...]], ...]
    """Options, each with the values that the figures may have."""
    file: str
    """The picture's file, beside the page."""
    title: str
    log: str = ""
    with_bound: bool = False
    over: str = ""
    under: str = ""

    @property
    def divides(self) -> bool:
        """Return whether the plot's figures are quotients."""
        return bool(self.over or self.under)

    @staticmethod
    def parse(text: str) -> "PlotNote":
        """Read a note's text. Raises `InputError`, which shows the text."""
        place = f"plot {shown(text)}"
        name, metric, told = parse_note(place, text, _NEEDED)
        if check_metric(metric, place) not in drawn_metrics():
            raise InputError(
                f"{place}: metric {shown(metric)} is for tables; plots have "
                f"{', '.join(drawn_metrics())}"
            )
        x, lines, file, title = (told.pop(key) for key in _NEEDED)
        log, bound = told.pop("log", ""), told.pop("bound", "")
        over, under = told.pop("over", ""), told.pop("under", "")
        timed = metric in ("completion-ms", "over-bound")
        wrong = {
            f"lines {shown(lines)}: first comes {listed(COLOURED, 'or')}": (
                lines.split()[0] not in COLOURED
            ),
            f"file {shown(file)} is no name like folder/name-of-it.svg": not _FILE.fullmatch(file),
            f"log {shown(log)} is none of x, y, xy": log not in ("", "x", "y", "xy"),
            "bound is yes, or not there, and times alone have one": (
                bound not in ("", "yes") or (bound and not timed)
            ),
            "one of over, under and bound alone makes sense": (
                bool(over) + bool(under) + bool(bound) > 1
            ),
        }
        for why, is_so in wrong.items():
            refuse(is_so, f"{place}: {why}")
        for option in (x, *lines.split(), *told):
            check_option(option, place)
        return PlotNote(
            name, metric, x, tuple(lines.split()), values_of(told), file, title, log, bool(bound),
            over, under,
        )  # fmt: skip

    def rows_of(self, kept: Kept) -> list[AlgorithmRow]:
        """Return the rows that the plot shows. Raises `InputError` if there are none."""
        rows = rows_with(self.shared, kept)
        if self.divides:
            rows = divided(rows, kept, self.over, self.under)
        rows = [row for row in rows if Spread.of(row.values.get(self.metric, []))]
        if not rows:
            raise InputError(f"figures of {kept.name}: none of {dict(self.shared)} is to be drawn")
        return rows


def with_plots(text: str, kept_of: Callable[[str], Kept]) -> str:
    """Return a page in which the lines of all plots are made anew.

    Raises:
        InputError: a note makes no sense, or asks for figures that are not kept.
    """

    def made(block: re.Match[str]) -> str:
        note = PlotNote.parse(block["spec"])
        kept = kept_of(note.name)
        metrics = (note.metric,)
        below = caption(
            kept,
            note.rows_of(kept),
            metrics,
            lambda row: not is_exact(row, metrics),
            divides=note.divides,
        )
        return f"<!-- plot {block['spec']} -->\n![{note.title}]({note.file})\n\n{below}\n{END}"

    return _PLOTS.sub(made, text)


def notes_in(text: str) -> list[PlotNote]:
    """Return the notes of a page. Raises `InputError` for one that makes no sense."""
    return [PlotNote.parse(block["spec"]) for block in _PLOTS.finditer(text)]


def lines_of(note: PlotNote, kept: Kept) -> Lines:
    """Return what a plot shows. Raises `InputError`."""
    rows = note.rows_of(kept)
    axis, positions = _axis(note.x, [row.value(note.x) for row in rows])
    found: dict[tuple[str, ...], dict[float, AlgorithmRow]] = {}
    for row in rows:
        line = found.setdefault(tuple(row.value(option) for option in note.lines), {})
        x = positions[row.value(note.x)]
        if x in line:
            raise InputError(
                f"figures of {kept.name}: several are at {note.x} {row.value(note.x)} of a line: "
                "share an option more, or have more lines"
            )
        line[x] = row
    _, y_label = drawn_metrics()[note.metric]
    if note.divides:
        y_label = f"{y_label.partition(' (')[0]} / {note.over}'s"
        if note.under:
            y_label = f"speed-up over {note.under}"
    lines = []
    for names, at in found.items():
        others = dict(zip(note.lines[1:], names[1:], strict=True))
        world = others.pop("world", "")
        told = ", ".join(f"{key.replace('-', ' ')} {value}" for key, value in others.items())
        lines.append(_line(note, names[0], world, told, at))
    return Lines(axis, y_label, "bound", tuple(lines))


def _line(
    note: PlotNote, name: str, world: str, other: str, at: dict[float, AlgorithmRow]
) -> PlotLine:
    xs = sorted(at)
    spreads = [Spread.of(at[x].values[note.metric]) for x in xs]
    known = [spread for spread in spreads if spread]  # `rows_of` has left no other
    doubts = {"failed"} if note.divides else {"invalid", "failed"}
    return PlotLine(
        name, name, world, other,
        x=tuple(xs),
        y=tuple(spread.mean for spread in known),
        low=tuple(spread.least for spread in known),
        high=tuple(spread.greatest for spread in known),
        model=tuple(_bound(note, at[x]) for x in xs),
        doubtful=tuple(bool(doubts & set(at[x].verdicts)) for x in xs),
        predicted=(False,) * len(xs),
    )  # fmt: skip


def _bound(note: PlotNote, row: AlgorithmRow) -> float | None:
    if not note.with_bound:
        return None
    if note.metric == "over-bound":
        return 1.0
    pairs = zip(row.values["completion-ms"], row.values["over-bound"], strict=True)
    found = Spread.of(time / over for time, over in pairs if time is not None and over)
    return found.mean if found else None


def _axis(option: str, values: Sequence[str]) -> tuple[Axis, dict[str, float]]:
    """Return the x axis, and where on it each value is: numbers as they are, others in order."""
    texts = list(dict.fromkeys(values))
    numbers = {text: _number(option, text) for text in texts}
    known = {text: number for text, number in numbers.items() if number is not None}
    numeric = len(known) == len(texts)
    if numeric:
        texts.sort(key=known.__getitem__)
    places = known if numeric else {text: float(place) for place, text in enumerate(texts)}
    positions = tuple(places[text] for text in texts)
    return Axis(option.replace("-", " "), positions, tuple(texts), numeric), places


def _number(option: str, text: str) -> float | None:
    try:
        value = read_option(option, text) if option in OPTIONS else float(text)
    except (InputError, ValueError):
        return None
    return float(value) if isinstance(value, (int, float)) else None


def description_of(note: PlotNote, kept: Kept) -> str:
    """Return what a plot shows as JSON, with figures of six digits. Raises `InputError`."""
    return json.dumps(_shortened({"of": asdict(note), **asdict(lines_of(note, kept))}))


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(each) for each in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def is_fresh(file: Path, note: PlotNote, kept: Kept) -> bool:
    """Return whether a picture is there and shows the kept figures. Raises `InputError`."""
    try:
        found = _DESCRIPTION.search(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return False
    return found is not None and html.unescape(found[1]) == description_of(note, kept)


def svg_of(note: PlotNote, kept: Kept) -> bytes:
    """Return the content of the picture's SVG file. Raises `InputError`."""
    from weft.experiments.plots.draw import svg_of_lines

    shared = ", ".join(f"{key.replace('-', ' ')} {' and '.join(of)}" for key, of in note.shared)
    below = ", ".join(filter(None, (f"{note.name}.toml", shared)))
    metric, _ = drawn_metrics()[note.metric]
    return svg_of_lines(
        lines_of(note, kept),
        note.title,
        below,
        description_of(note, kept),
        log=note.log,
        from_zero=metric.from_zero and not note.divides,
    )
