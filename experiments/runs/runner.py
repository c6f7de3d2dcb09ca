"""Run scenarios in their worlds, and write down what came of them."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import platform
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from weft.base import files
from weft.base.errors import InputError, MachineError, RunError
from weft.base.progress import Progress
from weft.experiments.paths.registry import scheme_of
from weft.experiments.report import render
from weft.experiments.results.results import DOCUMENT, Results, Run
from weft.experiments.runs.capacity import check_capacity
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.measured import broken_off
from weft.experiments.runs.simulation import simulate
from weft.experiments.runs.traces import TRACE_FILES
from weft.experiments.scenario.marking import Marking
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.experiments.theory.lanes import placed_steps
from weft.switch.compiler import ProgramFiles

REPORT = "report.html"


@dataclass(frozen=True)
class Outcome:
    """What `run_to_folder` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None
    plots: tuple[Path, ...] = ()
    """The SVG files."""
    unwritten: str = ""
    """Which of the files could not be written, and why; empty if all were."""


def run(what: Scenario | Experiment, progress: Progress | None = None) -> Results:
    """Run every algorithm of a scenario, or of all points of an experiment; write no files.

    Raises:
        InputError, MachineError: before anything was brought up.
        RunError: a scenario's world could not be brought up, or broke.
    """
    experiment = _experiment(what)
    if _asks_for(experiment, "pcap"):
        raise InputError("captures need a folder to be written to: use run_to_folder")
    if _asks_for(experiment, "trace"):
        raise InputError("traces need a folder to be written to: use run_to_folder")
    results = _new_results(experiment)
    _run(experiment, results, progress or Progress.silent(), None, lambda: None)
    return results


def run_to_folder(
    what: Scenario | Experiment,
    *,
    progress: Progress,
    out: Path | None = None,
    name: str | None = None,
) -> Outcome:
    """Run and write ``results.json``, ``report.html``, the plots, and captures, if asked for.

    Args:
        out: results folder; by default ``results/<name>-<run id>`` in the current folder.
        name: of the results folder; by default the experiment's.

    A run that breaks off is in the results with its error, and ends its scenario. A folder that
    takes no file at the end, as on a full disk, is said in `Outcome.unwritten`: the results are
    there all the same, and each file is the new one or, whole, what was there before.

    Raises: as `run` does, and InputError for a folder that cannot be written at the start.
    """
    experiment = _experiment(what)
    results = _new_results(experiment)
    folder = _Folder(out or Path("results") / f"{name or experiment.name}-{results.run_id}")
    captures = folder.captures if _asks_for(experiment, "pcap") else None
    traces = _asks_for(experiment, "trace")
    try:
        begin = functools.partial(folder.make, captures=captures is not None, traces=traces)
        _run(experiment, results, progress, captures, begin, folder.path)
        written, unwritten = folder.write(results)
    finally:
        folder.close()
    plots = tuple(path for path in written if path.suffix == ".svg")
    return Outcome(results, folder.path, folder.path / REPORT, captures, plots, unwritten)


def _experiment(what: Scenario | Experiment) -> Experiment:
    return Experiment.of(what) if isinstance(what, Scenario) else what


def _asks_for(experiment: Experiment, option: str) -> bool:
    return any(getattr(point.scenario, option) for point in experiment.points)


def plot_files(results: Results) -> list[str]:
    """Names of the files that the results' plots are drawn into."""
    return [f"{plot.name}.{ending}" for plot in results.plots for ending in ("svg", "png")]


