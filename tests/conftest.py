"""What holds for all tests: they judge what happens, never how long it takes or who runs beside."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from hypothesis import HealthCheck, settings
from tests.support.tiers import LONG, TIERS, is_in

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

TURN = Path("/run/lock/weft-system-test")
TURN_S = 600.0


def is_system(item: pytest.Item) -> bool:
    return item.get_closest_marker("system") is not None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--tier",
        choices=TIERS,
        default="all",
        help="the tests of a tier alone (tests/support/tiers.py)",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the tier. Where several processes share them, files with system tests come
    last, and those that take long first, so that no process waits long for another's file."""
    tier = config.getoption("tier")
    left_out = [item for item in items if not is_in(tier, item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_in(tier, item)]
    if PROCESS is not None:
        last = {item.path for item in items if is_system(item)}
        slow = {item.path for item in items if item.get_closest_marker("slow") is not None}
        items.sort(
            key=lambda item: (
                item.path in last, item.path not in slow, item.path.stem not in LONG,
            )
        )  # fmt: skip


def _lock(file: IO[str], how: int) -> None:
    """Lock a file, but go on without after ``TURN_S``: after a crash nobody may ever let it go."""
    end = time.monotonic() + TURN_S
    while time.monotonic() < end:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(0.02)


@pytest.fixture(autouse=True, scope="module")
def quiet(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """While a file with system tests runs, the other processes of this call of pytest run nothing.

    System tests judge by the processors' time and by what is on the machine.
    """
    if PROCESS is None:
        yield
        return
    alone = any(is_system(item) and item.path == request.path for item in request.session.items)
    with (tmp_path_factory.getbasetemp().parent / "quiet").open("a") as file:
        _lock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield
        fcntl.flock(file, fcntl.LOCK_UN)  # also for those who were forked and have it open


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """System tests of test suites side by side on a machine take turns.

    They look at what runs leave on the machine, and one cleans up after the killed runs of all.
    A suite that was stopped in the middle of its turn is not waited for longer than ``TURN_S``.
    """
    if os.geteuid() != 0 or not is_system(request.node):
        yield
        return
    TURN.parent.mkdir(parents=True, exist_ok=True)
    with TURN.open("a") as file:
        _lock(file, fcntl.LOCK_EX)
        yield
