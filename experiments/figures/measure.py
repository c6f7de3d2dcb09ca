"""Measurement of the figures of a scenario file: every point of it is run under several seeds."""

import datetime
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from weft.base.cache import CHECKOUT
from weft.base.errors import InputError, RunError, refuse
from weft.experiments.figures.kept import Kept, metrics_of, rows_of
from weft.experiments.results.results import Run
from weft.experiments.runs.alone import compared, slowed
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.runner import run as run_experiment
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Experiment, Point, read_file

SCENARIOS = CHECKOUT / "experiments" / "scenarios"
WORLDS = ("emulated", "simulated")
SEEDS = tuple(range(1, 11))
FEW_SEEDS = 3
"""How many seeds are enough if all of them come to the very same figures, or if a run is long."""
LONG_S = 60.0

Timed = tuple[Run, float]
Advance = Callable[[float], None]


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
) -> Kept:
    """Run every point of a scenario file under every seed, simulated points side by side.

    If a file has points in both worlds, only those of `worlds` are run.

    A point whose runs take over a minute is run under the first three seeds only. So is a point
    that comes to the same figures under all three, since chance has no part there.

    Raises:
        InputError: the file makes no sense.
        RunError: a world could not be brought up.
    """
    commit = commit_of(CHECKOUT)  # what is run is what is there now, whatever comes meanwhile
    first = read_file(scenario_file(name))
    order = {_key(point.scenario.to_dict()): at for at, point in enumerate(first.points)}
    done: list[tuple[int, int, Timed]] = []
    asked = [point for point in first.points if point.scenario.world in worlds]
    simulated = [point for point in asked if point.scenario.world == "simulated"]
    emulated = [point for point in asked if point.scenario.world == "emulated"]
    total = len(seeds) * max(1, len(asked))
    for place, seed, timed in _simulated(simulated, seeds):
        done += [(order[_key(simulated[place].scenario.to_dict())], seed, each) for each in timed]
        advance(len({(where, which) for where, which, _ in done}) / total)
    if emulated:
        done += [
            (order[_key(run.scenario)], int(run.scenario["seed"]), (run, cost_s))
            for run, cost_s in _emulated(emulated, first)
        ]
    done.sort(key=lambda each: each[:2])
    today = datetime.datetime.now(datetime.timezone.utc).date()
    source = f"commit {commit}, {today.isoformat()}"
    return Kept(
        name,
        len(os.sched_getaffinity(0)),
        rows_of([timed for _, _, timed in done], first.swept, source),
    )


def _key(scenario: Mapping[str, Any]) -> str:
    """Return what tells a point's scenario from the others, whatever its seed is."""
    return repr(sorted((name, value) for name, value in scenario.items() if name != "seed"))


def _simulated(
    points: Sequence[Point], seeds: Sequence[int]
) -> Iterator[tuple[int, int, list[Timed]]]:
    """Yield (point, seed, its runs) as they come; seeds that are not needed are not there."""
    if not points:
        return
    for point in points:
        program_of(point.scenario)  # compiled once, before there are processes
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), get_context("fork")) as pool:
        begun: dict[tuple[int, int], Future[list[Timed]]] = {}

        def begin(chosen: Sequence[int], place: int) -> None:
            for seed in chosen:
                begun[place, seed] = pool.submit(
                    _simulate, replace(points[place].scenario, seed=seed)
                )

        try:
            for place in range(len(points)):
                begin(seeds[:FEW_SEEDS], place)
            for place in range(len(points)):
                few = [begun[place, seed].result() for seed in seeds[:FEW_SEEDS]]
                yield from ((place, seed, timed) for seed, timed in zip(seeds, few, strict=False))
                if not _are_enough(few):
                    begin(seeds[FEW_SEEDS:], place)
            for (place, seed), future in begun.items():
                if seed not in seeds[:FEW_SEEDS]:
                    yield place, seed, future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _are_enough(few: Sequence[Sequence[Timed]]) -> bool:
    if max(cost_s for timed in few for _, cost_s in timed) > LONG_S:
        return True
    if not all(run.verified for timed in few for run, _ in timed):
        return False  # runs that failed have nothing in common but that
    figures = [[metrics_of(run) for run, _ in timed] for timed in few]
    return all(each == figures[0] for each in figures)


def _simulate(scenario: Scenario) -> list[Timed]:
    scenario = slowed(scenario)
    found = []
    for algorithm, repetition, _ in scenario.runs():
        began_s = time.process_time()  # whatever else the machine does
        run = simulate(scenario, program_of(scenario), algorithm, repetition, lambda _: None)
        run = compared(run, scenario)
        found.append((run, time.process_time() - began_s))
    return found


def _emulated(points: Sequence[Point], experiment: Experiment) -> Iterator[Timed]:
    """Run points with real packets. These repeat themselves by chance anyway, so they run as often
    as the scenario says."""
    chosen = Experiment(tuple(points), experiment.swept, (), experiment.name)
    began_s = time.monotonic()
    runs = run_experiment(chosen).runs
    refuse(not runs, f"{experiment.name}: nothing was run", RunError)
    cost_s = (time.monotonic() - began_s) / len(runs)
    yield from ((run, cost_s) for run in runs)


def commit_of(checkout: Path) -> str:
    """Return the commit that is checked out, shortened; a ``+`` follows if files differ from it.

    It is ``unknown`` if git is not installed, or does not know the folder.
    """
    git = ["git", "-C", str(checkout)]
    try:
        told = subprocess.run(
            [*git, "describe", "--always", "--dirty=+", "--abbrev=10", "--exclude=*"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return "unknown"
    return told.stdout.strip() or "unknown"
