"""Collectives of unicast RDMA WRITEs: one executor for all, driven by a pattern.

A `Pattern` says which blocks a rank writes to whom, at first and after each block that arrives; the
executor does the rest. Each rank tells its writers where they may write; a rank begins to write, in
the pattern's order, once all its peers have said so. Every block is an RDMA WRITE with immediate: 8
bits of operation, 24 bits of block. A rank is done when it has all its blocks and its own writes
are acknowledged: its buffers are free then.
"""

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Control, Kind
from weft.agents.collectives.dtypes import average, dtype_of
from weft.agents.collectives.names import BLOCK_BYTES, BLOCKS_PER_SHARD
from weft.agents.collectives.operation import Operation, Ticket, WrittenBytes
from weft.agents.collectives.requests import Request
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import ProtocolError, refuse

Bytes = npt.NDArray[np.uint8]

MAX_BLOCKS = 1 << 24

MAX_POSTED_BYTES = 1 << 20
MAX_POSTED_NS = 100_000_000
MAX_POSTED = 64
"""Writes under way from one rank, in bytes of all its operations and in time on its link, and in
number of one operation: enough to fill every link, and not all that is to be sent, so that a
pattern's order is kept, few queue pairs are busy at a time, and a failure is told soon, since that
message leaves behind them."""

MAX_POSTED_IN_ROUNDS_BYTES = 256 * 1024
MAX_POSTED_IN_ROUNDS_NS = 10_000_000
"""The same limits for algorithms in which each round has another partner."""

TO_ONE = "many-to-one"
"""The collective in which all write to one rank from the beginning on. No queue holds the windows
of all, and go-back-N repeats all that is behind a loss: so together they begin with one."""


@dataclass(frozen=True, slots=True)
class Write:
    """A write sends one block: `length` bytes at `offset` of this rank's `memory` to `target` of
    the memory that the peer has named; `block` is the peer's number for it."""

    peer: int
    block: int
    memory: int
    offset: int
    length: int
    target: int


