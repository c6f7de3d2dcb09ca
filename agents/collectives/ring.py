"""Allgather around a ring of RDMA WRITEs, cut into blocks so that no link waits for a whole shard.

Each rank tells its predecessor where its buffer is, and with that, that it may be written. Then it
writes its own shard to its successor, and passes on every block as soon as that has arrived, until
the block has reached the rank before its source. Every block is an RDMA WRITE with immediate: 8
bits of operation, 24 bits of block. Each link carries N(P-1) bytes in one direction.

A rank is done when it has all blocks and its own writes are acknowledged: its buffer is free then.
"""

from __future__ import annotations

from agents.collectives.communicator import Communicator
from agents.collectives.control import Control, Kind
from agents.collectives.operation import Allgather, PhaseClock, Posts, Report, Ticket
from agents.transport.types import MemoryRegion
from switch.errors import ProtocolError

BLOCK_BYTES = 64 * 1024
BLOCKS_PER_SHARD = 8
"""Smaller shards are cut into so many blocks, down to one packet a block."""
MAX_BLOCKS = 1 << 24


def block_bytes(size: int, shard_bytes: int, path_mtu: int) -> int:
    """Bytes of a block: whole packets, at most 64 KiB unless 24 bits could not count the blocks."""
    wanted = min(BLOCK_BYTES, -(-shard_bytes // BLOCKS_PER_SHARD))
    fewest = -(-shard_bytes * size // (MAX_BLOCKS - size))
    packets = max(1, -(-max(wanted, fewest) // path_mtu))
    return packets * path_mtu


class RingAllgather:
    """One rank's part of a ring Allgather; see the module.

    Args:
        region: the gathered buffer, P x N bytes; this rank's shard is in its place.
    """

    def __init__(
        self, communicator: Communicator, request: Allgather, region: MemoryRegion
    ) -> None:
        self._communicator = communicator
        self._request = request
        self._region = region
        self._posts = Posts(communicator, request.number)
        self._clock = PhaseClock()
        size = communicator.size
        self._block_bytes = block_bytes(size, request.shard_bytes, communicator.endpoint.path_mtu)
        self._blocks_per_shard = -(-request.shard_bytes // self._block_bytes)
        self._missing = self._blocks_per_shard * (size - 1)
        self._arrived: set[int] = set()
        self._received_bytes = 0
        self._target: tuple[int, int] | None = None
        own = communicator.rank * self._blocks_per_shard
        self._to_send = list(range(own, own + self._blocks_per_shard)) if size > 1 else []
        """Blocks at hand that wait for the successor's buffer."""

    @property
    def done(self) -> bool:
        return self._clock.phase == "done"

    @property
    def phase(self) -> str:
        return self._clock.phase

    def start(self, now_ns: int) -> None:
        self._clock.enter("barrier", now_ns)
        if self._communicator.size > 1 and self._request.shard_bytes:
            ready = Control(
                Kind.READY,
                self._request.number,
                address=self._region.address,
                rkey=self._region.rkey,
            )
            self._posts.send(self._communicator.previous, ready)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        if message.kind is not Kind.READY or peer != self._communicator.next:
            raise ProtocolError(f"{message.kind.name} in a ring Allgather")
        self._target = (message.address, message.rkey)
        if self._clock.phase == "barrier":
            self._clock.enter("data", now_ns)
        for block in self._to_send:
            self._write(block)
        self._to_send = []

    def written(self, peer: int, immediate: int, now_ns: int) -> None:
        operation, block = immediate >> 24, immediate & 0xFFFFFF
        source = block // max(1, self._blocks_per_shard)
        if (
            operation != self._request.number & 0xFF
            or peer != self._communicator.previous
            or source >= self._communicator.size
            or source == self._communicator.rank
            or block in self._arrived
        ):
            raise ProtocolError(f"an RDMA WRITE announced block {block} of operation {operation}")
        self._arrived.add(block)
        self._missing -= 1
        self._received_bytes += self._span(block)[1]
        if source == self._communicator.next:
            return
        if self._target is None:
            self._to_send.append(block)
        else:
            self._write(block)

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        self._posts.completed(ticket)

    def advance(self, now_ns: int) -> None:
        if self.done or self._missing:
            return
        if self._clock.phase != "handshake":
            self._clock.enter("handshake", now_ns)
        if not self._to_send and not self._posts.outstanding:
            self._clock.enter("done", now_ns)

    def deadline(self) -> int | None:
        return None

    @property
    def attentive(self) -> bool:
        return False

    def waiting_for(self) -> str:
        name = self._communicator.name
        if self._target is None and self._to_send:
            return f"{name(self._communicator.next)} to be ready"
        if self._missing:
            blocks = self._blocks_per_shard * (self._communicator.size - 1)
            return f"{self._missing} of {blocks} blocks from {name(self._communicator.previous)}"
        return self._posts.describe()

    def close(self) -> None:
        pass

    def report(self, now_ns: int) -> Report:
        return Report(self._clock.durations(now_ns), self._received_bytes)

    def _span(self, block: int) -> tuple[int, int]:
        """(offset, length) of a block in the gathered buffer."""
        source, index = divmod(block, self._blocks_per_shard)
        start = index * self._block_bytes
        length = min(self._block_bytes, self._request.shard_bytes - start)
        return source * self._request.shard_bytes + start, length

    def _write(self, block: int) -> None:
        assert self._target is not None
        address, rkey = self._target
        offset, length = self._span(block)
        immediate = (self._request.number & 0xFF) << 24 | block
        self._posts.write(
            self._communicator.next, self._region, offset, length, address + offset, rkey, immediate
        )
