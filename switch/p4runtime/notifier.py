"""The thread that hands a switch's packets, digests and idle entries to its controllers."""

from __future__ import annotations

import logging
import threading
import time

from weft.switch.p4runtime.device import Device
from weft.switch.p4runtime.streams import Streams

_log = logging.getLogger(__name__)

IDLE_S = 1.0
"""Longest sleep: a digest that was configured meanwhile may be due earlier than was known."""


class Notifier:
    """Wakes when the packet loop has events, or when a digest list or idle entry is due."""

    def __init__(self, device: Device, streams: Streams) -> None:
        self._device = device
        self._streams = streams
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(
            target=self._run, name=f"{device.switch.name} notifier", daemon=True
        )

    def start(self) -> None:
        """Begin to take the switch's events."""
        self._device.switch.set_listener(self._wake.set)
        self._thread.start()

    def stop(self) -> None:
        """Take no more events."""
        self._device.switch.set_listener(None)
        self._stopping = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        timeout_s: float | None = None
        while True:
            self._wake.wait(timeout_s)
            self._wake.clear()
            if self._stopping:
                return
            try:
                timeout_s = self._tell()
            except Exception:
                _log.exception("%s: events could not be told", self._device.switch.name)
                timeout_s = IDLE_S

    def _tell(self) -> float | None:
        """Tell what is due; how long to sleep, None for as long as nothing happens."""
        now_ns = time.monotonic_ns()
        due_ns = self._streams.tell_due(now_ns, time.time_ns())
        return None if due_ns is None else min(max((due_ns - now_ns) / 1e9, 0.0), IDLE_S)
