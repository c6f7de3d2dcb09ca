"""``weft bench engines``: sweeps on engines, against serial processes side by side.

`POINTS` points of the simulated world, each of at least `POINT_S`, are run by two processes that
know nothing of each other, half of them each, one after the other; and by engines with two workers.
All of them have run a point before, so that code is loaded. They take turns, and what counts is the
median of the rounds' ratios: the time of the serial processes over that of the engine. Digests must
be the same. Each serial process has its half, so the slower one counts, where an engine gives the
next point to whoever is free. Therefore the same is told of serial processes that had ended
together: the mean of what their points took.

Beside that stands what an engine takes for a point that does nothing, until it is up, and in
memory, and what its schedule comes to if it is simulated with the times that points were measured
to take: for this machine, to be compared, and for `PLANNED` points on `MACHINES` machines.
"""

import itertools
import json
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from weft.base.children import python_command, python_path
from weft.base.errors import RunError, refuse
from weft.experiments.engines import work
from weft.experiments.engines.engine import Need, Workers
from weft.experiments.engines.gather import gathered
from weft.experiments.engines.local import ONE_THREAD
from weft.experiments.engines.registry import EngineAddress, place_of
from weft.experiments.engines.schedule import makespan_s
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.tools.bench.benchmarks import table_lines
from weft.topo.worlds.registry import PREDICTING

POINTS = 200
POINT_S = 1.0
PAIRS = 5
ROOM = 1.5
"""How many times as long points are to take at first, as machines are faster at times."""
WORKERS = 2
ENGINES = ("local:2", "dask:local:2")
NOTHINGS = 500
"""How many points that do nothing are run to see what an engine takes for each."""
PLANNED, MACHINES, CORES = 10_000, 100, 8
_MODULE = "weft.tools.bench.engines"


def measure(
    points: int = POINTS,
    pairs: int = PAIRS,
    engines: Sequence[str] = ENGINES,
    point_s: float = POINT_S,
    nothings: int = NOTHINGS,
) -> dict[str, Any]:
    """Return a row for each engine.

    Raises:
        MachineError: an engine is not installed.
        RunError: digests differ, or a point failed.
    """
    opened = {on: _Opened(place_of(on)) for on in engines}
    environment = {**os.environ, **ONE_THREAD}  # before any engine can add to it
    environment["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH"))
    serial: list[Timed] = []
    with ExitStack() as stack:
        for each in opened.values():
            each.open(stack)
        asked = _points(points, point_s, opened[engines[0]].workers)
        for number in range(pairs):
            turns: list[Callable[[], None]] = [
                lambda: serial.append(_serial(asked, environment)),
                *[partial(each.run, asked) for each in opened.values()],
            ]
            for turn in turns if number % 2 == 0 else turns[::-1]:
                turn()
            told = [f"{on} {each.ratios(serial)[-1]:.3f}" for on, each in opened.items()]
            took = f"round {number + 1} of {pairs}: {serial[-1][0]:.0f} s serial"
            print(f"{took}; over that of {', '.join(told)}", file=sys.stderr, flush=True)
        for each in opened.values():
            each.look()
        rows = [
            _row(on, each, serial, _nothing_ms(each.workers, nothings))
            for on, each in opened.items()
        ]
    return {
        "elsewhere_s": sum(each.cpu_s for each in opened.values()),
        "points": points, "pairs": pairs, "cores": len(os.sched_getaffinity(0)), "rows": rows,
        "planned": PLANNED, "machines": MACHINES, "cores_planned": CORES,
    }  # fmt: skip


Timed = tuple[float, list[tuple[str, float]]]
"""How long all took, in s, and of each point, in order, its digest and what it took."""


