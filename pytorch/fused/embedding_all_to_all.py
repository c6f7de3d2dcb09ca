"""``weft::embedding_all_to_all``: pooled look-ups of tables that are spread over the ranks, and the
exchange that brings the results to the owners of the batch's rows.

The model-parallel part of DLRM ("Optimizing Distributed ML Communication with Fused
Computation-Collective Operations", SC24, arXiv 2305.06942): each rank looks up its tables for the
whole batch, and sends the rows of other ranks as soon as some tiles of them are there.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
import torch.nn.functional as F

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import BadCallError, refuse
from weft.pytorch.fused.call import Call, group_of, refusing
from weft.pytorch.fused.tiles import (
    CUT,
    FLOATS,
    SLICE_TILES,
    Options,
    check_tensors,
    computed,
    sizes,
)
from weft.pytorch.process_group import WeftProcessGroup

NAME = "embedding_all_to_all"


def embedding_all_to_all(
    weights: Sequence[torch.Tensor],
    indices: torch.Tensor,
    tables: Sequence[int],
    group_name: str,
    *,
    tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES,
    order: str = REMOTE_FIRST,
) -> torch.Tensor:
    """Return the sums of looked-up rows of all tables for this rank's rows of the batch.

    Args:
        weights: this rank's tables, [rows, dim] each; rows may differ, dim and type do not.
        indices: int64 [own tables, global batch, pooling], what is looked up in them, for the rows
            of all ranks: those of rank 0 first. On a rank without tables, [0, global batch, any].
        tables: how many tables each rank has; those of rank 0 come first in the result.
        group_name: of a process group of the backend weft.
        tile_rows: how many rows of the batch a tile has, all of one table; 0: as many as make
            slices of about 64 KiB.
        slice_tiles: the tiles of a slice.
        order: remote-first, local-first or interleaved.

    Returns:
        [global batch / P, all tables, dim], of the type of the tables; the bits are those of
        `torch.nn.functional.embedding_bag` with mode sum. A rank without tables needs at least one
        table on another rank to know the dimension, which comes from `weights` alone: give it an
        empty table, [0, dim], beyond those that `tables` counts.

    Raises:
        BadCallError: the arguments make no sense; it is a ValueError.
        RuntimeError: the network has failed, or ranks do not call the same.
    """
    group = group_of(NAME, group_name)
    with refusing(group, NAME):
        batch = _check(group, weights, indices, tables)
        options = Options(tile_rows, slice_tiles, order)
    size, rank = group.size(), group.rank()
    like = weights[0]
    dim, row_bytes = like.shape[1], like.shape[1] * like.element_size()
    each_batch = batch // size
    own = [options.slices([each_batch] * tables[rank], row_bytes)] * size
    others = [options.slices([each_batch] * count, row_bytes) for count in tables]
    firsts = [0, *accumulate(tables)]
    # Table by table, as slices have them; the result has them row by row.
    found = torch.empty(firsts[-1], each_batch, dim, dtype=like.dtype)
    blocks = [found[firsts[each] : firsts[each + 1]].view(-1, dim) for each in range(size)]
    text = f"of {list(tables)} tables, batch {batch}, dimension {dim}, {like.dtype}"
    with Call(
        group, NAME, text, sizes(own, row_bytes, rank), sizes(others, row_bytes, rank), "fused"
    ) as call:
        for owner, index, each in computed(own, rank, options.order):
            rows = (
                blocks[rank][each.first : each.first + each.size]
                if owner == rank
                else torch.empty(each.size, dim, dtype=like.dtype)
            )
            for tile in each.tiles:
                begin = owner * each_batch + tile.first
                rows[tile.place : tile.place + tile.size] = F.embedding_bag(
                    indices[tile.unit, begin : begin + tile.size], weights[tile.unit], mode="sum"
                )
            if owner != rank:
                call.give(owner, index, rows)
        for source, index in call.arrivals():
            each = others[source][index]
            blocks[source][each.first : each.first + each.size] = call.received(
                source, index, like.dtype, (each.size, dim)
            )
    return found.transpose(0, 1).contiguous()


def _check(
    group: WeftProcessGroup,
    weights: Sequence[torch.Tensor],
    indices: torch.Tensor,
    tables: Sequence[int],
) -> int:
    """Return the size of the whole batch. Raises BadCallError for what makes no sense."""
    size, rank = group.size(), group.rank()
    if len(tables) != size or min(tables) < 0:
        raise BadCallError(
            f"tables {list(tables)}: say for each of the {size} ranks of the group how many it has"
        )
    own = tables[rank]
    if not (len(weights) == own or (own == 0 and len(weights) == 1)):
        raise BadCallError(
            f"{len(weights)} weights on rank {rank}, which has {own} tables of {list(tables)}; a "
            "rank without tables gives one that is empty, [0, dim]"
        )
    check_tensors(FLOATS, **{f"weights[{n}]": each for n, each in enumerate(weights)})
    for number, each in enumerate(weights):
        if (
            each.dim() != 2
            or each.shape[1] != weights[0].shape[1]
            or each.dtype != weights[0].dtype
        ):
            raise BadCallError(
                f"weights[{number}] is {tuple(each.shape)} of {each.dtype}, and weights[0] "
                f"{tuple(weights[0].shape)} of {weights[0].dtype}: tables are [rows, dim], with "
                "one dim and one type"
            )
    check_tensors([torch.int64], indices=indices)
    if indices.dim() != 3 or indices.shape[0] != own or not indices.shape[2]:
        raise BadCallError(
            f"indices have shape {tuple(indices.shape)}: [{own} own tables, global batch, pooling] "
            "is needed, and a pooling of 1 or more"
        )
    batch = int(indices.shape[1])
    refuse(
        batch % size,
        f"the global batch has {batch} rows, which {size} ranks cannot share evenly; choose a "
        f"multiple of {size}",
    )
    for number in range(own if indices.numel() else 0):
        least, most = int(indices[number].min()), int(indices[number].max())
        rows = weights[number].shape[0]
        refuse(
            least < 0 or most >= rows,
            f"indices of own table {number} are {least} to {most}, and it has rows 0 to {rows - 1}",
        )
    return batch


def embedding_all_to_all_backward(
    gradient: torch.Tensor,
    weights: Sequence[torch.Tensor],
    indices: torch.Tensor,
    tables: Sequence[int],
    group_name: str,
    *,
    tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES,
) -> list[torch.Tensor]:
    """Return the gradients of this rank's tables, dense, given that of the result on every rank:
    rows go back to the tables' owners. The bits are those of the gradient of `embedding_bag`.

    Args:
        gradient: [global batch / P, all tables, dim].
        weights, indices, tables, group_name, tile_rows, slice_tiles: as in `embedding_all_to_all`.

    Raises:
        RuntimeError: the network has failed.
    """
    group = group_of(NAME, group_name)
    size, rank = group.size(), group.rank()
    each_batch, _, dim = gradient.shape
    options = Options(tile_rows, slice_tiles)
    row_bytes = dim * gradient.element_size()
    theirs = [options.slices([each_batch] * count, row_bytes) for count in tables]
    own = [theirs[rank]] * size
    firsts = [0, *accumulate(tables)]
    by_table = gradient.detach().transpose(0, 1).contiguous()
    blocks = [by_table[firsts[each] : firsts[each + 1]].view(-1, dim) for each in range(size)]
    come = torch.empty(tables[rank], size, each_batch, dim, dtype=gradient.dtype)
    come[:, rank] = by_table[firsts[rank] : firsts[rank + 1]]
    text = f"of {list(tables)} tables, batch {each_batch * size}, dimension {dim}, {gradient.dtype}"
    with Call(
        group, f"{NAME}_backward", text, sizes(theirs, row_bytes, rank),
        sizes(own, row_bytes, rank), "fused",
    ) as call:  # fmt: skip
        for owner, index, each in computed(theirs, rank, options.order):
            if owner != rank:
                call.give(owner, index, blocks[owner][each.first : each.first + each.size])
        for source, index in call.arrivals():
            each = theirs[rank][index]
            rows = call.received(source, index, gradient.dtype, (each.size, dim))
            for tile in each.tiles:
                come[tile.unit, source, tile.first : tile.first + tile.size] = rows[
                    tile.place : tile.place + tile.size
                ]
        found = [
            _of_table(come[number].view(-1, dim), indices[number], weights[number].shape[0])
            for number in range(tables[rank])
        ]
    return found + [torch.zeros_like(each) for each in weights[tables[rank] :]]


def _of_table(gradient: torch.Tensor, indices: torch.Tensor, rows: int) -> torch.Tensor:
    """Return the gradient of a table, as torch computes that of `embedding_bag`.

    Args:
        gradient: [batch, dim], of the sums.
        indices: int64 [batch, pooling].
        rows: of the table.
    """
    bags = torch.arange(indices.shape[0]).repeat_interleave(indices.shape[1])
    none = torch.empty(0, dtype=torch.int64)  # for means and maxima alone
    found: torch.Tensor = torch.ops.aten._embedding_bag_dense_backward(
        gradient, indices.flatten(), bags, none, none, rows, False, 0, None
    )
    return found


def _fake(
    weights: Sequence[torch.Tensor], indices: torch.Tensor, tables: Sequence[int], group_name: str,
    *, tile_rows: int = 0, slice_tiles: int = SLICE_TILES, order: str = REMOTE_FIRST,
) -> torch.Tensor:  # fmt: skip
    found: torch.Tensor = weights[0].new_empty(
        (indices.shape[1] // len(tables), sum(tables), weights[0].shape[1])
    )
    return found


def _fake_backward(
    gradient: torch.Tensor, weights: Sequence[torch.Tensor], indices: torch.Tensor,
    tables: Sequence[int], group_name: str, *, tile_rows: int = 0, slice_tiles: int = SLICE_TILES,
) -> list[torch.Tensor]:  # fmt: skip
    return [torch.empty_like(each) for each in weights]


def _save(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: torch.Tensor
) -> None:
    weights, indices, ctx.tables, ctx.group_name = inputs
    ctx.cut = {name: keyword_only_inputs[name] for name in CUT}
    ctx.save_for_backward(indices, *weights)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    indices, *weights = ctx.saved_tensors
    found = torch.ops.weft.embedding_all_to_all_backward(
        gradient, weights, indices, ctx.tables, ctx.group_name, **ctx.cut
    )
    return found, None, None, None


def register() -> None:
    """Make the operator known to torch as ``weft::embedding_all_to_all``."""
    back = torch.library.custom_op(
        f"weft::{NAME}_backward", embedding_all_to_all_backward, mutates_args=()
    )
    back.register_fake(_fake_backward)
    made = torch.library.custom_op(f"weft::{NAME}", embedding_all_to_all, mutates_args=())
    made.register_fake(_fake)
    made.register_autograd(_backward, setup_context=_save)
