"""Run scenarios in their worlds, and write down what came of them."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.capacity import check_capacity
from experiments.lanes import placed_steps
from experiments.measured import broken_off
from experiments.path_schemes import scheme_of
from experiments.plan import program_of
from experiments.progress import Progress
from experiments.report import write_report
from experiments.results import Results, Run
from experiments.scenario import Scenario
from experiments.simulation import simulate
from experiments.sweep import Experiment, Point
from experiments.traces import TRACE_FILES
from switch.compiler import ProgramFiles
from switch.errors import InputError, MachineError, RunError


@dataclass(frozen=True)
class Outcome:
    """What `run_to_folder` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None
    plots: tuple[Path, ...] = ()
    """The SVG files."""


def run(what: Scenario | Experiment, progress: Progress | None = None) -> Results:
    """Run every algorithm of a scenario, or of all points of an experiment; write no files.

    Raises:
        InputError, MachineError: before anything was brought up.
        RunError: a scenario's world could not be brought up, or broke.
    """
    experiment = _experiment(what)
    if any(point.scenario.pcap for point in experiment.points):
        raise InputError("captures need a folder to be written to: use run_to_folder")
    if any(point.scenario.trace for point in experiment.points):
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

    A run that breaks off is in the results with its error, and ends its scenario.

    Raises: as `run` does, and InputError for a folder that cannot be written.
    """
    experiment = _experiment(what)
    results = _new_results(experiment)
    folder = _Folder(out or Path("results") / f"{name or experiment.name}-{results.run_id}")
    pcap = any(point.scenario.pcap for point in experiment.points)
    captures = folder.path / "pcap" if pcap else None
    plots: tuple[Path, ...] = ()
    try:
        _run(experiment, results, progress, captures, folder.make, folder.path)
        folder.plots = plot_files(results)
        results.write(folder.path)
        if results.plots:
            from experiments.plots.draw import write_plots

            plots = write_plots(results, folder.path)
        report = write_report(results.to_dict(), folder.path / "report.html")
    finally:
        folder.close()
    return Outcome(results, folder.path, report, captures, plots)


def _experiment(what: Scenario | Experiment) -> Experiment:
    return Experiment.of(what) if isinstance(what, Scenario) else what


def plot_files(results: Results) -> list[str]:
    """Names of the files that the results' plots are drawn into."""
    return [f"{plot.name}.{ending}" for plot in results.plots for ending in ("svg", "png")]


class _Folder:
    """A results folder. What was made of it belongs, under sudo, to whoever called that."""

    FILES = ("results.json", "report.html", *TRACE_FILES, "pcap")

    def __init__(self, path: Path) -> None:
        if str(path) in ("", "."):
            raise InputError("the results folder has no name: name one with --out DIR")
        self.path = path.absolute()
        self.plots: list[str] = []
        """Names of the files of plots that are in it."""
        self._made: list[Path] = []

    def make(self) -> None:
        """Make the folder, or clear an older run's files from it; see that it can be written to."""
        try:
            for folder in reversed([self.path, *self.path.parents]):
                if not folder.exists():
                    folder.mkdir()
                    self._made.append(folder)
            with tempfile.TemporaryFile(dir=self.path):
                pass
            for name in [*_old_plots(self.path), *self.FILES]:
                old = self.path / name
                if old.is_dir() and not old.is_symlink():
                    for capture in old.rglob("*.pcap"):
                        capture.unlink()
                else:
                    old.unlink(missing_ok=True)
        except OSError as error:
            self.close()
            raise InputError(
                f"results folder {str(self.path)!r} cannot be written: {error.strerror}; name "
                "another with --out"
            ) from None

    def close(self) -> None:
        """Remove the folders that were made and stayed empty; give the rest to the invoker."""
        for folder in reversed(self._made):
            with contextlib.suppress(OSError):
                folder.rmdir()
        user, group = os.environ.get("SUDO_UID"), os.environ.get("SUDO_GID")
        if os.geteuid() != 0 or not user or not group:
            return
        ours = [self.path / name for name in (*self.plots, *self.FILES)]
        for path in [*self._made, *ours, *ours[-1].glob("*"), *ours[-1].glob("*/*.pcap")]:
            with contextlib.suppress(OSError):
                os.lchown(path, int(user), int(group))


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
        raise InputError("trace is for one network, and the sweep has several: leave one of both")
    for point in experiment.points:
        with _named(point):
            check_capacity(point.scenario)
    for network in networks:
        if network[0].scenario.world == "emulated":
            from experiments.emulation import check

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
            from experiments.emulation import network_key

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
    from experiments.emulation import emulate
    from topo.runs import Run as Record
    from topo.signals import signals_held

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