class _Folder:
    """A results folder. What was made of it belongs, under sudo, to whoever called that."""

    def __init__(self, path: Path) -> None:
        if str(path) in ("", "."):
            raise InputError("the results folder has no name: name one with --out DIR")
        self.path = path.absolute()
        self.captures = self.path / "pcap"
        self._made: list[Path] = []
        self._older: set[Path] = set()
        """Files of an older run, which go once this one's document has taken the place of its."""

    def make(self, *, captures: bool, traces: bool) -> None:
        """Make the folder where it is not there, and see that it can be written to.

        An older run's captures and traces go, if this run makes some.
        """
        probe = self.path / f".{secrets.token_hex(4)}"
        try:
            self._made += files.make_folder(self.path)
            files.write_whole(probe, b"")
            files.remove(probe)
            if captures:
                self._made += files.make_folder(self.captures)
            older = {
                *((self.path / name, False) for name in _old_plots(self.path)),
                *((self.path / name, traces) for name in TRACE_FILES),
                *((path, captures) for path in self._older_captures()),
            }
            self._older = {path for path, replaced in older if not replaced}
            for path, replaced in older:
                if replaced:
                    files.remove(path)
        except OSError as error:
            self.close()
            raise InputError(
                f"results folder {str(self.path)!r} cannot be written: {error.strerror}; name "
                "another with --out"
            ) from None

    def _older_captures(self) -> list[Path]:
        """An older run's captures; none in what somebody has made a link."""
        try:
            return _captures_in(self.captures)
        except OSError:
            return []

    def write(self, results: Results) -> tuple[list[Path], str]:
        """Write the document, the plots and the report, and remove an older run's other files.

        Returns the files that were written, and, if not all were, which were not and why.
        """
        written: list[Path] = []
        missing: list[str] = []
        reasons: dict[str, None] = {}
        for name, content in _documents(results):
            try:
                files.write_whole(self.path / name, content)
                written.append(self.path / name)
            except OSError as error:
                missing.append(name)
                reasons[error.strerror or str(error)] = None
        if missing:
            return written, (
                f"{', '.join(missing)} could not be written to {str(self.path)!r}: "
                f"{'; '.join(reasons)}; make room, or name another folder with --out"
            )
        for path in self._older.difference(written):
            with contextlib.suppress(OSError):
                files.remove(path)
        return written, ""

    def close(self) -> None:
        """Remove the folders that were made and stayed empty."""
        for folder in reversed(self._made):
            files.remove_empty_folder(folder)


def _documents(results: Results) -> Iterator[tuple[str, bytes | str]]:
    """The files that results become, by name; each is made when it is asked for."""
    yield DOCUMENT, results.text()
    if results.plots:
        from weft.experiments.plots.draw import draw_plots

        yield from draw_plots(results)
    yield REPORT, render(results)


def _captures_in(folder: Path) -> list[Path]:
    """The captures of a run: of one network in the folder itself, of several in folders in it."""
    found = []
    for name in files.names_in(folder):
        inner = [f"{name}/{each}" for each in files.names_in(folder / name)]
        found += [folder / each for each in (name, *inner) if each.endswith(".pcap")]
    return found


def _old_plots(folder: Path) -> list[str]:
    """The files of an older run's plots, which its results name."""
    try:
        return plot_files(Results.read(folder))
    except InputError:
        return []


def _new_results(experiment: Experiment) -> Results:
    return Results(
        runs=[],
        run_id=secrets.token_hex(3),
        started=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        environment=_environment(experiment),
        swept=list(experiment.swept),
        plots=list(experiment.plots),
    )


def _run(
    experiment: Experiment,
    results: Results,
    progress: Progress,
    captures: Path | None,
    begin: Callable[[], None],
    folder: Path | None = None,
) -> None:
    """Check, compile, `begin`, run. What is wrong with a scenario is said before `begin`."""
    started = time.monotonic()
    networks = _networks(experiment.points)
    if len(networks) > 1 and any(points[0].scenario.trace for points in networks):
        raise InputError(
            "trace is for one network, and the sweep or the seeds make several: leave one of both"
        )
    for point in experiment.points:
        with _named(point):
            check_capacity(point.scenario)
    for network in networks:
        if network[0].scenario.world == "emulated":
            from weft.experiments.runs.emulated import check

            with _named(network[0]):
                check(network[0].scenario)
    with progress.stage("compile", "Compile the P4 program"):
        programs = _programs(experiment.points)
    begin()
    done: dict[Point, list[Run]] = {}
    for index, points in enumerate(networks):
        if points[0].scenario.world == "simulated":
            done[points[0]] = _simulate(points[0], programs[points[0]], progress)
            continue
        into = captures if points[0].scenario.pcap else None
        if into is not None and len(networks) > 1:
            into /= str(index + 1)
        left = list(points)
        while left:  # once, unless a network breaks
            runs = _emulate(left, programs[left[0]], progress, into, results.notes, folder)
            done.update(zip(left, runs, strict=False))
            left = left[len(runs) :]
    # Points that share a network ran together; they are shown in the order that was asked for.
    results.runs += [run for point in experiment.points for run in done[point]]
    results.notes += _saturated(results.runs)
    results.notes += _unassigned(experiment.points)
    results.notes += _marking(experiment.points)
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)


def _programs(points: Sequence[Point]) -> dict[Point, ProgramFiles]:
    """The compiled program of every point; the same one is looked for once."""
    found: dict[int, ProgramFiles] = {}
    for scenario in (point.scenario for point in points):
        if scenario.program_values not in found:
            found[scenario.program_values] = program_of(scenario)
    return {point: found[point.scenario.program_values] for point in points}


