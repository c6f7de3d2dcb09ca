"""Faults by name in the emulated world: what its switches and processes can do of them.

A switch can lose everything on a link, from a moment on or for a while (its fault tables, over
P4Runtime), and a rank's process can be killed. It cannot tell one packet from another.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from switch.errors import InputError, WeftError
from topo.network import Topology
from topo.packet_faults import InjectedFault, Outage


def check_emulated(fault: InjectedFault) -> None:
    """Raise InputError for what the emulated world's switches cannot do."""
    if isinstance(fault, Outage):
        if fault.after is None:
            return
        what = "count packets that match"
    else:
        what = "tell one packet from another"
    raise InputError(
        f"fault {str(fault)!r}: the emulated world's switches cannot {what}; they know "
        "LINK:loss=P, WHERE:fail,at=TIME[,for=TIME] and HOST:kill,at=TIME. World 'simulated' "
        "knows all faults"
    )


class Outages:
    """Carries out the outages of a scenario while an operation runs, in a thread of its own."""

    def __init__(
        self,
        faults: Sequence[InjectedFault],
        topology: Topology,
        lose: Callable[[Sequence[str]], None],
        pids: Mapping[int, int],
    ) -> None:
        """``lose``: make exactly these directions of links lose everything beside what the scenario
        says; ``pids``: the ranks' processes."""
        self._lose = lose
        self._pids = pids
        self._topology = topology
        self._stop = threading.Event()
        self._moments: list[tuple[int, bool, Outage]] = []
        for fault in faults:
            assert isinstance(fault, Outage) and fault.at_ns is not None
            self._moments.append((fault.at_ns, True, fault))
            if fault.for_ns is not None:
                self._moments.append((fault.at_ns + fault.for_ns, False, fault))
        self._moments.sort(key=lambda moment: moment[:2])
        self._down: list[Outage] = []
        self._thread: threading.Thread | None = None

    def begin(self, start_ns: int) -> None:
        """The operation starts at that time of CLOCK_MONOTONIC."""
        if self._moments:
            self._thread = threading.Thread(target=self._run, args=(start_ns,), daemon=True)
            self._thread.start()

    def _run(self, start_ns: int) -> None:
        for at_ns, begins, outage in self._moments:
            wait_s = (start_ns + at_ns - time.monotonic_ns()) / 1e9
            if self._stop.wait(max(0.0, wait_s)):
                return
            with contextlib.suppress(WeftError, ProcessLookupError):
                # Whoever waits for the operation finds out what died, and says so.
                self._carry_out(outage, begins)

    def _carry_out(self, outage: Outage, begins: bool) -> None:
        if outage.action == "kill":
            os.kill(self._pids[outage.host(self._topology).rank], signal.SIGKILL)
            return
        if begins:
            self._down.append(outage)
        else:
            self._down.remove(outage)
        self._apply()

    def _apply(self) -> None:
        names = {
            direction.name
            for outage in self._down
            for direction in outage.directions(self._topology)
        }
        self._lose(sorted(names))

    def end(self) -> None:
        """The operation is over: bring all links back."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if self._down:
            self._down.clear()
            self._apply()
