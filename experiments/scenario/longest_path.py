"""Times that follow from a network's longest path: round trips of it idle and full, and how long to
wait for an acknowledgement before a packet is sent again."""

from __future__ import annotations

from dataclasses import dataclass

from weft.topo.network import Topology

DATA_HEADERS_BYTES = 78
"""Of an Ethernet frame with a packet of an RDMA WRITE ONLY WITH IMMEDIATE."""
ACKNOWLEDGEMENT_BYTES = 62
WINDOW_BYTES = 256 * 1024
"""As `weft.agents.transport.types.TransportOptions.window_bytes`, which this module does not
load."""

MACHINE_NS = 10_000_000
"""What a loaded machine of two cores may add to a round trip of the emulated world: a process that
is woken waits for others that run, some three time slices of 3 ms. Whoever sends again because of
that adds to the load. In virtual time nobody is late."""
MACHINE_CONTROL_NS = 5_000_000
"""Of messages that cost a packet to repeat, and for which others wait with nothing else to do."""


@dataclass(frozen=True)
class LongestPath:
    """The longest of the shortest paths between two hosts, all its links as slow as the slowest."""

    switches: int
    rate_bps: int
    delay_ns: int
    """Of propagation, of all links together, one way."""
    queue_bytes: int
    """Bound of each switch port's queue."""
    packet_bytes: int
    """Frame bytes of a packet of data."""

    @staticmethod
    def of(network: Topology, mtu: int) -> LongestPath:
        """That of a Clos: up to a switch of the highest level, and down."""
        levels = len({switch.level for switch in network.switches})
        switches = 2 * levels - 1
        return LongestPath(
            switches,
            min(link.rate_bps for link in network.links),
            (switches + 1) * max(link.delay_ns for link in network.links),
            max(link.queue_bytes for link in network.links),
            mtu + DATA_HEADERS_BYTES,
        )

    def of_link_ns(self, size_bytes: int) -> int:
        """How long a link takes to send so much, rounded up."""
        return -(-size_bytes * 8 * 1_000_000_000 // self.rate_bps)

    @property
    def idle_round_trip_ns(self) -> int:
        """From the first bit of a packet until its acknowledgement is there, with empty queues."""
        links = self.switches + 1
        return links * self.of_link_ns(self.packet_bytes + ACKNOWLEDGEMENT_BYTES) + 2 * (
            self.delay_ns
        )

    @property
    def bdp_packets(self) -> float:
        """The bandwidth-delay product: packets under way that keep an idle path busy."""
        return self.idle_round_trip_ns / self.of_link_ns(self.packet_bytes)

    @property
    def full_round_trip_ns(self) -> int:
        """The same where the queue of every switch on the way there is full, as that of a burst
        from many to one may be."""
        return self.idle_round_trip_ns + self.switches * self.of_link_ns(self.queue_bytes)

    @property
    def bottleneck_round_trip_ns(self) -> int:
        """The same where one switch's queue is full, that of the link where most flows meet."""
        return self.idle_round_trip_ns + self.of_link_ns(self.queue_bytes)


def retransmit_timeout_ns(path: LongestPath, *, marks: bool, emulated: bool) -> int:
    """The first timeout, and the least: until then an acknowledgement may be on its way.

    Under DCTCP every queue on the way may be full, as UEC's htsim takes it, whose least timeout is
    the round trip and the queues of three hops. Without marks windows are only halved by losses,
    and the tail of a block whose last packet is lost waits for the timeout: one full queue counts,
    that of the link where most flows meet, so that an incast is not repeated, and a loss costs no
    more than it must. A packet that waits in long queues of two switches may go out twice.
    """
    longest = path.full_round_trip_ns if marks else path.bottleneck_round_trip_ns
    return longest + (MACHINE_NS if emulated else 0)


def control_timeout_ns(path: LongestPath, *, emulated: bool) -> int:
    """The timeout of barriers, of READ requests and of other messages that are cheap to repeat: a
    round trip in which they and their acknowledgements each follow a packet of data."""
    there_and_back = 2 * (path.switches + 1) * path.of_link_ns(path.packet_bytes)
    return there_and_back + 2 * path.delay_ns + (MACHINE_CONTROL_NS if emulated else 0)
