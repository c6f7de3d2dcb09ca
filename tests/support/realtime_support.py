"""What tests of realtime share with others."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.switch.engine.control.entities import Event
from weft.switch.engine.control.state import SwitchControl

ROOT = Path(__file__).resolve().parents[2]


needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None or shutil.which("ip") is None,
    reason="a network namespace with veth pairs needs root, unshare and ip",
)


DEADLINE_S = 60.0


def collect(
    control: SwitchControl, told: threading.Event, enough: Callable[[list[Event]], bool]
) -> list[Event]:
    """Events as a listener takes them, until there are enough or the deadline has passed."""
    events: list[Event] = []
    until = time.monotonic() + DEADLINE_S
    while not enough(events) and told.wait(max(until - time.monotonic(), 0)):
        told.clear()
        events += control.take_events()
    return events
