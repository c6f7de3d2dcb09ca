"""What theory is told of an operation."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.names import BLOCK_BYTES
from weft.agents.collectives.places import Places
from weft.agents.collectives.transfers import IntArray, Sizing, payload


@dataclass(frozen=True, eq=False)
class Task:
    """A task tells theory how many ranks, bytes and operations there are, and where its members
    are."""

    collective: str
    shards: IntArray
    """Bytes of every rank's shard, int64 [P]; of Broadcast the root's counts, of Allreduce and
    All-to-all they are the parts of the vector."""
    root: int = 0
    dtype: str = "uint8"
    """The type of elements, by its name. They stay whole where a vector is cut for other than P."""
    block_bytes: int = BLOCK_BYTES
    """What unicast algorithms pass on at a time."""
    operations: int = 1
    """How many operations a run has, at once or one after the other."""
    sizing: Sizing = payload
    """What is counted: payload, or what the algorithm's `frames` says."""
    packet_bytes: int = 4096
    """The path MTU."""
    own: tuple[tuple[str, Any], ...] = ()
    """What is asked of the algorithm's own options, by the names of their fields."""
    places: Places | None = None
    """Where ranks, and then reduction servers, are. None: each has a host of its own below one
    switch."""

    @property
    def ranks(self) -> int:
        """Return the number of ranks, P."""
        return len(self.shards)

    @property
    def item_bytes(self) -> int:
        """Return the size of one element."""
        return dtype_of(self.dtype).itemsize

    @property
    def members(self) -> Places:
        """Return where the ranks are."""
        return self.places or Places.apart(self.ranks)

    @property
    def counts_headers(self) -> bool:
        """Return whether bytes of frames are counted, and not payload alone."""
        return self.sizing is not payload

    @property
    def sizes(self) -> IntArray:
        """Return the bytes of every shard as they are counted, each shard cut into packets by
        itself; int64 [P]."""
        return self.sizing(self.shards)

    @property
    def vector_bytes(self) -> int:
        """Return the bytes of all shards."""
        return int(self.shards.sum())

    @property
    def block(self) -> int:
        """Return the bytes of a block as they are counted, or of the largest shard where that is
        less."""
        one = np.array([self.block_bytes], np.int64)
        return min(int(self.sizes.max()), int(self.sizing(one)[0]))