def block_bytes(request: Request, shard_bytes: Sequence[int], path_mtu: int) -> int:
    """Return bytes of a block: whole packets, and large enough for 24 bits to number all blocks."""
    largest = max(shard_bytes, default=0)
    wanted = request.block_bytes or min(BLOCK_BYTES, -(-largest // BLOCKS_PER_SHARD))
    if request.lanes > 1 and largest:
        # Small blocks, so that all lanes are busy at a time.
        wanted = max(path_mtu, wanted // request.lanes)
        rounds = -(-largest // (wanted * request.lanes))
        wanted = -(-largest // (rounds * request.lanes))
    # Blocks are numbered through all that a rank is sent: up to three times all shards.
    fewest = -(-4 * sum(shard_bytes) // (MAX_BLOCKS - 4 * len(shard_bytes)))
    return max(1, -(-max(wanted, fewest) // path_mtu)) * path_mtu


def most_posted(
    rate_bps: int, fewest: int, most: int = MAX_POSTED_BYTES, window_ns: int = MAX_POSTED_NS
) -> int:
    """Return how many bytes of RDMA WRITEs may be under way from a rank: what its link carries in a
    time, but no fewer than `fewest` and no more than `most`. At 0 bit/s the rate is not known."""
    in_time = rate_bps * window_ns // 8_000_000_000 if rate_bps else most
    return min(most, max(in_time, fewest))


class Blocks:
    """Blocks cut ranges of bytes that follow each other, and are numbered through."""

    def __init__(self, sizes: Sequence[int], block_size: int) -> None:
        self._block_size = block_size
        self._ends = list(accumulate(sizes, initial=0))
        counts = (-(-size // block_size) for size in sizes)
        self._first = list(accumulate(counts, initial=0))

    @property
    def total(self) -> int:
        """How many blocks all ranges have together."""
        return self._first[-1]

    def of(self, part: int) -> range:
        """Return the numbers of one range's blocks."""
        return range(self._first[part], self._first[part + 1])

    def count(self, part: int) -> int:
        """Return how many blocks one range has."""
        return len(self.of(part))

    def part_of(self, block: int) -> int:
        """Return which range a block belongs to."""
        return bisect_right(self._first, block) - 1

    def span(self, block: int) -> tuple[int, int]:
        """Return (offset, length) of a block in bytes."""
        part = self.part_of(block)
        offset = self._ends[part] + (block - self._first[part]) * self._block_size
        return offset, min(self._block_size, self._ends[part + 1] - offset)


class Pattern:
    """A pattern is one rank's part of an algorithm: what `UnicastOperation` asks of it.

    A subclass sets `expected` and `targets` when it is made: in `_set_up`, or in its own `__init__`
    where it needs an output, and then `memories`, too.

    Args:
        buffer, output: the rank's arrays as bytes; no output where the collective works in place.
        parts: the sizes of the ranges of bytes that are cut into blocks, `_blocks`. By default,
            those of the ranks' shards.
    """

    memories: Sequence[Bytes]
    """What this rank's writes read and its peers write. By default, the buffer."""
    expected: Mapping[int, int]
    """How many blocks come, by the rank that writes them; none of these numbers is zero."""
    targets: Collection[int]
    """The ranks that this one writes to."""

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes,
        output: Bytes | None = None, parts: Sequence[int] | None = None,
    ) -> None:  # fmt: skip
        self._request = request
        self._rank = rank
        self._size = size
        self._parts = request.shard_bytes(size) if parts is None else parts
        self._block_bytes = block_bytes(request, self._parts, path_mtu)
        self._blocks = Blocks(self._parts, self._block_bytes)
        self.memories = (buffer,)
        if size == 1 and output is not None:
            output[:] = buffer
        self._set_up()

    def _set_up(self) -> None:
        """Find what this rank's peers write and to whom it writes."""

    def window(self, peer: int) -> int:
        """Return the number of the memory that a peer writes."""
        return 0

    def begin(self) -> Iterable[Write]:
        """Return what can be written at once."""
        raise NotImplementedError

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block that has come; return its bytes, and what can be written now.

        Raises ProtocolError for one that does not come from this peer.
        """
        raise NotImplementedError

    @property
    def _others(self) -> list[int]:
        """Return all other ranks, beginning with the next one."""
        return [(self._rank + distance) % self._size for distance in range(1, self._size)]

    def _write(self, peer: int, block: int, memory: int = 0, numbered_from: int = 0) -> Write:
        """Return the write of a block to the same place in the peer's memory."""
        offset, length = self._blocks.span(block)
        return Write(peer, numbered_from + block, memory, offset, length, offset)


class UnicastOperation(Operation):
    """Carry out one rank's part of a collective by RDMA WRITEs; see the module.

    Args:
        register: gives the memory region of an array.
        in_rounds: whether each round has another partner.

    Raises:
        InputError: the communicator has no queue pair with a peer of the pattern.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        pattern: Pattern,
        register: Callable[[Bytes], MemoryRegion],
        *,
        in_rounds: bool = False,
    ) -> None:
        super().__init__(communicator, request)
        self._pattern = pattern
        peers = {*pattern.expected, *pattern.targets}
        communicator.check_peers(peers, f"{request.collective} by {request.algorithm}")
        self._regions = [register(memory) for memory in pattern.memories]
        self._left = dict(pattern.expected)
        """Blocks to come, by writer."""
        self._missing = sum(self._left.values())
        self._expected = self._missing
        self._arrived: set[int] = set()
        self._ready: dict[int, tuple[int, int]] = {}
        """Address and key of the peers' memory."""
        if request.collective == TO_ONE:
            for peer in pattern.targets:
                communicator.share_window(peer, communicator.size - 1)
        rate_bps = communicator.endpoint.rate_bps
        block = request.block_bytes or BLOCK_BYTES
        self._most_posted_bytes = most_posted(rate_bps, block)
        """While one block is under way there is room for the next, even on the slowest link."""
        most = MAX_POSTED_IN_ROUNDS_BYTES if in_rounds else MAX_POSTED_BYTES
        window_ns = MAX_POSTED_IN_ROUNDS_NS if in_rounds else MAX_POSTED_NS
        self._most_own_bytes = most_posted(rate_bps, block, most, window_ns)
        self._to_post: deque[Iterator[Write]] = deque()

    def start(self, now_ns: int) -> None:
        """Tell every peer that writes to this rank where it may write."""
        self._clock.enter("barrier", now_ns)
        for peer in self._left:
            region = self._regions[self._pattern.window(peer)]
            ready = Control(Kind.READY, self._number, address=region.address, rkey=region.rkey)
            self._posts.send(peer, ready)
        self._to_post.append(iter(self._pattern.begin()))
        self._proceed(now_ns)

    def control(self, peer: int, message: Control, now_ns: int) -> None:
        """Take a READY from a target: where this rank may write."""
        if message.kind is not Kind.READY or peer not in self._pattern.targets:
            super().control(peer, message, now_ns)
        refuse(peer in self._ready, "READY a second time", ProtocolError)
        self._ready[peer] = (message.address, message.rkey)
        self._proceed(now_ns)

    def written(self, peer: int, block: int, length_bytes: int, now_ns: int) -> None:
        """Take a block of a peer, and queue the writes that it allows."""
        if not self._left.get(peer) or block in self._arrived:
            super().written(peer, block, length_bytes, now_ns)
        length, following = self._pattern.arrived(peer, block)
        if length_bytes != length:
            raise ProtocolError(
                f"an RDMA WRITE of {length_bytes} bytes announced block {block}, which has {length}"
            )
        self._arrived.add(block)
        self._left[peer] -= 1
        self._missing -= 1
        self._received_bytes += length
        self._to_post.append(iter(following))
        self._post_writes()

    def completed(self, ticket: Ticket, now_ns: int) -> None:
        """Take note that one of the posts is complete."""
        self._posts.completed(ticket)
        if isinstance(ticket.detail, WrittenBytes):
            self._post_writes()

    def advance(self, now_ns: int) -> None:
        """Post the writes for which there is room, and end when nothing is outstanding."""
        self._post_writes()  # others' may have made room
        writing = self._to_post or self._posts.outstanding
        if self._clock.phase == "data" and not (self._missing or writing):
            self._clock.enter("done", now_ns)

    @property
    def waits_for_sent(self) -> bool:
        return bool(self._to_post) or not self._missing or self._clock.phase != "data"

    def waits_on(self) -> set[int]:
        """Return the peers whose blocks are missing, and the targets while there is more to do."""
        waiting = {peer for peer, left in self._left.items() if left}
        # Whom this rank writes to, perhaps much later, must be there too.
        return waiting.union(self._pattern.targets) if self._to_post or self._missing else waiting

    def waiting_for(self) -> str:
        """Return the permission, blocks or acknowledgements that are outstanding."""
        name = self._communicator.name
        unready = sorted(set(self._pattern.targets) - self._ready.keys())
        if unready:
            return f"{name(unready[0])} to be ready"
        if self._missing:
            writer = min(peer for peer, left in self._left.items() if left)
            return f"{self._missing} of {self._expected} blocks, the first from {name(writer)}"
        return self._posts.describe()

    def _proceed(self, now_ns: int) -> None:
        if self._clock.phase == "barrier" and len(self._ready) == len(self._pattern.targets):
            self._clock.enter("data", now_ns)
        self._post_writes()

    def _post_writes(self) -> None:
        if self._clock.phase == "barrier":
            return
        while self._to_post and (
            self._communicator.writing_bytes <= self._most_posted_bytes
            and self._posts.writing_bytes <= self._most_own_bytes
            and self._posts.open_writes < MAX_POSTED
        ):
            write = next(self._to_post[0], None)
            if write is None:
                self._to_post.popleft()
                continue
            address, rkey = self._ready[write.peer]
            self._posts.write(
                write.peer, self._regions[write.memory], write.offset, write.length,
                address + write.target, rkey, (self._number & 0xFF) << 24 | write.block,
            )  # fmt: skip


def require(condition: bool, block: int) -> None:
    """Raise ProtocolError unless a block is one that its writer may write."""
    if not condition:
        raise ProtocolError(f"an RDMA WRITE announced block {block}, which is not its writer's")


def summed(amounts: Iterable[tuple[int, int]]) -> dict[int, int]:
    """Return the sums of amounts by rank, of those that are not zero, in order of ranks' first
    amounts."""
    total: Counter[int] = Counter()
    for rank, amount in amounts:
        total[rank] += amount
    return dict(+total)


def combine(request: Request, one: Bytes, other: Bytes, out: Bytes, *, ranks: int = 0) -> None:
    """Reduce two arrays of whole elements, uint8[bytes], into `out`, which may be one of them.

    Half types are added in their own type. Integers wrap around.

    Args:
        ranks: the number of ranks whose data `out` holds, where it is the whole reduction then: an
            average is divided by it. 0 where more data is to come.
    """
    kind = dtype_of(request.dtype)
    total = out.view(kind)
    request.ufunc(one.view(kind), other.view(kind), out=total)
    if ranks and request.op == "average":
        average(total, ranks)
