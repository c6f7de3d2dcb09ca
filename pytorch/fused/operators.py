"""Makes the fused operators known to torch: ``torch.ops.weft.*``, and those of ``symm_mem`` for
tensors on the CPU."""

from weft.pytorch.fused import (
    all_gather_matmul,
    embedding_all_to_all,
    gemm_all_to_all,
    gemv_allreduce,
    matmul_reduce_scatter,
)

_registered = False


def register() -> None:
    """Make all of them known, once in a process."""
    global _registered
    if _registered:
        return
    _registered = True
    gemv_allreduce.register()
    embedding_all_to_all.register()
    gemm_all_to_all.register()
    all_gather_matmul.register()
    matmul_reduce_scatter.register()
