"""The runner: it runs scenarios in their worlds, and writes down what came of them."""

import contextlib
import datetime
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from weft.base.errors import InputError, MachineError, refuse
from weft.base.progress import Progress
from weft.base.signals import signals_held
from weft.base.units import shown
from weft.experiments.engines.collect import run_by
from weft.experiments.engines.engine import Need, Workers
from weft.experiments.engines.registry import EngineAddress, place_of
from weft.experiments.report.base import load as load_report
from weft.experiments.results.results import Results, Run
from weft.experiments.runs.arrivals import Arrivals
from weft.experiments.runs.capacity import check_capacity, check_ways
from weft.experiments.runs.folder import REPORT, ResultsFolder
from weft.experiments.runs.here import run_alone, run_together
from weft.experiments.runs.identity import key_of
from weft.experiments.runs.inputs import ProgramKind, program_kind, program_of
from weft.experiments.runs.notes import notes_on
from weft.experiments.runs.points import PointFiles
from weft.experiments.runs.predictions import Predictions
from weft.experiments.runs.settled import settled
from weft.experiments.runs.shared import check, network_key
from weft.experiments.runs.versions import environment
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point
from weft.switch.compiler import ProgramFiles
from weft.topo.worlds.registry import WORLDS


@dataclass(frozen=True)
class RunOutcome:
    """What `run_to_folder` made."""

    results: Results
    folder: Path
    report: Path
    captures: Path | None
    plots: tuple[Path, ...] = ()
    """The SVG files."""
    unwritten: str = ""
    """Which of the files could not be written, and why; empty if all were."""


def run(
    what: Scenario | Experiment, progress: Progress | None = None, *, on: str | None = None
) -> Results:
    """Run every algorithm of a scenario, or of all points of an experiment, without writing files.

    Args:
        on: where points run, as ``--on`` of ``weft run`` says it: ``"local:8"``,
            ``"dask://host:8786"``. By default one after the other in this process.

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
    _run(experiment, results, progress or Progress.silent(), on=on)
    return results


def run_to_folder(
    what: Scenario | Experiment,
    *,
    progress: Progress,
    out: Path | None = None,
    name: str | None = None,
    on: str | None = None,
    resume: bool = False,
) -> RunOutcome:
    """Run, and write ``results.json``, ``report.html``, the plots, and captures if asked for.

    Args:
        out: results folder; by default ``results/<name>-<run id>`` in the current folder.
        name: the first part of the folder's name; by default the experiment's.
        on: where points run, as for `run`.
        resume: take from the folder the points that an earlier run of the experiment left there.

    A run that breaks off is in the results with its error, and ends its scenario. If the folder
    takes no file at the end, as on a full disk, `RunOutcome.unwritten` says so: the results are
    there all the same, and each file is the new one or, whole, what was there before.

    Each of several points is written when it arrives. If something ends the run before the last
    one, ``results.json`` has those that are there.

    Raises: as `run` does, and InputError for a folder that cannot be written at the start, or
    whose points are not those of the experiment.
    """
    experiment = _experiment(what)
    results = _new_results(experiment)
    folder = ResultsFolder(out or Path("results") / f"{name or experiment.name}-{results.run_id}")
    try:
        _run(experiment, results, progress, folder, resume, on)
        written, unwritten = folder.write(results)
    finally:
        folder.close()
    plots = tuple(path for path in written if path.suffix == ".svg")
    captures = folder.captures if _asks_for(experiment, "pcap") else None
    return RunOutcome(results, folder.path, folder.path / REPORT, captures, plots, unwritten)


def _experiment(what: Scenario | Experiment) -> Experiment:
    if isinstance(what, Scenario):
        return Experiment.of(what)
    if not isinstance(what, Experiment):
        raise InputError(
            f"run {shown(what)}: there is nothing to run in it: give a weft.Scenario, like "
            "weft.Scenario('allgather')"
        )
    return what


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


Programs = Mapping[ProgramKind, ProgramFiles]
"""The switches' compiled programs by `program_kind`."""


def _run(
    experiment: Experiment,
    results: Results,
    progress: Progress,
    folder: ResultsFolder | None = None,
    resume: bool = False,
    on: str | None = None,
) -> None:
    """Check, compile, make the folder, and run. Errors of a scenario are raised before the folder
    is made."""
    started = time.monotonic()
    place = None if on is None else place_of(on)
    most_bytes = _check(experiment, place is None or place.is_here)
    with progress.stage("compile", "Compile the P4 program"):
        scenarios = {program_kind(point.scenario): point.scenario for point in experiment.points}
        programs = {kind: program_of(scenario) for kind, scenario in scenarios.items()}
    arrivals = _arrivals(experiment, programs, folder, resume, progress)
    left = replace(experiment, points=arrivals.missing())
    try:
        with ExitStack() as stack:
            workers = None
            if place is not None:
                workers = stack.enter_context(_workers(place, left.points, most_bytes, progress))
            whole = settled(left, progress, later=workers is not None)
            if folder is not None:
                folder.make(
                    captures=_asks_for(experiment, "pcap"),
                    traces=_asks_for(experiment, "trace"),
                    points=arrivals.files,
                )
            known: dict[Point, Predictions] = {}
            if workers is not None:
                rest, known = run_by(workers, left.points, progress, arrivals.add)
                stack.close()  # what is emulated here has the machine to itself
                left = replace(left, points=tuple(rest))
                whole = settled(left, progress)
            asked = dict(zip(whole.points, left.points, strict=True))

            def arrived(point: Point, runs: list[Run], notes: Sequence[str]) -> None:
                arrivals.add(asked[point], runs, notes)
                if folder is not None and len(arrivals) == len(experiment.points):
                    stack.callback(load_report())  # while the network is taken down

            _run_here(
                whole.points,
                programs,
                progress,
                arrived,
                results.notes,
                folder,
                {point: known[was] for point, was in asked.items() if was in known},
            )
    except BaseException:
        if folder is not None and arrivals.files is not None and arrivals.added:
            with signals_held():
                _put_together(experiment, arrivals, results, progress, started)
                folder.keep(results)
            progress.say(
                f"{len(arrivals)} of {len(experiment.points)} points are in "
                f"{str(folder.path)!r}: go on with --resume {folder.path}"
            )
        raise
    _put_together(experiment, arrivals, results, progress, started)


