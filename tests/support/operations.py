"""Operations as many tests need them."""

from __future__ import annotations

from typing import Any

from weft.agents.collectives.requests import Request
from weft.agents.ranks import OperationConfig


def gather(algorithm: str, shard_bytes: int, *, seed: int = 1, **more: Any) -> OperationConfig:
    """An Allgather; ``more`` of the request."""
    return OperationConfig(Request(0, "allgather", algorithm, shard_bytes, **more), seed)
