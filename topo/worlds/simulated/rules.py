"""Faults by name, made into the rules of the compiled loop and a schedule of outages."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from weft.switch.engine.layout import NONE
from weft.topo.notices import Notices, known_from_start
from weft.topo.packet_faults import InjectedFault, Outage, PacketFault, PacketMatch, slow_rates_bps
from weft.topo.worlds.simulated import layout as at
from weft.topo.worlds.simulated.fabric import Fabric

_ACTIONS = {
    "lose": at.LOSE,
    "duplicate": at.DUPLICATE,
    "corrupt": at.CORRUPT,
    "delay": at.DELAY,
    "swap": at.SWAP,
}


class FaultPlan:
    """The faults of one operation, on a fabric; counts start at 0, times at the operation's start.

    What an outage takes away at a time is gone for every event at that time. Of what ``killed`` is
    told, with a rank, nobody hears again. ``noticed`` is told which links are known to have failed,
    whenever that changes.
    """

    def __init__(
        self,
        fabric: Fabric,
        faults: Sequence[InjectedFault],
        started_ns: int,
        killed: Callable[[int], None],
        notice_after_ns: int | None = None,
        noticed: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        for fault in faults:
            fault.check(fabric.topology)
        self.faults = tuple(faults)
        self._fabric = fabric
        self._killed = killed
        self._due: list[tuple[int, int, Outage, bool]] = []
        """(time, number, outage, whether it ends) as a heap."""
        self._number = 0
        self._down: dict[tuple[str, str], int] = {}
        """How many outages each direction is under."""
        self._slow: list[Outage] = []
        self._noticed = noticed
        after_ns = None if noticed is None else notice_after_ns
        known = known_from_start(faults, fabric.topology, after_ns)
        self._notices = Notices(fabric.topology, after_ns, known)
        ruled = [
            fault for fault in faults if isinstance(fault, PacketFault) or fault.after is not None
        ]
        self._rules = np.zeros(len(ruled), at.Rule.dtype)
        self._places = np.zeros((len(ruled), len(fabric.down)), np.uint8)
        self._opcodes = np.zeros((len(ruled), 256), np.uint8)
        self._triggers: dict[int, Outage] = {}
        for number, fault in enumerate(ruled):
            row = at.Rule.at(self._rules.ctypes.data, number)
            self._fill(number, row, fault.match)
            if isinstance(fault, PacketFault):
                row.action = _ACTIONS[fault.action]
                row.first, row.last = fault.first, fault.last
                row.delay_ns = fault.by_ns
            else:
                row.action = at.TRIGGER
                row.first = row.last = fault.after or 1
                self._triggers[number] = fault
        for fault in faults:
            if isinstance(fault, Outage) and fault.at_ns is not None:
                self._schedule(started_ns + fault.at_ns, fault, False)
        fabric.set_rules(self._rules, self._places, self._opcodes)

    def _fill(self, number: int, row: at.Rule, match: PacketMatch) -> None:
        fabric = self._fabric
        for direction in match.directions(fabric.topology):
            self._places[number, fabric.port_indices[direction.ends]] = 1
        self._opcodes[number, sorted(match.opcodes)] = 1
        hosts = fabric.topology.host
        row.source = NONE if match.rank is None else hosts(match.rank).address
        row.destination = NONE if match.to is None else hosts(match.to).address
        row.receiver = NONE if match.to is None else fabric.host_index(match.to)
        row.chunk = NONE if match.chunk is None else match.chunk

    def _schedule(self, time_ns: int, outage: Outage, ends: bool) -> None:
        heapq.heappush(self._due, (time_ns, self._number, outage, ends))
        self._number += 1

    @property
    def next_ns(self) -> int | None:
        """When the next outage begins or ends, or becomes known."""
        times = (self._due[0][0] if self._due else None, self._notices.next_ns)
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def do_next(self) -> None:
        """Begin or end the next outage; or let become known what has lasted long enough."""
        notice_ns = self._notices.next_ns
        if notice_ns is not None and (not self._due or notice_ns < self._due[0][0]):
            self._fabric.advance_to(notice_ns)
            if self._notices.take(notice_ns) and self._noticed is not None:
                self._noticed(self._notices.known)
            return
        time_ns, _, outage, ends = heapq.heappop(self._due)
        self._fabric.advance_to(time_ns)
        self._apply(time_ns, outage, ends)

    def triggered(self) -> None:
        """Begin the outages whose packets have come."""
        for number in sorted(self._triggers):
            if self._rules["done"][number]:
                self._apply(self._fabric.now_ns, self._triggers.pop(number), False)

    def _apply(self, time_ns: int, outage: Outage, ends: bool) -> None:
        fabric = self._fabric
        if outage.action == "kill":
            rank = outage.host(fabric.topology).rank
            fabric.kill(rank)
            self._killed(rank)
            return
        if outage.action == "slow":
            before = slow_rates_bps(self._slow, fabric.topology)
            if ends:
                self._slow.remove(outage)
            else:
                self._slow.append(outage)
            self._set_rates(before)
        else:
            self._notices.changed(outage, not ends, time_ns)
            self._set_down(outage, ends)
        if not ends and outage.for_ns is not None:
            self._schedule(time_ns + outage.for_ns, outage, True)

    def _set_rates(self, before: Iterable[tuple[str, str]]) -> None:
        """Let links have the rates of now, `before` being those that were slow."""
        fabric = self._fabric
        slow = slow_rates_bps(self._slow, fabric.topology)
        for ends in {*before, *slow}:
            own_bps = fabric.topology.direction(*ends).link.rate_bps
            fabric.set_rate(ends, slow.get(ends, own_bps))

    def _set_down(self, outage: Outage, ends: bool) -> None:
        fabric = self._fabric
        for direction in outage.directions(fabric.topology):
            count = self._down.get(direction.ends, 0) + (-1 if ends else 1)
            self._down[direction.ends] = count
            fabric.set_down([direction.ends], count > 0)

    def done(self) -> dict[str, int]:
        """How many packets each packet fault was done to, by its line."""
        lines = [fault for fault in self.faults if isinstance(fault, PacketFault)]
        counts = self._rules["done"][self._rules["action"] != at.TRIGGER]
        found: dict[str, int] = {}
        for fault, count in zip(lines, counts.tolist(), strict=True):
            found[str(fault)] = found.get(str(fault), 0) + count
        return found

    def close(self) -> None:
        """All links carry again, at their rates, and no packet is touched any more."""
        slow, self._slow = slow_rates_bps(self._slow, self._fabric.topology), []
        self._set_rates(slow)
        for ends in self._down:
            self._fabric.set_down([ends], False)
        self._fabric.set_rules(self._rules[:0], self._places[:0], self._opcodes[:0])
