"""``symm_mem::fused_matmul_reduce_scatter`` on the CPU: a product whose inner dimension is spread
over the ranks, of whose sum each rank gets a part; a slice goes to its owner when it is computed.

torch has the operator for CUDA (torch/distributed/_symmetric_memory); the schema, and what comes
out, are torch's. Groups of other backends get torch's own unfused form.
"""

from typing import Any

import torch
from torch.distributed import _symmetric_memory as symmetric_memory
from torch.distributed import distributed_c10d

from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.fused.call import Call, refusing
from weft.pytorch.fused.tiles import (
    FLOATS,
    Options,
    TileRun,
    check_tensors,
    computed,
    sizes,
    sum_in_order,
)
from weft.pytorch.process_group import WeftProcessGroup

NAME = "fused_matmul_reduce_scatter"


def fused_matmul_reduce_scatter(
    A: torch.Tensor, B: torch.Tensor, reduce_op: str, scatter_dim: int, group_name: str
) -> torch.Tensor:
    """Return this rank's part of the sum over all ranks of `A @ B`. Owners add in the order of
    ranks.

    Args:
        A: [..., K / P], of the same shape on all ranks.
        B: [K / P, N].
        reduce_op: sum or avg.
        scatter_dim: the dimension of the product that is cut into P parts.
        group_name: of the process group.

    Returns:
        [..., N], with 1 / P of the dimension that is scattered.

    Raises:
        BadCallError: the arguments make no sense; it is a ValueError.
        RuntimeError: the network has failed, or ranks do not call the same.
    """
    group = distributed_c10d._resolve_process_group(group_name)
    if not isinstance(group, WeftProcessGroup):
        found: torch.Tensor = symmetric_memory._fused_matmul_reduce_scatter_fallback(
            A, B, reduce_op, scatter_dim, group_name
        )
        return found
    with refusing(group, NAME):
        scatter_dim = _check(group, A, B, reduce_op, scatter_dim)
    size = group.size()
    text = f"of {tuple(A.shape)} x {tuple(B.shape)} {A.dtype} by {reduce_op} along {scatter_dim}"
    if scatter_dim == A.dim() - 1:
        rows = A.reshape(-1, A.shape[-1])
        blocks = [(rows, each) for each in B.chunk(size, 1)]
        shape, place = A.shape[:-1], 0
    else:
        first = A.movedim(scatter_dim, 0)
        rows = first.reshape(-1, A.shape[-1])
        blocks = [(each, B) for each in rows.chunk(size)]
        shape, place = torch.Size((first.shape[0] // size, *first.shape[1:-1])), scatter_dim
    total = _summed(group, blocks, text)
    if reduce_op == "avg":
        total /= size
    return total.view(*shape, total.shape[-1]).movedim(0, place).contiguous()


def _check(
    group: WeftProcessGroup, A: torch.Tensor, B: torch.Tensor, reduce_op: str, scatter_dim: int
) -> int:
    """Return the dimension, from 0 on. Raises BadCallError for what makes no sense."""
    check_tensors(FLOATS, A=A, B=B)
    refuse(reduce_op not in ("sum", "avg"), f"reduce_op {reduce_op!r}: choose sum or avg")
    dims = A.dim()
    if dims < 2 or B.dim() != 2 or A.shape[-1] != B.shape[0] or A.dtype != B.dtype:
        raise BadCallError(
            f"A is {tuple(A.shape)} of {A.dtype} and B {tuple(B.shape)} of {B.dtype}: [..., K / P] "
            "and [K / P, N] of one type are needed"
        )
    if not -dims <= scatter_dim < dims:
        raise BadCallError(
            f"scatter_dim {scatter_dim}: the product has {dims} dimensions, choose 0 to {dims - 1}"
        )
    scatter_dim %= dims
    total = B.shape[1] if scatter_dim == dims - 1 else A.shape[scatter_dim]
    if not total or total % group.size():
        raise BadCallError(
            f"dimension {scatter_dim} of the product has {total}, which {group.size()} ranks "
            f"cannot share evenly; choose a multiple of {group.size()}"
        )
    return scatter_dim


def _summed(
    group: WeftProcessGroup, blocks: list[tuple[torch.Tensor, torch.Tensor]], text: str
) -> torch.Tensor:
    """Return the sum of all ranks' products of this rank's block: [rows, columns] of it."""
    size, rank = group.size(), group.rank()
    rows, width = blocks[rank][0].shape[0], blocks[rank][1].shape[1]
    dtype = blocks[rank][0].dtype
    options = Options()
    row_bytes = width * blocks[rank][0].element_size()
    slices = options.slices([rows], row_bytes)
    each_sizes = sizes([slices] * size, row_bytes, rank)
    total = torch.empty(rows, width, dtype=dtype)
    come = [0] * len(slices)
    mine: dict[int, torch.Tensor] = {}

    def compute(owner: int, each: TileRun) -> torch.Tensor:
        part, matrix = blocks[owner]
        return torch.mm(part[each.first : each.first + each.size], matrix)

    with Call(group, NAME, text, each_sizes, each_sizes, "fused") as call:

        def add(index: int) -> None:
            """Add what has come of a slice, once that is all."""
            if come[index] < size - 1 or index not in mine:
                return
            each = slices[index]
            total[each.first : each.first + each.size] = sum_in_order(
                [
                    mine[index]
                    if source == rank
                    else call.received(source, index, dtype, (each.size, width))
                    for source in range(size)
                ]
            )

        def take(index: int) -> None:
            come[index] += 1
            add(index)

        for owner, index, each in computed([slices] * size, rank, options.order):
            found = compute(owner, each)
            if owner == rank:
                mine[index] = found
                add(index)
            else:
                call.give(owner, index, found)
            for _, arrived in call.arrived():
                take(arrived)
        for _, arrived in call.arrivals():
            take(arrived)
    return total


def register() -> None:
    """Make it torch's kernel for tensors on the CPU."""
    global _library
    _library = torch.library.Library("symm_mem", "IMPL")
    _library.impl(NAME, fused_matmul_reduce_scatter, "CPU")


_library: Any = None
"""What holds the kernel as long as the process lives."""
