"""``weft::gemm_all_to_all``: the products of a mixture of experts, and their way back to the ranks
that the tokens came from.

Each rank has some experts and, of every rank, tokens for each of them, as an all-to-all has brought
them. A tile of an expert's product goes to the owner of its tokens as soon as some tiles are there
("Optimizing Distributed ML Communication with Fused Computation-Collective Operations", SC24, arXiv
2305.06942). Numbers of tokens are as uneven as the router makes them.
"""

from typing import Any

import torch

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import BadCallError
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

NAME = "gemm_all_to_all"


def gemm_all_to_all(
    tokens: torch.Tensor,
    weights: torch.Tensor,
    splits: torch.Tensor,
    returns: torch.Tensor,
    group_name: str,
    *,
    tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES,
    order: str = REMOTE_FIRST,
) -> torch.Tensor:
    """Multiply tokens with the weights of their experts, and return what the experts of all ranks
    have made of this rank's tokens.

    Args:
        tokens: [T, K], what has come for the experts of this rank: first all of rank 0, sorted by
            expert, then all of rank 1, and so on.
        weights: [own experts, K, N], of the tokens' type. All ranks have as many experts.
        splits: int64 [P, own experts], how many tokens of each rank there are for each expert here.
        returns: int64 [P, own experts], how many tokens of this rank each rank has for each of its
            experts.
        group_name: of a process group of the backend weft.
        tile_rows: how many tokens a tile has, all for one expert; 0: as many as make slices of
            about 64 KiB.
        slice_tiles: the tiles of a slice.
        order: remote-first, local-first or interleaved.

    Returns:
        [sum of returns, N]: the products of this rank's tokens, sorted by expert.

    Raises:
        BadCallError: the arguments make no sense; it is a ValueError.
        RuntimeError: the network has failed, or ranks do not call the same.
    """
    group = group_of(NAME, group_name)
    with refusing(group, NAME):
        _check(group, tokens, weights, splits, returns)
        options = Options(tile_rows, slice_tiles, order)
    rank = group.rank()
    width, dtype = weights.shape[2], tokens.dtype
    row_bytes = width * tokens.element_size()
    mine = [options.slices(counts, row_bytes) for counts in splits.tolist()]
    theirs = [options.slices(counts, row_bytes) for counts in returns.tolist()]
    blocks = tokens.split(splits.sum(1).tolist())
    result = torch.empty(int(returns.sum()), width, dtype=dtype)
    results = result.split(returns.sum(1).tolist())
    firsts = (splits.cumsum(1) - splits).tolist()
    text = f"of {tuple(weights.shape)} {dtype}"
    with Call(
        group, NAME, text, sizes(mine, row_bytes, rank), sizes(theirs, row_bytes, rank), "fused"
    ) as call:
        for owner, index, each in computed(mine, rank, options.order):
            found = (
                results[rank][each.first : each.first + each.size]
                if owner == rank
                else torch.empty(each.size, width, dtype=dtype)
            )
            for tile in each.tiles:
                begin = firsts[owner][tile.unit] + tile.first
                torch.mm(
                    blocks[owner][begin : begin + tile.size],
                    weights[tile.unit],
                    out=found[tile.place : tile.place + tile.size],
                )
            if owner != rank:
                call.give(owner, index, found)
        for source, index in call.arrivals():
            each = theirs[source][index]
            results[source][each.first : each.first + each.size] = call.received(
                source, index, dtype, (each.size, width)
            )
    return result


def _check(
    group: WeftProcessGroup,
    tokens: torch.Tensor,
    weights: torch.Tensor,
    splits: torch.Tensor,
    returns: torch.Tensor,
) -> None:
    """Raise BadCallError for what makes no sense."""
    check_tensors(FLOATS, tokens=tokens, weights=weights)
    check_tensors([torch.int64], splits=splits, returns=returns)
    if (
        tokens.dim() != 2
        or weights.dim() != 3
        or tokens.shape[1] != weights.shape[1]
        or tokens.dtype != weights.dtype
    ):
        raise BadCallError(
            f"tokens are {tuple(tokens.shape)} of {tokens.dtype} and weights "
            f"{tuple(weights.shape)} of {weights.dtype}: [T, K] and [own experts, K, N] of one "
            "type are needed"
        )
    shape = (group.size(), weights.shape[0])
    for name, counts in (("splits", splits), ("returns", returns)):
        if tuple(counts.shape) != shape:
            raise BadCallError(
                f"{name} have shape {tuple(counts.shape)}: {shape}, for each rank and each of its "
                f"{shape[1]} experts, is needed; an expert without a rank has no tokens"
            )
        if counts.numel() and int(counts.min()) < 0:
            raise BadCallError(
                f"{name} have {int(counts.min()) if counts.numel() else 0}: numbers of tokens are "
                "0 or more"
            )
    rank = group.rank()
    if int(splits.sum()) != tokens.shape[0]:
        raise BadCallError(
            f"splits count {int(splits.sum())} tokens, and there are {tokens.shape[0]}"
        )
    if not torch.equal(splits[rank], returns[rank]):
        raise BadCallError(
            f"rank {rank} has {splits[rank].tolist()} tokens of its own by splits, and "
            f"{returns[rank].tolist()} by returns"
        )