class _Opened:
    """An engine's workers that are up and warm, and what they took for the points."""

    workers: Workers

    def __init__(self, place: EngineAddress) -> None:
        self._place = place
        self.up_s = self.warm_s = 0.0
        self.memory_bytes = 0
        """What the worker of most memory takes in the end."""
        self.cpu_s = 0.0
        """What all workers have taken in the end."""
        self.turns: list[Timed] = []

    def open(self, stack: ExitStack) -> None:
        """Start the workers, which end with the stack."""
        began = time.perf_counter()
        opened = self._place.engine.open(self._place.where, Need(WORKERS))
        self.workers = stack.enter_context(opened)
        self.up_s = time.perf_counter() - began
        _warmed(self.workers)
        self.warm_s = time.perf_counter() - began - self.up_s

    def look(self) -> None:
        """See what the workers take."""
        known = _warmed(self.workers)
        self.memory_bytes = max(size for size, _ in known.values())
        self.cpu_s = sum(cpu_s for _, cpu_s in known.values())

    def run(self, points: Sequence[Point]) -> None:
        """Run all points once."""
        self.turns.append(_engine(self.workers, points))

    def ratios(self, serial: Sequence[Timed]) -> list[float]:
        """Return how long serial processes took over what this engine did, by round."""
        return [alone[0] / turn[0] for alone, turn in zip(serial, self.turns, strict=True)]

    def balanced(self, serial: Sequence[Timed]) -> list[float]:
        """Return the same of serial processes that had ended together."""
        together_s = [sum(took_s for _, took_s in points) / WORKERS for _, points in serial]
        return [alone / turn[0] for alone, turn in zip(together_s, self.turns, strict=True)]


def timed(point: Point) -> tuple[str, float]:
    """Run a point; return its digest, and how long it took in s."""
    began = time.perf_counter()
    (run,) = work.simulated(point).runs
    return f"{run.digest} {run.verified}", time.perf_counter() - began


def this_process() -> tuple[int, int, float]:
    """Return this process's id, the memory that it takes, in bytes, where what it shares is shared
    out, and the processor time that it has taken, in s."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")]
    return os.getpid(), sum(sizes), time.process_time()


def _points(count: int, point_s: float, workers: Workers) -> list[Point]:
    """Return points that differ in their seeds, each of which takes at least so long here while all
    workers have one."""
    size = 1 << 17
    while True:
        scenario = Scenario(
            world=PREDICTING, hosts_per_leaf=4, size_bytes=size, algorithms=("ring",)
        )
        least_s = min(took_s for _, took_s in _engine(workers, [Point(scenario)] * 3 * WORKERS)[1])
        if least_s >= ROOM * point_s:
            break
        longer = min(2.0, 1.1 * ROOM * point_s / least_s)
        size = max(round(size * longer / 4096), size // 4096 + 1) * 4096
    seeds = range(1, count + 1)
    return [Point(replace(scenario, seed=seed), number=f"{seed}/{count}") for seed in seeds]


def _warmed(workers: Workers) -> dict[int, tuple[int, float]]:
    """Let every worker run a point; return by process id what each takes: bytes, and s."""
    known: dict[int, tuple[int, float]] = {}
    for _ in range(50):
        jobs = {number: work.job(_warm, 0.2) for number in range(2 * WORKERS)}
        for _, found in gathered(workers.executor, workers.count, jobs):
            refuse(isinstance(found, Exception), f"a worker does not warm up: {found}", RunError)
            known[found[0]] = found[1:]
        if len(known) >= WORKERS:
            break
    return known


def _warm(pause_s: float) -> tuple[int, int, float]:
    timed(Point(Scenario(world=PREDICTING, hosts_per_leaf=4, size_bytes=1 << 16,
                         algorithms=("ring",))))  # fmt: skip
    time.sleep(pause_s)  # so that the others get one, too
    return this_process()


def _engine(workers: Workers, points: Sequence[Point]) -> Timed:
    jobs = {number: work.job(timed, point) for number, point in enumerate(points)}
    began = time.perf_counter()
    found = dict(gathered(workers.executor, workers.count, jobs))
    took_s = time.perf_counter() - began
    return took_s, [_whole(found[number]) for number in range(len(points))]


def _whole(found: Any) -> tuple[str, float]:
    refuse(isinstance(found, Exception), f"a point failed: {found}", RunError)
    digest, took_s = found
    return str(digest), float(took_s)


def _serial(points: Sequence[Point], environment: Mapping[str, str]) -> Timed:
    """Run points by processes that know nothing of each other, each its part, at the same time."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    python_command(_MODULE), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    env=environment,
                )
            )
            for _ in range(WORKERS)
        ]  # fmt: skip
        parts = [list(points[number::WORKERS]) for number in range(WORKERS)]
        pipes = [(process.stdin, process.stdout) for process in processes]
        for (given, told), part in zip(pipes, parts, strict=True):
            assert given and told
            pickle.dump(part, given)
            given.flush()
        for _, told in pipes:
            assert told and told.readline() == b"ready\n"
        began = time.perf_counter()
        for given, _ in pipes:
            assert given
            given.write(b"go\n")
            given.close()
        answers = []
        for _, told in pipes:
            assert told
            answers.append(json.loads(told.readline() or "[]"))
        took_s = time.perf_counter() - began
        for process in processes:
            refuse(process.wait(), "a serial process failed", RunError)
    found = [each for row in itertools.zip_longest(*answers) for each in row if each is not None]
    return took_s, [(str(digest), float(each_s)) for digest, each_s in found]


