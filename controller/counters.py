"""What switches have counted, and figures of the links' directions, which features make of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add, sub

from weft.controller.program_names import ProgramNames
from weft.topo.network import Direction, Port

Cell = tuple[str, int]
"""A counter's full name and an index, such as a port's number."""
Counted = Mapping[str, Mapping[Cell, tuple[int, int]]]
"""Packets and bytes, by switch and cell."""


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

    def __add__(self, other: "LinkCounters") -> "LinkCounters":
        return LinkCounters(*map(add, vars(self).values(), vars(other).values()))

    def __sub__(self, earlier: "LinkCounters") -> "LinkCounters":
        return LinkCounters(*map(sub, vars(self).values(), vars(earlier).values()))


@dataclass(frozen=True)
class LinkCells:
    """The counters at both ends of a link's direction; a host, which runs no P4, has counted
    nothing."""

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
        if port.node not in self.counted:
            return 0, 0
        return self.counted[port.node][self.names.name(counter), port.number]
