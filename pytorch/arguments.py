"""What programs give to collectives: lists of tensors, and parts of tensors."""

from collections.abc import Sequence
from typing import TypeVar

import torch

from weft.pytorch.errors import BadCallError, refuse

Given = TypeVar("Given")


def only(what: str, given: Sequence[Given]) -> Given:
    """Return what stands alone in a list: a list has one for each device, and there is one."""
    refuse(len(given) != 1, f"{what}: a list has {len(given)} in place of one; give one for a call")
    return given[0]


def one_for_each_rank(what: str, which: str, given: Sequence[Given], size: int) -> Sequence[Given]:
    """Return a list that has as many as there are ranks."""
    refuse(len(given) != size, f"{what}: {len(given)} {which} for {size} ranks")
    return given


def same_number(what: str, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
    """Refuse lists that are not as long as each other."""
    refuse(
        not inputs or len(outputs) != len(inputs),
        f"{what}: {len(outputs)} outputs for {len(inputs)} inputs; give as many of both, one at "
        "least",
    )


def one_dtype(what: str, tensors: Sequence[torch.Tensor]) -> torch.dtype:
    """Return the type that all tensors have."""
    if not tensors:
        raise BadCallError(f"{what}: there is no tensor; give one at least")
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) != 1:
        raise BadCallError(
            f"{what}: tensors of {', '.join(sorted(map(str, kinds)))}; all of a call have one type"
        )
    return kinds.pop()


def equal_parts(tensor: torch.Tensor, size: int) -> list[torch.Tensor]:
    """Return equal parts of a contiguous tensor, as views."""
    return list(tensor.detach().reshape(-1).chunk(size)) if tensor.numel() else [tensor] * size


def split(what: str, tensor: torch.Tensor, sizes: Sequence[int], size: int) -> list[torch.Tensor]:
    """Return parts of a tensor along its first dimension; equal ones if no sizes are given."""
    if not tensor.dim():
        raise BadCallError(
            f"{what} has no dimension; give it a first one that {size}, the number of ranks, "
            "divides"
        )
    rows = int(tensor.shape[0])
    if not sizes:
        if rows % size:
            raise BadCallError(
                f"{what} has shape {tuple(tensor.shape)}: {rows} rows are no equal parts for "
                f"{size} ranks; give the sizes of the parts"
            )
        sizes = [rows // size] * size
    if len(sizes) != size or sum(sizes) != rows:
        raise BadCallError(
            f"{what} has {rows} rows, and the parts {list(sizes)}: {size} parts that make that are "
            "needed"
        )
    return list(torch.split(tensor.detach(), list(sizes)))
