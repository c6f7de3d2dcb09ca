"""What the collectives are called, and their limits: for whoever asks for one, without numpy."""

from __future__ import annotations

ALGORITHMS: dict[str, tuple[str, ...]] = {
    "allgather": ("multicast", "ring", "linear", "recursive-doubling"),
    "broadcast": ("multicast", "k-nomial", "binary-tree", "pipelined-ring"),
    "reduce-scatter": ("ring", "recursive-halving"),
}
"""By collective; a scenario that names none runs the first two."""
CUTOFFS = ("adaptive", "paper", "fetch-only")
"""When a multicast operation fetches what is missing: near the expected time; at the paper's five
times it; or at once, without any multicast."""
OPS = ("sum", "min", "max")
"""Of Reduce-Scatter."""
MAX_CHUNK_BYTES = 1 << 16
MAX_AT_ONCE = 64
"""Operations that may run at the same time: data packets carry 8 bits of their number."""
