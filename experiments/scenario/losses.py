"""What follows from the losses that a scenario asks for: how often a sender repeats before a peer
counts as gone, and how much longer an operation may take.
"""

import math

from weft.experiments.scenario.asked import Asked
from weft.experiments.scenario.longest_path import LongestPath
from weft.experiments.scenario.shape import network_of
from weft.topo.faults import LinkLoss

LEAST_REPETITIONS = 7
"""Of RoCE NICs: the largest retry count of the InfiniBand specification (3 bits)."""
MOST_REPETITIONS = 60
RARE = 1e-7
"""How likely it may be that a peer that is there is given up, each time that a packet is lost."""


def round_trip_loss(asked: Asked) -> float:
    """Return how likely a packet or its acknowledgement is lost on the longest path, where the
    links that lose most lie on it. Links that lose everything count as dead, not as lossy."""
    network = network_of(asked)
    own = [fault.loss for fault in asked.faults if isinstance(fault, LinkLoss)]
    own += [link.loss for link in network.links]
    own = [loss for loss in own if 0 < loss < 1]
    if not (asked.loss or own):
        return 0.0
    hops = LongestPath.of(network, asked.mtu).switches + 1
    losses = sorted([*own, *[asked.loss] * hops], reverse=True)[:hops]
    return 1 - math.prod(1 - loss for loss in losses) ** 2


def repetitions(asked: Asked) -> int:
    """Return after how many repetitions without an answer a peer counts as gone: so many that
    losses alone hardly ever reach it, and as many as RoCE NICs make where nothing is lost."""
    loss = round_trip_loss(asked)
    if not loss:
        return LEAST_REPETITIONS
    needed = math.ceil(math.log(RARE) / math.log(min(loss, 0.99)))
    return min(max(LEAST_REPETITIONS, needed), MOST_REPETITIONS)


def repeat_ns_per_kib(asked: Asked) -> int:
    """Return how long a sender waits, on average, for a KiB to be repeated: as many timeouts as
    each packet takes, with the first doubling of the back-off."""
    loss = min(round_trip_loss(asked), 0.99)
    timeout_ns = asked.retransmit_timeout_ns or 0
    return round(loss / (1 - loss) * 2 * timeout_ns * 1024 / asked.mtu)
