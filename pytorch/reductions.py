"""What torch reduces by, as the network has it."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from weft.agents.collectives.mailbox import Bytes
from weft.pytorch.errors import BadCallError
from weft.pytorch.tensors import reduced_as

_OPS: dict[Any, str] = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "average",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "product",
    dist.ReduceOp.BAND: "bitwise-and",
    dist.ReduceOp.BOR: "bitwise-or",
    dist.ReduceOp.BXOR: "bitwise-xor",
}


@dataclass(frozen=True)
class Reduction:
    """How elements of several ranks become one."""

    of: torch.dtype
    dtype: str
    """numpy's type that they are reduced as."""
    op: str
    """The operation, as `Request` has it."""
    factor: Any = None
    """What each is multiplied by before that (PREMUL_SUM); None: by nothing."""

    def premultiply(self, memory: Bytes) -> None:
        """Multiply elements by the factor, where they are."""
        if self.factor is not None and len(memory):
            torch.from_numpy(memory).view(self.of).mul_(self.factor)


def reduction_of(what: str, dtype: torch.dtype, opts: Any) -> Reduction:
    """Return how elements of a type are reduced by what the options of a call say; their sum if
    there are none.

    Raises:
        BadCallError: elements of that type are not reduced so.
    """
    asked = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
    if asked == dist.ReduceOp.PREMUL_SUM:
        if not dtype.is_floating_point:
            raise BadCallError(f"{what} of {dtype} by PREMUL_SUM: it is for floating-point numbers")
        given = asked.__getstate__()[1]
        factor = given.item() if isinstance(given, torch.Tensor) else given
        return Reduction(dtype, *reduced_as(what, dtype, "sum"), factor)
    name = next((name for op, name in _OPS.items() if asked == op), "")
    if not name:
        raise BadCallError(f"{what} by {asked}: choose {', '.join(str(op) for op in _OPS)}")
    return Reduction(dtype, *reduced_as(what, dtype, name))