def _saturated(runs: Sequence[Run]) -> list[str]:
    """What is to be said of runs whose switches met sums that do not fit into 32 bits."""
    notes = []
    for run in runs:
        blocks = max((rank.statistics.get("blocks_saturated", 0) for rank in run.ranks), default=0)
        if blocks:
            notes.append(
                f"{run.algorithm}: in {blocks} blocks a sum did not fit into 32 bits; it is the "
                "largest or the least that does"
            )
    return notes


def _marking(points: Sequence[Point]) -> list[str]:
    """From which queue on switches marked, and why, where that was chosen for a scenario."""
    found: dict[str, None] = {}
    for scenario in (point.scenario for point in points):
        if scenario.congestion != "dctcp":
            continue
        chosen = Marking.of(scenario.network(), scenario.mtu)
        if scenario.ecn_threshold_packets == chosen.threshold_packets:
            found[f"switches mark from {chosen.threshold_packets} packets on: {chosen}"] = None
    return [*found]


def _unassigned(points: Sequence[Point]) -> list[str]:
    """What is to be said of collectives whose flows `paths` cuts and assigns none of."""
    found: dict[tuple[str, str], None] = {}
    for point in points:
        scheme = scheme_of(point.scenario.paths)
        for algorithm in point.scenario.algorithms:
            chosen = scheme.assigned or scheme.lanes > 1
            if chosen and not placed_steps(point.scenario, algorithm):
                found[point.scenario.paths, algorithm] = None
    return [
        f"{algorithm}: paths {paths!r} assigns nothing here, since its data are no flows between "
        "two ranks; what it sends goes by trees and ECMP"
        for paths, algorithm in found
    ]


def _networks(points: Sequence[Point]) -> list[list[Point]]:
    """Points by the network that they are run on: emulated ones share what they can."""
    networks: dict[object, list[Point]] = {}
    for point in points:
        key: object = point
        if point.scenario.world == "emulated":
            from weft.experiments.runs.emulation import network_key

            key = network_key(point.scenario)
        networks.setdefault(key, []).append(point)
    return list(networks.values())


@contextlib.contextmanager
def _named(point: Point) -> Iterator[None]:
    """Say of which point of several an error is."""
    try:
        yield
    except (InputError, MachineError) as error:
        raise type(error)(f"{point.heading}{error}") from None


def _simulate(point: Point, program: ProgramFiles, progress: Progress) -> list[Run]:
    runs = []
    for algorithm, repetition, label in point.scenario.runs():
        with progress.stage(f"{algorithm}_{repetition}", point.heading + label) as advance:
            try:
                run = simulate(point.scenario, program, algorithm, repetition, advance)
            except RunError as error:
                if not point.number:
                    raise
                run = broken_off(point.scenario, algorithm, repetition, str(error))
        runs.append(run)
    return runs


def _emulate(
    points: Sequence[Point],
    program: ProgramFiles,
    progress: Progress,
    captures: Path | None,
    notes: list[str],
    folder: Path | None,
) -> list[list[Run]]:
    """The runs of points on one network; of at least the first point, of all unless it breaks.

    Where one of several points cannot be brought up, its runs have the error.
    """
    from weft.base.signals import signals_held
    from weft.experiments.runs.emulation import emulate
    from weft.topo.worlds.emulated.runs import Run as Record

    record = None
    runs: list[list[Run]] = []
    try:
        with signals_held():
            record = Record.create()
        emulate(points, program, record, progress, captures, runs, notes, folder)
    except RunError as error:
        if not points[0].number:
            raise
        if len(runs) == len(points):
            notes.append(f"{points[-1].heading}{error}")
        for point in points[len(runs) :]:
            scenario = point.scenario
            runs.append([broken_off(scenario, each, 0, str(error)) for each in scenario.algorithms])
    finally:
        if record is not None:
            record.remove()
    return runs


def _environment(experiment: Experiment) -> dict[str, Any]:
    """Versions and the machine, for whoever reads the results later."""
    packages = {}
    for package in ("weft", "numpy", "numba", "grpcio", "mininet"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[package] = metadata.version(package)
    return {
        "python": platform.python_version(),
        "packages": packages,
        "kernel": platform.release(),
        "machine": platform.machine(),
        "processors": len(os.sched_getaffinity(0)),
        "switch": ", ".join(sorted({point.scenario.switch for point in experiment.points})),
    }
