"""Gantt charts of training steps in pipelines: what each stage computed, and when."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from matplotlib.axes import Axes

from weft.experiments.families.flow_times import FlowTimes
from weft.experiments.families.pipeline.part import StepTimes
from weft.experiments.plots.gantt import Chart
from weft.experiments.plots.palette import label_of
from weft.experiments.plots.trace import complete, named
from weft.experiments.results.results import Run
from weft.experiments.results.summary import short_duration

KIND_TITLES = {"F": "forward", "B": "backward", "W": "gradients of weights"}
PAINTS = {"F": "#0072b2", "B": "#d55e00", "W": "#009e73"}
LIGHTER = 0.55
"""How much of its colour every second chunk keeps."""
ROW_IN, HEAD_IN = 0.34, 0.8
"""The heights of a stage and of what stands around a run, in inches."""
MAX_RUNS = 8
MOST_LABELS = 400
"""In a chart of more actions they have no numbers."""


def chart_of(run: Run) -> Chart | None:
    """Return the chart of a training step, or None where its times are not known."""
    step = run.part(StepTimes)
    if step is None:
        return None
    return Chart(
        "What each stage computed, and when",
        "Gantt charts of training steps by stage",
        step.step_ns,
        HEAD_IN + ROW_IN * len({*step.stage}),
        {KIND_TITLES[kind]: PAINTS[kind] for kind in step.kind},
        partial(_draw, run, step),
        partial(_events, run, step),
        MAX_RUNS,
    )


def _draw(run: Run, step: StepTimes, axes: Axes, unit_ns: float) -> None:
    stages = sorted({*step.stage})
    first_rank = {stage: min(r for r, s in zip(step.rank, step.stage, strict=True) if s == stage)
                  for stage in stages}  # fmt: skip
    rows = zip(step.rank, step.stage, step.kind, step.microbatch, step.chunk, step.begin_ns,
               step.end_ns, strict=True)  # fmt: skip
    bars = [row for row in rows if row[0] == first_rank[row[1]]]
    for _, stage, kind, microbatch, chunk, begin_ns, end_ns in bars:
        width = (end_ns - begin_ns) / unit_ns
        axes.barh(
            stage, width, 0.82, begin_ns / unit_ns, color=PAINTS[kind],
            alpha=LIGHTER if chunk % 2 else 1.0, edgecolor="white", linewidth=0.5,
        )  # fmt: skip
        if len(bars) <= MOST_LABELS and width * unit_ns > step.step_ns / 90:
            axes.text(
                begin_ns / unit_ns + width / 2, stage, str(microbatch), color="white",
                fontsize=6.5, ha="center", va="center",
            )  # fmt: skip
    axes.set_yticks(stages, [f"stage {stage}" for stage in stages])
    axes.invert_yaxis()
    axes.grid(False)
    time, bubble = short_duration(step.step_ns), f"{100 * step.bubble:.0f} %"
    axes.set_title(f"{label_of(run.algorithm)}: {time}, bubble {bubble}", loc="left")


def _events(run: Run, step: StepTimes, process: int) -> Iterator[dict[str, Any]]:
    """Yield the actions: a thread for each rank; and the flows between ranks as threads of their
    own."""
    for rank, stage in sorted({*zip(step.rank, step.stage, strict=True)}):
        yield named("thread_name", process, rank, f"stage {stage}, rank {rank}")
    for rank, kind, microbatch, chunk, begin_ns, end_ns in zip(
        step.rank, step.kind, step.microbatch, step.chunk, step.begin_ns, step.end_ns,
        strict=True,
    ):  # fmt: skip
        name = f"{kind}{microbatch}{f'.{chunk}' if chunk else ''}"
        yield complete(name, KIND_TITLES[kind], process, rank, begin_ns, end_ns)
    if (flows := run.part(FlowTimes)) is not None:
        yield from flows.events(process, lambda source: 1000 + source)
