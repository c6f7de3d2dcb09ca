"""What the switches counted, as figures of the links' directions.

Counters belong to ports, and say something of the links there: the fabric's own what was sent,
those of features what was lost or marked, or sent besides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import Protocol

from weft.controller.program_names import ProgramNames
from weft.topo.network import Direction, Port, Topology

Cell = tuple[str, int]
"""A counter's full name and an index, such as a port's number."""
Counted = Mapping[str, Mapping[Cell, tuple[int, int]]]
"""Packets and bytes, by switch and cell."""


class CellReader(Protocol):
    """What reads the counters of switches: a controller."""

    @property
    def names(self) -> ProgramNames:
        """The names of the program that the switches run."""

    def read_cells(self, cells: Mapping[str, Sequence[Cell]]) -> Counted:
        """Return what has been counted in cells, which are given by switch."""


@dataclass(frozen=True)
class LinkCounters:
    """One direction of a link, since the program was loaded. Bytes are those of Ethernet frames
    without FCS."""

    tx_packets: int = 0
    tx_bytes: int = 0
    """What was sent, lost or not."""
    lost_packets: int = 0
    lost_bytes: int = 0
    """What was lost on purpose. Of sums towards a host the bytes are those of the packet that
    completed them."""
    marked_packets: int = 0
    """What the switch that sends it marked for a long queue."""

    def __add__(self, other: LinkCounters) -> LinkCounters:
        return LinkCounters(*map(add, vars(self).values(), vars(other).values()))

    def __sub__(self, earlier: LinkCounters) -> LinkCounters:
        return LinkCounters(*map(sub, vars(self).values(), vars(earlier).values()))


@dataclass(frozen=True)
class LinkCells:
    """The counters at both ends of a link's direction."""

    names: ProgramNames
    direction: Direction
    counted: Counted

    def at_source(self, counter: str) -> tuple[int, int]:
        """Return packets and bytes of the port that sends, in a counter by its short name."""
        return self._at(self.direction.source, counter)

    def at_destination(self, counter: str) -> tuple[int, int]:
        """Return packets and bytes of the port that receives, in a counter by its short name."""
        return self._at(self.direction.destination, counter)

    def _at(self, port: Port, counter: str) -> tuple[int, int]:
        return self.counted[port.node][self.names.name(counter), port.number]


class PortCounters(Protocol):
    """Counters by port, and what they say of the links there."""

    @property
    def counters(self) -> tuple[str, ...]:
        """Those that matter at every port of a switch, by short names."""

    @property
    def host_counters(self) -> tuple[str, ...]:
        """Those that matter where a port leads to a host."""

    def share(self, cells: LinkCells) -> LinkCounters:
        """Return what they add to the figures of a link's direction."""


class _Sent:
    """What a program of the fabric counts whatever features it has.

    What a host sends is counted where it arrives.
    """

    counters = ("port_egress",)
    host_counters = ("port_ingress",)

    def share(self, cells: LinkCells) -> LinkCounters:
        """See `PortCounters.share`."""
        if cells.direction.tier == "host_up":
            return LinkCounters(*cells.at_destination("port_ingress"))
        return LinkCounters(*cells.at_source("port_egress"))


def read_links(
    reader: CellReader, topology: Topology, features: Iterable[PortCounters]
) -> dict[tuple[str, str], LinkCounters]:
    """Return the figures of every direction of every link, by (from, to): what the fabric's own
    counters say of it and those of features, added."""
    counting = [one for one in features if one.counters or one.host_counters]
    parts: list[PortCounters] = [_Sent(), *counting]
    names = reader.names
    everywhere = [names.name(counter) for part in parts for counter in part.counters]
    at_hosts = [names.name(counter) for part in parts for counter in part.host_counters]
    cells: dict[str, list[Cell]] = {switch.name: [] for switch in topology.switches}
    for switch, wanted in cells.items():
        for direction in topology.outward(switch):
            wanted += [(counter, direction.source.number) for counter in everywhere]
            if direction.tier == "host_down":
                wanted += [(counter, direction.source.number) for counter in at_hosts]
    counted = reader.read_cells(cells)
    found = {}
    for direction in topology.directions:
        ends = LinkCells(names, direction, counted)
        found[direction.ends] = sum((part.share(ends) for part in parts), LinkCounters())
    return found
