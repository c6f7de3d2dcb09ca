"""The subgroups of a multicast operation (SC24, "Subgroups"): every shard is cut evenly over W
workers.

Worker w owns the multicast groups g with g modulo W = w, whose trees lie over different spines, and
a sink of its own: bitmap, counters, chunk numbers. What receives shares nothing.
"""

import bisect
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.communicator import Communicator
from weft.agents.collectives.control import Range
from weft.agents.collectives.requests import Request
from weft.agents.transport.queue_pairs import UdQueuePair
from weft.agents.transport.sink import ChunkSink
from weft.agents.transport.types import MemoryRegion
from weft.base.errors import refuse


@dataclass(frozen=True)
class WorkerPart:
    """A part is what one worker has of one shard: its packets are `count` chunks of `sink` from
    `first` on, `length` bytes at `offset` of the gathered buffer."""

    worker: int
    sink: ChunkSink
    queue_pair: UdQueuePair
    first: int
    count: int
    offset: int
    length: int


class Subgroups:
    """One rank's sinks, one for each worker, and what they lack together (SC24, arXiv 2408.13356,
    "Subgroups").

    Args:
        region: the gathered buffer.
        shards: bytes of every rank's shard.
        workers: how many there are.
        chunk_bytes: the unit of recovery.

    Raises:
        InputError: there are fewer groups than workers, or the chunk does not fit the path MTU.
    """

    def __init__(
        self,
        communicator: Communicator,
        request: Request,
        region: MemoryRegion,
        shards: Sequence[int],
        workers: int,
        chunk_bytes: int,
    ) -> None:
        path_mtu = communicator.endpoint.path_mtu
        refuse(
            chunk_bytes > path_mtu and chunk_bytes % path_mtu,
            f"chunks of {chunk_bytes} bytes are no whole number of packets of {path_mtu}: "
            f"choose at most {path_mtu}, or a multiple of it",
        )
        refuse(
            len(communicator.multicast) < workers,
            f"{workers} workers: the communicator has {len(communicator.multicast)} multicast "
            "groups, and each worker needs one of its own",
        )
        self.packet_bytes = min(chunk_bytes, path_mtu)
        self._groups = [communicator.multicast[worker::workers] for worker in range(workers)]
        sizes = np.asarray(shards, np.int64)
        chunks = -(-sizes // chunk_bytes)
        starts = np.cumsum(sizes) - sizes
        cuts = [
            np.minimum(chunks * worker // workers * chunk_bytes, sizes)
            for worker in range(workers + 1)
        ]
        self.sinks = [
            ChunkSink(
                region, request.number, self.packet_bytes,
                (end - begin).tolist(), (starts + begin).tolist(),
                packets_per_chunk=max(1, chunk_bytes // path_mtu),
                senders=communicator.addresses,
            )
            for begin, end in itertools.pairwise(cuts)
        ]  # fmt: skip
        feeds = zip(self.sinks, self._groups, strict=True)
        self._feeds = [(pair, sink) for sink, pairs in feeds for pair in pairs]
        """What comes to a queue pair, and where it goes."""

    def attach(self) -> None:
        """Attach to the multicast groups, to receive."""
        for pair, sink in self._feeds:
            pair.attach(sink)

    def detach(self) -> None:
        """Receive nothing more."""
        for pair, sink in self._feeds:
            pair.detach(sink)

    def parts(self, shard: int) -> Iterator[WorkerPart]:
        """Yield what each worker has of a shard, those that have nothing left out."""
        for worker, (sink, pairs) in enumerate(zip(self.sinks, self._groups, strict=True)):
            chunks = sink.chunks_of(shard)
            if chunks:
                offset, length = sink.shard_region(shard)
                pair = pairs[shard % len(pairs)]
                yield WorkerPart(worker, sink, pair, chunks.start, len(chunks), offset, length)

    @property
    def missing(self) -> int:
        """Return how many packets are not there yet."""
        return sum(sink.missing for sink in self.sinks)

    @property
    def missing_bytes(self) -> int:
        """How many bytes are not there yet."""
        return sum(sink.missing_bytes for sink in self.sinks)

    @property
    def received(self) -> int:
        """Return how many packets multicast brought."""
        return sum(sink.received for sink in self.sinks)

    @property
    def duplicates(self) -> int:
        """How many packets came again."""
        return sum(sink.duplicates for sink in self.sinks)

    def missing_in(self, shard: int) -> int:
        """Return how many packets of a shard are not there yet."""
        return sum(sink.missing_in(shard) for sink in self.sinks)

    @property
    def lacking(self) -> list[int]:
        """Return the shards of which a packet is not there yet."""
        return sorted(set().union(*(sink.lacking for sink in self.sinks)))

    def unstarted(self, shard: int) -> bool:
        """Return whether nothing of a shard, which is not empty, has come."""
        return all(
            sink.missing_in(shard) == len(sink.chunks_of(shard)) for sink in self.sinks
        ) and any(sink.chunks_of(shard) for sink in self.sinks)

    def tail_missing(self, shard: int) -> bool:
        """Return whether some worker's last packet of a shard has not come: it may still be on its
        way."""
        return any(
            sink.missing_in(shard) and not sink.has(sink.chunks_of(shard).stop - 1)
            for sink in self.sinks
        )

    def gaps(self, shard: int) -> list[Range]:
        """Return the runs of whole chunks of a shard that are not there, in order."""
        return [
            (worker, gap.first_chunk, gap.first_chunk + gap.count)
            for worker, sink in enumerate(self.sinks)
            for gap in sink.gaps(shard)
        ]

    def packets(self, shard: int) -> int:
        """Return how many packets a shard has."""
        return sum(len(sink.chunks_of(shard)) for sink in self.sinks)

    def span(self, shard: int, part: Range) -> tuple[int, int]:
        """Return (offset, length) of a range of a shard's packets in the gathered buffer."""
        worker, first, end = part
        sink = self.sinks[worker]
        start, size = sink.shard_region(shard)
        base = sink.chunks_of(shard).start
        begin = (first - base) * self.packet_bytes
        return start + begin, min((end - base) * self.packet_bytes, size) - begin

    def mark_shard(self, shard: int) -> None:
        """Take note that a whole shard is in the buffer."""
        for sink in self.sinks:
            sink.mark_shard(shard)


def without(ranges: Sequence[Range], others: Sequence[Range]) -> list[Range]:
    """Return what of `ranges` is in none of `others`; both in order and disjoint, and so is the
    result."""
    left = []
    for worker, first, end in ranges:
        index = max(0, bisect.bisect_right(others, (worker, first, first)) - 1)
        for other, begin, stop in others[index:]:
            if (other, begin) >= (worker, end):
                break
            if other == worker and stop > first:
                if begin > first:
                    left.append((worker, first, begin))
                first = stop
        if first < end:
            left.append((worker, first, end))
    return left
