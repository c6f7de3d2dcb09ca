"""Direct exchange: every rank writes what is another's straight to it, all at the same time.

Allgather (linear): every rank writes its shard to every other, the next rank first. That is N(P-1)
bytes out of and into every host, as around a ring, but most of them go across the fabric.

All-to-all: each rank's vector has a part for every rank. Many-to-one: every rank's shard goes to
the root. Allreduce: everybody's part d goes to rank d, and its sum to everybody; every link carries
2 L (P - 1) / P bytes of a vector of L bytes in each direction, as around a ring, in two steps in
place of 2 (P - 1).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import IntArray, Transfers, at_once, to_all, to_owners
from weft.agents.collectives.unicast import (
    Blocks,
    Bytes,
    Pattern,
    TablePattern,
    Write,
    columns,
    require,
    summed,
)
from weft.agents.transport.relay import RelayTable


class Exchange:
    """An exchange numbers the blocks that rank r has for each rank d, of `parts[d]` bytes.

    At rank d the parts of all ranks follow each other in order of ranks, those of its own among
    them; their blocks are numbered through.
    """

    def __init__(self, parts: Sequence[int], block_size: int, rank: int, lanes: int = 1) -> None:
        self.blocks = Blocks(parts, block_size)
        """The blocks of one rank's vector."""
        self._rank = rank
        self._lanes = lanes
        self._parts = parts
        self.own = self.blocks.count(rank)
        """Blocks that come to this rank from each other one."""

    def writes(self, slot_of: Sequence[int], starts_at: Sequence[int]) -> IntArray:
        """Return what this rank writes from its memory 0, int64 [n, 6], as rows of `RelayTable`: a
        block for each lane to each other in turn.

        Blocks are smaller with lanes, so turns are as long as without.

        Args:
            slot_of: by destination, where this rank's part is among the parts there.
            starts_at: by destination, where the first of these parts is in its memory.
        """
        peer, offset, length = self.blocks.columns()
        parts = np.array(self._parts, np.int64)
        counts = np.bincount(peer, minlength=len(parts))
        first, start = counts.cumsum() - counts, parts.cumsum() - parts
        place = np.arange(len(peer)) - first[peer]
        slots, bases = np.array(slot_of, np.int64), np.array(starts_at, np.int64)
        target = bases[peer] + slots[peer] * parts[peer] + offset - start[peer]
        block = self._rank * counts[peer] + place
        distance = (peer - self._rank) % len(parts)
        in_turn = np.lexsort((place, distance, place // self._lanes))
        rows = columns(peer, block, 0, offset, length, target)[in_turn]
        return np.ascontiguousarray(rows[rows[:, 0] != self._rank])

    def place_of(self, peer: int, block: int) -> int:
        """Return which of its blocks a peer has written; raises ProtocolError if none."""
        require(self.own > 0 and block // self.own == peer != self._rank, block)
        return block % self.own

    def own_span(self, place: int) -> tuple[int, int]:
        """Return (offset, length) in this rank's vector of a block of its own part."""
        return self.blocks.span(self.blocks.of(self._rank)[place])


class DirectAlltoall(TablePattern):
    """An All-to-all in which this rank writes part d of its vector to each rank d, where the parts
    of all ranks follow each other.

    Args:
        buffer: this rank's vector; only read.
        output: as many parts as there are ranks, each of the size of this rank's.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        super().__init__(request, rank, size, path_mtu, buffer, output)
        self.memories = (buffer, output)
        start, length = sum(self._parts[:rank]), self._parts[rank]
        output[rank * length : (rank + 1) * length] = buffer[start : start + length]

    def window(self, peer: int) -> int:
        """Return 1: every peer writes the output."""
        return 1

    def _table(self) -> RelayTable:
        size, rank = self._size, self._rank
        exchange = Exchange(self._parts, self._block_bytes, rank, self._request.lanes)
        writes = exchange.writes([rank] * size, [0] * size)
        part, _, length = self._blocks.columns()
        own, peers = length[part == rank], np.array(self._others, np.int64)
        peer, place = np.repeat(peers, len(own)), np.tile(np.arange(len(own)), len(peers))
        blocks = columns(peer * len(own) + place, peer, own[place], 0, 0)
        return RelayTable(writes, len(writes), blocks)


class DirectGather(TablePattern):
    """A many-to-one in which this rank writes its shard to the root.

    Args:
        buffer: on the root the gathered array, with its own shard in its place; elsewhere the
            rank's shard.
    """

    def _table(self) -> RelayTable:
        root, at_root = self._request.root, self._rank == self._request.root
        part, offset, length = self._blocks.columns()
        number = np.arange(len(part))
        sent = number[(part == self._rank) & (not at_root)]
        come = number[(part != root) & at_root]
        within = offset[sent] - offset[sent][:1]
        return RelayTable(
            columns(root, sent, 0, within, length[sent], offset[sent]),
            len(sent),
            columns(come, part[come], length[come], 0, 0),
        )


BUFFER, STAGING, OUTPUT = range(3)
"""The memories of a rank in an Allreduce. Staging has room for the result, then for every other
rank's part."""


class DirectAllreduce(Pattern):
    """A rank adds each block of its part once it has come from all, in order of ranks, and sends
    the sum to all others; no block waits for another.

    The result is the same on all ranks and in every run. Half types are added in their own type,
    that of the wire. An average is divided once, where the sum is whole.

    Args:
        buffer: the vector that this rank contributes; only read.
        output: of the same size.
    """

    def __init__(
        self, request: Request, rank: int, size: int, path_mtu: int, buffer: Bytes, output: Bytes
    ) -> None:
        super().__init__(request, rank, size, path_mtu, buffer, output)
        self._exchange = Exchange(self._parts, self._block_bytes, rank, request.lanes)
        self._own_bytes = self._parts[rank]
        self._vector_bytes = len(buffer)
        staged = len(buffer) + (size - 1) * self._own_bytes if size > 1 else 0
        self.memories = (buffer, np.empty(staged, np.uint8), output)
        own = self._exchange.own
        self._missing = [size - 1] * own
        """For each block of this rank's part, how many ranks' blocks have not come."""
        self.expected = summed((peer, own + self._blocks.count(peer)) for peer in self._others)
        self.targets = tuple(self.expected)

    def window(self, peer: int) -> int:
        """Return the staging memory, which all peers write."""
        return STAGING

    def begin(self) -> Iterable[Write]:
        """Return the writes of every other rank's part of this rank's vector."""
        slots = [self._slot(self._rank, peer) for peer in range(self._size)]
        rows = self._exchange.writes(slots, [self._vector_bytes] * self._size)
        return (Write(*row) for row in rows.tolist())

    def arrived(self, peer: int, block: int) -> tuple[int, Iterable[Write]]:
        """Take a block of a result, or of this rank's part, whose sum is sent once all have
        come."""
        numbered_from = self._size * self._exchange.own
        if block >= numbered_from:
            return self._take_result(peer, block - numbered_from, block), ()
        place = self._exchange.place_of(peer, block)
        require(self._missing[place] > 0, block)
        self._missing[place] -= 1
        length = self._exchange.own_span(place)[1]
        if self._missing[place]:
            return length, ()
        self._add(place)
        return length, self._results(place)

    @staticmethod
    def _slot(source: int, destination: int) -> int:
        """Return where a rank's part is among those of all others."""
        return source - (source > destination)

    def _take_result(self, peer: int, block: int, number: int) -> int:
        require(block in self._exchange.blocks.of(peer), number)
        offset, length = self._exchange.blocks.span(block)
        end = offset + length
        self._copy(self.memories[STAGING][offset:end], self.memories[OUTPUT][offset:end])
        return length

    def _add(self, place: int) -> None:
        """Sum up a block of this rank's part, which is there from all."""
        offset, length = self._exchange.own_span(place)
        within = offset - self._exchange.own_span(0)[0]
        total = self.memories[OUTPUT][offset : offset + length]
        terms = [self._term(source, offset, within, length) for source in range(self._size)]
        before = terms[0]
        for count, term in enumerate(terms[1:], 2):
            whole = self._size if count == self._size else 0
            self._combine(before, term, total, ranks=whole)
            before = total

    def _term(self, source: int, offset: int, within: int, length: int) -> Bytes:
        """Return a rank's part of a sum."""
        if source == self._rank:
            return self.memories[BUFFER][offset : offset + length]
        start = self._vector_bytes + self._slot(source, self._rank) * self._own_bytes + within
        return self.memories[STAGING][start : start + length]

    def _results(self, place: int) -> Iterator[Write]:
        block = self._exchange.blocks.of(self._rank)[place]
        for peer in self._others:
            yield self._write(peer, block, OUTPUT, self._size * self._blocks.count(peer))


class Direct(Algorithm):
    """Every rank sends the part of each other rank straight to that rank."""

    name = "direct"
    all_at_once = True
    collectives: tuple[str, ...] = ("allreduce", "alltoall", "many-to-one")
    position: Mapping[str, int] = {"allreduce": 5, "alltoall": 0, "many-to-one": 0, "flows": 1}
    counterparts: Mapping[str, str] = {"allgather": "linear"}
    exchanges: Mapping[str, int] = {"allreduce": 2, "alltoall": 1}
    colours = ("#56b4e9", "#8fd0f5")
    patterns: Mapping[str, type[Pattern]] = {
        "allreduce": DirectAllreduce, "alltoall": DirectAlltoall, "many-to-one": DirectGather,
    }  # fmt: skip

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the root for the other ranks of many-to-one, else all other ranks."""
        if request.collective == "many-to-one" and rank != request.root:
            return {request.root}
        return set(range(size)) - {rank}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the rounds in which every rank sends to every other what is that one's."""
        sizes = task.sizes
        if task.collective == "many-to-one":
            others = np.delete(np.arange(task.ranks, dtype=np.int64), task.root)
            yield Transfers(others, np.full_like(others, task.root), sizes[others])
            return
        yield from to_owners(sizes)
        if task.collective == "allreduce":
            yield from to_all(sizes)

    def steps(self, task: Task) -> Iterator[Transfers]:
        """Yield all messages as one step, since every rank sends to all others at the same time."""
        return at_once(super().steps(task), task.ranks - 1)


class LinearAllgather(TablePattern):
    """An Allgather in which this rank writes its shard straight to all others.

    Args:
        buffer: the gathered array's bytes; this rank's shard is in its place.
    """

    def _table(self) -> RelayTable:
        part, offset, length = self._blocks.columns()
        number, peers = np.arange(len(part)), np.array(self._others, np.int64)
        own = number[part == self._rank]
        in_turn = np.argsort((part - self._rank) % self._size, kind="stable")
        come = in_turn[part[in_turn] != self._rank]
        peer, block = np.repeat(peers, len(own)), np.tile(own, len(peers))
        return RelayTable(
            columns(peer, block, 0, offset[block], length[block], offset[block]),
            len(block),
            columns(come, part[come], length[come], 0, 0),
        )


class Linear(Direct):
    """Every rank of an Allgather sends its shard straight to every other (Thakur, Rabenseifner,
    Gropp, 2005)."""

    name = "linear"
    collectives = ("allgather",)
    position: Mapping[str, int] = {"allgather": 2}
    counterparts: Mapping[str, str] = {}
    exchanges: Mapping[str, int] = {}
    colours = ("#cc79a7", "#e09cc2")
    patterns: Mapping[str, type[Pattern]] = {"allgather": LinearAllgather}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the rounds in which every rank sends its shard to every other."""
        return to_all(task.sizes)

    def least_bytes(self, task: Task) -> int:
        """Return the fullest uplink's (P - 1) n_r, or the fullest downlink's T - n_r."""
        sizes = task.sizes
        fullest = max((task.ranks - 1) * sizes.max(), sizes.sum() - sizes.min())
        return task.operations * int(fullest)


ALGORITHMS = (Direct(), Linear())
