"""Points that are run in this process: the whole of a sweep, or what a worker is given."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from weft.base.errors import RunError
from weft.base.progress import Progress
from weft.experiments.results.results import Run
from weft.experiments.runs.events import of_run
from weft.experiments.runs.measured import broken_off
from weft.experiments.runs.predictions import Predictions
from weft.experiments.runs.shared import run_shared
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles


def run_alone(point: Point, program: ProgramFiles, progress: Progress) -> list[Run]:
    """Run everything of a point, each run on a network of its own. A run of one of several points
    that breaks off has the error; that of the only point raises it."""
    runs = []
    for algorithm, repetition, label in point.scenario.runs():
        with progress.stage(f"{algorithm}_{repetition}", point.heading + label) as advance:
            try:
                run = simulate(point.scenario, program, algorithm, repetition, advance)
                run = point.scenario.family.compared(run, point.scenario)
            except RunError as error:
                if not point.number:
                    raise
                run = broken_off(point.scenario, algorithm, repetition, str(error))
        runs.append(run)
        progress.tell("run", **of_run(run))
    return runs


def failed_point(point: Point, error: str) -> list[Run]:
    """Return the runs of a point of which nothing but an error came."""
    scenario = point.scenario
    return [broken_off(scenario, algorithm, each, error) for algorithm, each, _ in scenario.runs()]


def run_together(
    points: Sequence[Point],
    program: ProgramFiles,
    progress: Progress,
    arrived: Callable[[Point, list[Run]], None],
    notes: list[str],
    *,
    captures: Path | None = None,
    folder: Path | None = None,
    known: Mapping[Point, Predictions] | None = None,
) -> int:
    """Run points on one network, and return how many: at least the first, and all unless the
    network breaks. The arguments are those of `weft.experiments.runs.shared.run_shared`.

    If one of several points cannot be brought up, its runs have the error.
    """
    done = 0

    def has_arrived(point: Point, runs: list[Run]) -> None:
        nonlocal done
        done += 1
        arrived(point, runs)

    try:
        run_shared(points, program, progress, captures, has_arrived, notes, folder, known)
    except RunError as error:
        if not points[0].number:
            raise
        if done == len(points):
            notes.append(f"{points[-1].heading}{error}")
        for point in points[done:]:
            scenario = point.scenario
            runs = [broken_off(scenario, each, 0, str(error)) for each in scenario.algorithms]
            has_arrived(point, runs)
    return done
