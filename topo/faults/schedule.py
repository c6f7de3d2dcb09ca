"""The outages of an operation as time goes on, the same machine in both worlds."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Protocol

from weft.topo.faults.fault import Fault
from weft.topo.faults.notices import Notices, known_from_start
from weft.topo.faults.outages import Outage, slow_rates_bps
from weft.topo.network import Direction, Host, Topology


class FaultyNetwork(Protocol):
    """What outages are carried out on."""

    @property
    def topology(self) -> Topology: ...

    def kill(self, host: Host) -> None:
        """Let the rank of a host be gone."""
        ...

    def lose(self, down: Sequence[Direction], known: Sequence[str]) -> None:
        """Let exactly these directions lose everything, beside what else loses, and lead nothing
        over the links of these names, which are known to have failed."""
        ...

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """Let directions, by their ends, go on at these rates in bit/s."""
        ...


class OutageSchedule:
    """Carries out outages on a network. Times are ns of whoever drives it.

    Args:
        faults: those of them that are outages matter here.
        started_ns: when the operation starts, from which the outages' times count.
        notice_after_ns: how long after a link went down, or came back, that is known; None means
            never. What `known_from_start` says is known already.
    """

    def __init__(
        self,
        network: FaultyNetwork,
        faults: Iterable[Fault],
        started_ns: int,
        notice_after_ns: int | None,
    ) -> None:
        faults = tuple(faults)
        self._network = network
        self._order = count()
        self._due: list[tuple[int, int, Outage, bool]] = []
        """(time, order, outage, whether it begins), a heap."""
        self._under_way: list[Outage] = []
        known = known_from_start(faults, network.topology, notice_after_ns)
        self._notices = Notices(network.topology, notice_after_ns, known)
        for fault in faults:
            if isinstance(fault, Outage) and fault.at_ns is not None:
                self._push(started_ns + fault.at_ns, fault, True)

    def _push(self, at_ns: int, outage: Outage, begins: bool) -> None:
        heapq.heappush(self._due, (at_ns, next(self._order), outage, begins))

    @property
    def next_ns(self) -> int | None:
        """When the next outage begins or ends, or becomes known."""
        times = [self._due[0][0]] if self._due else []
        if self._notices.next_ns is not None:
            times.append(self._notices.next_ns)
        return min(times, default=None)

    def go_on_to(self, now_ns: int) -> None:
        """Begin and end all outages that are due, and let become known what is due."""
        before = tuple(self._under_way)
        while self._due and self._due[0][0] <= now_ns:
            at_ns, _, outage, begins = heapq.heappop(self._due)
            self._apply(at_ns, outage, begins)
        self._carry_out(before, self._notices.take(now_ns))

    def begin(self, outage: Outage, now_ns: int) -> None:
        """Begin an outage that packets have set off."""
        before = tuple(self._under_way)
        self._apply(now_ns, outage, True)
        self._carry_out(before, False)

    def end(self) -> None:
        """The operation is over: bring all links back, as if nobody had noticed anything."""
        before, news = tuple(self._under_way), bool(self._notices.known)
        self._under_way.clear()
        self._notices = Notices(self._network.topology, None)
        self._carry_out(before, news)

    def _apply(self, at_ns: int, outage: Outage, begins: bool) -> None:
        killed = outage.kind.killed(outage, self._network.topology)
        if killed is not None:
            self._network.kill(killed)
            return
        (self._under_way.append if begins else self._under_way.remove)(outage)
        self._notices.changed(outage, begins, at_ns)
        if begins and outage.for_ns is not None:
            self._push(at_ns + outage.for_ns, outage, False)

    def _carry_out(self, before: Sequence[Outage], news: bool) -> None:
        """Let the network be as it is to be now; ``before`` were under way until now."""
        topology = self._network.topology
        down = self._down(self._under_way)
        if news or down.keys() != self._down(before).keys():
            self._network.lose([down[name] for name in sorted(down)], self._notices.known)
        old = slow_rates_bps(before, topology)
        new = slow_rates_bps(self._under_way, topology)
        if new != old:
            own = {ends: topology.direction(*ends).link.rate_bps for ends in old}
            self._network.set_rates({**own, **new})

    def _down(self, outages: Sequence[Outage]) -> dict[str, Direction]:
        topology = self._network.topology
        return {
            each.name: each for outage in outages for each in outage.kind.down(outage, topology)
        }