def gemm_all_to_all_backward(
    gradient: torch.Tensor,
    tokens: torch.Tensor,
    weights: torch.Tensor,
    splits: torch.Tensor,
    returns: torch.Tensor,
    group_name: str,
    *,
    tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the gradients of tokens and weights, given that of the result on every rank. Rows go
    to the experts, and each slice is multiplied when it has come.

    Args:
        gradient: [sum of returns, N].
        tokens, weights, splits, returns, group_name, tile_rows, slice_tiles: as in
            `gemm_all_to_all`.

    Raises:
        RuntimeError: the network has failed.
    """
    group = group_of(NAME, group_name)
    options = Options(tile_rows, slice_tiles)
    rank = group.rank()
    width, dtype = weights.shape[2], gradient.dtype
    row_bytes = width * gradient.element_size()
    mine = [options.slices(counts, row_bytes) for counts in splits.tolist()]
    theirs = [options.slices(counts, row_bytes) for counts in returns.tolist()]
    gradients = gradient.detach().contiguous().split(returns.sum(1).tolist())
    of_tokens = torch.empty_like(tokens, memory_format=torch.contiguous_format)
    tokens_of = of_tokens.split(splits.sum(1).tolist())
    come = torch.empty(tokens.shape[0], width, dtype=dtype)
    rows_of = come.split(splits.sum(1).tolist())
    firsts = (splits.cumsum(1) - splits).tolist()
    text = f"of {tuple(weights.shape)} {dtype}"

    def take(source: int, index: int, rows: torch.Tensor) -> None:
        each = mine[source][index]
        rows_of[source][each.first : each.first + each.size] = rows
        for tile in each.tiles:
            begin = firsts[source][tile.unit] + tile.first
            torch.mm(
                rows[tile.place : tile.place + tile.size],
                weights[tile.unit].t(),
                out=tokens_of[source][begin : begin + tile.size],
            )

    with Call(
        group, f"{NAME}_backward", text, sizes(theirs, row_bytes, rank),
        sizes(mine, row_bytes, rank), "fused",
    ) as call:  # fmt: skip
        for owner, index, each in computed(theirs, rank, options.order):
            rows = gradients[owner][each.first : each.first + each.size]
            if owner == rank:
                take(rank, index, rows)
            else:
                call.give(owner, index, rows)
        for source, index in call.arrivals():
            each = mine[source][index]
            take(source, index, call.received(source, index, dtype, (each.size, width)))
        of_weights = torch.zeros_like(weights)
        blocks = tokens.split(splits.sum(1).tolist())
        for source, counts in enumerate(splits.tolist()):
            for expert, count in enumerate(counts):
                span = slice(firsts[source][expert], firsts[source][expert] + count)
                of_weights[expert].addmm_(blocks[source][span].t(), rows_of[source][span])
    return of_tokens, of_weights


def _fake(
    tokens: torch.Tensor, weights: torch.Tensor, splits: torch.Tensor, returns: torch.Tensor,
    group_name: str, *, tile_rows: int = 0, slice_tiles: int = SLICE_TILES,
    order: str = REMOTE_FIRST,
) -> torch.Tensor:  # fmt: skip
    rows = torch.library.get_ctx().new_dynamic_size()
    found: torch.Tensor = tokens.new_empty((rows, weights.shape[2]))
    return found


def _fake_backward(
    gradient: torch.Tensor, tokens: torch.Tensor, weights: torch.Tensor, splits: torch.Tensor,
    returns: torch.Tensor, group_name: str, *, tile_rows: int = 0, slice_tiles: int = SLICE_TILES,
) -> tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    return (
        torch.empty_like(tokens, memory_format=torch.contiguous_format),
        torch.empty_like(weights),
    )


def _save(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: torch.Tensor
) -> None:
    *tensors, ctx.group_name = inputs
    ctx.cut = {name: keyword_only_inputs[name] for name in CUT}
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    found = torch.ops.weft.gemm_all_to_all_backward(
        gradient, *ctx.saved_tensors, ctx.group_name, **ctx.cut
    )
    return (*found, None, None, None)


def register() -> None:
    """Make the operator known to torch as ``weft::gemm_all_to_all``."""
    back = torch.library.custom_op(
        f"weft::{NAME}_backward", gemm_all_to_all_backward, mutates_args=()
    )
    back.register_fake(_fake_backward)
    made = torch.library.custom_op(f"weft::{NAME}", gemm_all_to_all, mutates_args=())
    made.register_fake(_fake)
    made.register_autograd(_backward, setup_context=_save)
