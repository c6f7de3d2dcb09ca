"""Theory's questions to algorithms, by the names of collective and algorithm."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.transfers import Task, Transfers

OFFLOADED = ("switch", "optcast")
"""Algorithms that need more than ranks: switches that add, or reduction servers."""


def unicast_rounds(
    collective: str, algorithm: str, shards: Sequence[int], **options: Any
) -> Iterator[Transfers]:
    """All messages of one operation, in rounds."""
    task = Task(collective, np.asarray(shards, np.int64), **options)
    return algorithm_of(collective, algorithm).rounds(task)


def bound_bytes(collective: str, algorithm: str, shards: Sequence[int], **options: Any) -> int:
    """The least completion time in bytes that one link could carry meanwhile."""
    if len(shards) == 1:
        return 0
    task = Task(collective, np.asarray(shards, np.int64), **options)
    return algorithm_of(collective, algorithm).least_bytes(task)
