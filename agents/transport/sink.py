"""Where multicast chunks go: the receive side of one operation, safe against duplicates and
disorder.

SC24 multicast Allgather, section "receive": the immediate of each packet names the operation (8
bits) and the chunk (24 bits); the chunk is copied to its place, its bit is set, the count of
missing chunks falls. Here the bit is tested first. The packets' own part runs compiled, where
packets are received, on the same arrays.

8 bits come round after 256 operations, and a chunk that somebody has kept so long must not be taken
for one of now. So the number of an operation has 32 bits here: the Q_Key of a packet is the group's
and, added to it, the upper 24 of these. A sink takes what has all of them right.

Every word has one writer. Where packets arrive, and only there, `present` and all counters are
written; whoever marks chunks (an RDMA READ brought them) writes an array of his own, `fetched`.
What is missing is what neither has. So one thread may feed a sink while another marks, reads and
waits, without a lock, and a chunk that came both ways counts once.
"""

import weakref
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.transport.kernels.chunks import count_missing
from weft.agents.transport.sink_layout import SinkState
from weft.agents.transport.types import Gap, MemoryRegion, TransportMisuse
from weft.base.errors import refuse
from weft.base.jit import words_in

MAXIMUM_CHUNKS = 1 << 24
"""The immediate has 24 bits for the chunk."""

MAXIMUM_OPERATIONS = 1 << 32
"""The immediate has 8 bits for the operation, and 24 are added to the Q_Key."""

PLACES = 256
"""A group has a place for the sink of one operation for each number that the immediate has for
them."""


_LINE_WORDS = 16
"""Two cache lines: processors fetch them in pairs."""


