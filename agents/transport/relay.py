"""Relays as their user sees them: a table of RDMA WRITEs, and who is written to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.agents.transport import relay_layout as at_relay
from weft.agents.transport.endpoint import Endpoint
from weft.agents.transport.kernels.relay import (
    begin_relay,
    forget_relay,
    proceed_with_relay,
)
from weft.agents.transport.queue_pairs import RcQueuePair
from weft.agents.transport.types import MemoryRegion, TransportMisuse
from weft.base.errors import refuse

IntArray = npt.NDArray[np.int64]


class Lanes:
    """The queue pairs to one peer; each RDMA WRITE goes to the one that has been given the fewest
    bytes.

    Args:
        pairs: the queue pairs; at least one, and all of one endpoint.
    """

    def __init__(self, pairs: Sequence[RcQueuePair]) -> None:
        self.pairs = tuple(pairs)
        self._rows = np.zeros(len(pairs), at_relay.Lane.dtype)
        self._rows["queue_pair"] = [pair.row for pair in pairs]
        self._given_bytes: IntArray = self._rows["given_bytes"]

    def take(self, size_bytes: int) -> RcQueuePair:
        """Return the queue pair that was given least, and now gets so many bytes; of several the
        first."""
        lane = int(self._given_bytes.argmin())
        self._given_bytes[lane] += size_bytes
        return self.pairs[lane]

    @property
    def address(self) -> int:
        """Return where the rows of `layout.Lane` are in memory."""
        return int(self._rows.ctypes.data)


@dataclass(frozen=True)
class RelayTable:
    """A table says which RDMA WRITEs there are, and which of them each block lets go that
    arrives."""

    writes: IntArray
    """[w, 6]: the peer, its number for the block (24 bits), which of the memories is read, offset
    and bytes there, and the offset in the memory that the peer names."""
    begin: int
    """So many of the first rows can be posted at once."""
    blocks: IntArray
    """[b, 5]: the number of a block that comes, the peer that writes it, its bytes, the first row
    of `writes` that it lets go, and how many these are."""


@dataclass(frozen=True)
class RelayLimits:
    """The limits that hold an endpoint from posting all that is to be sent."""

    open_writes: int
    """No more is posted while so many RDMA WRITEs of the relay are not acknowledged,"""
    own_bytes: int
    """or more bytes than this,"""
    bytes: int
    """or more than this of all that the endpoint's agents write."""


