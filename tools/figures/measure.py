"""Measurement of the figures of a scenario file: every point of it is run under several seeds."""

import datetime
import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from weft.base.cache import CHECKOUT
from weft.base.children import run_tool
from weft.base.errors import InputError, RunError
from weft.experiments.results.results import Run
from weft.experiments.runner import run as run_experiment
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point, read_file
from weft.tools.figures.kept import AlgorithmRow, Kept, options_of, rows_of
from weft.topo.worlds.registry import WORLDS, has_real_time

SCENARIOS = CHECKOUT / "experiments" / "scenarios"
VIRTUAL = [name for name in WORLDS if not has_real_time(name)]
"""The worlds whose figures anyone can make anew."""
SEEDS = tuple(range(1, 11))
FEW_SEEDS = 3
"""How many seeds are enough if all of them come to the very same figures, or if a run is long."""
LONG_S = 60.0
CODE = (
    "agents", "base", "controller", "experiments", "p4", "requirements", "switch",
    "topo", ":!experiments/scenarios",
)  # fmt: skip
"""What figures are made by, as git names paths."""

Advance = Callable[[float], None]
Save = Callable[[Kept], None]


def scenario_file(name: str) -> Path:
    """Return the scenario file of this name. Raises `InputError` if there is none."""
    path = SCENARIOS / f"{name}.toml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in SCENARIOS.glob("*.toml")))
        raise InputError(f"no scenario file {name!r} in {SCENARIOS}: there are {known}")
    return path


def measure(
    name: str,
    seeds: Sequence[int] = SEEDS,
    advance: Advance = lambda _: None,
    worlds: Collection[str] = WORLDS,
    *,
    before: Kept | None = None,
    is_wanted: Callable[[Scenario], bool] = lambda _: True,
    save: Save = lambda _: None,
) -> Kept:
    """Run every point of a scenario file under every seed, simulated points side by side.

    If a file has points in both worlds, only those of `worlds` are run.

    A point whose runs take over a minute is run under the first three seeds only. So is a point
    that comes to the same figures under all three, since chance has no part there.

    Args:
        before: figures of earlier. They stay where a point is not run, as long as the file has it;
            a simulated run of theirs is not made again unless code has changed since.
        is_wanted: whether a point is run.
        save: is called with all figures so far whenever there are more.

    Raises:
        InputError: the file makes no sense.
        RunError: a world could not be brought up.
    """
    commit = commit_of(CHECKOUT)  # what is run is what is there now, whatever comes meanwhile
    today = datetime.datetime.now(datetime.timezone.utc).date()
    source = f"commit {commit}, {today.isoformat()}"
    first = read_file(scenario_file(name))
    asked = [
        point
        for point in first.points
        if point.scenario.world in worlds and is_wanted(point.scenario)
    ]
    simulated = [point for point in asked if point.scenario.world in VIRTUAL]
    emulated = [point for point in asked if point.scenario.world not in VIRTUAL]
    found = Rows(first, before.rows if before else ())
    found.drop_stale(asked)
    processors = before.processors if before and not emulated else len(os.sched_getaffinity(0))

    def so_far() -> Kept:
        return Kept(name, processors, found.sorted())

    total, done = len(seeds) * max(1, len(asked)), 0
    for runs in _simulated(simulated, seeds, found, source):
        done += runs
        advance(done / total)
        save(so_far())
    if emulated:
        found.add(rows_of(list(_emulated(emulated, first)), first.swept, source))
    return so_far()


class Rows:
    """The rows of a scenario file's points, as they come."""

    def __init__(self, experiment: Experiment, before: Sequence[AlgorithmRow]) -> None:
        self.swept = experiment.swept
        """The options that tell points apart."""
        self._places = {
            _key(algorithm, self.options_of(point)): place
            for place, point in enumerate(experiment.points)
            for algorithm in point.scenario.algorithms
        }
        self._rows = {
            key: row for row in before if (key := _key(row.algorithm, row.options)) in self._places
        }

    def options_of(self, point: Point) -> dict[str, str]:
        """Return the options that tell a point from the others."""
        return options_of(point.scenario.to_dict(), self.swept, "")

    def drop_stale(self, points: Sequence[Point]) -> None:
        """Forget the rows of points that code of another commit has made."""
        rows = {
            _key(row.algorithm, row.options): row.source
            for point in points
            for row in self.at(point)
        }
        stale = {source for source in set(rows.values()) if not is_current(source)}
        for key in (key for key, source in rows.items() if source in stale):
            del self._rows[key]

    def add(self, rows: Sequence[AlgorithmRow]) -> None:
        """Take rows, whose runs go before those that are there under the same seeds."""
        for row in rows:
            key = _key(row.algorithm, row.options)
            there = self._rows.get(key)
            self._rows[key] = row if there is None else there.with_runs(row)

    def at(self, point: Point) -> list[AlgorithmRow]:
        """Return the rows of a point: one for each of its algorithms that has been run."""
        options = self.options_of(point)
        keys = [_key(algorithm, options) for algorithm in point.scenario.algorithms]
        return [self._rows[key] for key in keys if key in self._rows]

    def missing(self, point: Point, seeds: Sequence[int]) -> list[int]:
        """Return the seeds under which not all algorithms of a point have been run."""
        rows = self.at(point)
        whole = len(rows) == len(point.scenario.algorithms)
        return [seed for seed in seeds if not whole or any(seed not in row.seeds for row in rows)]

    def sorted(self) -> list[AlgorithmRow]:
        """Return all rows, in the order of points."""
        return [self._rows[key] for key in sorted(self._rows, key=self._places.__getitem__)]


