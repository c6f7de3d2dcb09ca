"""What holds for all tests: they judge what happens, never how long it takes or who runs beside."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "weft", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("weft")

TURN = Path("/run/lock/weft-system-test")
TURN_S = 600.0


@pytest.fixture(autouse=True)
def turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """System tests of test suites side by side on a machine take turns.

    They look at what runs leave on the machine, and one cleans up after the killed runs of all.
    A suite that was stopped in the middle of its turn is not waited for longer than ``TURN_S``.
    """
    if os.geteuid() != 0 or request.node.get_closest_marker("system") is None:
        yield
        return
    TURN.parent.mkdir(parents=True, exist_ok=True)
    with TURN.open("a") as file:
        end = time.monotonic() + TURN_S
        while time.monotonic() < end:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.02)
        yield
