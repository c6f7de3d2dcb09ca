"""The files of a results folder that are Gantt charts, of whatever has any."""

import json
from collections.abc import Iterator

from weft.experiments.plots import gantt, workgroups
from weft.experiments.results.results import Results

NAMES = ("gantt.svg", "gantt.png", "gantt.trace.json")


def gantt_svg(results: Results) -> tuple[str, bytes] | None:
    """Return a title and a chart of what stages or workgroups did, or None if no run has any."""
    if runs := gantt.shown_runs(results):
        return "What each stage computed, and when", gantt.draw_gantt(runs, "svg")
    if runs := workgroups.shown_runs(results):
        title = "What workgroups did, and what links carried meanwhile"
        return title, workgroups.draw_workgroups(runs, "svg")
    return None


def gantt_files(results: Results) -> Iterator[tuple[str, bytes | str]]:
    """Yield the files of the charts by name, `NAMES`; none where no run has anything to draw."""
    for kind, draw in ((gantt, gantt.draw_gantt), (workgroups, workgroups.draw_workgroups)):
        runs = kind.shown_runs(results)
        if runs:
            yield NAMES[0], draw(runs, "svg")
            yield NAMES[1], draw(runs, "png")
            yield NAMES[2], json.dumps({"traceEvents": kind.trace_events(runs)}) + "\n"
            return
