"""An all-to-all of rows with a gradient, by torch.distributed alone: what unfused layers use."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist


class _Exchanged(torch.autograd.Function):
    """Rows go to other ranks; their gradients come back."""

    @staticmethod
    def forward(
        ctx: Any, rows: torch.Tensor, sent: list[int], received: list[int], group: Any
    ) -> torch.Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        return exchange_rows(rows, sent, received, group)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        return exchange_rows(gradient, ctx.received, ctx.sent, ctx.group), None, None, None


def exchanged(
    rows: torch.Tensor, sent: Sequence[int], received: Sequence[int], group: Any
) -> torch.Tensor:
    """Return the rows that all ranks have sent to this one, those of rank 0 first.

    Args:
        rows: [sum of sent, ...], those for rank 0 first.
        sent, received: how many rows go to each rank and come from it.
        group: a process group of any backend.
    """
    found: torch.Tensor = _Exchanged.apply(rows, list(sent), list(received), group)
    return found


def exchange_rows(
    rows: torch.Tensor, sent: Sequence[int], received: Sequence[int], group: Any
) -> torch.Tensor:
    """Return the rows that all ranks have sent to this one, as `exchanged` does, without a
    gradient."""
    found = rows.new_empty((sum(received), *rows.shape[1:]))
    dist.all_to_all_single(found, rows.contiguous(), [*received], [*sent], group=group)
    return found


def ranks_of(group: Any) -> tuple[Any, int, int]:
    """Return a process group, by default that of all ranks, this rank in it, and its size."""
    group = group or dist.group.WORLD
    return group, dist.get_rank(group), dist.get_world_size(group)


def generators(first: int, count: int) -> list[torch.Generator]:
    """Return what parts of a model are drawn from, of which this rank has some: for each a
    generator of its own, so that ranks that have the same seed draw the same whole model, however
    many there are.

    Args:
        first, count: the numbers of this rank's parts.
    """
    base = int(torch.randint(1 << 62, ()))
    return [torch.Generator().manual_seed(base + first + number) for number in range(count)]
