"""From which length of a queue on switches mark packets, where nobody says.

Three things may stand in a queue that are no reason to slow down:

- What keeps the link busy while flows that slowed down together grow again: K > C x RTT / 7, a
  seventh of the bandwidth-delay product (Alizadeh et al., "Data Center TCP", SIGCOMM 2010, section
  3.4, with the worst number of synchronised flows of its section 3.3).
- One packet of each flow that meets there, since each grows by one a round trip: that analysis has
  queues of K + N.
- Bursts. That paper adds them to its formula by measurement (65 packets at 10 Gbit/s, where the
  formula gives 20). Where packets choose one of s paths at random there is a burst that can be
  computed: of T packets that a full link should get it gets as many more or fewer as a binomial
  variable with variance T (1 - 1/s). The estimate that windows go by is of 16 rounds (its g is
  1/16), each of the bandwidth-delay product and the queue K. Two standard deviations:
  K^2 = 4 x 16 x (1 - 1/s) x (C x RTT + K).

Fabrics' published rules are of the same order: in time on the link, 16 us (Ethereal's 800 KB at 400
Gbit/s; arXiv 2407.00550), 32 to 128 us (DCQCN's 100 to 400 KB at 25 Gbit/s, as HPCC has it: SIGCOMM
2019, section 5.1), or 0.2 to 0.8 of a queue that holds a bandwidth-delay product (the artifact of
REPS, arXiv 2407.21625).

Above the threshold there must be room for what comes until senders hear of it: half of the queue,
or a packet of every other host, where that is less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.experiments.scenario.longest_path import LongestPath
from weft.topo.network import Topology

ROUNDS = 16
"""Over which DCTCP's estimate of marks is taken."""
DEVIATIONS = 2


@dataclass(frozen=True)
class Marking:
    """A threshold in packets, and what it is made of."""

    bdp_packets: float
    """Bandwidth-delay product of an idle path."""
    flows: int
    """Hosts of a leaf: so many flows may meet at one of its uplinks."""
    paths: int
    """Among which packets choose: uplinks of a leaf."""
    queue_packets: int
    senders: int
    """To one host, at most."""

    @staticmethod
    def of(network: Topology, mtu: int) -> Marking:
        """For a network's switches, all alike."""
        path = LongestPath.of(network, mtu)
        leaf = network.switches_of("leaf")[0].name
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
        """What random choice among paths heaps up."""
        if not self.paths:
            return 0.0
        variance = DEVIATIONS**2 * ROUNDS * (1 - 1 / self.paths)
        return variance / 2 + math.sqrt((variance / 2) ** 2 + variance * self.bdp_packets)

    @property
    def most_packets(self) -> int:
        """What leaves room in the queue."""
        return max(1, self.queue_packets // 2, self.queue_packets - self.senders)

    @property
    def threshold_packets(self) -> int:
        """See the module."""
        wanted = math.ceil(self.bdp_packets / 7 + self.flows + self.burst_packets)
        return min(wanted, self.most_packets)

    def __str__(self) -> str:
        """Why."""
        text = (
            f"a seventh of the bandwidth-delay product of {self.bdp_packets:.3g}, one for each of "
            f"{self.flows} hosts whose flows meet, {self.burst_packets:.3g} that random choice "
            f"among {self.paths} paths heaps up"
        )
        if self.threshold_packets == self.most_packets:
            text += f"; no more than {self.most_packets} of the queue's {self.queue_packets}"
        return text
