"""Events for controllers in the real-time process: who is told, and how packets come back.

Compiled code leaves events in rings and makes an event descriptor readable; a thread of its own
waits for that and calls the listeners. So the packet loop never waits for Python, and a flood of
events costs it no more than filling a ring once.
"""

import os
import select
import threading
import time

import numpy as np

from weft.base.machine_code import prepare
from weft.switch.engine.dataplane import pipeline
from weft.switch.engine.dataplane.layout import NEVER_NS
from weft.switch.engine.switches import Dataplane
from weft.switch.realtime.ports import PortSockets

LEAST_SCAN_NS = 10_000_000
"""The least time between two looks for idle timeouts."""

LONGEST_WAIT_NS = 1_000_000_000

MOST_WAITING_PACKETS = 256
"""How many packets from controllers may wait for the packet loop; who brings more waits for it."""


class Notifier:
    """A caller of the listeners of switches that have events."""

    def __init__(self, dataplane: Dataplane, sockets: PortSockets) -> None:
        self._dataplane = dataplane
        self._one = np.ones(1, np.int64)
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        sockets.io.events = self._descriptor
        sockets.io.one = self._one.ctypes.data
        self._until_ns = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="events", daemon=True)

    def start(self) -> None:
        """Begin to tell listeners of events."""
        self._thread.start()

    def stop(self) -> None:
        """Tell no more events. The packet loop must have ended before."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()
        os.close(self._descriptor)

    def wake(self) -> None:
        """Look for events at once."""
        os.eventfd_write(self._descriptor, 1)

    def expect(self, time_ns: int) -> None:
        """Look for events at a time of CLOCK_MONOTONIC, at which something is due."""
        if time_ns < self._until_ns:
            self.wake()

    def _wait_ns(self) -> int:
        self._until_ns = NEVER_NS  # what is expected while this looks wakes it again
        due = self._dataplane.idle_deadlines_ns
        now = time.monotonic_ns()
        wait = min((one - now for one in due), default=LONGEST_WAIT_NS)
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


class PacketsOut:
    """The packets from controllers that wait for the packet loop to take them in."""

    def __init__(self, dataplane: Dataplane) -> None:
        self._dataplane = dataplane
        self._lock = threading.Lock()
        self._waiting: list[tuple[int, bytes]] = []

    def compile(self) -> None:
        """Compile what the packet loop calls for a packet from a controller."""
        arguments = (self._dataplane.context, 0, 0, np.frombuffer(b"\0", np.uint8), 0)
        prepare(pipeline.receive_frame, *arguments)

    def put(self, switch: int, frame: bytes) -> bool:
        """Let a packet wait, and return False if so many wait that they are to be taken in
        first."""
        with self._lock:
            self._waiting.append((switch, frame))
            return len(self._waiting) < MOST_WAITING_PACKETS

    def take_in(self) -> None:
        """Take in what controllers have sent; called in the loop's thread."""
        with self._lock:
            packets, self._waiting = self._waiting, []
        for switch, frame in packets:
            self._dataplane.inject(switch, frame, time.monotonic_ns())
