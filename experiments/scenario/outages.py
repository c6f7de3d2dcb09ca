"""Faults by name in the emulated world: what its switches and processes can do of them.

A switch can lose everything on a link, from a moment on or for a while (its fault tables, over
P4Runtime), the built-in one can send more slowly (its own socket), and a rank's process can be
killed. A switch cannot tell one packet from another. Links that are known to have failed get no
routes: the same plan, changed once more.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from weft.base.errors import InputError, WeftError
from weft.topo.network import Topology
from weft.topo.notices import Notices, known_from_start
from weft.topo.packet_faults import InjectedFault, Outage, slow_rates_bps


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
        "LINK:loss=P, WHERE:fail,at=TIME[,for=TIME], WHERE:slow,rate=PART[,at=TIME][,for=TIME] and "
        "HOST:kill,at=TIME. World 'simulated' knows all faults"
    )


@dataclass(frozen=True)
class Network:
    """What outages are carried out on."""

    topology: Topology
    plan: Callable[[Sequence[str], Sequence[str]], None]
    """Make exactly these directions of links lose everything, beside what the scenario says, and
    lead nothing over these links."""
    set_rates: Callable[[Mapping[tuple[str, str], int]], None]
    """Let directions, by their ends, go on at these rates in bit/s."""
    pids: Mapping[int, int]
    """The ranks' processes, by host."""


class Outages:
    """Carries out the outages of a scenario while an operation runs, in a thread of its own.

    What is to be so from the start is so a little before it. What begins late, as the machine was
    busy, puts off all that follows: an outage lasts as long as asked.
    """

    def __init__(
        self, faults: Sequence[InjectedFault], network: Network, notice_after_ns: int | None = None
    ) -> None:
        """``notice_after_ns``: how long after a link went down, or came back, the controller knows
        it; None: never. What it knows from the start on, its plan has without this."""
        self._network = network
        self._stop = threading.Event()
        self._moments: list[tuple[int, bool, Outage]] = []
        for fault in faults:
            assert isinstance(fault, Outage) and fault.at_ns is not None
            self._moments.append((fault.at_ns, True, fault))
            if fault.for_ns is not None:
                self._moments.append((fault.at_ns + fault.for_ns, False, fault))
        self._moments.sort(key=lambda moment: moment[:2])
        self._under_way: list[Outage] = []
        known = known_from_start(faults, network.topology, notice_after_ns)
        self._notices = Notices(network.topology, notice_after_ns, known)
        self._thread: threading.Thread | None = None

    def begin(self, start_ns: int) -> None:
        """The operation starts at that time of CLOCK_MONOTONIC."""
        if self._moments:
            self._thread = threading.Thread(target=self._run, args=(start_ns,), daemon=True)
            self._thread.start()

    def _run(self, start_ns: int) -> None:
        while (due_ns := self._next_ns()) is not None:
            wait_s = (start_ns + due_ns - time.monotonic_ns()) / 1e9 if due_ns else 0.0
            if self._stop.wait(max(0.0, wait_s)):
                return
            start_ns += max(0, time.monotonic_ns() - start_ns - due_ns)
            with contextlib.suppress(WeftError):
                # Whoever waits for the operation finds out what died, and says so.
                self.go_on_to(due_ns)

    def _next_ns(self) -> int | None:
        times = [moment[0] for moment in self._moments[:1]]
        if self._notices.next_ns is not None:
            times.append(self._notices.next_ns)
        return min(times, default=None)

    def go_on_to(self, due_ns: int) -> None:
        """Carry out all that is due at a time after the start, and let become known what is due."""
        before = list(self._under_way)
        while self._moments and self._moments[0][0] <= due_ns:
            at_ns, begins, outage = self._moments.pop(0)
            if outage.action == "kill":
                with contextlib.suppress(ProcessLookupError):
                    host = outage.host(self._network.topology)
                    os.kill(self._network.pids[host.rank], signal.SIGKILL)
                continue
            if begins:
                self._under_way.append(outage)
            else:
                self._under_way.remove(outage)
            self._notices.changed(outage, begins, at_ns)
        news = self._notices.take(due_ns)
        self._change(before, news)

    def _change(self, before: Sequence[Outage], news: bool) -> None:
        """Let the network be as it is to be now; `before` was under way until now."""
        topology = self._network.topology
        down = self._down(before)
        if news or self._down(self._under_way) != down:
            self._network.plan(self._down(self._under_way), self._notices.known)
        old = slow_rates_bps(before, topology)
        new = slow_rates_bps(self._under_way, topology)
        if new != old:
            own = {ends: topology.direction(*ends).link.rate_bps for ends in old}
            self._network.set_rates({**own, **new})

    def _down(self, outages: Sequence[Outage]) -> list[str]:
        topology = self._network.topology
        failed = [outage for outage in outages if outage.action == "fail"]
        return sorted({each.name for outage in failed for each in outage.directions(topology)})

    def end(self) -> None:
        """The operation is over: bring all links back, as nobody has noticed anything."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        before, self._under_way = self._under_way, []
        known = self._notices.known
        self._notices = Notices(self._network.topology, None)
        self._change(before, bool(known))
