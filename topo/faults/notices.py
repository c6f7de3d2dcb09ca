"""What a controller knows of failed links, and since when.

A link between switches counts as failed while either direction of it carries nothing. That it has
failed, or is back, is known some time after, if it has lasted as long: what is over sooner is never
known. Slow links, lossy ones and those of hosts are no failures.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable

from weft.topo.faults.fault import Fault
from weft.topo.faults.outages import Outage
from weft.topo.network import Topology

FABRIC = ("fabric_up", "fabric_down")


class Notices:
    """A machine of virtual time: told of every outage's begin and end, it says when what is known.

    Times are ns of whoever drives it.
    """

    def __init__(
        self, topology: Topology, after_ns: int | None, known: Collection[str] = ()
    ) -> None:
        """``after_ns``: how long a link is down, or up again, until it is known; None: never.
        ``known``: names of links whose failure is known before it begins."""
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
        """The links that are known to have failed, by name, sorted."""
        return tuple(sorted(self._known))

    @property
    def next_ns(self) -> int | None:
        """When something may come to be known."""
        return self._due[0][0] if self._due else None

    def changed(self, outage: Outage, begins: bool, now_ns: int) -> None:
        """An outage begins or ends."""
        if self._after_ns is None:
            return
        for link in links_of(outage, self._topology):
            before = self._outages.get(link, 0)
            self._outages[link] = before + (1 if begins else -1)
            if (before > 0) != (self._outages[link] > 0):
                self._since_ns[link] = now_ns
                heapq.heappush(self._due, (now_ns + self._after_ns, link))

    def take(self, now_ns: int) -> bool:
        """Learn what is due by ``now_ns``; whether `known` has changed."""
        before = set(self._known)
        while self._due and self._due[0][0] <= now_ns:
            time_ns, link = heapq.heappop(self._due)
            if self._after_ns is None or self._since_ns[link] != time_ns - self._after_ns:
                continue  # it has changed once more since
            if self._outages[link] > 0:
                self._known.add(link)
            else:
                self._known.discard(link)
        return self._known != before


def links_of(outage: Outage, topology: Topology) -> tuple[str, ...]:
    """The names of the links between switches that an outage takes away, wholly or one way."""
    names = (each.link.name for each in outage.kind.down(outage, topology) if each.tier in FABRIC)
    return tuple(dict.fromkeys(names))


def known_from_start(
    faults: Iterable[Fault], topology: Topology, after_ns: int | None
) -> tuple[str, ...]:
    """The links that fail as the operation starts and are known to have failed at once."""
    notices = Notices(topology, after_ns)
    for fault in faults:
        if isinstance(fault, Outage) and fault.at_ns == 0:
            notices.changed(fault, True, 0)
    notices.take(0)
    return notices.known
