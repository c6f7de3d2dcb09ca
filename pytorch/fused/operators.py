"""Makes the fused operators known to torch: ``torch.ops.weft.*``, and those of ``symm_mem`` for
tensors on the CPU."""

from weft.pytorch.fused import gemv_allreduce

_registered = False


def register() -> None:
    """Make all of them known, once in a process."""
    global _registered
    if _registered:
        return
    _registered = True
    for module in (gemv_allreduce,):
        module.register()
