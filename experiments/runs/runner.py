"""The runner: it runs scenarios in their worlds, and writes down what came of them."""

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

from weft.base.errors import InputError, MachineError, RunError, refuse
from weft.base.progress import Progress
from weft.experiments.paths.registry import scheme_of
from weft.experiments.results.results import Results, Run
from weft.experiments.runs.alone import calibrated, compared
from weft.experiments.runs.capacity import check_capacity, check_ways
from weft.experiments.runs.events import of_run
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.measured import broken_off
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.longest_path import Marking
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.experiments.theory.lanes import placed_steps
from weft.switch.compiler import ProgramFiles


@dataclass(frozen=True)
class Outcome:
    """Hold what `run_to_folder` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None
    plots: tuple[Path, ...] = ()
    """The SVG files."""
    unwritten: str = ""
    """Which of the files could not be written, and why; empty if all were."""


def run(what: Scenario | Experiment, progress: Progress | None = None) -> Results:
    """Run every algorithm of a scenario, or of all points of an experiment, without writing files.

    Raises:
        InputError, MachineError: before anything was brought up.
        RunError: a scenario's world could not be brought up, or broke.
    """
    experiment = _experiment(what)
    refuse(
        _asks_for(experiment, "pcap"),
        "captures need a folder to be written to: use run_to_folder",
    )
    refuse(
        _asks_for(experiment, "trace"),
        "traces need a folder to be written to: use run_to_folder",
    )
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
    """Run, and write ``results.json``, ``report.html``, the plots, and captures if asked for.

    Args:
        out: results folder; by default ``results/<name>-<run id>`` in the current folder.
        name: the first part of the folder's name; by default the experiment's.

    A run that breaks off is in the results with its error, and ends its scenario. If the folder
    takes no file at the end, as on a full disk, `Outcome.unwritten` says so: the results are there
    all the same, and each file is the new one or, whole, what was there before.

    Raises: as `run` does, and InputError for a folder that cannot be written at the start.
    """
    experiment = _experiment(what)
    results = _new_results(experiment)
    folder = ResultsFolder(out or Path("results") / f"{name or experiment.name}-{results.run_id}")
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
    """Check, compile, call `begin`, and run. Errors of a scenario are raised before `begin` is
    called."""
    started = time.monotonic()
    networks = _networks(experiment.points)
    refuse(
        len(networks) > 1 and any(points[0].scenario.trace for points in networks),
        "trace is for one network, and the sweep or the seeds make several: leave one of both",
    )
    for point in experiment.points:
        with _named(point):
            check_capacity(point.scenario)
            check_ways(point.scenario, point.scenario.network())
    for network in networks:
        if network[0].scenario.world == "emulated":
            from weft.experiments.runs.emulated import check

            with _named(network[0]):
                check(network[0].scenario)
    with progress.stage("compile", "Compile the P4 program"):
        scenarios = {point.scenario.program_values: point.scenario for point in experiment.points}
        programs = {values: program_of(scenario) for values, scenario in scenarios.items()}
    experiment = calibrated(experiment, progress)
    networks = _networks(experiment.points)
    begin()
    done: dict[Point, list[Run]] = {}
    for index, points in enumerate(networks):
        program = programs[points[0].scenario.program_values]
        if points[0].scenario.world == "simulated":
            done[points[0]] = _simulate(points[0], program, progress)
            continue
        into = captures if points[0].scenario.pcap else None
        if into is not None and len(networks) > 1:
            into /= str(index + 1)
        left = list(points)
        while left:  # once, unless a network breaks
            runs = _emulate(left, program, progress, into, results.notes, folder)
            done.update(zip(left, runs, strict=False))
            left = left[len(runs) :]
    # Points that share a network ran together; they are shown in the order that was asked for.
    results.runs += [run for point in experiment.points for run in done[point]]
    results.notes += [
        *_saturated(results.runs),
        *_unassigned(experiment.points),
        *_marking(experiment.points),
    ]
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)


def _saturated(runs: Sequence[Run]) -> list[str]:
    """Return a note on runs whose switches met sums that do not fit into 32 bits."""
    most = (
        max((rank.statistics.get("blocks_saturated", 0) for rank in run.ranks), default=0)
        for run in runs
    )
    return [
        f"{run.algorithm}: in {blocks} blocks a sum did not fit into 32 bits; it is the "
        "largest or the least that does"
        for run, blocks in zip(runs, most, strict=True)
        if blocks
    ]


def _marking(points: Sequence[Point]) -> list[str]:
    """Say from which length of a queue on switches marked, and why, if that was chosen for a
    scenario."""
    scenarios = [each.scenario for each in points if each.scenario.congestion == "dctcp"]
    chosen = [Marking.of(scenario.network(), scenario.mtu) for scenario in scenarios]
    said = (
        f"switches mark from {marking.threshold_packets} packets on: {marking}"
        for scenario, marking in zip(scenarios, chosen, strict=True)
        if scenario.ecn_threshold_packets == marking.threshold_packets
    )
    return [*dict.fromkeys(said)]


def _unassigned(points: Sequence[Point]) -> list[str]:
    """Return a note on collectives whose flows `paths` cuts without assigning any."""
    schemes = [(point.scenario, scheme_of(point.scenario.paths)) for point in points]
    found = dict.fromkeys(
        (scenario.paths, algorithm)
        for scenario, scheme in schemes
        for algorithm in scenario.algorithms
        if (scheme.assigned or scheme.lanes > 1) and not placed_steps(scenario, algorithm)
    )
    return [
        f"{algorithm}: paths {paths!r} assigns nothing here, since its data are no flows between "
        "two ranks; what it sends goes by trees and ECMP"
        for paths, algorithm in found
    ]


def _networks(points: Sequence[Point]) -> list[list[Point]]:
    """Group points by the network that they are run on: emulated points share one where
    they can."""
    networks: dict[object, list[Point]] = {}
    for point in points:
        key: object = point
        if point.scenario.world == "emulated":
            from weft.experiments.runs.emulated import network_key

            key = network_key(point.scenario)
        networks.setdefault(key, []).append(point)
    return list(networks.values())


@contextlib.contextmanager
def _named(point: Point) -> Iterator[None]:
    """Name the point in an error, if it is one of several."""
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
                run = compared(run, point.scenario)
            except RunError as error:
                if not point.number:
                    raise
                run = broken_off(point.scenario, algorithm, repetition, str(error))
        runs.append(run)
        progress.tell("run", **of_run(run))
    return runs


def _emulate(
    points: Sequence[Point],
    program: ProgramFiles,
    progress: Progress,
    captures: Path | None,
    notes: list[str],
    folder: Path | None,
) -> list[list[Run]]:
    """Run points on one network; return the runs of at least the first, and of all unless the
    network breaks.

    If one of several points cannot be brought up, its runs have the error.
    """
    from weft.base.signals import signals_held
    from weft.experiments.runs.emulated import emulate
    from weft.topo.worlds.emulated.runs import RunRecord

    record = None
    runs: list[list[Run]] = []
    try:
        with signals_held():
            record = RunRecord.create()
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
    """Return versions and the machine, for whoever reads the results later."""
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
