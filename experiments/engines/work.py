"""What a worker does: it is given a point, and gives back what came of it.

What travels is a function of this module, by name, this process's version of Weft, and the rest as
bytes, which a worker of another version does not even unpickle.
"""

import contextlib
import fcntl
import gc
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from weft.base.errors import MachineError, RunError, WeftError, refuse
from weft.base.progress import Progress
from weft.experiments.engines.child import in_child
from weft.experiments.results.results import Run
from weft.experiments.runs.capacity import check_capacity
from weft.experiments.runs.here import run_alone, run_together
from weft.experiments.runs.identity import version
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.points import PointResult
from weft.experiments.runs.predictions import Predictions, predict_point
from weft.experiments.runs.shared import check
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.scenario.sweep import Point
from weft.topo.worlds.registry import PREDICTING

MACHINE = Path("/run/weft-machine.lock")
"""The file that whoever runs an emulated point of a sweep locks; only root can write there."""
_ONE_AT_A_TIME = threading.Lock()
"""A process runs one point at a time, however many threads an engine gives it."""
Job = Callable[[], Any]
"""A call that can be pickled."""


class OtherVersionError(MachineError):
    """A worker has another version of Weft."""


def job(function: Callable[..., Any], *arguments: Any) -> Job:
    """Return the call of a function of this module as a worker makes it."""
    return partial(work, version(), pickle.dumps((function, arguments)))


def work(wanted: str, call: bytes) -> Any:
    """Do what is asked for. Raises OtherVersionError if this is not the version that asks."""
    if version() != wanted:
        raise OtherVersionError(
            f"a worker on {os.uname().nodename} has Weft {version()}, and the sweep is one of Weft "
            f"{wanted}: install this version there, or stop that worker"
        )
    with _ONE_AT_A_TIME:
        _settle()
        try:
            function, arguments = pickle.loads(call)
            return function(*arguments)
        except WeftError:
            raise
        except (Exception, SystemExit) as error:  # nobody knows whether it can be unpickled
            raise RunError(f"{type(error).__name__}: {error}") from None


@cache
def _settle() -> None:
    """Let the collector be as it is in the command: it looks rarely through what is kept anyway."""
    gc.set_threshold(50_000, 20, 20)


def nothing() -> None:
    """Do nothing: what this takes is what the engine takes."""


def warm_up() -> None:
    """Load the code that simulates, by doing so once."""
    _settle()
    small = Scenario(
        world=PREDICTING, topology="single", hosts_per_leaf=2, size_bytes=1024,
        algorithms=("ring",),
    )  # fmt: skip
    run_alone(Point(small), program_of(small), Progress.silent())


def simulated(point: Point) -> PointResult:
    """Run a point in the simulated world."""
    check_capacity(point.scenario)
    point = replace(point, scenario=point.scenario.family.settled(point.scenario))
    return PointResult(run_alone(point, program_of(point.scenario), Progress.silent()))


def predicted(point: Point) -> Predictions:
    """Return what the simulated world says of an emulated point."""
    scenario = point.scenario.family.settled(point.scenario)
    return predict_point(replace(point, scenario=scenario), program_of(scenario), Progress.silent())


def emulated(point: Point, known: Predictions | None) -> PointResult:
    """Run a point in the emulated world on this machine, as `emulated_here` does."""
    result: PointResult = in_child(emulated_here, point, known)
    return result


def emulated_here(point: Point, known: Predictions | None) -> PointResult:
    """Run a point in the emulated world, in this process, when no other one is on this machine.

    Args:
        known: its prediction, if that was computed before.

    Raises:
        MachineError: this process is not root, or the machine lacks something.
    """
    here = os.uname().nodename
    refuse(
        os.geteuid() != 0,
        f"worker on {here}: emulated points need root there: start it as root (sudo dask worker "
        "...), or run the sweep with --world simulated",
        MachineError,
    )
    point = replace(point, scenario=point.scenario.family.settled(point.scenario))
    results: list[list[Run]] = []
    notes: list[str] = []
    with whole_machine():
        check_capacity(point.scenario)
        check(point.scenario)
        run_together(
            [point], program_of(point.scenario), Progress.silent(),
            lambda _, runs: results.append(runs), notes,
            known={} if known is None else {point: known},
        )  # fmt: skip
    if not results:
        raise RunError(f"{point.heading}nothing was run")
    return PointResult(results[0], notes)


@contextlib.contextmanager
def whole_machine() -> Iterator[None]:
    """Wait until no other emulated point of a sweep runs on this machine, and keep others out."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(MACHINE, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
