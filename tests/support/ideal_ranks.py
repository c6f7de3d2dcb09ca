"""Ranks without a network, for the tests of the patterns of the unicast algorithms."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator

import numpy as np

from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import MAX_BLOCKS, Bytes, Write
from weft.agents.collectives.workload import Workload

PATTERNS = (
    ("allgather", "ring"),
    ("allgather", "linear"),
    ("allgather", "recursive-doubling"),
    ("allgather", "swing"),
    ("allgather", "pat"),
    ("broadcast", "k-nomial"),
    ("broadcast", "binary-tree"),
    ("broadcast", "pipelined-ring"),
    ("reduce-scatter", "ring"),
    ("reduce-scatter", "recursive-halving"),
    ("allreduce", "ring"),
    ("allreduce", "halving-doubling"),
    ("allreduce", "double-binary-tree"),
    ("allreduce", "direct"),
    ("alltoall", "direct"),
    ("many-to-one", "direct"),
)
PACKET_BYTES = 16
"""Small, so that small shards have many blocks."""


class Ideal:
    """Ranks whose writes arrive by magic, in random order: what is posted, what arrives next and
    which rank looks next at what has arrived is drawn.

    Nothing that is under way may be changed. An Allreduce's result may overwrite a sum that was
    there, and was looked at; else no byte is written twice.
    """

    def __init__(self, request: Request, size: int, buffers: list[Bytes], seed: int) -> None:
        self.chance = random.Random(seed)
        make = algorithm_of(request.collective, request.algorithm).pattern
        counts = [request.output_elements(rank, size) for rank in range(size)]
        self.outputs = [np.zeros((count or 0) * request.item_bytes, np.uint8) for count in counts]
        results: list[Bytes | None] = [None] * size
        if counts[0] is not None:
            results = list(self.outputs)
        self.overwrites = request.collective == "allreduce"
        self.patterns = [
            make(request, rank, size, PACKET_BYTES, buffers[rank], results[rank])
            for rank in range(size)
        ]
        self.left = [dict(pattern.expected) for pattern in self.patterns]
        self.sent_bytes = [0] * size
        self.written: set[tuple[int, int, int]] = set()
        """(receiver, memory, byte) of everything that arrived; of an Allreduce, that its receiver
        has not looked at."""

    def run(self) -> None:
        to_post: list[deque[Iterator[Write]]] = [
            deque([iter(pattern.begin())]) for pattern in self.patterns
        ]
        under_way: list[tuple[int, Write, bytes]] = []
        unseen: list[tuple[int, Write]] = []
        while True:
            able = [rank for rank, waiting in enumerate(to_post) if waiting]
            if not able and not under_way and not unseen:
                break
            choice = self.chance.randrange(len(able) + len(under_way) + len(unseen))
            if choice < len(able):
                rank = able[choice]
                write = next(to_post[rank][0], None)
                if write is None:
                    to_post[rank].popleft()
                else:
                    under_way.append((rank, write, self._source(rank, write).tobytes()))
            elif choice < len(able) + len(under_way):
                sender, write, data = under_way.pop(choice - len(able))
                self._arrive(sender, write, data)
                unseen.append((sender, write))
            else:
                sender, write = unseen.pop(choice - len(able) - len(under_way))
                to_post[write.peer].append(self._look_at(sender, write))
        assert not any(sum(left.values()) for left in self.left)

    def _source(self, rank: int, write: Write) -> Bytes:
        assert write.peer in self.patterns[rank].targets
        memory = self.patterns[rank].memories[write.memory]
        assert 0 <= write.offset < write.offset + write.length <= len(memory)
        return memory[write.offset : write.offset + write.length]

    def _arrive(self, sender: int, write: Write, data: bytes) -> None:
        assert self._source(sender, write).tobytes() == data, "changed while it was under way"
        receiver = self.patterns[write.peer]
        memory = receiver.memories[receiver.window(sender)]
        end = write.target + write.length
        assert 0 <= write.target < end <= len(memory)
        places = self._places(sender, write)
        assert not places & self.written, "written twice"
        self.written |= places
        memory[write.target : end] = np.frombuffer(data, np.uint8)
        self.sent_bytes[sender] += write.length
        self.left[write.peer][sender] -= 1

    def _places(self, sender: int, write: Write) -> set[tuple[int, int, int]]:
        window = self.patterns[write.peer].window(sender)
        written = range(write.target, write.target + write.length)
        return {(write.peer, window, byte) for byte in written}

    def _look_at(self, sender: int, write: Write) -> Iterator[Write]:
        receiver = self.patterns[write.peer]
        if self.overwrites:
            self.written -= self._places(sender, write)
        length, following = receiver.arrived(sender, write.block)
        assert length == write.length
        assert write.block < MAX_BLOCKS
        return iter(following)


def carry_out(request: Request, size: int, seed: int = 0) -> Ideal:
    """Run a request and check the result on every rank."""
    workload = Workload(request, size, seed=3)
    arrays = [workload.buffer(rank) for rank in range(size)]
    before = [array.tobytes() for array in arrays]
    ideal = Ideal(request, size, [array.view(np.uint8) for array in arrays], seed)
    ideal.run()
    for rank in range(size):
        apart = request.output_elements(rank, size) is not None
        output = ideal.outputs[rank].view(request.dtype) if apart else None
        assert not workload.check(rank, arrays[rank], output)
        assert not apart or arrays[rank].tobytes() == before[rank]
    return ideal
