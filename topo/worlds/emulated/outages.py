"""Faults by name in the emulated world, as far as its switches and processes can carry them out.

A switch can lose everything on a link, from a moment on or for a while (by its fault tables, over
P4Runtime); the built-in one can also send more slowly (by its own socket); and a rank's process can
be killed. A switch cannot tell one packet from another. Links that are known to have failed get no
routes: the plan is changed once more for that.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.base.errors import WeftError
from weft.topo.faults import Fault
from weft.topo.faults.schedule import OutageSchedule
from weft.topo.network import Direction, Host, Topology


@dataclass(frozen=True)
class OutageNetwork:
    """The network that outages are carried out on; see
    `weft.topo.faults.schedule.FaultyNetwork`."""

    topology: Topology
    plan: Callable[[Sequence[str], Sequence[str]], None]
    """Make exactly these directions of links lose everything, beside what the scenario says, and
    lead nothing over these links."""
    set_rates: Callable[[Mapping[tuple[str, str], int]], None]
    """Let directions, by their ends, go on at these rates in bit/s."""
    pids: Mapping[int, int]
    """The ranks' processes, by host."""

    def kill(self, host: Host) -> None:
        """Kill the rank's process, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[host.rank], signal.SIGKILL)

    def lose(self, down: Sequence[Direction], known: Sequence[str]) -> None:
        """Give the switches another plan."""
        self.plan([each.name for each in down], known)


class Outages:
    """The outages of a scenario, carried out in a thread while an operation runs.

    Outages that begin with the operation are carried out a little before it starts. An outage that
    begins late because the machine was busy puts off all that follow, so that each lasts as long as
    asked.
    """

    def __init__(
        self, faults: Sequence[Fault], network: OutageNetwork, notice_after_ns: int | None = None
    ) -> None:
        """Prepare the outages; they begin with `begin`.

        ``notice_after_ns`` is how long after a link went down, or came back, the controller knows
        it; None means never. What the controller knows from the start on, its plan already leaves
        out.
        """
        self._stop = threading.Event()
        self._schedule = OutageSchedule(network, faults, 0, notice_after_ns)
        self._thread: threading.Thread | None = None

    def begin(self, start_ns: int) -> None:
        """Take note that the operation starts at this time of CLOCK_MONOTONIC."""
        if self._schedule.next_ns is not None:
            self._thread = threading.Thread(target=self._run, args=(start_ns,), daemon=True)
            self._thread.start()

    def _run(self, start_ns: int) -> None:
        while (due_ns := self._schedule.next_ns) is not None:
            wait_s = (start_ns + due_ns - time.monotonic_ns()) / 1e9 if due_ns else 0.0
            if self._stop.wait(max(0.0, wait_s)):
                return
            start_ns += max(0, time.monotonic_ns() - start_ns - due_ns)
            with contextlib.suppress(WeftError):
                # Whoever waits for the operation finds out what died, and says so.
                self.go_on_to(due_ns)

    def go_on_to(self, due_ns: int) -> None:
        """Carry out all that is due at this time after the start, and let the controller know what
        it is due to know."""
        self._schedule.go_on_to(due_ns)

    def end(self) -> None:
        """Bring all links back and forget which failures were known, since the operation is
        over."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._schedule.end()
