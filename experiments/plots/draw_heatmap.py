"""The drawing of heat maps, with matplotlib."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from weft.experiments.plots.canvas import axes_over_time
from weft.experiments.plots.heatmap import MAX_NAMED_ROWS, RAMP, HeatMap

ROW_IN, LEAST_IN, HEAD_IN = 0.15, 1.4, 0.5
"""Heights: of a row with a name, of a map, of what stands around it."""
COLOURS = LinearSegmentedColormap.from_list(
    "load", [tuple(part / 255 for part in colour) for colour in RAMP]
)


def draw_heat_maps(figure: Figure, maps: Sequence[tuple[str, HeatMap]]) -> None:
    """Draw heat maps into an empty figure, one below the other, on one scale of time."""
    heights = [max(LEAST_IN, ROW_IN * min(len(each.names), MAX_NAMED_ROWS)) for _, each in maps]
    ends_ns = [each.end_ns for _, each in maps]
    height_in = sum(HEAD_IN + height for height in heights)
    cells, unit_ns = axes_over_time(figure, ends_ns, heights, height_in)
    for (title, shown), axes in zip(maps, cells, strict=True):
        image = _draw(axes, shown, unit_ns)
        axes.set_title(title, loc="left")
        axes.set_xlim(0, max(ends_ns) / unit_ns)
    bar = figure.colorbar(image, ax=cells, aspect=30, pad=0.015)
    bar.set_label("load of the link", fontsize=10)
    bar.set_ticks([0, 0.5, 1], labels=["0", "50 %", "100 %"])


def _draw(axes: Axes, shown: HeatMap, unit_ns: int) -> AxesImage:
    image = draw_loads(axes, shown, (0, shown.end_ns / unit_ns, len(shown.names), 0))
    marks = shown.marks()
    axes.set_yticks([place for place, _ in marks], [name for _, name in marks])
    axes.tick_params(axis="y", length=0, labelsize=7)
    axes.grid(visible=False)
    return image


def draw_loads(axes: Axes, shown: HeatMap, extent: tuple[float, float, float, float]) -> AxesImage:
    """Draw the loads of one run, with a pixel for each link and bin of time, from left to right and
    from bottom to top as `extent` says."""
    return axes.imshow(
        shown.loads,
        aspect="auto",
        interpolation="none",
        cmap=COLOURS,
        vmin=0,
        vmax=1,
        extent=extent,
    )
