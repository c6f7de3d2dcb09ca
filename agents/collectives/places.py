"""Where the members of an operation are in a Clos network, and what messages put on its links."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.agents.collectives.transfers import IntArray, Transfers


class TierBytes(NamedTuple):
    """What all links of a tier carry in one direction: between hosts and leaves, and between
    switches."""

    host_up: int
    host_down: int
    fabric_up: int
    fabric_down: int

    def times(self, count: int) -> "TierBytes":
        """Return the bytes of so many operations that are alike."""
        return TierBytes(*(size_bytes * count for size_bytes in self))


@dataclass(frozen=True, eq=False)
class Places:
    """The places of an operation's members, ranks and then servers, are int64 arrays of one length:
    the host, leaf and pod of each."""

    host: IntArray
    """The number of each member's host. Members may share a host."""
    leaf: IntArray
    """The number of its leaf switch."""
    pod: IntArray
    """The number of its pod, 0 in a network without pods."""

    @classmethod
    def apart(cls, members: int) -> "Places":
        """Return the places of members that each have a host of their own below one switch."""
        numbers = np.arange(members, dtype=np.int64)
        return cls(numbers, np.zeros_like(numbers), np.zeros_like(numbers))

    def unicast_bytes(self, rounds: Iterable[Transfers]) -> TierBytes:
        """Return the bytes by tier of messages between members by shortest ways, as many up as
        down. What stays on a host crosses no link."""
        hosts = fabric = 0
        for source, destination, size_bytes in rounds:
            # A way turns at the leaf, in the tier above it, or, between pods, at a core switch.
            between_leaves = self.leaf[source] != self.leaf[destination]
            levels = between_leaves * 1 + (self.pod[source] != self.pod[destination])
            hosts += int(size_bytes[self.host[source] != self.host[destination]].sum())
            fabric += int((size_bytes * levels).sum())
        return TierBytes(hosts, hosts, fabric, fabric)

    def multicast_bytes(self, sizes: IntArray) -> TierBytes:
        """Return the bytes by tier of messages that each go from their rank to all other ranks.

        From the source to the root of the tree (`tree_links`) links are crossed upwards, else down.

        Args:
            sizes: bytes of each rank's message, int64 [P].
        """
        ranks = len(sizes)
        links = [tier for tier, _ in self.tree_links(ranks)]
        if not links:
            return TierBytes(0, 0, 0, 0)
        leaves, pods = (len(np.unique(each[:ranks])) for each in (self.leaf, self.pod))
        levels = (leaves > 1) + (pods > 1)
        size_bytes = int(sizes.sum())
        return TierBytes(
            size_bytes,
            size_bytes * (ranks - 1),
            size_bytes * levels,
            size_bytes * (links.count("fabric") - levels),
        )

    def tree_links(self, ranks: int) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield (tier, ranks below) of each link of the tree that joins the first `ranks` members.

        It has one for every rank, one for every leaf that has ranks if there are several, and
        likewise for every pod. A rank alone uses none.
        """
        if ranks < 2:
            return
        yield from (("host", [rank]) for rank in range(ranks))
        for numbers in (self.leaf[:ranks], self.pod[:ranks]):
            branches = np.unique(numbers)
            for branch in branches if len(branches) > 1 else ():
                yield "fabric", np.flatnonzero(numbers == branch).tolist()
