"""What tests of lanes share with others."""

from __future__ import annotations

from weft.agents.collectives.communicator import Lane


def every_pair(size: int, lanes: int) -> dict[tuple[int, int], list[Lane]]:
    """So many lanes between all ranks, each with a source port of its own."""
    return {
        (rank, peer): [(50_000 + lane,) for lane in range(lanes)]
        for rank in range(size)
        for peer in range(size)
        if rank != peer
    }