def own_lines(words: int) -> npt.NDArray[np.int64]:
    """Return a zeroed array that shares no cache line with another: what one thread writes does not
    slow down another's."""
    lines = -(-words // _LINE_WORDS) * _LINE_WORDS
    memory = np.zeros(lines + _LINE_WORDS, np.int64)
    skipped = -(memory.ctypes.data // 8) % _LINE_WORDS
    return memory[skipped : skipped + words]


def in_its_place(attached: "ChunkSink", sink: "ChunkSink") -> str:
    """Return what to add to the message that a sink is there, where it is another operation's."""
    if attached.operation == sink.operation:
        return ""
    return f", and operation {sink.operation} has the same lower 8 bits: detach it first"


class ChunkSink:
    """A chunk sink receives the chunks of one operation: its buffer is made of shards, each cut
    into chunks.

    Shard r is `shard_bytes[r]` bytes at `shard_offsets[r]` of the buffer (one after the other if
    not given) and has ceil(shard_bytes[r] / chunk_bytes) chunks; the last one may be shorter, an
    empty shard has none. Chunk numbers run through all the shards: `chunks_of(r)`. A new sink
    misses everything: mark one's own shard with `mark_shard`. The buffer is written in place.
    Where the operation's own chunks take several packets, what is a chunk here is a packet's part
    of one, and `packets_per_chunk` of them (counted from the start of their shard) are recovered
    as a whole: `gaps` is widened to them. `senders` are the IPv4 addresses, as integers, of the
    hosts that send each shard: what comes of a shard from another host is dropped, and counted as
    `foreign_chunks`. Without it, everybody may send all of them.

    Raises TransportMisuse for what does not fit the buffer, 32 bits of operation or 24 bits of
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
        packets_per_chunk: int = 1,
        senders: Sequence[int] | None = None,
    ) -> None:
        memory = buffer.buffer if isinstance(buffer, MemoryRegion) else buffer
        if not (memory.dtype == np.uint8 and memory.ndim == 1 and memory.flags.c_contiguous):
            raise TransportMisuse(
                f"a chunk sink needs a flat, C-contiguous uint8 buffer, not {memory.dtype}"
                f" of {memory.ndim} dimensions"
            )
        if not 0 <= operation < MAXIMUM_OPERATIONS:
            raise TransportMisuse(
                f"operation {operation} does not fit 32 bits (0 to {MAXIMUM_OPERATIONS - 1})"
            )
        refuse(
            chunk_bytes < 1,
            f"chunks of {chunk_bytes} bytes: at least 1 is needed",
            TransportMisuse,
        )
        refuse(
            packets_per_chunk < 1,
            f"chunks of {packets_per_chunk} packets: at least 1 is needed",
            TransportMisuse,
        )
        sizes = np.asarray(shard_bytes, np.int64).reshape(-1)
        one_after_the_other = np.cumsum(sizes) - sizes
        given = one_after_the_other if shard_offsets is None else shard_offsets
        offsets = np.asarray(given, np.int64).reshape(-1)
        refuse(
            len(offsets) != len(sizes),
            f"{len(sizes)} shards with {len(offsets)} offsets",
            TransportMisuse,
        )
        refuse(
            len(sizes)
            and (sizes.min() < 0 or offsets.min() < 0 or (offsets + sizes).max() > len(memory)),
            f"a shard lies outside its buffer of {len(memory)} bytes",
            TransportMisuse,
        )
        refuse(
            senders is not None and len(senders) != len(sizes),
            f"{len(sizes)} shards with {len(senders or ())} senders",
            TransportMisuse,
        )
        chunks = -(-sizes // chunk_bytes)
        total = int(chunks.sum())
        refuse(
            total > MAXIMUM_CHUNKS,
            f"{total} chunks of {chunk_bytes} bytes do not fit 24 bits: use larger chunks",
            TransportMisuse,
        )
        self.operation = operation
        self.chunk_bytes = chunk_bytes
        self.packets_per_chunk = packets_per_chunk
        self.context = context
        self.buffer = memory
        self._receiver: weakref.ref[object] | None = None
        shards = len(sizes)
        self._present = own_lines(total // 8 + 1).view(np.uint8)[:total]
        self._fetched = own_lines(total // 8 + 1).view(np.uint8)[:total]
        self._marked = own_lines(1)
        head = words_in(SinkState)
        self.words: npt.NDArray[np.int64] = own_lines(head + 5 * shards + 1)
        """What compiled code works on: `state`, and behind it its tables."""
        tables = self.words[head:]
        self.state = SinkState.within(self.words).fill(
            operation=operation,
            chunk_bytes=chunk_bytes,
            shards=shards,
            chunks=total,
            missing=total,
            buffer=memory.ctypes.data,
            present=self._present.ctypes.data,
            fetched=self._fetched.ctypes.data,
            marked=self._marked.ctypes.data,
            tables=tables.ctypes.data,
        )
        self._missing = tables[:shards]
        self._offset = tables[shards : 2 * shards]
        self._size = tables[2 * shards : 3 * shards]
        self._first = tables[3 * shards : 4 * shards + 1]
        tables[4 * shards + 1 : 5 * shards + 1] = 0 if senders is None else senders
        self._missing[:] = chunks
        self._offset[:] = offsets
        self._size[:] = sizes
        self._first[1:] = np.cumsum(chunks)

    @property
    def chunks(self) -> int:
        """Return how many chunks there are in all."""
        return self.state.chunks

    @property
    def shards(self) -> int:
        """Return how many shards there are."""
        return self.state.shards

    @property
    def missing(self) -> int:
        """Return how many chunks are not there yet."""
        if self._marked[0]:
            return int(count_missing(self.state.location, 0, self.chunks))
        return self.state.missing

    @property
    def missing_bytes(self) -> int:
        """Return how many bytes are not there yet."""
        lacking = self.lacking if self.missing else ()
        return sum(gap.length for shard in lacking for gap in self._runs(shard, 1))

    @property
    def duplicates(self) -> int:
        """Return how many chunks arrived that were there already."""
        return self.state.duplicates + self._both

    @property
    def out_of_bounds(self) -> int:
        """Return how many chunks arrived whose number or length fits no chunk of the sink."""
        return self.state.out_of_bounds

    @property
    def received(self) -> int:
        """Return how many chunks multicast packets brought first."""
        return self.state.received - self._both

    @property
    def _both(self) -> int:
        """Return how many chunks arrived while they were being marked: whoever marks is first."""
        return int(np.count_nonzero(self._present & self._fetched)) if self._marked[0] else 0

    @property
    def place(self) -> int:
        """Return where its group has it: the lower 8 bits of the operation."""
        return self.operation % PLACES

    @property
    def number_base(self) -> int:
        """Return the number of chunk 0: the operation in the upper 32 of 56 bits."""
        return self.operation << 24

    @property
    def lacking(self) -> list[int]:
        """Return the shards of which a chunk is not there yet."""
        if self._marked[0]:
            return [shard for shard in range(self.shards) if self.missing_in(shard)]
        return [int(shard) for shard in np.flatnonzero(self._missing)]

    def missing_in(self, shard: int) -> int:
        """Return how many chunks of a shard are not there yet."""
        if self._marked[0]:
            chunks = self.chunks_of(shard)
            return int(count_missing(self.state.location, chunks.start, chunks.stop))
        return int(self._missing[shard])

    def chunks_of(self, shard: int) -> range:
        """Return the numbers of a shard's chunks."""
        return range(int(self._first[shard]), int(self._first[shard + 1]))

    def shard_region(self, shard: int) -> tuple[int, int]:
        """Return a shard's offset in the buffer and its length, in bytes."""
        return int(self._offset[shard]), int(self._size[shard])

    def has(self, chunk: int) -> bool:
        """Return whether a chunk is there."""
        return bool(0 <= chunk < self.chunks and self._present[chunk] | self._fetched[chunk])

    def gaps(self, shard: int) -> list[Gap]:
        """Return the runs of chunks of a shard that are not there, in order; what is between two
        that `packets_per_chunk` brings together is part of them."""
        return self._runs(shard, self.packets_per_chunk)

    def _runs(self, shard: int, packets: int) -> list[Gap]:
        """Return the missing chunks of a shard, widened to whole groups of `packets`."""
        if not self.missing_in(shard):
            return []
        first, end = int(self._first[shard]), int(self._first[shard + 1])
        there = self._present[first:end] | self._fetched[first:end]
        if packets > 1:
            whole = np.minimum.reduceat(there, np.arange(0, end - first, packets))
            there = np.repeat(whole, packets)[: end - first]
        edges = np.flatnonzero(np.diff(there, prepend=1, append=1))
        offset, size = self.shard_region(shard)
        gaps = []
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            begin = start * self.chunk_bytes
            length = min(stop * self.chunk_bytes, size) - begin
            gaps.append(Gap(shard, first + start, stop - start, offset + begin, length, begin))
        return gaps

    def feed(self, receiver: object) -> None:
        """Let packets arrive from now on, all in one place, the endpoint or worker `receiver`.

        Whoever attaches the sink calls it; what was marked until then belongs to setting up.
        Raises TransportMisuse if packets may arrive in another place already.
        """
        refuse(
            self._receiver is not None and self._receiver() is not receiver,
            f"the sink of operation {self.operation} is fed by another endpoint or receive"
            " worker: all groups of a sink belong to one",
            TransportMisuse,
        )
        self._receiver = weakref.ref(receiver)  # which has the sink, and would never go else

    def rearm(self) -> None:
        """Begin to miss everything again, as a new sink does: for a further round into the same
        buffer. Only where packets arrive, between two of them, and when nobody marks."""
        state = self.state
        self._present[:] = 0
        self._fetched[:] = 0
        self._marked[0] = 0
        self._missing[:] = np.diff(self._first)
        state.missing = state.chunks
        state.duplicates = state.out_of_bounds = state.received = state.whole_before = 0

    def mark(self, first_chunk: int, count: int) -> int:
        """Say that these chunks are in the buffer (fetched, or one's own); returns how many of
        them were missing. Always from the same thread, once packets may arrive."""
        end = first_chunk + count
        refuse(
            count < 0 or first_chunk < 0 or end > self.chunks,
            f"chunks {first_chunk} to {end - 1} of a sink that has 0 to {self.chunks - 1}",
            TransportMisuse,
        )
        if self._receiver is not None:
            there = self._present[first_chunk:end] | self._fetched[first_chunk:end]
            fresh = np.flatnonzero(there == 0) + first_chunk
            self._fetched[fresh] = 1
            self._marked[0] += len(fresh)
            return len(fresh)
        news = 0
        shard = int(np.searchsorted(self._first, first_chunk, "right")) - 1
        while first_chunk < end:
            stop = min(end, int(self._first[shard + 1]))
            part = self._present[first_chunk:stop]
            absent = len(part) - int(np.count_nonzero(part))
            part[:] = 1
            self._missing[shard] -= absent
            news += absent
            first_chunk = stop
            shard += 1
        self.state.missing -= news
        return news

    def mark_shard(self, shard: int) -> int:
        """Say that a whole shard is in the buffer; returns how many of its chunks were missing."""
        chunks = self.chunks_of(shard)
        return self.mark(chunks.start, len(chunks))
