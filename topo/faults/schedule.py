"""The schedule of an operation's outages, and what a controller knows of them; both worlds use
these machines."""

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import Protocol

from weft.base.entry_points import blamed
from weft.topo.faults.fault import Fault
from weft.topo.faults.outages import Outage, slow_rates_bps
from weft.topo.network import FABRIC_TIERS, Direction, Host, Topology


class FaultyNetwork(Protocol):
    """The network that a schedule carries outages out on."""

    @property
    def topology(self) -> Topology:
        """Return the network that outages happen in."""

    def kill(self, host: Host) -> None:
        """End the rank of a host for good."""

    def lose(self, down: Sequence[Direction], known: Sequence[str]) -> None:
        """Let exactly these directions lose everything, besides what else is lost, and lead no
        routes over the links of these names, which are known to have failed."""

    def set_rates(self, rates_bps: Mapping[tuple[str, str], int]) -> None:
        """Let directions, given by their ends, go on at these rates in bit/s."""


class OutageSchedule:
    """The outages of a network, carried out as time goes on. Times are ns on the clock of whoever
    drives it.

    Args:
        faults: only those that are outages matter here.
        started_ns: when the operation starts; the outages' times count from then.
        notice_after_ns: how long after a link went down, or came back, the controller knows it;
            None means never. It knows from the start on what `known_from_start` returns.
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
        self._notices = Notices(
            network.topology,
            notice_after_ns,
            known_from_start(faults, network.topology, notice_after_ns),
        )
        for fault in faults:
            if isinstance(fault, Outage) and fault.at_ns is not None:
                self._push(started_ns + fault.at_ns, fault, True)

    def _push(self, at_ns: int, outage: Outage, begins: bool) -> None:
        heapq.heappush(self._due, (at_ns, next(self._order), outage, begins))

    @property
    def next_ns(self) -> int | None:
        """Return when the next outage begins or ends, or becomes known; None if nothing is left to
        happen."""
        times = (self._due[0][0] if self._due else None, self._notices.next_ns)
        return min((time_ns for time_ns in times if time_ns is not None), default=None)

    def go_on_to(self, now_ns: int) -> None:
        """Begin and end all outages that are due, and let the controller know what it is due to
        know."""
        before = tuple(self._under_way)
        while self._due and self._due[0][0] <= now_ns:
            at_ns, _, outage, begins = heapq.heappop(self._due)
            self._apply(at_ns, outage, begins)
        self._carry_out(before, self._notices.take(now_ns))

    def begin(self, outage: Outage, now_ns: int) -> None:
        """Begin an outage that packets have triggered."""
        before = tuple(self._under_way)
        self._apply(now_ns, outage, True)
        self._carry_out(before, False)

    def end(self) -> None:
        """Bring all links back and forget which failures were known, since the operation is
        over."""
        before, news = tuple(self._under_way), bool(self._notices.known)
        self._under_way.clear()
        self._notices = Notices(self._network.topology, None)
        self._carry_out(before, news)

    def _apply(self, at_ns: int, outage: Outage, begins: bool) -> None:
        with blamed(outage.kind, "killed"):
            killed = outage.kind.killed(outage, self._network.topology)
        if killed is not None:
            self._network.kill(killed)
            return
        (self._under_way.append if begins else self._under_way.remove)(outage)
        self._notices.changed(outage, begins, at_ns)
        if begins and outage.for_ns is not None:
            self._push(at_ns + outage.for_ns, outage, False)

    def _carry_out(self, before: Sequence[Outage], news: bool) -> None:
        """Bring the network into the state that the outages under way ask for.

        ``before`` are the outages that were under way until now; ``news`` says that the controller
        has learned something.
        """
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
        return {each.name: each for outage in outages for each in outage.down(topology)}


class Notices:
    """What a controller knows of failed links, and since when.

    It is a machine in virtual time: it is told when every outage begins and ends, and says when
    something becomes known. A link between switches counts as failed while either direction of it
    carries nothing. That a link has failed, or is back, becomes known a fixed time later, and only
    if that state has lasted all the while: shorter ones are never known. Slow links, lossy ones and
    those of hosts do not count as failed.

    Times are ns on the clock of whoever drives it.
    """

    def __init__(
        self, topology: Topology, after_ns: int | None, known: Collection[str] = ()
    ) -> None:
        """Start without any outage.

        ``after_ns`` is how long a link is down, or up again, until that is known; None means never.
        ``known`` names links whose failure is known before it begins.
        """
        self._topology = topology
        self._after_ns = after_ns
        self._outages: dict[str, int] = {}
        """How many outages each link is under."""
        self._since_ns: dict[str, int] = {}
        """When each link last went down or up."""
        self._due: list[tuple[int, str]] = []
        """(time, link) as a heap."""
        self._known = set(known)

    @property
    def known(self) -> tuple[str, ...]:
        """Return the links that are known to have failed, by name, sorted."""
        return tuple(sorted(self._known))

    @property
    def next_ns(self) -> int | None:
        """Return when something may become known; None if nothing will."""
        return self._due[0][0] if self._due else None

    def changed(self, outage: Outage, begins: bool, now_ns: int) -> None:
        """Take note that an outage begins or ends."""
        if self._after_ns is None:
            return
        for link in links_of(outage, self._topology):
            before = self._outages.get(link, 0)
            self._outages[link] = before + (1 if begins else -1)
            if (before > 0) != (self._outages[link] > 0):
                self._since_ns[link] = now_ns
                heapq.heappush(self._due, (now_ns + self._after_ns, link))

    def take(self, now_ns: int) -> bool:
        """Learn what is due by ``now_ns``; return whether `known` has changed."""
        before = set(self._known)
        while self._due and self._due[0][0] <= now_ns:
            time_ns, link = heapq.heappop(self._due)
            if self._after_ns is None or self._since_ns[link] != time_ns - self._after_ns:
                continue  # it has changed once more since
            (self._known.add if self._outages[link] > 0 else self._known.discard)(link)
        return self._known != before


def links_of(outage: Outage, topology: Topology) -> tuple[str, ...]:
    """Return the names of the links between switches that an outage takes away, wholly or in one
    direction."""
    names = (each.link.name for each in outage.down(topology) if each.tier in FABRIC_TIERS)
    return tuple(dict.fromkeys(names))


def known_from_start(
    faults: Iterable[Fault], topology: Topology, after_ns: int | None
) -> tuple[str, ...]:
    """Return the links that fail as the operation starts and whose failure is known at that
    moment."""
    notices = Notices(topology, after_ns)
    for fault in faults:
        if isinstance(fault, Outage) and fault.at_ns == 0:
            notices.changed(fault, True, 0)
    notices.take(0)
    return notices.known
