"""What the switches counted, as figures of the links' directions and of aggregation jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from operator import sub

from weft.controller import fabric
from weft.controller.aggregation import AggregationJob
from weft.topo.clos import Topology

Cell = tuple[str, int]
"""A counter's name and an index: a port's number, or a job's."""


@dataclass(frozen=True)
class LinkCounters:
    """One direction of a link, since the program was loaded. Bytes are those of Ethernet frames
    without FCS."""

    tx_packets: int
    tx_bytes: int
    """What was sent, lost or not."""
    lost_packets: int
    lost_bytes: int
    """What was lost on purpose. Of sums towards a host the bytes are those of the packet that
    completed them."""
    marked_packets: int = 0
    """What the switch that sends it marked for a long queue."""

    def __sub__(self, earlier: LinkCounters) -> LinkCounters:
        return LinkCounters(*map(sub, astuple(self), astuple(earlier)))


EVERYWHERE = (
    "port_egress",
    "port_egress_headers",
    "port_egress_values",
    "ingress_lost",
    "ecn_marked",
)
"""The counters that matter at every port of a switch, by the ends of their names."""


def cells_of(topology: Topology, switch: str) -> list[Cell]:
    """All cells to read on a switch: each of its ports in each counter that matters there."""
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
    """Figures per direction, by (from, to).

    What a host sends is counted where it arrives, what a host loses where it leaves.

    Args:
        read: per switch and cell, packets and bytes.
        values: of 32 bits, in an aggregation packet that has any.
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
        to_host = topology.nodes[destination.node].level == 0
        end, counter = (source, "egress_lost") if to_host else (destination, "ingress_lost")
        lost = read[end.node][fabric.name(counter), end.number]
        found[direction.ends] = LinkCounters(sent[0], sent[1], lost[0], lost[1], marked)
    return found


def _sent(read: Mapping[Cell, Sequence[int]], port: int, values: int) -> tuple[int, int]:
    """Packets and bytes out of a port: a counter does not know the bytes of what aggregation made
    longer or shorter, so that is counted by its two kinds."""
    packets, size_bytes = read[fabric.name("port_egress"), port]
    bare = read[fabric.name("port_egress_headers"), port][0]
    full = read[fabric.name("port_egress_values"), port][0]
    size_bytes += (bare + full) * fabric.AGGREGATION_FRAME_BYTES + full * 4 * values
    return packets + bare + full, size_bytes


@dataclass(frozen=True)
class AggregationCounters:
    """Packets of one job at one switch, since the program was loaded."""

    contributions: int
    """Added to a sum."""
    results: int
    """Sums made (at the root) or passed on downwards."""
    resent_partials: int
    """Stored partial sums sent to the parent once more."""
    resent_results: int
    """Stored results sent to one child once more."""
    duplicates: int
    """Dropped: had been added before."""
    late: int
    """Dropped: of a round whose row had gone to a newer one."""
    other_epoch: int
    """Dropped: of another job that had the address."""
    malformed: int
    """Dropped: wrong length, structure or ICRC."""
    unexpected: int
    """Dropped: from no child, or a result that nothing waited for."""
    saturated: int
    """Additions in which a sum did not fit into 32 bits."""

    def __sub__(self, earlier: AggregationCounters) -> AggregationCounters:
        return AggregationCounters(*map(sub, astuple(self), astuple(earlier)))


def aggregation_cells(job: AggregationJob) -> list[Cell]:
    """All cells to read of a job on a switch of its tree, in the order of the figures."""
    names = [field.name for field in fields(AggregationCounters)]
    return [(fabric.name(f"aggregation.{name}"), job.number) for name in names]


def aggregation_counters(
    job: AggregationJob, read: Mapping[Cell, Sequence[int]]
) -> AggregationCounters:
    """A job's figures. ``read``: packets and bytes by cell, of one switch."""
    return AggregationCounters(*(read[cell][0] for cell in aggregation_cells(job)))
