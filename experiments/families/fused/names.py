"""What fused operators are called, and the algorithms by which they are carried out."""

from functools import cache

from weft.base.errors import InputError
from weft.base.units import shown

FUSED_OPERATORS = "fused"
"""The collective: an operator whose computation and communication may be fused."""
OPERATORS = {
    "embedding-all-to-all": "pooled look-ups of tables, to the owners of samples",
    "gemv-allreduce": "a matrix split by columns times vectors; all get the sums",
    "gemm-all-to-all": "experts' products, to the owners of tokens",
    "all-gather-matmul": "rows of all ranks, times a matrix of each",
    "matmul-reduce-scatter": "products split along the sum; each gets rows of the sums",
}
"""The names of `weft.agents.operators.registry.OPERATORS`, each with what help says of it."""
ADDING = ("gemv-allreduce", "gemm-all-to-all", "matmul-reduce-scatter")
"""The operators that add what ranks have computed."""
GIVING = ("gemv-allreduce", "all-gather-matmul")
"""The operators by which all ranks get the same from one."""
FUSED, UNFUSED = "fused", "unfused"
COMPUTATION, COMMUNICATION = "computation", "communication"
"""The kinds of algorithms: an operator fused, unfused, and each of its parts alone."""
CLOCKS = {
    "modelled": "the declared device's",
    "measured": "what it takes this machine; emulated alone",
}
"""Whose time it takes to compute, each with what help says of it."""
DIRECT, MULTICAST, SWITCH = "direct", "multicast", "switch"
WAYS = {
    DIRECT: "from rank to rank",
    MULTICAST: "switches replicate what goes to all",
    SWITCH: "switches add",
}
"""How an operator's bytes go, each with what help says of it."""
DISPATCHES = {
    "none": "they are there",
    "unicast": "from rank to rank",
    "multicast": "switches replicate them",
}
"""How tokens get to their experts: they are there; from rank to rank; replicated by switches."""
WORKGROUPS, THREADS = 16, 2
"""Workgroups of a device that is declared, and of this machine."""
SLICE_BYTES = 64 * 1024
RATIO = 1.0


@cache
def algorithms() -> tuple[str, ...]:
    """Return what an operator can be carried out by."""
    both = [algorithm_named(kind, way) for way in WAYS for kind in (FUSED, UNFUSED)]
    return (*both, COMPUTATION, *(algorithm_named(COMMUNICATION, way) for way in WAYS))


def algorithm_named(kind: str, way: str) -> str:
    """Return an algorithm: ``fused``, ``unfused``, ``fused/multicast``, ..."""
    return kind if way == DIRECT else f"{kind}/{way}"


def parts_of_algorithm(algorithm: str) -> tuple[str, str]:
    """Return the kind of an algorithm, like ``fused``, and the way in which its bytes go."""
    kind, _, way = algorithm.partition("/")
    return kind, way or DIRECT


def check_algorithm(operator: str, algorithm: str) -> None:
    """Raise `InputError` for an algorithm that an operator does not have."""
    _, way = parts_of_algorithm(algorithm)
    known = {MULTICAST: GIVING, SWITCH: ADDING}.get(way, tuple(OPERATORS))
    if operator not in known:
        raise InputError(
            f"algorithm {shown(algorithm)} means nothing for operator {operator}: {WAYS[way]} in "
            f"{' and '.join(known)}; choose fused or unfused, or another operator"
        )
