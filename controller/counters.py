"""What switches have counted, and the figures of links' directions that features make of it."""

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
    """What one direction of a link has carried since the program was loaded.

    Bytes are those of Ethernet frames without FCS.
    """

    tx_packets: int = 0
    tx_bytes: int = 0
    """What was sent, whether it was lost or not."""
    lost_packets: int = 0
    lost_bytes: int = 0
    """What was lost on purpose. A sum that is lost towards a host counts with the bytes of the
    packet that completed it."""
    marked_packets: int = 0
    """What the sending switch marked because its queue was long."""

    def __add__(self, other: "LinkCounters") -> "LinkCounters":
        return LinkCounters(*map(add, vars(self).values(), vars(other).values()))

    def __sub__(self, earlier: "LinkCounters") -> "LinkCounters":
        return LinkCounters(*map(sub, vars(self).values(), vars(earlier).values()))


@dataclass(frozen=True)
class LinkCells:
    """The counters at both ends of a link's direction; they are 0 at a host, which runs no P4."""

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
