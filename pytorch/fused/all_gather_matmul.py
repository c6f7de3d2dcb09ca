"""``symm_mem::fused_all_gather_matmul`` on the CPU: a matrix whose rows are spread over the ranks
is gathered and multiplied, each slice as soon as it has come.

torch has the operator for CUDA (torch/distributed/_symmetric_memory); the schema, and what comes
out, are torch's. Groups of other backends get torch's own unfused form.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.distributed import distributed_c10d

from weft.pytorch.errors import BadCallError
from weft.pytorch.fused.call import Call, refusing
from weft.pytorch.fused.tiles import FLOATS, Options, check_tensors, sizes
from weft.pytorch.process_group import WeftProcessGroup

NAME = "fused_all_gather_matmul"


def fused_all_gather_matmul(
    A_shard: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    gather_dim: int,
    group_name: str,
    *,
    return_A: bool = True,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Return the tensor A of which each rank has a part, and its products with matrices.

    A rank sends its part in slices of about 64 KiB, multiplies it, and then each slice of the
    others as it comes; where the inner dimension is gathered, the products of the ranks' parts are
    added in the order of ranks.

    Args:
        A_shard: [..., K], this rank's part of A; all have the same shape.
        Bs: [K, N] each; [K P, N] if the last dimension of A is gathered.
        gather_dim: the dimension of A that is spread over the ranks.
        group_name: of the process group.
        return_A: whether A is wanted.

    Returns:
        A or None, and `A @ B` for each of the matrices.

    Raises:
        BadCallError: the arguments make no sense; it is a ValueError.
        RuntimeError: the network has failed, or ranks do not call the same.
    """
    group = distributed_c10d._resolve_process_group(group_name)
    if not isinstance(group, WeftProcessGroup):
        found: tuple[torch.Tensor | None, list[torch.Tensor]] = (
            symmetric_memory._fused_all_gather_matmul_fallback(
                A_shard, Bs, gather_dim, group_name, return_A=return_A
            )
        )
        return found
    with refusing(group, NAME):
        gather_dim = _check(group, A_shard, Bs, gather_dim)
    if gather_dim == A_shard.dim() - 1:
        return _inner(group, A_shard, Bs, return_A)
    return _outer(group, A_shard, Bs, gather_dim, return_A)


def _check(
    group: WeftProcessGroup, A_shard: torch.Tensor, Bs: Sequence[torch.Tensor], gather_dim: int
) -> int:
    """Return the dimension, from 0 on. Raises BadCallError for what makes no sense."""
    check_tensors(FLOATS, A_shard=A_shard, **{f"Bs[{n}]": each for n, each in enumerate(Bs)})
    dims = A_shard.dim()
    if dims < 2:
        raise BadCallError(f"A_shard has shape {tuple(A_shard.shape)}: at least a matrix is needed")
    if not -dims <= gather_dim < dims:
        raise BadCallError(
            f"gather_dim {gather_dim}: A_shard has {dims} dimensions, choose 0 to {dims - 1}"
        )
    gather_dim %= dims
    inner = A_shard.shape[-1] * (group.size() if gather_dim == dims - 1 else 1)
    for number, each in enumerate(Bs):
        if each.dim() != 2 or each.shape[0] != inner or each.dtype != A_shard.dtype:
            raise BadCallError(
                f"Bs[{number}] is {tuple(each.shape)} of {each.dtype}: [{inner}, N] of "
                f"{A_shard.dtype} is needed"
            )
    return gather_dim


def _outer(
    group: WeftProcessGroup,
    A_shard: torch.Tensor,
    Bs: Sequence[torch.Tensor],
    gather_dim: int,
    return_A: bool,
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Gather rows; each slice of them is multiplied by itself."""
    size, rank = group.size(), group.rank()
    first = A_shard.movedim(gather_dim, 0)
    rows = first.reshape(-1, first.shape[-1]).contiguous()
    whole = rows.new_empty(size, *rows.shape) if return_A else None
    products = [rows.new_empty(size, rows.shape[0], each.shape[1]) for each in Bs]

    def multiply(source: int, begin: int, part: torch.Tensor) -> None:
        end = begin + part.shape[0]
        if whole is not None:
            whole[source, begin:end] = part
        for matrix, product in zip(Bs, products, strict=True):
            torch.mm(part, matrix, out=product[source, begin:end])

    row_bytes = rows.shape[1] * rows.element_size()
    slices = Options().slices([rows.shape[0]], row_bytes)
    each_sizes = sizes([slices] * size, row_bytes, rank)
    text = f"of {tuple(A_shard.shape)} {A_shard.dtype} along {gather_dim}"
    with Call(group, NAME, text, each_sizes, each_sizes, "fused") as call:
        for index, each in enumerate(slices):
            for step in range(1, size):
                part = rows[each.first : each.first + each.size]
                call.give((rank + step) % size, index, part)
        for each in slices:
            multiply(rank, each.first, rows[each.first : each.first + each.size])
        for source, index in call.arrivals():
            each = slices[index]
            shape = each.size, rows.shape[1]
            multiply(source, each.first, call.received(source, index, rows.dtype, shape))

    def shaped(found: torch.Tensor) -> torch.Tensor:
        return found.view(-1, *first.shape[1:-1], found.shape[-1]).movedim(0, gather_dim)

    return None if whole is None else shaped(whole), [shaped(each) for each in products]


def _inner(
    group: WeftProcessGroup, A_shard: torch.Tensor, Bs: Sequence[torch.Tensor], return_A: bool
) -> tuple[torch.Tensor | None, list[torch.Tensor]]:
    """Gather columns; the products of all ranks' parts are added in the order of ranks."""
    size, rank = group.size(), group.rank()
    rows = A_shard.reshape(-1, A_shard.shape[-1]).contiguous()
    count, width = rows.shape
    row_bytes = width * rows.element_size()
    slices = Options().slices([count], row_bytes)
    each_sizes = sizes([slices] * size, row_bytes, rank)
    parts = rows.new_empty(size, count, width)
    products = [rows.new_zeros(count, each.shape[1]) for each in Bs]
    added = 0

    def add(source: int) -> None:
        for matrix, product in zip(Bs, products, strict=True):
            product.addmm_(parts[source], matrix[source * width : (source + 1) * width])

    text = f"of {tuple(A_shard.shape)} {A_shard.dtype} along {A_shard.dim() - 1}"
    with Call(group, NAME, text, each_sizes, each_sizes, "fused") as call:
        for index, each in enumerate(slices):
            for step in range(1, size):
                part = rows[each.first : each.first + each.size]
                call.give((rank + step) % size, index, part)
        parts[rank] = rows
        missing = [0 if source == rank else len(slices) for source in range(size)]
        while added < size and not missing[added]:
            add(added)
            added += 1
        for source, index in call.arrivals():
            each = slices[index]
            parts[source, each.first : each.first + each.size] = call.received(
                source, index, rows.dtype, (each.size, width)
            )
            missing[source] -= 1
            while added < size and not missing[added]:
                add(added)
                added += 1
    whole = parts.transpose(0, 1).reshape(*A_shard.shape[:-1], -1) if return_A else None
    return whole, [each.view(*A_shard.shape[:-1], -1) for each in products]


def register() -> None:
    """Make it torch's kernel for tensors on the CPU."""
    global _library
    _library = torch.library.Library("symm_mem", "IMPL")
    _library.impl(NAME, fused_all_gather_matmul, "CPU")


_library: Any = None
"""What holds the kernel as long as the process lives."""
