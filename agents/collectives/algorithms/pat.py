"""PAT, parallel aggregated trees: an Allgather in ceil(log2 P) rounds for any number of ranks.

Jeaugey: "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", arXiv
2506.20252, section 3, with buffers for all shards of a round. In round k, from ceil(log2 P) - 1
down to 0, each rank sends to the one 2^k places on, and receives from that 2^k back: of the shards
that it has, those that the other lacks. So each shard goes down a binomial tree of its own, far
ways first, when there is little to carry; most bytes go between neighbours.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from weft.agents.collectives.algorithm import Algorithm
from weft.agents.collectives.algorithms.recursive_doubling import Step, SteppedAllgather
from weft.agents.collectives.requests import Request
from weft.agents.collectives.task import Task
from weft.agents.collectives.transfers import Transfers, critical_path_bytes
from weft.agents.collectives.unicast import Pattern


def rounds_of(ranks: int) -> Iterator[tuple[int, list[int]]]:
    """Yield of each round the distance, and which shards a rank sends: how many places back from
    its own they are."""
    held = [0]
    for round_ in range((ranks - 1).bit_length() - 1, -1, -1):
        distance = 1 << round_
        sent = [offset for offset in held if offset + distance < ranks]
        yield distance, sent
        held += [offset + distance for offset in sent]


class PatAllgather(SteppedAllgather):
    """An Allgather in which each shard goes down a binomial tree of its own."""

    def _make_steps(self) -> Iterator[Step]:
        rank, size = self._rank, self._size
        for distance, sent in rounds_of(size):
            source = (rank - distance) % size
            yield Step(
                (rank + distance) % size, [(rank - offset) % size for offset in sent],
                source, [(source - offset) % size for offset in sent],
            )  # fmt: skip


class Pat(Algorithm):
    """An Allgather in parallel aggregated trees (Jeaugey, 2025)."""

    name = "pat"
    collectives = ("allgather",)
    position: Mapping[str, int] = {"allgather": 5}
    label = "PAT"
    colours = ("#b15928", "#d99a75")
    in_rounds = True
    patterns: Mapping[str, type[Pattern]] = {"allgather": PatAllgather}

    def partners(self, request: Request, rank: int, size: int) -> set[int]:
        """Return the ranks of all rounds, on and back."""
        distances = [distance for distance, _ in rounds_of(size)]
        return {(rank + way * each) % size for each in distances for way in (1, -1)} - {rank}

    def rounds(self, task: Task) -> Iterator[Transfers]:
        """Yield the rounds."""
        ranks = np.arange(task.ranks, dtype=np.int64)
        for distance, sent in rounds_of(task.ranks):
            size_bytes = np.zeros(task.ranks, np.int64)
            for offset in sent:
                size_bytes += np.roll(task.sizes, offset)
            yield Transfers(ranks, np.roll(ranks, -distance), size_bytes)

    def least_bytes(self, task: Task) -> int:
        """Return the critical path of one operation, or what the fullest link carries of all."""
        return max(critical_path_bytes(task.ranks, self.rounds(task)), super().least_bytes(task))


ALGORITHMS = (Pat(),)
