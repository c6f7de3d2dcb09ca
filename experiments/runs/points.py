"""The points of a sweep in its results folder: a file for each, written when its result arrives.

``points/sweep.json`` names the points by their keys (`weft.experiments.runs.identity`) in order,
``points/KEY.json`` has the runs of one. So whatever ends a sweep, what has arrived is there, and
``weft run --resume`` runs only what is missing or has failed.
"""

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from weft.base import documents, files
from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.experiments.results.results import SWEEP, Run, with_parts
from weft.experiments.runs.identity import version
from weft.experiments.scenario.scenario import Scenario

MOST_BYTES = 1 << 28
"""The largest of these files that is read."""


class PointResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What came of a point, wherever it was run."""

    runs: list[Run]
    notes: list[str] = []
    """What a reader must know of them."""

    @property
    def verified(self) -> bool:
        """Return whether everything of the point was run and verified."""
        return bool(self.runs) and all(run.verified for run in self.runs)


class PointFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The result of a point as it is written, with a digest by which a change is noticed.

    The digest is no secret: it tells what was damaged, or edited by hand, from what a run has
    measured, and keeps nobody from forging a file.
    """

    digest: str
    """Of the point's key and of the result as it is in the file, byte for byte."""
    result: msgspec.Raw


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a folder's points are of."""

    version: str
    keys: list[str]


