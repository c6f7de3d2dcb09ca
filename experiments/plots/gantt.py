"""Gantt charts of training steps in pipelines: what each stage computed, and when; as pictures, and
as trace events for Perfetto and chrome://tracing."""

import json
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from weft.experiments.plots.canvas import axes_over_time, empty_figure, saved
from weft.experiments.plots.palette import label_of
from weft.experiments.plots.trace import complete, flow_events, named
from weft.experiments.results.results import Results, Run
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


def shown_runs(results: Results) -> list[Run]:
    """Return the first verified run of each algorithm and point that has times of stages, at most
    `MAX_RUNS`."""
    found: dict[tuple[str, str], Run] = {}
    for run in results.runs:
        if run.step is not None and run.verified:
            point = json.dumps([run.scenario.get(name) for name in results.swept], default=str)
            found.setdefault((run.algorithm, point), run)
    return list(found.values())[:MAX_RUNS]


def draw_gantt(runs: Sequence[Run], ending: str) -> bytes:
    """Return a picture, ``svg`` or ``png``, with a chart for each run, all on one scale."""
    ends_ns = [run.step.step_ns for run in runs if run.step]
    heights = [HEAD_IN + ROW_IN * len({*run.step.stage}) for run in runs if run.step]
    with empty_figure(sum(heights) + 0.4) as figure:
        cells, unit_ns = axes_over_time(figure, ends_ns, heights, sum(heights))
        for run, axes in zip(runs, cells, strict=True):
            _draw(axes, run, unit_ns)
            axes.set_xlim(0, max(ends_ns) / unit_ns * 1.01)
        kinds = dict.fromkeys(kind for run in runs if run.step for kind in run.step.kind)
        figure.legend(
            handles=[Patch(color=PAINTS[kind], label=KIND_TITLES[kind]) for kind in kinds],
            loc="outside lower center",
            ncols=3,
        )
        return saved(figure, ending, "Gantt charts of training steps by stage")


def _draw(axes: Axes, run: Run, unit_ns: float) -> None:
    step = run.step
    assert step is not None
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


def trace_events(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return the actions of runs in the trace event format: a process for each run, a thread for
    each rank, times in us; and the flows between ranks as a thread of their own."""
    events: list[dict[str, Any]] = []
    for process, run in enumerate(runs):
        step = run.step
        assert step is not None
        events.append(named("process_name", process, 0, run.algorithm))
        for rank, stage in sorted({*zip(step.rank, step.stage, strict=True)}):
            events.append(named("thread_name", process, rank, f"stage {stage}, rank {rank}"))
        for rank, kind, microbatch, chunk, begin_ns, end_ns in zip(
            step.rank, step.kind, step.microbatch, step.chunk, step.begin_ns, step.end_ns,
            strict=True,
        ):  # fmt: skip
            name = f"{kind}{microbatch}{f'.{chunk}' if chunk else ''}"
            events.append(complete(name, KIND_TITLES[kind], process, rank, begin_ns, end_ns))
        events += flow_events(process, run, lambda source: 1000 + source)
    return events
