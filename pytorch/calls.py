"""Calls of collectives in words: what must be the same on all ranks, as the program called it."""

from collections.abc import Sequence
from zlib import crc32

import torch

from weft.agents.collectives.requests import Request


def call_of(
    what: str,
    tensors: Sequence[torch.Tensor] = (),
    *,
    counts: bool = True,
    op: str = "",
    root: int | None = None,
    algorithm: str = "",
) -> str:
    """Return what must be the same on all ranks of a collective.

    Args:
        what: the collective, as the program called it.
        tensors: whose elements all ranks name alike, in one order.
        counts: whether their numbers must be the same, too.
        op: of a reduction.
        root: of a collective that has one.
        algorithm: by which it is done, if there is a choice.
    """
    text = what
    if tensors:
        text += f" of {_counted(tensors)}" if counts else " of"
        text += f" {', '.join(sorted({str(tensor.dtype) for tensor in tensors}))}"
    if op:
        text += f" by {op}"
    if root is not None:
        text += f" with root {root}"
    return f"{text} ({algorithm})" if algorithm else text


def call_of_flows(what: str, request: Request) -> str:
    """Return what must be the same on all ranks that carry out flows together."""
    assert request.flows is not None
    counted = f"{crc32(str(request.counts).encode()):08x}"
    return f"{what} of {len(request.flows.source)} flows, parts {counted} ({request.algorithm})"


def _counted(tensors: Sequence[torch.Tensor]) -> str:
    """Return how many elements there are, and of several tensors what tells theirs from others."""
    total = sum(tensor.numel() for tensor in tensors)
    if len(tensors) == 1:
        return str(total)
    each = str([(tensor.numel(), str(tensor.dtype)) for tensor in tensors])
    return f"{total} in {len(tensors)} parts ({crc32(each.encode()):08x})"
