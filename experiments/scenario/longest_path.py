"""What follows from a network's longest path: its round trips when idle and full, how long a sender
waits for an acknowledgement before it sends a packet again, and from which queue on switches mark.
"""

import math
from dataclasses import dataclass

from weft.topo.network import Topology
from weft.topo.reach import longest_hops

DATA_HEADERS_BYTES = 78
"""The headers of an Ethernet frame with a packet of an RDMA WRITE ONLY WITH IMMEDIATE."""
ACKNOWLEDGEMENT_BYTES = 62
WINDOW_BYTES = 256 * 1024
"""Equals `weft.agents.transport.types.TransportOptions.window_bytes`, whose module this one does
not load."""

MACHINE_NS = 10_000_000
"""What a loaded machine of two cores may add to a round trip of the emulated world: a process that
is woken waits for others that run, some three time slices of 3 ms. A sender that repeats a packet
because of that adds to the load. In virtual time nobody is late."""
MACHINE_CONTROL_NS = 5_000_000
"""The same for messages that cost only a packet to repeat, and for which others wait with nothing
else to do."""
BURST_NS = 2_000_000
BURST_BYTES = range(16_384, 65_536)
"""How far ahead of its link a host of the emulated world sends, and the bytes that this is at least
and at most: four of the largest packets, and what a NIC cuts into packets by itself. Datagrams may
gather for half as long before a host receives them."""
INITIAL_NS = 1_000_000_000
"""The timeout before a round trip has been measured, and the least one, in RFC 6298 (2.1, 2.4)."""
ROUNDS = 16
"""Over how many rounds DCTCP's estimate of marks is taken."""
DEVIATIONS = 2