class Relay:
    """A relay carries out a table of RDMA WRITEs in compiled code.

    It takes the blocks of its operation from when it is made until it is closed. What was let go
    leaves once every peer has been permitted and `open` was called. The endpoint's user is told
    (the driver has an event for it) when the relay is finished.

    Args:
        operation: a number of 8 bits that no other relay of the same queue pairs has at the time;
            the immediates' upper 8 bits.
        regions: the memories of the table.
        lanes: for each peer that is written to, how.
        homes: the first queue pair with each peer.
        tells_peers: whether the user is told, too, each time that a peer's blocks are all there.

    Raises:
        TransportMisuse: a row of the table is outside its region.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        operation: int,
        table: RelayTable,
        regions: Sequence[MemoryRegion],
        lanes: Mapping[int, Lanes],
        homes: Mapping[int, RcQueuePair],
        limits: RelayLimits,
        *,
        tells_peers: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._lanes = lanes
        self._regions = regions
        self._peers = sorted(homes)
        self._row_of_peer = {peer: row for row, peer in enumerate(self._peers)}
        self._peer_rows = np.zeros(len(homes), at_relay.RelayPeer.dtype)
        self._peer_rows["home"] = [homes[peer].row for peer in self._peers]
        for row, peer in zip(self._peer_rows, self._peers, strict=True):
            if peer in lanes:
                row["lanes"], row["lane_count"] = lanes[peer].address, len(lanes[peer].pairs)
        self._write_rows = self._rows_of(table.writes)
        self._block_rows = self._rows_of_blocks(table)
        senders = np.searchsorted(self._peers, table.blocks[:, 1])
        self._peer_rows["missing"] = np.bincount(senders, minlength=len(homes))
        self.state = at_relay.RelayState.zeroed(
            operation=operation,
            blocks=self._block_rows.ctypes.data,
            block_count=len(self._block_rows) - 1,
            writes=self._write_rows.ctypes.data,
            peers=self._peer_rows.ctypes.data,
            first_due=at_relay.NOTHING,
            missing=len(table.blocks),
            tells_peers=int(tells_peers),
            most_open_writes=limits.open_writes,
            most_own_bytes=limits.own_bytes,
            most_bytes=limits.bytes,
        )
        for peer, rows in zip(*np.unique(table.writes[:, 0], return_counts=True), strict=True):
            pairs = lanes[int(peer)].pairs
            for pair in pairs:
                pair.make_room(min(-(-int(rows) // len(pairs)), limits.open_writes))
        self.state.memory = (self._write_rows, self._block_rows, self._peer_rows, lanes, regions)
        endpoint.attach(self.state)
        begin_relay(self.state.location)

    def _rows_of(self, writes: IntArray) -> npt.NDArray[np.void]:
        peer, block, memory, offset, length, target = writes.T
        ends = np.array([region.length for region in self._regions], np.int64)
        refuse(
            bool(np.any((offset < 0) | (length < 0) | (offset + length > ends[memory]))),
            "a row of a relay's table is outside its memory region",
            TransportMisuse,
        )
        starts = np.array(
            [self._endpoint.memory_of(region, 0, 0) for region in self._regions], np.int64
        )
        rows = np.zeros(len(writes), at_relay.RelayWrite.dtype)
        rows["peer"] = np.searchsorted(self._peers, peer)
        rows["block"], rows["length"], rows["target"] = block, length, target
        rows["address"] = starts[memory] + offset
        return rows

    def _rows_of_blocks(self, table: RelayTable) -> npt.NDArray[np.void]:
        number, peer, length, first, writes = table.blocks.T
        rows = np.zeros(int(number.max(initial=-1)) + 2, at_relay.RelayBlock.dtype)
        rows["peer"] = rows["next_due"] = at_relay.NOTHING
        rows["peer"][number] = np.searchsorted(self._peers, peer)
        rows["length"][number], rows["first_write"][number] = length, first
        rows["writes"][number] = writes
        rows["writes"][-1] = table.begin
        return rows

    def permit(self, peer: int, address: int, rkey: int) -> None:
        """Name the memory of a peer that is written to."""
        row = self._peer_rows[self._row_of_peer[peer]]
        row["address"], row["rkey"] = np.uint64(address).astype(np.int64), rkey

    def open(self) -> None:
        """Let the RDMA WRITEs leave, as all peers have been permitted."""
        proceed_with_relay(self._endpoint.state_address, self.state.location)

    def proceed(self) -> None:
        """Post what waited for room, now that others may have made some."""
        if self.state.is_open and self.state.first_due != at_relay.NOTHING:
            proceed_with_relay(self._endpoint.state_address, self.state.location)

    @property
    def finished(self) -> bool:
        """Return whether all blocks are there, and all RDMA WRITEs acknowledged."""
        state = self.state
        waits = state.missing or state.open_writes or state.first_due != at_relay.NOTHING
        return bool(state.is_open) and not waits

    @property
    def posts_all(self) -> bool:
        """Return whether nothing is left to be posted, and nothing will be."""
        return not self.state.missing and self.state.first_due == at_relay.NOTHING

    def has(self, block: int) -> bool:
        """Return whether the block of this number has arrived."""
        rows = self._block_rows
        return block < len(rows) - 1 and bool(rows["arrived"][block])

    def has_all_of(self, peer: int) -> bool:
        """Return whether all blocks of a peer have arrived."""
        return not self._peer_rows["missing"][self._row_of_peer[peer]]

    def missing_by_peer(self) -> dict[int, int]:
        """Return how many blocks of each peer have not arrived, of those of which some have not."""
        rows = self._block_rows
        lacking = rows["peer"][(rows["peer"] != at_relay.NOTHING) & (rows["arrived"] == 0)]
        peers, counts = np.unique(lacking, return_counts=True)
        return {self._peers[peer]: int(count) for peer, count in zip(peers, counts, strict=True)}

    def busy_peer(self) -> int | None:
        """Return a peer that has RDMA WRITEs of the relay to acknowledge, or None."""
        if not self.state.open_writes:
            return None
        own = self.state.location
        for peer, lanes in self._lanes.items():
            if any(pair.error or pair.has_work_of(own) for pair in lanes.pairs):
                return peer
        return None

    @property
    def queue_pairs_used(self) -> int:
        """Return how many queue pairs RDMA WRITEs have left by."""
        return sum(used.bit_count() for used in self._peer_rows["used"].tolist())

    def close(self) -> None:
        """Take and post nothing more."""
        self._endpoint.detach(self.state)
        if self.state.open_writes:
            forget_relay(self._endpoint.state_address, self.state.location)
