"""The points of a sweep go to an engine's workers, and their results are taken as they come."""

from collections.abc import Callable, Sequence
from typing import Any

from weft.base.progress import Progress
from weft.experiments.engines import work
from weft.experiments.engines.engine import Workers
from weft.experiments.engines.gather import gathered, said
from weft.experiments.results.results import Run
from weft.experiments.runs.events import of_run
from weft.experiments.runs.here import failed_point
from weft.experiments.runs.points import PointResult
from weft.experiments.runs.predictions import Predictions
from weft.experiments.scenario.sweep import Point
from weft.topo.worlds.registry import WORLDS

Arrived = Callable[[Point, list[Run], Sequence[str]], None]


def run_by(
    workers: Workers, points: Sequence[Point], progress: Progress, arrived: Arrived
) -> tuple[list[Point], dict[Point, Predictions]]:
    """Run points by workers: what is simulated, and predictions of what is emulated, on all cores,
    and then the emulated points, each on a whole machine.

    If the machine is this one, return what is to be emulated here, and the predictions.

    Args:
        arrived: is given the runs of each point as they come, and the notes on them.

    Raises:
        OtherVersionError: a worker has another version of Weft.
        RunError: the engine is gone.
    """
    emulated = [point for point in points if _is_emulated(point)]
    known: dict[Point, Predictions] = {}
    jobs = {point: work.job(work.simulated, point) for point in points if not _is_emulated(point)}
    jobs |= {point: work.job(work.predicted, point) for point in emulated if point.scenario.predict}
    taken = _Taking(progress, arrived)
    what = f"Run {len(jobs)} points" if not emulated else f"Simulate {len(jobs)} points"
    with progress.stage("points", what) as advance:
        for number, (point, result) in enumerate(
            gathered(workers.executor, workers.count, jobs, workers.gone)
        ):
            if not _is_emulated(point):
                taken(point, result)
            elif not isinstance(result, Exception):  # else it is tried again with the point
                known[point] = result
            advance((number + 1) / len(jobs))
    if workers.machines is None or not emulated:
        return emulated, known
    jobs = {point: work.job(work.emulated, point, _prediction(point, known)) for point in emulated}
    with progress.stage("emulated", f"Emulate {len(jobs)} points") as advance:
        for number, (point, result) in enumerate(
            gathered(workers.machines, workers.machine_count, jobs, workers.gone)
        ):
            taken(point, result)
            advance((number + 1) / len(jobs))
    return [], {}


def _is_emulated(point: Point) -> bool:
    return WORLDS[point.scenario.world].takes_machine


def _prediction(point: Point, known: dict[Point, Predictions]) -> Predictions | None:
    return known.get(point) if point.scenario.predict else {}


class _Taking:
    """The results of points, or the errors that ended them, as they come."""

    def __init__(self, progress: Progress, arrived: Arrived) -> None:
        self._progress = progress
        self._arrived = arrived

    def __call__(self, point: Point, result: Any) -> None:
        if not isinstance(result, PointResult):
            result = PointResult(failed_point(point, said(result)))
        self._arrived(point, result.runs, result.notes)
        for run in result.runs:
            self._progress.tell("run", **of_run(run))
        wrong = next((run.error for run in result.runs if run.error), "")
        self._progress.say(f"{point.heading}{wrong or 'done'}")
