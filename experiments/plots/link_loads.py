"""Plots of what links carry: curves of links in the order of their loads, and maps of leaves
against uplinks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from weft.controller.clos_paths import ClosPaths
from weft.experiments.loads.link_loads import FloatArray, Numbers
from weft.experiments.plots.canvas import HEAD_IN, empty_figure, saved, write_head
from weft.experiments.results.summary import unit_of
from weft.experiments.theory.static_paths import SchemeLoads

CURVES_IN, MAPS_IN = 3.0, 1.9
MAPS_A_ROW = 4
UNITS = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1))
COLOURS = ("#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7", "#56b4e9", "#6a51a3", "#8c6d31")
DASHES: tuple[Any, ...] = ("-", "-", (0, (4, 2)), (0, (1, 1)))


def loads_svg(paths: ClosPaths, results: Sequence[SchemeLoads], title: str) -> bytes:
    """Return the content of an SVG file: the curves of all schemes, and below them heat maps of
    each."""
    rows = 2 * -(-len(results) // MAPS_A_ROW) if paths.uplinks else 0
    heights = [CURVES_IN, *[MAPS_IN] * rows]
    with empty_figure(HEAD_IN + CURVES_IN + rows * MAPS_IN) as figure:
        columns = min(MAPS_A_ROW, len(results))
        grid = figure.add_gridspec(1 + rows, columns, height_ratios=heights)
        _draw_curves(figure.add_subplot(grid[0, :]), results)
        if rows:
            _draw_maps(figure, grid, columns, results)
        write_head(figure, "Load of links between switches", title)
        return saved(figure, "svg")


def _draw_curves(axes: Axes, results: Sequence[SchemeLoads]) -> None:
    most = max((float(result.loads.fabric.max(initial=0)) for result in results), default=0.0)
    name, unit = unit_of(most, UNITS)
    for number, result in enumerate(results):
        load = np.sort(result.loads.fabric)[::-1] / unit
        share = (np.arange(len(load)) + 0.5) / max(1, len(load)) * 100
        axes.plot(
            share, load, color=COLOURS[number % len(COLOURS)], lw=2, label=result.scheme,
            ls=DASHES[number % len(DASHES)], drawstyle="steps-mid",
        )  # fmt: skip
    axes.set(xlabel="links, from the fullest on (% of directions)", ylabel=f"load ({name})")
    axes.set(xlim=(0, 100), ylim=(0, None))
    axes.legend(loc="lower left", ncols=4)


def _draw_maps(figure: Figure, grid: Any, columns: int, results: Sequence[SchemeLoads]) -> None:
    """Draw, for each scheme, a map of the loads upwards and below it one of the loads downwards,
    both divided by their mean."""
    maps = [
        [_over_mean(load) for load in (result.loads.leaf_up, result.loads.leaf_down)]
        for result in results
    ]
    most = max(0.05, *(float(np.abs(load - 1).max(initial=0)) for both in maps for load in both))
    scale: Any = {"vmin": max(0.0, 1 - most), "vmax": 1 + most, "cmap": "RdBu_r"}
    drawn: list[Axes] = []
    image: Any = None
    for number, (result, both) in enumerate(zip(results, maps, strict=True)):
        row, column = divmod(number, columns)
        for down, load in enumerate(both):
            axes = figure.add_subplot(grid[1 + 2 * row + down, column])
            image = axes.imshow(load, aspect="auto", interpolation="nearest", **scale)
            axes.set_title("" if down else result.scheme)
            axes.grid(False)
            axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
            if down:
                axes.set_xlabel("uplink")
            if column == 0:
                axes.set_ylabel("leaf, down" if down else "leaf, up")
            drawn.append(axes)
    figure.colorbar(image, ax=drawn, label="load over the mean", aspect=40)


def _over_mean(load: Numbers) -> FloatArray:
    """Return loads divided by the mean of those that are not 0."""
    mean = float(load[load > 0].mean()) if load.any() else 1.0
    return np.asarray(load / mean, np.float64)
