"""What the collectives are called, and their limits: for whoever asks for one, without numpy."""

from functools import cache
from typing import Any

from weft.base.entry_points import brought

COLLECTIVES: dict[str, tuple[str, ...]] = {
    "allgather": ("multicast", "ring", "linear", "recursive-doubling"),
    "broadcast": ("multicast", "k-nomial", "binary-tree", "pipelined-ring"),
    "reduce-scatter": ("ring", "recursive-halving", "optcast", "switch"),
    "allreduce": ("ring", "switch", "optcast", "halving-doubling", "double-binary-tree", "direct"),
    "alltoall": ("direct",),
    "many-to-one": ("direct",),
}
"""The collectives, each with Weft's own algorithms; a scenario that names none runs the first two.
"""
MODULES = {
    "multicast": "multicast",
    "ring": "ring",
    "linear": "direct",
    "recursive-doubling": "recursive_doubling",
    "k-nomial": "trees",
    "binary-tree": "trees",
    "pipelined-ring": "trees",
    "recursive-halving": "recursive_halving",
    "optcast": "optcast",
    "switch": "switch",
    "halving-doubling": "halving_doubling",
    "double-binary-tree": "double_binary_tree",
    "direct": "direct",
}
"""Which module of `weft.agents.collectives.algorithms` an algorithm is in."""


def brought_algorithms() -> dict[str, Any]:
    """Algorithms that other packages bring, by name: instances of
    `weft.agents.collectives.algorithm.Algorithm`."""
    return brought("weft.algorithms", "collectives", "heeds", taken=tuple(MODULES))


@cache
def algorithms() -> dict[str, tuple[str, ...]]:
    """Names of algorithms by collective, those of other packages last."""
    more = brought_algorithms()
    return {
        collective: (*names, *(name for name in more if collective in more[name].collectives))
        for collective, names in COLLECTIVES.items()
    }


FLOWS = "flows"
"""Flows that depend on each other, of any workload (`weft.agents.collectives.flow_graph`)."""
GIVEN = "given"
"""Algorithm of flows that belong to no collective."""
FLOW_ALGORITHMS = (GIVEN, "ring", "direct", "halving-doubling", "double-binary-tree")
"""How the collectives in such a workload are done; ``given``: it has none, and the flows are as the
workload names them."""
CUTOFFS = ("adaptive", "paper", "fetch-only")
"""When a multicast operation fetches what is missing: near the expected time; at five times that
time, as the paper does; or at once, without any multicast."""
REDUCING = ("reduce-scatter", "allreduce")
"""The collectives that combine all ranks' elements."""
VECTORS = ("allreduce", "alltoall")
"""The collectives to which each rank contributes a vector that has a part for every rank."""
ROOTED = ("broadcast", "many-to-one")
"""The collectives in which one rank, the root, has another part than the others."""
OPS = ("sum", "min", "max", "average")
"""What those do with them."""
DATA = ("exact", "normal", "heavy-tailed", "mixed")
"""What they are: integers whose sums are exact in any order, or numbers as gradients are
(`weft.agents.collectives.gradients`)."""
SWITCH_DTYPES = ("float32", "float16", "bfloat16", "int32")
"""The types of the algorithm switch, which adds in fixed point of 32 bits; its ops are sum and
average."""
MAX_CHUNK_BYTES = 1 << 16
MAX_AT_ONCE = 64
"""Operations that may run at the same time: data packets carry 8 bits of their number."""
