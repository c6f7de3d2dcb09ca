"""What has arrived of an experiment's points: in memory and, of several points, in files at
once."""

from collections.abc import Sequence

from weft.base.progress import Progress
from weft.base.signals import signals_held
from weft.experiments.results.results import Run
from weft.experiments.runs.points import PointFiles, PointResult
from weft.experiments.scenario.sweep import Point


class Arrivals:
    """The results of points as they arrive, in any order; they are given in that of the points.

    Args:
        keys: of all points, in order (`weft.experiments.runs.identity.key_of`); none if there are
            no files.
        files: where each result is written; None: nowhere.
    """

    def __init__(
        self, points: Sequence[Point], keys: Sequence[str] = (), files: PointFiles | None = None
    ) -> None:
        self._points = points
        self._keys = dict(zip(points, keys, strict=False))
        self._found: dict[Point, PointResult] = {}
        self._failed: dict[Point, PointResult] = {}
        """What an earlier run has left of points that failed in it."""
        self.added = 0
        """How many points have arrived in this run."""
        self.files = files

    def resume(self, progress: Progress) -> None:
        """Take what an earlier run has left. Raises InputError if it does not fit."""
        assert self.files is not None
        found, damaged = self.files.read()
        for point, key in self._keys.items():
            if key in found:
                of_points = self._found if found[key].verified else self._failed
                of_points[point] = found[key]
        for point, key in self._keys.items():
            if key in damaged:
                progress.say(
                    f"{point.heading}its file is damaged or was changed, so it is run again"
                )
        progress.say(f"{len(self._found)} of {len(self._points)} points are there already")

    def missing(self) -> tuple[Point, ...]:
        """Return the points that have not arrived."""
        return tuple(point for point in self._points if point not in self._found)

    def add(self, point: Point, runs: list[Run], notes: Sequence[str] = ()) -> None:
        """Take what came of a point, and write it. A signal that would end the run waits until
        both are done."""
        with signals_held():
            self._found[point] = result = PointResult(runs, list(notes))
            self.added += 1
            if self.files is not None:
                self.files.add(self._keys[point], result)

    def __len__(self) -> int:
        return len(self._found)

    def runs(self) -> list[Run]:
        """Return all runs that have arrived, in the order of the points; of points that failed
        before and have not arrived again, those of then."""
        return [run for result in self._results() for run in result.runs]

    def notes(self) -> list[str]:
        """Return what must be known of them, likewise, each note once."""
        return list(dict.fromkeys(note for result in self._results() for note in result.notes))

    def _results(self) -> list[PointResult]:
        there = {**self._failed, **self._found}
        return [there[point] for point in self._points if point in there]
