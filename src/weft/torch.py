"""What programs of PyTorch may import from Weft: `ScheduleEager1F1B`, `reshard`, `transfer`, and
layers that use fused operators.

Nothing of it is needed to run over the testbed; none has a counterpart in torch.

Importing it makes the operators known, too: ``torch.ops.weft.embedding_all_to_all``,
``gemv_allreduce`` and ``gemm_all_to_all``, and kernels for the CPU of
``torch.ops.symm_mem.fused_all_gather_matmul`` and ``fused_matmul_reduce_scatter``.
"""

from weft.experiments.families.pipeline.torch_schedules import ScheduleEager1F1B
from weft.experiments.families.resharding.dtensors import reshard
from weft.experiments.families.weights.dtensors import Transfer, transfer
from weft.pytorch.fused import operators
from weft.pytorch.fused.layers.embedding_bag import EmbeddingBagAllToAll
from weft.pytorch.fused.layers.linear import ColumnParallelLinear, RowParallelLinear
from weft.pytorch.fused.layers.mixture import MixtureOfExperts

operators.register()

__all__ = [
    "ColumnParallelLinear",
    "EmbeddingBagAllToAll",
    "MixtureOfExperts",
    "RowParallelLinear",
    "ScheduleEager1F1B",
    "Transfer",
    "reshard",
    "transfer",
]