def serve() -> None:
    """Be one of the serial processes: load, wait, run all that was asked for, one by one."""
    points = pickle.load(sys.stdin.buffer)
    work.warm_up()
    timed(points[0])  # as a process's first one takes longer: its memory grows
    print("ready", flush=True)
    sys.stdin.buffer.readline()
    print(json.dumps([timed(point) for point in points]), flush=True)


def _nothing_ms(workers: Workers, count: int) -> float:
    """Return what the engine takes for a point that does nothing, in ms."""
    jobs = {number: work.job(work.nothing) for number in range(count)}
    began = time.perf_counter()
    for _ in gathered(workers.executor, workers.count, jobs):
        pass
    return (time.perf_counter() - began) * 1e3 / max(1, count)


def _row(on: str, opened: _Opened, serial: Sequence[Timed], each_ms: float) -> dict[str, Any]:
    for alone, engine in zip(serial, opened.turns, strict=True):
        one, other = ([digest for digest, _ in each[1]] for each in (alone, engine))
        refuse(
            one != other or not all(digest.endswith("True") for digest in one),
            f"{on}: digests are not those of serial processes",
            RunError,
        )
    ratios = opened.ratios(serial)
    points_s = [took_s for engine in opened.turns for _, took_s in engine[1]]
    last = opened.turns[-1]
    planned_s = list(itertools.islice(itertools.cycle(points_s), PLANNED))
    alike = {"start_s": opened.up_s, "warm_s": opened.warm_s, "dispatch_s": each_ms / 1e3}
    simulated_s = makespan_s([took for _, took in last[1]], WORKERS, dispatch_s=each_ms / 1e3)
    return {
        "engine": on,
        "ratio": median(ratios),
        "ratios": ratios,
        "balanced": median(opened.balanced(serial)),
        "serial_s": median(alone[0] for alone in serial),
        "engine_s": median(engine[0] for engine in opened.turns),
        "point_s": mean(points_s),
        "least_point_s": min(points_s),
        "each_ms": each_ms,
        "up_s": opened.up_s,
        "warm_s": opened.warm_s,
        "worker_bytes": opened.memory_bytes,
        "simulated_over_measured": simulated_s / last[0],
        "planned_s": makespan_s(planned_s, MACHINES * CORES, **alike),
        "planned_machines_s": makespan_s(planned_s, MACHINES, **alike),
        "bound_s": sum(planned_s) / (MACHINES * CORES),
    }


def lines(figures: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table."""
    rows: Collection[Mapping[str, Any]] = [
        {**row, "worker_mib": row["worker_bytes"] / 2**20} for row in figures["rows"]
    ]
    first = table_lines(
        f"{figures['points']} points on {WORKERS} workers, {figures['pairs']} pairs with as many "
        "serial processes",
        {
            "": "{engine!s}", "over serial": "{ratio:.3f}", "balanced": "{balanced:.3f}",
            "engine, s": "{engine_s:.1f}", "serial, s": "{serial_s:.1f}",
            "a point, s": "{point_s:.2f}",
            "least": "{least_point_s:.2f}", "engine, ms a point": "{each_ms:.2f}",
            "up, s": "{up_s:.1f}", "warm, s": "{warm_s:.1f}", "worker, MiB": "{worker_mib:.0f}",
        },
        rows,
    )  # fmt: skip
    count, machines, cores = (figures[name] for name in ("planned", "machines", "cores_planned"))
    second = table_lines(
        f"The engine's schedule, simulated: {count} such points on {machines} machines",
        {
            "": "{engine!s}", "simulated over measured, here": "{simulated_over_measured:.3f}",
            f"{cores} workers each, s": "{planned_s:.1f}", "at best": "{bound_s:.1f}",
            "one each, s": "{planned_machines_s:.1f}",
        },
        rows,
    )  # fmt: skip
    return [*first, *second]


if __name__ == "__main__":
    serve()