@dataclass(frozen=True)
class LongestPath:
    """The longest of the shortest paths between two hosts, as if all its links were as slow as the
    slowest."""

    switches: int
    rate_bps: int
    delay_ns: int
    """The propagation delay of all links together, one way."""
    queue_bytes: int
    """Bound of each switch port's queue."""
    packet_bytes: int
    """Frame bytes of a packet of data."""

    @staticmethod
    def of(network: Topology, mtu: int) -> "LongestPath":
        """Return the longest path. In a Clos it goes up to a switch of the highest level and down
        again."""
        switches = (
            2 * len({switch.level for switch in network.switches}) - 1
            if network.clos
            else 1 + longest_hops(network)
        )
        return LongestPath(
            switches,
            min(link.rate_bps for link in network.links),
            (switches + 1) * max(link.delay_ns for link in network.links),
            max(link.queue_bytes for link in network.links),
            mtu + DATA_HEADERS_BYTES,
        )

    def of_link_ns(self, size_bytes: int) -> int:
        """Return how long a link takes to send so many bytes, rounded up, in ns."""
        return -(-size_bytes * 8 * 1_000_000_000 // self.rate_bps)

    @property
    def idle_round_trip_ns(self) -> int:
        """Return the time from the first bit of a packet until its acknowledgement arrives, with
        empty queues."""
        link_ns = self.of_link_ns(self.packet_bytes + ACKNOWLEDGEMENT_BYTES)
        return (self.switches + 1) * link_ns + 2 * self.delay_ns

    @property
    def bdp_packets(self) -> float:
        """Return the bandwidth-delay product: how many packets under way keep an idle path busy."""
        return self.idle_round_trip_ns / self.of_link_ns(self.packet_bytes)

    @property
    def full_round_trip_ns(self) -> int:
        """Return the round trip when the queue of every switch on the way there is full, as a burst
        from many to one may fill them."""
        return self.idle_round_trip_ns + self.switches * self.of_link_ns(self.queue_bytes)

    @property
    def bottleneck_round_trip_ns(self) -> int:
        """Return the round trip when the queue of one switch is full: that of the link where most
        flows meet."""
        return self.idle_round_trip_ns + self.of_link_ns(self.queue_bytes)


def retransmit_timeout_ns(path: LongestPath, *, marks: bool, emulated: bool) -> int:
    """Return the first and least timeout: until then an acknowledgement may still be on its way.

    Under DCTCP every queue on the way may be full; UEC's htsim reckons so, too, whose least timeout
    is the round trip and the queues of three hops. Without marks only losses halve windows, and the
    tail of a block whose last packet is lost waits for the timeout. So only one full queue counts
    then, that of the link where most flows meet: an incast is not repeated, and a loss costs no
    more than it must. A packet that waits in long queues of two switches may be sent twice.

    Where the link is so slow that full queues take seconds, RFC 6298's second is enough, or, if
    that is longer, the round trip behind a window of one's own: longer ones are measured.
    """
    longest = path.full_round_trip_ns if marks else path.bottleneck_round_trip_ns
    window_ns = path.idle_round_trip_ns + path.of_link_ns(WINDOW_BYTES)
    longest = min(longest, max(INITIAL_NS, window_ns))
    return longest + (MACHINE_NS + held_ns(path) if emulated else 0)


def emulated_burst_ns(rate_bps: int) -> int:
    """Return how wide bursts of the emulated world's hosts are, in ns on their links."""
    least, most = (
        size * 8 * 1_000_000_000 // rate_bps for size in (BURST_BYTES.start, BURST_BYTES.stop)
    )
    return min(max(BURST_NS, least), most)


def held_ns(path: LongestPath) -> int:
    """Return for how long the emulated world's hosts hold a packet and its acknowledgement back
    together, typically: at each end they gather for up to half a burst, and on average half of one
    is ahead of them on the link. The most are three bursts; what a loaded machine may add covers
    a part of it, and measured round trips lengthen the timeout."""
    return 2 * emulated_burst_ns(path.rate_bps)


def control_timeout_ns(path: LongestPath, *, emulated: bool) -> int:
    """Return the timeout of barriers, of READ requests and of other messages that are cheap to
    repeat: a round trip in which they and their acknowledgements each follow a packet of data."""
    there_and_back = 2 * (path.switches + 1) * path.of_link_ns(path.packet_bytes)
    late_ns = MACHINE_CONTROL_NS + held_ns(path) if emulated else 0
    return there_and_back + 2 * path.delay_ns + late_ns


@dataclass(frozen=True)
class Marking:
    """The length of a queue from which on switches mark packets, if nobody asks for one: a
    threshold in packets, and what it consists of.

    Three things may stand in a queue that are no reason to slow down:

    - What keeps the link busy while flows that slowed down together grow again: K > C x RTT / 7, a
      seventh of the bandwidth-delay product (Alizadeh et al., "Data Center TCP", SIGCOMM 2010,
      section 3.4, with the worst number of synchronised flows of its section 3.3).
    - One packet of each flow that meets there, since each grows by one a round trip: that analysis
      has queues of K + N.
    - Bursts. That paper adds them to its formula by measurement (65 packets at 10 Gbit/s, where the
      formula gives 20). Where packets choose one of s paths at random there is a burst that can be
      computed: of T packets that a full link should get it gets as many more or fewer as a binomial
      variable with variance T (1 - 1/s). The estimate that governs windows is taken over 16 rounds
      (its g is 1/16), each of the bandwidth-delay product and the queue K. Two standard deviations
      are added: K^2 = 4 x 16 x (1 - 1/s) x (C x RTT + K).

    Fabrics' published rules are of the same order: in time on the link, 16 us (Ethereal's 800 KB at
    400 Gbit/s; arXiv 2407.00550), 32 to 128 us (DCQCN's 100 to 400 KB at 25 Gbit/s, as HPCC has it:
    SIGCOMM 2019, section 5.1), or 0.2 to 0.8 of a queue that holds a bandwidth-delay product (the
    artifact of REPS, arXiv 2407.21625).

    Above the threshold there must be room for what comes until senders hear of it: half of the
    queue, or a packet of every other host, where that is less.
    """

    bdp_packets: float
    """The bandwidth-delay product of an idle path, in packets."""
    flows: int
    """The hosts of a leaf (of the switch that has most), since so many flows may meet at one of its
    uplinks."""
    paths: int
    """The uplinks of that leaf, among which packets choose."""
    queue_packets: int
    senders: int
    """How many hosts may send to one host at most."""

    @staticmethod
    def of(network: Topology, mtu: int) -> "Marking":
        """Return the threshold of all switches of a network, and what it consists of."""
        path = LongestPath.of(network, mtu)
        leaf = max(network.edge, key=lambda one: len(network.hosts_of(one.name))).name
        tiers = [direction.tier for direction in network.outward(leaf)]
        hosts = sum(tier == "host_down" for tier in tiers)
        return Marking(
            path.bdp_packets,
            hosts,
            len(tiers) - hosts,
            path.queue_bytes // path.packet_bytes,
            len(network.hosts) - 1,
        )

    @property
    def burst_packets(self) -> float:
        """Return how many packets the random choice among paths may heap up."""
        if not self.paths:
            return 0.0
        variance = DEVIATIONS**2 * ROUNDS * (1 - 1 / self.paths)
        return variance / 2 + math.sqrt((variance / 2) ** 2 + variance * self.bdp_packets)

    @property
    def most_packets(self) -> int:
        """Return the largest threshold that leaves enough room in the queue."""
        return max(1, self.queue_packets // 2, self.queue_packets - self.senders)

    @property
    def threshold_packets(self) -> int:
        """Return how many packets must wait before switches mark; the class says why."""
        wanted = self.bdp_packets / 7 + self.flows + self.burst_packets
        return min(math.ceil(wanted), self.most_packets)

    def __str__(self) -> str:
        """Return why the threshold is what it is."""
        text = (
            f"a seventh of the bandwidth-delay product of {self.bdp_packets:.3g}, one for each of "
            f"{self.flows} hosts whose flows meet, {self.burst_packets:.3g} that random choice "
            f"among {self.paths} paths heaps up"
        )
        if self.threshold_packets == self.most_packets:
            text += f"; no more than {self.most_packets} of the queue's {self.queue_packets}"
        return text
