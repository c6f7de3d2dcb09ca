"""What the collectives are called, and their limits: for whoever asks for one, without numpy."""

from functools import cache
from typing import Any, Literal, get_args

import msgspec

from weft.base.registry import Colour, Registry

Collective = Literal[
    "allgather", "broadcast", "reduce-scatter", "allreduce", "alltoall", "many-to-one"
]
COLLECTIVES: tuple[Collective, ...] = get_args(Collective)


class AlgorithmFacts(msgspec.Struct):
    """The facts of an algorithm are known without its module: they are attributes of
    `weft.agents.collectives.algorithm.Algorithm`."""

    collectives: list[Collective]
    position: dict[str, int]
    unicast: bool
    baseline: bool
    interleaved_as: str
    options: str
    label: str
    colours: tuple[Colour, Colour]


ALGORITHMS: Registry[Any] = Registry(
    "weft.algorithms",
    "weft.agents.collectives.algorithms:ALGORITHMS",
    facts=AlgorithmFacts,
    kind="weft.agents.collectives.algorithm:Algorithm",
)
"""All algorithms: instances of `weft.agents.collectives.algorithm.Algorithm`."""


@cache
def algorithms() -> dict[str, tuple[str, ...]]:
    """Return the names of algorithms by collective, in order; those of other packages are last."""
    return {collective: _in_order(collective) for collective in COLLECTIVES}


@cache
def flow_algorithms() -> tuple[str, ...]:
    """Return how the collectives in a workload of flows can be done: by algorithms of Allreduce
    whose messages can be flows.

    The first is `GIVEN`: there are no collectives, and the flows are as the workload names them.
    """
    flows = (name for name in _in_order("allreduce", FLOWS) if ALGORITHMS.fact(name, "unicast"))
    return (GIVEN, *flows)


def interleaved_algorithms() -> dict[str, tuple[str, str]]:
    """Return how FSDP interleaving can be done, each by the algorithm of its Allgathers and that of
    the Reduce-Scatters beside them."""
    gathers, scatters = (
        {ALGORITHMS.fact(name, "interleaved_as"): name for name in reversed(names)}
        for names in (_in_order("allgather", FSDP), _in_order("reduce-scatter"))
    )
    return {
        name: (gathers[name], scatters[name])
        for name in reversed(gathers)
        if name and name in scatters
    }


def baseline() -> str:
    """Return the algorithm with which others are compared if nothing else is said."""
    return next(name for name in ALGORITHMS if ALGORITHMS.fact(name, "baseline"))


def _in_order(collective: str, listed: str = "") -> tuple[str, ...]:
    """Return a collective's algorithms by their positions, in the list of another name if one is
    given."""

    def place(name: str) -> tuple[bool, int]:
        position = ALGORITHMS.fact(name, "position").get(listed or collective, len(ALGORITHMS))
        return name not in ALGORITHMS.own, position

    able = (name for name in ALGORITHMS if collective in ALGORITHMS.fact(name, "collectives"))
    return tuple(sorted(able, key=place))


FLOWS = "flows"
"""Flows that depend on each other, of any workload (`weft.agents.collectives.flow_graph`)."""
FSDP = "fsdp-interleave"
"""Allgathers and Reduce-Scatters of the layers of a model, beside each other
(`weft.experiments.families.fsdp.interleaving`)."""
GIVEN = "given"
"""Algorithm of flows that belong to no collective."""
REDUCING = ("reduce-scatter", "allreduce")
"""The collectives that combine all ranks' elements."""
VECTORS = ("allreduce", "alltoall")
"""The collectives to which each rank contributes a vector that has a part for every rank."""
ROOTED = ("broadcast", "many-to-one")
"""The collectives in which one rank, the root, has another part than the others."""
OPS = ("sum", "min", "max", "average")
"""What those do with them, as the command line offers it."""
REDUCTIONS = (*OPS, "product", "bitwise-and", "bitwise-or", "bitwise-xor")
"""What a request may ask of them; the last three are for integers."""
DATA = ("exact", "normal", "heavy-tailed", "mixed")
"""What they are: integers whose sums are exact in any order, or numbers as gradients are
(`weft.agents.collectives.gradients`)."""
SLOTS = 128
"""N: rounds of a job of sums in switches under way at a time. With 256 values a packet, 11.5 ms at
100 Mbit/s."""
AGGREGATION_VALUES = 256
"""How many numbers of 32 bits an aggregation packet of the built-in switch carries."""
BMV2_AGGREGATION_VALUES = 64
"""The same number if BMv2 runs the program; it is smaller since BMv2 takes statements one
by one."""
MAX_SPLIT = 1 << 12
"""The most pieces of a request to reduction servers."""
MAX_HOSTS = 8192
"""The most hosts of a network: as many as a fat tree of three tiers and 32 ports has. A larger one
takes minutes."""
BLOCK_BYTES = 64 * 1024
"""What unicast algorithms pass on at a time if nothing is said, of large shards."""
BLOCKS_PER_SHARD = 8
"""Smaller shards are cut into so many blocks, down to one packet a block."""
MAX_SIZE_BYTES = 1 << 32
"""The most bytes of a rank that a scenario may ask for."""
MAX_AT_ONCE = 64
"""Operations that may run at the same time: data packets carry 8 bits of their number."""
