"""The plot of ``weft bench progress-engine``."""

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from weft.tools.bench.progress_needs import (
    CHUNK_BYTES,
    MODES,
    OWN,
    RATES_GBIT,
    cores_had,
    scaling_of,
    thread_of,
)


def draw(figures: Mapping[str, Any]) -> Figure:
    """Draw the GB/s of all workers over the chunk size, in a panel for each mode, and over the
    number of workers.

    Measured figures have filled marks and solid lines; extrapolated and modelled ones have hollow
    marks and dashes.
    """
    figure = Figure(figsize=(13, 4.2), layout="constrained")
    panels = figure.subplots(1, len(MODES) + 1)
    for mode, panel in zip(MODES, panels, strict=False):
        _draw_sizes(panel, figures, mode)
    panels[1].sharey(panels[0])
    panels[0].set_ylabel("received by all workers (GB/s)")
    panels[0].legend(fontsize="x-small")
    _draw_workers(panels[-1], figures)
    return figure


def _draw_sizes(panel: Axes, figures: Mapping[str, Any], mode: str) -> None:
    for source, marker, strength in (("memory", "o", 1.0), ("sockets", "s", 0.5)):
        rows = [row for row in figures[source] if row["mode"] == mode]
        for number, count in enumerate(sorted({row["workers"] for row in rows})):
            of_count = [row for row in rows if row["workers"] == count]
            panel.plot(
                [row["chunk_bytes"] for row in of_count],
                [row["gbytes_per_s_per_worker"] * count for row in of_count],
                "-", marker=marker, markersize=3, color=f"C{number}", alpha=strength,
                label=f"{count} worker{'s' * (count > 1)}, {source}",
            )  # fmt: skip
    offloaded = figures["offloaded_modelled"]
    panel.plot(
        [offloaded["chunk_bytes"]], [offloaded[mode]["gbytes_per_s"]],
        "--", marker="D", markersize=7, color="black", markerfacecolor="none",
        label="1 thread of a SmartNIC, modelled",
    )  # fmt: skip
    _finish(panel, mode, "chunk size (bytes)")


def _draw_workers(panel: Axes, figures: Mapping[str, Any]) -> None:
    numbers = [2**power for power in range(8)]
    for place, mode in enumerate(MODES):
        rows = [
            row
            for row in figures["memory"]
            if row["mode"] == mode
            and row["chunk_bytes"] == CHUNK_BYTES
            and not row["more_workers_than_cores"]
            and cores_had(row) >= OWN
        ]
        colour = f"C{place + 4}"
        panel.plot(
            [row["workers"] for row in rows],
            [row["gbytes_per_s_per_worker"] * row["workers"] for row in rows],
            "-", marker="o", markersize=4, color=colour, label=f"{mode}, measured",
        )  # fmt: skip
        scaling = scaling_of(figures, mode)
        if scaling is not None:
            scale = CHUNK_BYTES / 1e9
            panel.fill_between(
                numbers, [scaling.rate(number) * scale for number in numbers],
                [number * scaling.alone * scale for number in numbers],
                color=colour, alpha=0.12, linestyle="--", label=f"{mode}, extrapolated",
            )  # fmt: skip
        thread = thread_of(mode)
        panel.plot(
            numbers, [number * CHUNK_BYTES / thread.chunk_ns for number in numbers],
            ("--", ":")[place], marker="D", markersize=4, markerfacecolor="none", color="black",
            linewidth=0.8, label=f"SmartNIC's threads, {mode}, modelled",
        )  # fmt: skip
    for rate in RATES_GBIT:
        panel.axhline(rate / 8, color="grey", linewidth=0.5)
        panel.annotate(f"{rate} Gbit/s", (numbers[-1], rate / 8), ha="right", fontsize="x-small")
    _finish(panel, "4 KiB, by number of workers", "workers, or threads")
    panel.legend(fontsize="x-small", loc="upper left")


def _finish(panel: Axes, title: str, label: str) -> None:
    """Set a panel's logarithmic scales, its title and the label of its x axis."""
    panel.set_xscale("log", base=2)
    panel.set(yscale="log", title=title, xlabel=label)
    panel.grid(True, which="major", alpha=0.3)
