"""``weft::gemv_allreduce``: a product whose inner dimension is spread over the ranks, and its sum
on all of them.

Tensor-parallel decode: each rank has K / P columns of the weight and as many elements of the input,
so it computes a partial sum of the whole result. A tile of it goes to its owner as soon as it is
computed; the owner adds the tiles of all ranks in the order of ranks and gives the sum to all
("Optimizing Distributed ML Communication with Fused Computation-Collective Operations", SC24, arXiv
2305.06942). With ``algorithm="switch"`` each slice is an Allreduce in the switches, begun when it
is computed.
"""

from typing import Any

import torch

from weft.agents.operators.tasks import REMOTE_FIRST
from weft.pytorch.errors import BadCallError
from weft.pytorch.fused.call import Call, group_of, refusing
from weft.pytorch.fused.tiles import (
    FLOATS,
    SLICE_TILES,
    Options,
    TileRun,
    check_tensors,
    computed,
    sizes,
    sum_in_order,
)
from weft.pytorch.process_group import WeftProcessGroup

NAME = "gemv_allreduce"
OWNER, SWITCH = "owner", "switch"
ALGORITHMS = {OWNER: "owners add tiles", SWITCH: "switches add slices"}


def gemv_allreduce(
    weight: torch.Tensor,
    x: torch.Tensor,
    group_name: str,
    *,
    tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES,
    order: str = REMOTE_FIRST,
    algorithm: str = OWNER,
) -> torch.Tensor:
    """Return the sum over all ranks of `x @ weight.T`; the same bits on all ranks.

    Args:
        weight: [N, K / P], this rank's columns of the weight.
        x: [K / P] or [M, K / P], this rank's part of the input, of the weight's type.
        group_name: of a process group of the backend weft.
        tile_rows: how many of the N elements a tile has; 0: as many as make slices of about 64 KiB.
        slice_tiles: the tiles of a slice.
        order: remote-first, local-first or interleaved.
        algorithm: who adds: owner, or switch (float32, float16 and bfloat16, in fixed point).

    Returns:
        [N] or [M, N].

    Raises:
        BadCallError: the arguments make no sense; it is a ValueError.
        RuntimeError: the network has failed, or ranks do not call the same.
    """
    group = group_of(NAME, group_name)
    with refusing(group, NAME):
        check_tensors(FLOATS, weight=weight, x=x)
        if weight.dim() != 2:
            raise BadCallError(f"weight has shape {tuple(weight.shape)}: [N, K / P] is needed")
        if x.dim() not in (1, 2) or x.shape[-1] != weight.shape[1] or x.dtype != weight.dtype:
            raise BadCallError(
                f"x is {tuple(x.shape)} of {x.dtype} and weight {tuple(weight.shape)} of "
                f"{weight.dtype}: x needs the weight's type, and its {weight.shape[1]} columns"
            )
        if algorithm not in ALGORITHMS:
            raise BadCallError(f"algorithm {algorithm!r}: choose {' or '.join(ALGORITHMS)}")
        options = Options(tile_rows, slice_tiles, order)
        if algorithm == SWITCH and group.size() > 1:
            group.check_able("allreduce", SWITCH, f"algorithm {SWITCH}", weight.dtype)
    columns = (x if x.dim() == 2 else x.unsqueeze(0)).t()  # [K / P, M]
    text = f"of {weight.shape[0]} x {columns.shape[1]} {weight.dtype}"
    if algorithm == SWITCH:
        found = _by_switches(group, weight, columns, options, f"{text} by switches")
    else:
        found = _by_owners(group, weight, columns, options, text)
    result = found.t().contiguous()
    return result if x.dim() == 2 else result.squeeze(0)


