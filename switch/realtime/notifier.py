"""Events for controllers in the real-time process: who is told, and how packets come back.

Compiled code leaves events in rings and makes an event descriptor readable; a thread of its own
waits for that and calls the listeners. So the packet loop never waits for Python, and a flood of
events costs it no more than filling a ring once.
"""

from __future__ import annotations

import os
import select
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from weft.switch.engine import pipeline
from weft.switch.engine.dataplane import Dataplane
from weft.switch.engine.layout import NEVER_NS
from weft.switch.realtime import loop
from weft.switch.realtime.ports import PortSockets

LEAST_SCAN_NS = 10_000_000
"""Idle timeouts are looked for no more often."""

LONGEST_WAIT_NS = 1_000_000_000

MOST_WAITING_PACKETS = 256
"""Packets from controllers that wait for the packet loop; who brings more waits for it."""


class Notifier:
    """Calls the listeners of switches that have events."""

    def __init__(self, dataplane: Dataplane, sockets: PortSockets) -> None:
        self._dataplane = dataplane
        self._one = np.ones(1, np.int64)
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        sockets.io[loop.IO_EVENTS] = self._descriptor
        sockets.io[loop.IO_ONE] = self._one.ctypes.data
        self._until_ns = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the packet loop must have ended."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._descriptor)

    def wake(self) -> None:
        """Have a look at once."""
        os.write(self._descriptor, struct.pack("=Q", 1))

    def expect(self, time_ns: int) -> None:
        """Something is due at a time of CLOCK_MONOTONIC."""
        if time_ns < self._until_ns:
            self.wake()

    def _wait_ns(self) -> int:
        self._until_ns = NEVER_NS  # what is expected while this looks wakes it again
        due = [self._dataplane.idle_deadline(k) for k in self._dataplane.listening]
        now = time.monotonic_ns()
        wait = min((one - now for one in due if one is not None), default=LONGEST_WAIT_NS)
        wait = min(max(wait, LEAST_SCAN_NS), LONGEST_WAIT_NS)
        self._until_ns = now + wait
        return wait

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        while not self._stopping:
            if poll.poll(self._wait_ns() / 1_000_000):
                os.read(self._descriptor, 8)
            self._dataplane.tell_listeners(time.monotonic_ns())


class EventHost:
    """The part of ``weft.switch.engine.host.Host`` that has to do with meters and events."""

    dataplane: Dataplane
    notifier: Notifier
    sockets: PortSockets
    _lock: threading.Lock
    _takes_requests: bool
    _packets_out: list[tuple[int, bytes]]

    def at_once(self, action: Callable[[], None]) -> None:
        """Run ``action`` while no packet is under way in compiled code."""
        raise NotImplementedError

    def meters(self, switch: int) -> NDArray[np.int64]:
        """Live meters."""
        return self.dataplane.meters(switch)

    def hits(self, switch: int) -> NDArray[np.int64]:
        """Live times of hits."""
        return self.dataplane.hits(switch)

    def timeouts(self, switch: int) -> NDArray[np.int64]:
        """Live timeouts."""
        return self.dataplane.timeouts(switch)

    def set_timeout(self, switch: int, cell: int, timeout_ns: int) -> None:
        """An entry counts as hit now."""
        now_ns = self.clock_ns()
        self.dataplane.set_timeout(switch, cell, timeout_ns, now_ns)
        if timeout_ns:
            self.notifier.expect(now_ns + timeout_ns)

    def idle_cells(self, switch: int, now_ns: int) -> list[int]:
        """Entries whose idle timeout has ended."""
        return self.dataplane.idle_cells(switch, now_ns)

    def clock_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def epoch_ns(self, switch: int) -> int:
        """Zero of the switch's timestamps."""
        return self.dataplane.epoch_ns(switch)

    def set_listener(self, switch: int, listener: Callable[[], None] | None) -> None:
        """Have a function called, in the thread for events, when the switch has any."""
        self.dataplane.set_listener(switch, listener)
        self.notifier.wake()

    def take_records(self, switch: int) -> list[tuple[int, int, int, NDArray[np.int64]]]:
        """What is in the switch's outbox."""
        return self.dataplane.take_records(switch)

    def events_lost(self, switch: int) -> int:
        """Events that found no room."""
        return self.dataplane.events_lost(switch)

    def cpu_port(self, switch: int) -> int | None:
        """The port that leads to the controller."""
        return self.dataplane.cpu_port(switch)

    @property
    def drop_port(self) -> int:
        """The egress port that means drop."""
        return self.dataplane.drop_port

    @property
    def frame_bytes(self) -> int:
        """Of the longest frame."""
        return self.dataplane.frame_bytes

    # -- packets from controllers

    def compile_packet_out(self) -> None:
        """Compile what the packet loop calls for a packet from a controller."""
        frame = np.frombuffer(b"\0", np.uint8)
        arguments = (self.dataplane.context, 0, 0, frame, 0)
        receive_frame: Any = pipeline.receive_frame
        kind_of: Any = numba.typeof
        receive_frame.compile(tuple(kind_of(one) for one in arguments))

    def packet_out(self, switch: int, frame: bytes) -> None:
        """A packet from the controller, for the packet loop to take in; waits if many do."""
        with self._lock:
            self._packets_out.append((switch, frame))
            waits = len(self._packets_out) >= MOST_WAITING_PACKETS or not self._takes_requests
            if not waits:
                self.sockets.wake()
        if waits:
            self.at_once(self.take_packets_out)

    def take_packets_out(self) -> None:
        """Take in what controllers have sent; in the loop's thread."""
        with self._lock:
            packets, self._packets_out = self._packets_out, []
        for switch, frame in packets:
            self.dataplane.inject(switch, frame, self.clock_ns())
