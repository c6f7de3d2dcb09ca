"""Figures of matplotlib in Weft's style, and their files. Import this only to draw, since it takes
a while."""

import contextlib
import io
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from weft.base.cache import cache_dir
from weft.base.errors import MachineError
from weft.experiments.results.summary import time_unit

with contextlib.suppress(MachineError):
    # Its list of fonts belongs with what else can be deleted at any time.
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir() / "matplotlib"))

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

WIDTH_IN = 8.0
HEAD_IN = 0.68
"""How much of a plot's height the heading above it takes."""
LINE_CHARACTERS = 104
"""The most characters of the line below the title; a longer one is cut."""
PNG_DPI = 200
INK, SOFT, GRID = "#1a2230", "#586273", "#e3e7ec"

STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "axes.edgecolor": SOFT,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "text.color": INK,
    "text.parse_math": False,
    "svg.hashsalt": "weft",
    "svg.fonttype": "path",
}


@contextlib.contextmanager
def empty_figure(height_in: float, width_in: float = WIDTH_IN) -> Iterator[Figure]:
    """Return an empty figure; it is drawn and saved under the same settings."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width_in, height_in), layout=ConstrainedLayoutEngine())
        FigureCanvasAgg(figure)
        yield figure


def saved(figure: Figure, ending: str, description: str | None = None) -> bytes:
    """Return the content of a file, ``svg`` or ``png``.

    In an SVG, the description is text that readers of the picture do not see.
    """
    buffer = io.BytesIO()
    # Without dates and versions the same results are the same file.
    svg: dict[str, str | None] = {"Date": None, "Creator": None, "Description": description}
    figure.savefig(
        buffer,
        format=ending,
        dpi=PNG_DPI,
        metadata=svg if ending == "svg" else {"Software": None},
    )
    return buffer.getvalue()


def write_head(figure: Figure, title: str, common: str) -> None:
    """Write the heading above a plot, and leave room for it."""
    height_in = figure.get_size_inches()[1]
    layout = figure.get_layout_engine()
    assert isinstance(layout, ConstrainedLayoutEngine)
    layout.set(rect=(0, 0, 1, 1 - HEAD_IN / height_in))
    at: Any = {"x": 0.012, "ha": "left", "va": "top"}
    figure.text(y=1 - 0.12 / height_in, s=title, fontsize=14, fontweight="bold", **at)
    common = textwrap.shorten(common, LINE_CHARACTERS, placeholder=" ...")
    figure.text(y=1 - 0.42 / height_in, s=common, color=SOFT, **at)


def axes_over_time(
    figure: Figure, ends_ns: Sequence[int], heights: Sequence[float], height_in: float
) -> tuple[list[Axes], int]:
    """Return axes one below the other on one scale of time, and how many nanoseconds its unit has.

    Args:
        ends_ns: when what is drawn on each of the axes ends.
        heights: the height of each, in any unit.
        height_in: the height of all together, with what stands around them, in inches.
    """
    figure.set_size_inches(WIDTH_IN, HEAD_IN + height_in)
    cells = figure.subplots(len(heights), 1, squeeze=False, height_ratios=heights, sharex=True)
    unit, unit_ns = time_unit(max(ends_ns))
    cells[-1, 0].set_xlabel(f"time ({unit})")
    return list(cells[:, 0]), unit_ns