def _by_owners(
    group: WeftProcessGroup, weight: torch.Tensor, columns: torch.Tensor, options: Options,
    text: str,
) -> torch.Tensor:  # fmt: skip
    """Return the sum, [N, M]."""
    size, rank = group.size(), group.rank()
    rows, width = weight.shape[0], columns.shape[1]
    row_bytes = width * weight.element_size()
    ends = [rows * each // size for each in range(size + 1)]
    slices = [options.slices([ends[each + 1] - ends[each]], row_bytes) for each in range(size)]
    partial = sizes(slices, row_bytes, rank)
    own = sizes([slices[rank]] * size, row_bytes, rank)
    # To each owner go the partial sums of its slices, and to all the sums of this rank's own.
    sends = [[*partial[peer], *own[peer]] for peer in range(size)]
    expects = [[*own[peer], *partial[peer]] for peer in range(size)]
    result = torch.empty(rows, width, dtype=weight.dtype)
    mine: dict[int, torch.Tensor] = {}
    come = [0] * len(slices[rank])

    def compute(owner: int, each: TileRun) -> torch.Tensor:
        found = torch.empty(each.size, width, dtype=weight.dtype)
        for tile in each.tiles:
            begin = ends[owner] + tile.first
            torch.mm(
                weight[begin : begin + tile.size], columns,
                out=found[tile.place : tile.place + tile.size],
            )  # fmt: skip
        return found

    with Call(group, NAME, text, sends, expects, "fused") as call:

        def add(index: int) -> None:
            """Add what has come of a slice of this rank's, once that is all, and give it to all."""
            if come[index] < size - 1 or index not in mine:
                return
            each = slices[rank][index]
            parts = [
                mine[index] if source == rank
                else call.received(source, index, weight.dtype, (each.size, width))
                for source in range(size)
            ]  # fmt: skip
            place = ends[rank] + each.first
            total = result[place : place + each.size]
            total.copy_(sum_in_order(parts))
            for peer in range(size):
                if peer != rank:
                    call.give(peer, len(slices[peer]) + index, total)

        def take(source: int, index: int) -> None:
            """Take a partial sum of one of this rank's slices, or the sum of another's."""
            if index < len(slices[rank]):
                come[index] += 1
                add(index)
                return
            index -= len(slices[rank])
            each = slices[source][index]
            place = ends[source] + each.first
            result[place : place + each.size] = call.received(
                source, len(slices[rank]) + index, weight.dtype, (each.size, width)
            )

        for owner, index, each in computed(slices, rank, options.order):
            found = compute(owner, each)
            if owner == rank:
                mine[index] = found
                add(index)
            else:
                call.give(owner, index, found)
            for arrived in call.arrived():
                take(*arrived)
        for arrived in call.arrivals():
            take(*arrived)
    return result


def _by_switches(
    group: WeftProcessGroup, weight: torch.Tensor, columns: torch.Tensor, options: Options,
    text: str,
) -> torch.Tensor:  # fmt: skip
    """Return the sum, [N, M]; all ranks compute the slices in the same order, and the switches add
    each as it is computed. It is a call without slices, by which ranks hear of one that refuses."""
    width = columns.shape[1]
    result = torch.empty(weight.shape[0], width, dtype=weight.dtype)
    nothing: list[list[int]] = [[] for _ in range(group.size())]
    with Call(group, NAME, text, nothing, nothing, ""):
        works = []
        for each in options.slices([weight.shape[0]], width * weight.element_size()):
            total = result[each.first : each.first + each.size]
            for tile in each.tiles:
                rows = slice(tile.first, tile.first + tile.size)
                torch.mm(weight[rows], columns, out=total[tile.place : tile.place + tile.size])
            works.append(group.allreduce_by(SWITCH, total, NAME))
        for work in works:
            work.wait()
    return result


def _fake(
    weight: torch.Tensor, x: torch.Tensor, group_name: str, *, tile_rows: int = 0,
    slice_tiles: int = SLICE_TILES, order: str = REMOTE_FIRST, algorithm: str = OWNER,
) -> torch.Tensor:  # fmt: skip
    found: torch.Tensor = x.new_empty((*x.shape[:-1], weight.shape[0]))
    return found


def _save(
    ctx: Any, inputs: tuple[Any, ...], keyword_only_inputs: dict[str, Any], output: torch.Tensor
) -> None:
    ctx.save_for_backward(inputs[0], inputs[1])


def _backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The result is the same on all ranks, and so is its gradient: nothing is to be sent."""
    weight, x = ctx.saved_tensors
    of_weight = of_x = None
    if ctx.needs_input_grad[0]:
        rows = gradient.reshape(-1, weight.shape[0])
        of_weight = rows.t() @ x.reshape(-1, weight.shape[1])
    if ctx.needs_input_grad[1]:
        of_x = gradient @ weight
    return of_weight, of_x, None


def register() -> None:
    """Make the operator known to torch as ``weft::gemv_allreduce``."""
    made = torch.library.custom_op(f"weft::{NAME}", gemv_allreduce, mutates_args=())
    made.register_fake(_fake)
    made.register_autograd(_backward, setup_context=_save)
