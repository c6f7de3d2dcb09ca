"""Faults by name in the emulated world: what its switches and processes can do of them.

A switch can lose everything on a link, from a moment on or for a while (its fault tables, over
P4Runtime), the built-in one can send more slowly (its own socket), and a rank's process can be
killed. A switch cannot tell one packet from another. Links that are known to have failed get no
routes: the same plan, changed once more.
"""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.base.errors import WeftError, refuse
from weft.base.units import listed
from weft.topo.faults import Fault, emulated_lines
from weft.topo.faults.schedule import OutageSchedule
from weft.topo.network import Direction, Host, Topology


def check_emulated(fault: Fault) -> None:
    """Raise InputError for what the emulated world's switches cannot do."""
    refuse(
        fault.emulated_problem,
        f"fault {str(fault)!r}: the emulated world's switches cannot {fault.emulated_problem}; "
        f"they know {listed(emulated_lines(), 'and')}. World 'simulated' knows all faults",
    )


@dataclass(frozen=True)
class Network:
    """What outages are carried out on: see `weft.topo.faults.schedule.FaultyNetwork`."""

    topology: Topology
    plan: Callable[[Sequence[str], Sequence[str]], None]
    """Make exactly these directions of links lose everything, beside what the scenario says, and
    lead nothing over these links."""
    set_rates: Callable[[Mapping[tuple[str, str], int]], None]
    """Let directions, by their ends, go on at these rates in bit/s."""
    pids: Mapping[int, int]
    """The ranks' processes, by host."""

    def kill(self, host: Host) -> None:
        """Kill the rank's process, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pids[host.rank], signal.SIGKILL)

    def lose(self, down: Sequence[Direction], known: Sequence[str]) -> None:
        """Give the switches another plan."""
        self.plan([each.name for each in down], known)


class Outages:
    """Carries out the outages of a scenario while an operation runs, in a thread of its own.

    What is to be so from the start is so a little before it. What begins late, as the machine was
    busy, puts off all that follows: an outage lasts as long as asked.
    """

    def __init__(
        self, faults: Sequence[Fault], network: Network, notice_after_ns: int | None = None
    ) -> None:
        """Take ``notice_after_ns``: how/ long after a link went down, or came back, the controller
        knows it; None: never. What it knows from the start on, its plan has without this."""
        self._stop = threading.Event()
        self._schedule = OutageSchedule(network, faults, 0, notice_after_ns)
        self._thread: threading.Thread | None = None

    def begin(self, start_ns: int) -> None:
        """Take note that the operation starts at that time of CLOCK_MONOTONIC."""
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
        """Carry out all that is due at a time after the start, and let become known what is due."""
        self._schedule.go_on_to(due_ns)

    def end(self) -> None:
        """Bring all links back, as if nobody had noticed anything: the operation is over."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._schedule.end()
