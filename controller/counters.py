"""What the switches counted, as figures of the links' directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from operator import sub

from weft.controller import fabric
from weft.topo.clos import Topology

Cell = tuple[str, int]
"""A counter's name and an index: a port's number, or a job's."""


@dataclass(frozen=True)
class LinkCounters:
    """One direction of a link, since the program was loaded. Bytes are those of Ethernet frames
    without FCS."""

    tx_packets: int
    tx_bytes: int
    """What was sent, including what was lost."""
    lost_packets: int
    lost_bytes: int
    """What was lost on purpose. For sums that are sent to a host, the bytes are those of the packet
    that completed them."""
    marked_packets: int = 0
    """What the sending switch marked because its queue was long."""

    def __sub__(self, earlier: LinkCounters) -> LinkCounters:
        return LinkCounters(*map(sub, astuple(self), astuple(earlier)))


EVERYWHERE = (
    "port_egress",
    "port_egress_headers",
    "port_egress_values",
    "ingress_lost",
    "ecn_marked",
)
"""The counters that are read at every port of a switch, by the ends of their names."""


def cells_of(topology: Topology, switch: str) -> list[Cell]:
    """Return all cells to read on a switch: one for each port and each counter that matters
    there."""
    cells = []
    for direction in topology.outward(switch):
        port = direction.source.number
        cells += [(fabric.name(counter), port) for counter in EVERYWHERE]
        if topology.nodes[direction.destination.node].level == 0:
            cells += [(fabric.name("port_ingress"), port), (fabric.name("egress_lost"), port)]
    return cells


def link_counters(
    topology: Topology, read: Mapping[str, Mapping[Cell, Sequence[int]]], values: int
) -> dict[tuple[str, str], LinkCounters]:
    """Return the figures of every direction, by (from, to).

    What a host sends is counted where it arrives, and what is lost on the way to a host is counted
    where it leaves.

    Args:
        read: packets and bytes, by switch and cell.
        values: how many 32-bit values an aggregation packet has, if it has any.
    """
    found = {}
    for direction in topology.directions:
        source, destination = direction.source, direction.destination
        if topology.nodes[source.node].level == 0:
            sent = read[destination.node][fabric.name("port_ingress"), destination.number]
            marked = 0
        else:
            marked = read[source.node][fabric.name("ecn_marked"), source.number][0]
            sent = _sent(read[source.node], source.number, values)
        if topology.nodes[destination.node].level == 0:
            lost = read[source.node][fabric.name("egress_lost"), source.number]
        else:
            lost = read[destination.node][fabric.name("ingress_lost"), destination.number]
        found[direction.ends] = LinkCounters(sent[0], sent[1], lost[0], lost[1], marked)
    return found


def _sent(read: Mapping[Cell, Sequence[int]], port: int, values: int) -> tuple[int, int]:
    """Return the packets and bytes that left a port.

    A counter does not know the bytes of packets that aggregation made longer or shorter, so these
    are counted apart, by whether they have values.
    """
    packets, size_bytes = read[fabric.name("port_egress"), port]
    bare = read[fabric.name("port_egress_headers"), port][0]
    full = read[fabric.name("port_egress_values"), port][0]
    size_bytes += (bare + full) * fabric.AGGREGATION_FRAME_BYTES + full * 4 * values
    return packets + bare + full, size_bytes