def _key(algorithm: str, options: dict[str, str]) -> str:
    """Return what tells a row from the others; the number of ranks follows from the rest."""
    told = {name: value for name, value in options.items() if name != "ranks"}
    return repr((algorithm, sorted(told.items())))


def _simulated(
    points: Sequence[Point], seeds: Sequence[int], found: Rows, source: str
) -> Iterator[int]:
    """Run points under the seeds that are missing and needed. Yield after how many more seeds of a
    point there are more rows."""
    few, others = seeds[:FEW_SEEDS], seeds[FEW_SEEDS:]
    left = [point for point in points if found.missing(point, seeds)]
    for point in left:
        program_of(point.scenario)  # compiled once, before there are processes
    yield len(seeds) * (len(points) - len(left))
    if not left:
        return
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:

        def begun(point: Point, chosen: Sequence[int]) -> list[Future[list[AlgorithmRow]]]:
            return [
                pool.submit(_simulate, replace(point.scenario, seed=seed), found.swept, source)
                for seed in found.missing(point, chosen)
            ]

        try:
            first = [(point, begun(point, few)) for point in left]
            later = []
            for point, futures in first:
                for future in futures:
                    found.add(future.result())
                are_all = not others or are_enough(found.at(point))
                later += [] if are_all else begun(point, others)
                yield len(seeds) if are_all else len(few)
            for future in later:
                found.add(future.result())
                yield 1
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def are_enough(rows: Sequence[AlgorithmRow]) -> bool:
    """Return whether a point that has been run under a few seeds needs no others."""
    if any(row.cost_s > LONG_S * len(row.seeds) for row in rows):
        return True
    if any("failed" in row.verdicts for row in rows):
        return False  # runs that failed have nothing in common but that
    return all(len(set(values)) <= 1 for row in rows for values in row.values.values())


def _simulate(scenario: Scenario, swept: Sequence[str], source: str) -> list[AlgorithmRow]:
    scenario = scenario.family.settled(scenario)
    found = []
    for algorithm, repetition, _ in scenario.runs():
        began_s = time.process_time()  # whatever else the machine does
        run = simulate(scenario, program_of(scenario), algorithm, repetition, lambda _: None)
        run = scenario.family.compared(run, scenario)
        found.append((run, time.process_time() - began_s))
    return rows_of(found, swept, source)


def _emulated(points: Sequence[Point], experiment: Experiment) -> Iterator[tuple[Run, float]]:
    """Run points with real packets. These repeat themselves by chance anyway, so they run as often
    as the scenario says."""
    chosen = Experiment(tuple(points), experiment.swept, (), experiment.name)
    began_s = time.monotonic()
    runs = run_experiment(chosen).runs
    if not runs:
        raise RunError(f"{experiment.name}: nothing was run")
    cost_s = (time.monotonic() - began_s) / len(runs)
    yield from ((run, cost_s) for run in runs)


def is_current(source: str, checkout: Path = CHECKOUT) -> bool:
    """Return whether the code that figures are made by is now what it was when a row was measured.

    Args:
        source: as `AlgorithmRow.source`.
    """
    commit = source.removeprefix("commit ").partition(",")[0]
    if not commit.isalnum():  # files differed from the commit
        return False
    told = run_tool(["git", "-C", str(checkout), "diff", "--quiet", commit, "--", *CODE])
    return told.returncode == 0


def commit_of(checkout: Path) -> str:
    """Return the commit that is checked out, shortened; a ``+`` follows if files differ from it.

    It is ``unknown`` if git is not installed, or does not know the folder.
    """
    git = ["git", "-C", str(checkout)]
    try:
        told = run_tool([*git, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"])
    except OSError:
        return "unknown"
    return told.stdout.strip() or "unknown"