@contextlib.contextmanager
def _workers(
    place: EngineAddress, points: Sequence[Point], most_bytes: int, progress: Progress
) -> Iterator[Workers | None]:
    """Start an engine's workers; None if this process does as well, since there is one point, or
    one worker on this machine."""
    emulated = [point for point in points if _takes_machine(point)]
    ahead = sum(point.scenario.predict for point in emulated) if len(emulated) > 1 else 0
    count = len(points) - len(emulated) + ahead if place.is_here else len(points)
    need = Need(count, most_bytes, machines=bool(emulated))
    if count == 0 or not place.engine.is_worth(place.where, need):
        yield None
        return
    with ExitStack() as stack:
        with progress.stage("workers", f"Start workers: {place}"):
            workers = stack.enter_context(place.engine.open(place.where, need))
        yield workers


def _check(experiment: Experiment, here: bool) -> int:
    """Return how much memory the largest point takes, roughly.

    Raises an error, before anything is begun, for a point that cannot be run; on this machine, if
    it is to be run `here`.
    """
    networks = _networks(experiment.points)
    refuse(
        len(networks) > 1 and any(points[0].scenario.trace for points in networks),
        "trace is for one network, and the sweep or the seeds make several: leave one of both",
    )
    for option in ("pcap", "trace"):
        refuse(
            not here and _asks_for(experiment, option),
            f"{option} writes files on the machine that runs a point: leave it out, or run --on "
            "local",
        )
    most_bytes = 0
    for point in experiment.points:
        with _named(point):
            if here:
                most_bytes = max(most_bytes, check_capacity(point.scenario))
            check_ways(point.scenario, point.scenario.network())
    for network in networks:
        if here and _takes_machine(network[0]):
            with _named(network[0]):
                check(network[0].scenario)
    return most_bytes


def _arrivals(
    experiment: Experiment,
    programs: Programs,
    folder: ResultsFolder | None,
    resume: bool,
    progress: Progress,
) -> Arrivals:
    """Return what an earlier run of the experiment has left, if it is to be resumed, and nothing
    otherwise. Raises InputError if that does not fit."""
    points = experiment.points
    refuse(
        resume and len(points) == 1,
        "--resume is for sweeps, and this is one point: run it again",
    )
    if folder is None or len(points) == 1:
        return Arrivals(points)
    scenarios = [point.scenario for point in points]
    keys = [key_of(each, programs[program_kind(each)]) for each in scenarios]
    files = PointFiles(folder.path, dict(zip(keys, scenarios, strict=True)))
    arrivals = Arrivals(points, keys, files)
    if resume:
        arrivals.resume(progress)
    else:
        files.check_new()
    return arrivals


def _run_here(
    points: Sequence[Point],
    programs: Programs,
    progress: Progress,
    arrived: Callable[[Point, list[Run], Sequence[str]], None],
    notes: list[str],
    folder: ResultsFolder | None,
    known: Mapping[Point, Predictions],
) -> None:
    """Run points in this process, one after the other.

    Args:
        notes: takes what is of no single point.
        known: predictions that there are already.
    """
    networks = _networks(points)
    for index, network in enumerate(networks):
        scenario = network[0].scenario
        program = programs[program_kind(scenario)]
        if not _takes_machine(network[0]):
            arrived(network[0], run_alone(network[0], program, progress), ())
            continue
        into = folder.captures if folder is not None and scenario.pcap else None
        if into is not None and len(networks) > 1:
            into /= str(index + 1)
        left = network
        while left:  # once, unless a network breaks
            told: list[str] = []

            def take(point: Point, runs: list[Run], told: list[str] = told) -> None:
                arrived(point, runs, told)
                told.clear()

            done = run_together(
                left, program, progress, take, told,
                captures=into, folder=None if folder is None else folder.path, known=known,
            )  # fmt: skip
            notes += told
            left = left[done:]


def _put_together(
    experiment: Experiment,
    arrivals: Arrivals,
    results: Results,
    progress: Progress,
    started: float,
) -> None:
    """Fill in the results with what has arrived, in the order that was asked for."""
    results.runs = arrivals.runs()
    results.notes = [
        *dict.fromkeys([*arrivals.notes(), *results.notes]),
        *notes_on(results.runs, experiment.points),
    ]
    results.duration_s = time.monotonic() - started
    results.timings_s = dict(progress.timings_s)


def _takes_machine(point: Point) -> bool:
    return WORLDS[point.scenario.world].takes_machine


def _networks(points: Sequence[Point]) -> list[list[Point]]:
    """Group points by the network that they are run on: emulated points share one where
    they can."""
    networks: dict[object, list[Point]] = {}
    for point in points:
        key: object = point
        if _takes_machine(point):
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


def _environment(experiment: Experiment) -> dict[str, Any]:
    """Return versions, the machine and the kinds of switches."""
    kinds = sorted({point.scenario.switch for point in experiment.points})
    return {**environment(), "switch": ", ".join(kinds)}