class PointFiles:
    """The results of a sweep's points, kept in its results folder.

    Args:
        folder: the results folder.
        scenarios: of the points, by their keys, in order.
    """

    def __init__(self, folder: Path, scenarios: Mapping[str, Scenario]) -> None:
        self._home = folder
        self._folder = folder / SWEEP.parent
        self._scenarios = scenarios
        self._stale: list[Path] = []
        self.begun = False
        """Whether points have been written, or are there from an earlier run."""
        self.unwritten = ""
        """Why points could not be written; empty if all were."""

    def check_new(self) -> None:
        """Raise InputError if the folder has points of a sweep that was not finished: they would be
        lost."""
        sweep = self._sweep()
        names = self._names()
        if sweep is None:
            return
        there = sum(_file(key) in names for key in sweep.keys)
        if there < len(sweep.keys):
            raise InputError(
                f"results folder {str(self._home)!r} has {there} of the {len(sweep.keys)} points "
                f"of a sweep that did not come to its end: go on with it (--resume {self._home}), "
                f"name another folder with --out, or delete {str(self._folder)!r}"
            )
        self._stale = [self._folder / name for name in names if name.endswith(".json")]

    def read(self) -> tuple[dict[str, PointResult], list[str]]:
        """Return by key what an earlier run of the sweep has left and is whole, be it that it
        failed; and the keys whose file is damaged, or is of another point.

        Raises InputError if the folder has no points, or they are not of this sweep.
        """
        sweep = self._sweep()
        if sweep is None:
            raise InputError(
                f"--resume {str(self._home)!r}: there are no points of a sweep in it; name the "
                "results folder of one that was begun, or leave --resume out"
            )
        if sweep.version != version():
            raise InputError(
                f"--resume {str(self._home)!r}: its points were run by Weft {sweep.version}, and "
                f"this is {version()}: use that version, or run all anew in another folder (--out)"
            )
        self.begun = sweep.keys == list(self._scenarios)
        found: dict[str, PointResult] = {}
        damaged = []
        names = self._names()
        unknown = [key for key in sweep.keys if key not in self._scenarios and _file(key) in names]
        if unknown:
            raise InputError(self._misfit(unknown, sum(_file(key) in names for key in sweep.keys)))
        for key, scenario in self._scenarios.items():
            if _file(key) not in names:
                continue
            try:
                result = self._read(key)
                _check(result, scenario)
            except InputError:
                damaged.append(key)
                continue
            found[key] = result
        return found, damaged

    def make(self) -> list[Path]:
        """Make the folder of the points in a results folder that is there; return what was made.

        Raises OSError.
        """
        return files.make_folder(self._folder)

    def add(self, key: str, result: PointResult) -> None:
        """Write what came of a point. If it cannot be written, `unwritten` says why."""
        try:
            if not self.begun:
                self._begin()
            runs = [run.to_dict() for run in result.runs]
            content = msgspec.json.encode({"runs": runs, "notes": result.notes})
            kept = PointFile(_digest(key, content), msgspec.Raw(content))
            files.write_whole(self._folder / _file(key), msgspec.json.encode(kept) + b"\n")
        except OSError as error:
            self.unwritten = error.strerror or str(error)

    def _begin(self) -> None:
        """Say what the points are of; those of an older sweep go."""
        for path in self._stale:
            files.remove(path)
        sweep = Sweep(version(), list(self._scenarios))
        files.write_whole(self._home / SWEEP, msgspec.json.encode(sweep) + b"\n")
        self.begun = True

    def _names(self) -> Collection[str]:
        try:
            return set(os.listdir(self._folder))
        except OSError:
            return ()

    def _sweep(self) -> Sweep | None:
        """Return what the folder's points are of; None if there are none. Raises InputError."""
        if SWEEP.name not in self._names():
            return None
        file = self._home / SWEEP
        try:
            return documents.load(Sweep, file, MOST_BYTES, f"sweep {str(file)!r}")
        except InputError as error:
            raise InputError(
                f"{error}; without it nobody knows what its points are of: run all anew in another "
                f"folder (--out), or delete {str(self._folder)!r}"
            ) from None

    def _read(self, key: str) -> PointResult:
        file = self._folder / _file(key)
        problem = f"point {str(file)!r} cannot be read"
        with files.told_as_input(problem):
            text = files.read_text(file, MOST_BYTES, endings=(".json",))
        try:
            kept = msgspec.json.decode(text, type=PointFile)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InputError(f"{problem}: {error}") from None
        content = bytes(kept.result)
        if kept.digest != _digest(key, content):
            raise InputError(f"{problem}: it is not as it was written")
        document = with_parts(documents.parsed(content, problem))
        return documents.typed(PointResult, document, problem)

    def _misfit(self, unknown: Sequence[str], there: int) -> str:
        """Say that points of the folder are not of this sweep, and in what they differ."""
        if not unknown:
            return ""
        why = "the switches' program, or a file that the scenario names, is another one"
        try:
            difference = self._difference(self._read(unknown[0]).runs[0].scenario)
        except (InputError, IndexError):
            difference = []
        if difference:
            name, was = difference[0]
            more = f", and {len(difference) - 1} more options" * (len(difference) > 1)
            why = f"{name} was {shown(was)}{more}"
        return (
            f"--resume {str(self._home)!r}: {len(unknown)} of its {there} points are not of this "
            f"scenario ({why}); nothing was changed: give the scenario that they were run with, or "
            "another folder (--out)"
        )

    def _difference(self, was: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return what differs between a point and the nearest one of the sweep, as it was."""
        nearest: list[tuple[str, Any]] = []
        for scenario in self._scenarios.values():
            differing = _differing(was, scenario)
            if not nearest or len(differing) < len(nearest):
                nearest = differing
        return nearest


def _file(key: str) -> str:
    return f"{key}.json"


def _digest(key: str, content: bytes) -> str:
    return hashlib.sha256(key.encode() + b"\n" + content).hexdigest()


def _check(result: PointResult, scenario: Scenario) -> None:
    """Raise InputError for a file that has not the runs of its point."""
    asked = [(algorithm, repetition) for algorithm, repetition, _ in scenario.runs()]
    refuse(
        [(run.algorithm, run.repetition) for run in result.runs] != asked,
        "it does not have the runs of its point",
    )
    refuse(
        any([_differing(run.scenario, scenario) for run in result.runs]),
        "its runs are of another point",
    )


def _differing(was: Mapping[str, Any], scenario: Scenario) -> list[tuple[str, Any]]:
    """Return what differs between the scenario of a run and another one, as it was."""
    plain = msgspec.json.decode(msgspec.json.encode(was))
    now = msgspec.json.decode(msgspec.json.encode(scenario.to_dict()))
    return [
        (name, plain.get(name))
        for name, value in now.items()
        if value != plain.get(name) and not (name == "slowdown" and value is None)
    ]
