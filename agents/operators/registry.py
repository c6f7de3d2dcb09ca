"""The fused operators by their names."""

from weft.agents.operators.all_gather_matmul import AllGatherMatmul
from weft.agents.operators.embedding_all_to_all import EmbeddingAllToAll
from weft.agents.operators.gemm_all_to_all import GemmAllToAll
from weft.agents.operators.gemv_allreduce import GemvAllreduce
from weft.agents.operators.matmul_reduce_scatter import MatmulReduceScatter
from weft.agents.operators.operator import Operator
from weft.base.errors import InputError

OPERATORS: dict[str, type[Operator]] = {
    operator.name: operator
    for operator in (
        EmbeddingAllToAll, GemvAllreduce, GemmAllToAll, AllGatherMatmul, MatmulReduceScatter,
    )
}  # fmt: skip


def operator_named(name: str) -> type[Operator]:
    """Return the operator of a name. Raises InputError if there is none."""
    if name not in OPERATORS:
        raise InputError(f"operator {name!r}: choose from {', '.join(OPERATORS)}")
    return OPERATORS[name]
