"""Collectives of unicast RDMA WRITEs: the pattern of an algorithm, which one executor carries out
(`weft.agents.collectives.unicast_operation`).

A `Pattern` says which blocks a rank writes to whom, at first and after each block that arrives.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.dtypes import average, dtype_of
from weft.agents.collectives.names import BLOCK_BYTES, BLOCKS_PER_SHARD
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast_options import asked_block_bytes
from weft.agents.transport.noted_sums import NotedSums
from weft.agents.transport.relay import RelayTable
from weft.base.errors import ProtocolError

Bytes = npt.NDArray[np.uint8]
IntArray = npt.NDArray[np.int64]

MAX_BLOCKS = 1 << 24


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
    wanted = asked_block_bytes(request.own) or min(BLOCK_BYTES, -(-largest // BLOCKS_PER_SHARD))
    if request.lanes > 1 and largest:
        # Small blocks, so that all lanes are busy at a time.
        wanted = max(path_mtu, wanted // request.lanes)
        rounds = -(-largest // (wanted * request.lanes))
        wanted = -(-largest // (rounds * request.lanes))
    # Blocks are numbered through all that a rank is sent: up to three times all shards.
    fewest = -(-4 * sum(shard_bytes) // (MAX_BLOCKS - 4 * len(shard_bytes)))
    return max(1, -(-max(wanted, fewest) // path_mtu)) * path_mtu


class Blocks:
    """The blocks into which ranges of bytes that follow each other are cut, numbered through."""

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

    def columns(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return, for all blocks, which range each belongs to, its offset, and its bytes."""
        first, ends = np.array(self._first, np.int64), np.array(self._ends, np.int64)
        counts = np.diff(first)
        part = np.repeat(np.arange(len(counts)), counts)
        offset = ends[part] + (np.arange(self.total) - first[part]) * self._block_size
        return part, offset, np.minimum(self._block_size, ends[part + 1] - offset)

    def span(self, block: int) -> tuple[int, int]:
        """Return (offset, length) of a block in bytes."""
        part = self.part_of(block)
        offset = self._ends[part] + (block - self._first[part]) * self._block_size
        return offset, min(self._block_size, self._ends[part + 1] - offset)


class Pattern:
    """A pattern is one rank's part of an algorithm: what its executor asks of it.

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
    sums: NotedSums | None = None
    """Where sums are noted in place of being made: data travel without bytes."""

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

    def _combine(self, one: Bytes, other: Bytes, out: Bytes, *, ranks: int = 0) -> None:
        """Do as `combine`, or take note of it."""
        if self.sums is None:
            combine(self._request, one, other, out, ranks=ranks)
        else:
            item_bytes = self._request.item_bytes
            vectors = one.ctypes.data, other.ctypes.data
            self.sums.note(out.ctypes.data, vectors, len(out) // item_bytes, item_bytes)

    def _copy(self, source: Bytes, out: Bytes) -> None:
        """Copy bytes within this rank's memory, or take note of it."""
        if self.sums is None:
            out[:] = source
        else:
            self.sums.note_copy(out.ctypes.data, source.ctypes.data, len(out))

    def _write(self, peer: int, block: int, memory: int = 0, numbered_from: int = 0) -> Write:
        """Return the write of a block to the same place in the peer's memory."""
        offset, length = self._blocks.span(block)
        return Write(peer, numbered_from + block, memory, offset, length, offset)


class TablePattern(Pattern):
    """A pattern in which a block lets others go as it is, with nothing to be computed: a table says
    which, and compiled code carries it out."""

    table: RelayTable

    def _set_up(self) -> None:
        self.table = self._table()
        self.expected = Counter(self.table.blocks[:, 1].tolist())
        self.targets = tuple(dict.fromkeys(self.table.writes[:, 0].tolist()))

    def _table(self) -> RelayTable:
        """Return what is written; a row of `writes` has the fields of `Write`."""
        raise NotImplementedError

    def begin(self) -> Iterable[Write]:
        """Return what can be written at once."""
        return self._writes(0, self.table.begin)

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block that has come; return its bytes, and what can be written now.

        Raises ProtocolError for one that does not come from this peer.
        """
        rows = self.table.blocks[self.table.blocks[:, 0] == block]
        require(len(rows) > 0 and rows[0, 1] == peer, block)
        _, _, length, first, writes = rows[0].tolist()
        return length, self._writes(first, writes)

    def _writes(self, first: int, count: int) -> Iterator[Write]:
        return (Write(*row) for row in self.table.writes[first : first + count].tolist())


def columns(*values: npt.ArrayLike) -> IntArray:
    """Return a table, int64 [n, columns], of columns each of which has n numbers, or one."""
    return np.stack(np.broadcast_arrays(*values), axis=-1).astype(np.int64)


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
