"""What the switches counted, as figures of the links' directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controller import fabric
from topo.clos import Topology

Cell = tuple[str, int]
"""A counter's name and an index: a port's number."""


@dataclass(frozen=True)
class LinkCounters:
    """One direction of a link, since the program was loaded. Bytes are those of Ethernet frames
    without FCS."""

    tx_packets: int
    tx_bytes: int
    """What was sent, lost or not."""
    lost_packets: int
    lost_bytes: int
    """What was lost on purpose."""

    def __sub__(self, earlier: LinkCounters) -> LinkCounters:
        return LinkCounters(
            self.tx_packets - earlier.tx_packets,
            self.tx_bytes - earlier.tx_bytes,
            self.lost_packets - earlier.lost_packets,
            self.lost_bytes - earlier.lost_bytes,
        )


def cells_of(topology: Topology, switch: str) -> list[Cell]:
    """All cells to read on a switch: each of its ports in each counter that matters there."""
    cells = []
    for direction in topology.outward(switch):
        port = direction.source.number
        cells += [(fabric.PORT_EGRESS, port), (fabric.INGRESS_LOST, port)]
        if topology.nodes[direction.destination.node].level == 0:
            cells += [(fabric.PORT_INGRESS, port), (fabric.EGRESS_LOST, port)]
    return cells


def link_counters(
    topology: Topology, read: Mapping[str, Mapping[Cell, Sequence[int]]]
) -> dict[tuple[str, str], LinkCounters]:
    """Figures per direction, by (from, to).

    ``read``: per switch and cell, packets and bytes. What a host sends is counted where it arrives,
    what a host loses where it leaves.
    """
    found = {}
    for direction in topology.directions:
        source, destination = direction.source, direction.destination
        if topology.nodes[source.node].level == 0:
            sent = read[destination.node][fabric.PORT_INGRESS, destination.number]
        else:
            sent = read[source.node][fabric.PORT_EGRESS, source.number]
        if topology.nodes[destination.node].level == 0:
            lost = read[source.node][fabric.EGRESS_LOST, source.number]
        else:
            lost = read[destination.node][fabric.INGRESS_LOST, destination.number]
        found[direction.ends] = LinkCounters(sent[0], sent[1], lost[0], lost[1])
    return found
