"""What holds for all tests: they judge what happens, never how long it takes or who runs beside."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, settings
from tests.support.tiers import TIERS, Durations, has_none, is_in, seconds_of

EXAMPLES = {"weft": 25, "nightly": 200}
"""How many examples random tests draw that do not say it themselves, by hypothesis' profiles:
``--hypothesis-profile nightly`` takes the second."""
for name, count in EXAMPLES.items():
    settings.register_profile(
        name,
        max_examples=count,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
settings.load_profile("weft")

ROOT = Path(__file__).resolve().parent.parent
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
"""What tests start imports this checkout's Weft, and what tests share."""

PROCESS = os.environ.get("PYTEST_XDIST_WORKER")
"""The name of this process, where several share the tests."""

TURN = Path("/run/lock/weft-system-tests")
TURN_S = 600.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier", choices=TIERS, default="all", help="the tests of a tier alone (support/tiers.py)"
    )
    parser.addoption(
        "--record-durations",
        action="store_true",
        help="write how long each file's tests take, by which tiers are told apart",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("record_durations") and PROCESS is None:
        config.pluginmanager.register(Durations())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import nothing of what the tier leaves out."""
    return True if has_none(config.getoption("tier"), collection_path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier. Where several processes share them, files that take long come
    first, so that no process waits long for another's file, and those of whose tests most want to
    be alone last."""
    tier = config.getoption("tier")
    left_out = [item for item in items if not is_in(tier, item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_in(tier, item)]
    if PROCESS is not None:
        wanting = Counter(item.path for item in items if wants_quiet(item))
        all_of = Counter(item.path for item in items)
        last = {path for path, count in wanting.items() if count > all_of[path] / 2}
        items.sort(key=lambda item: (item.path in last, -seconds_of(item.path)))


def wants_quiet(item: pytest.Item) -> bool:
    """Return whether nothing may run beside a test."""
    system = item.get_closest_marker("system")
    return system is not None and bool(system.kwargs.get("alone", True))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """While a system test runs, the other processes of this call of pytest run nothing, and other
    suites on this machine run no system test.

    System tests judge by the processors' time and by what is on the machine. Those that are marked
    ``system(alone=False)`` look at their own run alone, and have others beside them.
    """
    system, alone = item.get_closest_marker("system"), wants_quiet(item)
    with contextlib.ExitStack() as held:
        if system is not None and os.geteuid() == 0:
            held.enter_context(turn(TURN, alone))
        if PROCESS is not None:
            held.enter_context(turn(item.config.cache.mkdir("quiet"), alone))
        return (yield)


@contextlib.contextmanager
def turn(folder: Path, alone: bool) -> Iterator[None]:
    """A turn that one has alone, or that others may have, too. Who waits to be alone is waited for.

    A suite that was stopped in the middle of its turn is not waited for longer than ``TURN_S``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "gate").open("a") as gate, (folder / "turn").open("a") as file:
        _lock(gate, fcntl.LOCK_EX)
        _lock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield
        fcntl.flock(file, fcntl.LOCK_UN)  # also for those who were forked and have it open


def _lock(file: IO[str], how: int) -> None:
    """Lock a file, but go on without after ``TURN_S``: after a crash nobody may ever let it go."""
    end = time.monotonic() + TURN_S
    while time.monotonic() < end:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)
