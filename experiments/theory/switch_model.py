"""What theory says of an operation in aggregating switches: its packets on each link of the tree.

Every link of the tree carries each block of the sum once up and once down (SwitchML, NSDI 2021,
section 4; here level by level). Of a Reduce-Scatter the owner of a block adds its own part at the
receiver, and only it needs the sum: on links that lead to the owner alone the way up, and on those
that do not lead to it the way down, a packet has headers only. What is sent again is not counted.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.transfers import IntArray
from weft.experiments.theory.overheads import SWITCH_OVERHEAD_BYTES
from weft.topo.clos import LINK_TIERS, Topology

VALUE_BYTES = 4
"""Switches add int32, whatever the elements are."""


@dataclass(frozen=True)
class SwitchTraffic:
    """Bytes of one operation, by the rank that owns a part of the result, int64 [owners].

    Of an Allreduce all ranks own everything: there is one part.
    """

    full: IntArray
    """Of the part's packets where they have values."""
    bare: IntArray
    """Of the same packets where they have headers only."""
    prologue: int = 0
    """Of the rounds that agree on the exponents of the first blocks."""
    scatter: bool = False

    def up(self, below: Iterable[int]) -> int:
        """Return the bytes on the link up from ranks, by number."""
        alone = list(below) if self.scatter else []
        saved = self._saved(alone) if len(alone) == 1 else 0
        return int(self.full.sum()) + self.prologue - saved

    def down(self, below: Iterable[int]) -> int:
        """Return the bytes on the link down to ranks, by number."""
        if not self.scatter:
            return self.up(below)
        return int(self.bare.sum()) + self.prologue + self._saved(list(below))

    def _saved(self, owners: list[int]) -> int:
        return int((self.full - self.bare)[owners].sum())


def switch_payload(collective: str, shards: Sequence[int]) -> SwitchTraffic:
    """Without any headers, and with elements as large as the caller's.

    ``shards``: bytes of every rank's part of the result; of Allreduce, parts of the vector.
    """
    full = _parts(collective, np.asarray(shards, np.int64))
    return SwitchTraffic(full, np.zeros_like(full), scatter=collective == "reduce-scatter")


def switch_frames(
    collective: str,
    shards: Sequence[int],
    *,
    values: int,
    slots: int,
    item_bytes: int = 4,
    floats: bool = True,
) -> SwitchTraffic:
    """Return what links carry, in bytes of frames without FCS.

    Args:
        values: V, of every packet that has any; a block is so many elements, the last one padded.
        slots: N; of floats, min(N, blocks) header-only rounds come first.
        item_bytes: of an element; in packets it takes 4 bytes.
        floats: whether elements are scaled by exponents.
    """
    parts = _parts(collective, np.asarray(shards, np.int64))
    blocks = -(-parts // (item_bytes * values))
    prologue = min(slots, int(blocks.sum())) * SWITCH_OVERHEAD_BYTES if floats else 0
    return SwitchTraffic(
        blocks * (SWITCH_OVERHEAD_BYTES + VALUE_BYTES * values),
        blocks * SWITCH_OVERHEAD_BYTES,
        prologue,
        scatter=collective == "reduce-scatter",
    )


def switch_tier_bytes(
    network: Topology, traffic: SwitchTraffic, hosts: Sequence[int] | None = None
) -> dict[str, int]:
    """Return the bytes by tier and direction.

    ``hosts``: the host of each rank, by number; by default rank r is on host r.
    """
    totals: dict[str, int] = dict.fromkeys(LINK_TIERS, 0)
    for tier, below in _tree_links(network, hosts):
        totals[f"{tier}_up"] += traffic.up(below)
        totals[f"{tier}_down"] += traffic.down(below)
    return totals


def switch_bound_bytes(
    network: Topology, traffic: SwitchTraffic, hosts: Sequence[int] | None = None
) -> int:
    """The least completion time, in bytes that one link could carry meanwhile.

    What the fullest link of the tree carries in one direction. Links between switches count, as the
    tree says which of them all packets take: of a Reduce-Scatter they have values of all blocks on
    the way up, where a rank's own link has those of all but its own.
    """
    links = [below for _, below in _tree_links(network, hosts)]
    return max((max(traffic.up(below), traffic.down(below)) for below in links), default=0)


def _tree_links(
    network: Topology, hosts: Sequence[int] | None
) -> Iterator[tuple[str, Sequence[int]]]:
    """(tier, ranks below) of each link of the tree: one for every rank, for every leaf that has
    ranks if there are several, and likewise for every pod. A rank alone uses none."""
    numbers = range(len(network.hosts)) if hosts is None else hosts
    if len(numbers) < 2:
        return
    by_leaf: dict[str, list[int]] = {}
    by_pod: dict[int | None, list[int]] = {}
    for rank, number in enumerate(numbers):
        leaf = network.hosts[number].leaf
        by_leaf.setdefault(leaf, []).append(rank)
        by_pod.setdefault(network.switch(leaf).pod, []).append(rank)
        yield "host", [rank]
    for branches in (list(by_leaf.values()), list(by_pod.values())):
        for below in branches if len(branches) > 1 else ():
            yield "fabric", below


def _parts(collective: str, shards: IntArray) -> IntArray:
    return shards if collective == "reduce-scatter" else shards.sum(keepdims=True)
