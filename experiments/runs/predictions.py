"""What the simulated world says of an emulated point: how long its operations take.

It is kept in the cache, since it is the same every time.
"""

import contextlib
from pathlib import Path

import msgspec

from weft.base.cache import cache_dir, keep_bounded, mark_used
from weft.base.files import write_whole
from weft.base.progress import Progress
from weft.experiments.runs.identity import key_of, packages
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.sweep import Point
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.world import Advance

Predictions = dict[tuple[str, int], int | None]
"""Completion times in ns by algorithm and repetition."""


def predict_point(point: Point, program: ProgramFiles, progress: Progress) -> Predictions:
    """Simulate the same runs as an emulated point's, and return their completion times; or return
    those that an earlier process has kept.

    They are kept where Weft alone has a part in them: sources of other packages may change under
    one version.
    """
    with progress.stage("predict", f"{point.heading}Predict by simulation") as advance:
        if packages():
            return _simulated(point, program, advance)
        file = cache_dir() / "predictions" / f"{key_of(point.scenario, program)}.json"
        predictions = _read(file)
        if predictions is None:
            predictions = _simulated(point, program, advance)
            _write(file, predictions)
    return predictions


def _simulated(point: Point, program: ProgramFiles, advance: Advance) -> Predictions:
    """Without losses, repetitions are alike, so one is enough."""
    scenario = point.scenario
    predictions: Predictions = {}
    for algorithm, repetition, _ in scenario.runs():
        if repetition and not scenario.lossy:
            predictions[algorithm, repetition] = predictions[algorithm, 0]
        else:
            run = simulate(scenario, program, algorithm, repetition, advance)
            predictions[algorithm, repetition] = run.completion_ns
    return predictions


def _read(file: Path) -> Predictions | None:
    """Return what a file has; None if there is none, or it cannot be read."""
    try:
        found = msgspec.json.decode(file.read_bytes(), type=list[tuple[str, int, int | None]])
    except (OSError, msgspec.MsgspecError):
        return None
    mark_used(file)
    return {(algorithm, repetition): time_ns for algorithm, repetition, time_ns in found}


def _write(file: Path, predictions: Predictions) -> None:
    rows = [(*run, time_ns) for run, time_ns in predictions.items()]
    with contextlib.suppress(OSError):  # as on a full disk: they are simulated again
        write_whole(file, msgspec.json.encode(rows), folders=True, keep=True)
        keep_bounded(file)
