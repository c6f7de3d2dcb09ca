"""Where multicast chunks go: the receive side of one operation, safe against duplicates and
disorder.

SC24 multicast Allgather, section "receive": the immediate of each packet names the operation (8
bits) and the chunk (24 bits); the chunk is copied to its place, its bit is set, the count of
missing chunks falls. Here the bit is tested first. The packets' own part runs compiled, inside
`Endpoint.receive`, on the same arrays.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from agents.transport import layout
from agents.transport.types import Gap, MemoryRegion, TransportMisuse

MAXIMUM_CHUNKS = 1 << 24
"""The immediate has 24 bits for the chunk."""

MAXIMUM_OPERATIONS = 256
"""And 8 bits for the operation."""


class ChunkSink:
    """The chunks of one operation: a buffer made of shards, each cut into chunks.

    Shard r is `shard_bytes[r]` bytes at `shard_offsets[r]` of the buffer (one after the other if
    not given) and has ceil(shard_bytes[r] / chunk_bytes) chunks; the last one may be shorter, an
    empty shard has none. Chunk numbers run through all the shards: `chunks_of(r)`. A new sink
    misses everything: mark one's own shard with `mark_shard`. The buffer is written in place.
    Raises TransportMisuse for what does not fit the buffer, 8 bits of operation or 24 bits of
    chunk.
    """

    def __init__(
        self,
        buffer: MemoryRegion | npt.NDArray[np.uint8],
        operation: int,
        chunk_bytes: int,
        shard_bytes: Sequence[int],
        shard_offsets: Sequence[int] | None = None,
        context: object = None,
    ) -> None:
        memory = buffer.buffer if isinstance(buffer, MemoryRegion) else buffer
        if memory.dtype != np.uint8 or memory.ndim != 1 or not memory.flags.c_contiguous:
            raise TransportMisuse(
                f"a chunk sink needs a flat, C-contiguous uint8 buffer, not {memory.dtype}"
                f" of {memory.ndim} dimensions"
            )
        if not 0 <= operation < MAXIMUM_OPERATIONS:
            raise TransportMisuse(f"operation {operation} does not fit 8 bits (0 to 255)")
        if chunk_bytes < 1:
            raise TransportMisuse(f"chunks of {chunk_bytes} bytes: at least 1 is needed")
        sizes = np.asarray(shard_bytes, np.int64).reshape(-1)
        if shard_offsets is None:
            offsets = np.cumsum(sizes) - sizes
        else:
            offsets = np.asarray(shard_offsets, np.int64).reshape(-1)
        if len(offsets) != len(sizes):
            raise TransportMisuse(f"{len(sizes)} shards with {len(offsets)} offsets")
        if len(sizes) and (
            sizes.min() < 0 or offsets.min() < 0 or int((offsets + sizes).max()) > len(memory)
        ):
            raise TransportMisuse(f"a shard lies outside its buffer of {len(memory)} bytes")
        chunks = -(-sizes // chunk_bytes)
        total = int(chunks.sum())
        if total > MAXIMUM_CHUNKS:
            raise TransportMisuse(
                f"{total} chunks of {chunk_bytes} bytes do not fit 24 bits: use larger chunks"
            )
        self.operation = operation
        self.chunk_bytes = chunk_bytes
        self.context = context
        self.buffer = memory
        shards = len(sizes)
        self._present = np.zeros(max(total, 1), np.uint8)
        self.words: npt.NDArray[np.int64] = np.zeros(layout.SINK_WORDS + 4 * shards + 1, np.int64)
        """What compiled code works on, laid out as `agents.transport.layout` says."""
        words = self.words
        words[layout.SINK_OPERATION] = operation
        words[layout.SINK_CHUNK_BYTES] = chunk_bytes
        words[layout.SINK_SHARDS] = shards
        words[layout.SINK_CHUNKS] = total
        words[layout.SINK_MISSING] = total
        words[layout.SINK_BUFFER] = memory.ctypes.data
        words[layout.SINK_PRESENT] = self._present.ctypes.data
        tables = words[layout.SINK_WORDS :]
        self._missing = tables[:shards]
        self._offset = tables[shards : 2 * shards]
        self._size = tables[2 * shards : 3 * shards]
        self._first = tables[3 * shards : 4 * shards + 1]
        self._missing[:] = chunks
        self._offset[:] = offsets
        self._size[:] = sizes
        self._first[1:] = np.cumsum(chunks)

    @property
    def chunks(self) -> int:
        """How many chunks there are in all."""
        return int(self.words[layout.SINK_CHUNKS])

    @property
    def shards(self) -> int:
        """How many shards there are."""
        return int(self.words[layout.SINK_SHARDS])

    @property
    def missing(self) -> int:
        """How many chunks are not there yet."""
        return int(self.words[layout.SINK_MISSING])

    @property
    def missing_bytes(self) -> int:
        """How many bytes are not there yet."""
        return sum(gap.length for shard in range(self.shards) for gap in self.gaps(shard))

    @property
    def duplicates(self) -> int:
        """How many chunks arrived that were there already."""
        return int(self.words[layout.SINK_DUPLICATES])

    @property
    def out_of_bounds(self) -> int:
        """How many arrived whose number or length fits no chunk."""
        return int(self.words[layout.SINK_OUT_OF_BOUNDS])

    @property
    def received(self) -> int:
        """How many chunks multicast packets brought."""
        return int(self.words[layout.SINK_RECEIVED])

    @property
    def immediate_base(self) -> int:
        """The immediate of chunk 0: the operation in the upper 8 of 32 bits."""
        return self.operation << 24

    def missing_in(self, shard: int) -> int:
        """How many chunks of a shard are not there yet."""
        return int(self._missing[shard])

    def chunks_of(self, shard: int) -> range:
        """The numbers of a shard's chunks."""
        return range(int(self._first[shard]), int(self._first[shard + 1]))

    def shard_region(self, shard: int) -> tuple[int, int]:
        """A shard's offset in the buffer and its length, in bytes."""
        return int(self._offset[shard]), int(self._size[shard])

    def has(self, chunk: int) -> bool:
        """Whether a chunk is there."""
        return bool(0 <= chunk < self.chunks and self._present[chunk])

    def gaps(self, shard: int) -> list[Gap]:
        """The runs of chunks of a shard that are not there, in order."""
        if not self._missing[shard]:
            return []
        first, end = int(self._first[shard]), int(self._first[shard + 1])
        edges = np.flatnonzero(np.diff(self._present[first:end], prepend=1, append=1))
        offset, size = self.shard_region(shard)
        gaps = []
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            begin = start * self.chunk_bytes
            length = min(stop * self.chunk_bytes, size) - begin
            gaps.append(Gap(shard, first + start, stop - start, offset + begin, length, begin))
        return gaps

    def mark(self, first_chunk: int, count: int) -> int:
        """Say that these chunks are in the buffer (fetched, or one's own); returns how many of
        them were missing."""
        end = first_chunk + count
        if count < 0 or first_chunk < 0 or end > self.chunks:
            raise TransportMisuse(
                f"chunks {first_chunk} to {end - 1} of a sink that has 0 to {self.chunks - 1}"
            )
        news = 0
        shard = int(np.searchsorted(self._first, first_chunk, "right")) - 1
        while first_chunk < end:
            stop = min(end, int(self._first[shard + 1]))
            part = self._present[first_chunk:stop]
            fresh = len(part) - int(np.count_nonzero(part))
            part[:] = 1
            self._missing[shard] -= fresh
            news += fresh
            first_chunk = stop
            shard += 1
        self.words[layout.SINK_MISSING] -= news
        return news

    def mark_shard(self, shard: int) -> int:
        """Say that a whole shard is in the buffer; returns how many of its chunks were missing."""
        chunks = self.chunks_of(shard)
        return self.mark(chunks.start, len(chunks))
