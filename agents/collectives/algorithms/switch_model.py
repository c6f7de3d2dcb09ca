"""What theory says of an operation in aggregating switches: its packets on each link of the tree.

Every link of the tree carries each block of the sum once up and once down (SwitchML, NSDI 2021,
section 4; here level by level). Of a Reduce-Scatter the owner of a block adds its own part at the
receiver, and only it needs the sum: on links that lead to the owner alone the way up, and on those
that do not lead to it the way down, a packet has headers only. What is sent again is not counted.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.overheads import SWITCH_OVERHEAD_BYTES
from weft.agents.collectives.places import Places, TierBytes
from weft.agents.collectives.transfers import IntArray

VALUE_BYTES = 4
"""Switches add int32, whatever the elements are."""


@dataclass(frozen=True)
class SwitchTraffic:
    """The traffic of one operation is counted in bytes, by the rank that owns a part of the result,
    int64 [owners].

    Of an Allreduce all ranks own everything: there is one part.
    """

    full: IntArray
    """Of the part's packets where they have values."""
    bare: IntArray
    """Of the same packets where they have headers only."""
    prologue: int = 0
    """Of the rounds that agree on the exponents of the first blocks."""
    scatter: bool = False
    contributors: frozenset[int] | None = None
    """The ranks that contribute anything; None: all."""

    def up(self, below: Iterable[int]) -> int:
        """Return the bytes on the link up from ranks, by number."""
        adding = self._adding(below)
        owners = range(len(self.full)) if self.scatter else ()
        bare = [owner for owner in owners if adding <= {owner}]
        return int(self.full.sum()) + self.prologue - self._saved(bare)

    def down(self, below: Iterable[int]) -> int:
        """Return the bytes on the link down to ranks, by number."""
        if not self.scatter:
            return int(self.full.sum()) + self.prologue
        adding = self._adding(range(len(self.full)))
        full = [owner for owner in below if not adding <= {owner}]
        return int(self.bare.sum()) + self.prologue + self._saved(full)

    def _adding(self, ranks: Iterable[int]) -> set[int]:
        return {*ranks} if self.contributors is None else self.contributors & {*ranks}

    def _saved(self, owners: list[int]) -> int:
        return int((self.full - self.bare)[owners].sum())


def switch_payload(collective: str, shards: Sequence[int]) -> SwitchTraffic:
    """Return the payload, without any headers and with elements as large as the caller's.

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


def switch_tier_bytes(places: Places, ranks: int, traffic: SwitchTraffic) -> TierBytes:
    """Return what all links of each tier carry, where the first members are the ranks."""
    up, down = {"host": 0, "fabric": 0}, {"host": 0, "fabric": 0}
    for tier, below in places.tree_links(ranks):
        up[tier] += traffic.up(below)
        down[tier] += traffic.down(below)
    return TierBytes(up["host"], down["host"], up["fabric"], down["fabric"])


def switch_bound_bytes(places: Places, ranks: int, traffic: SwitchTraffic) -> int:
    """Return the least completion time, in bytes that one link could carry meanwhile.

    What the fullest link of the tree carries in one direction. Links between switches count, as the
    tree says which of them all packets take: of a Reduce-Scatter they have values of all blocks on
    the way up, where a rank's own link has those of all but its own.
    """
    links = [below for _, below in places.tree_links(ranks)]
    return max((max(traffic.up(below), traffic.down(below)) for below in links), default=0)


def _parts(collective: str, shards: IntArray) -> IntArray:
    return shards if collective == "reduce-scatter" else shards.sum(keepdims=True)
