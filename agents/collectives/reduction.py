"""What the unicast algorithms of Reduce-Scatter and Allreduce do with arrays of bytes."""

from __future__ import annotations

from weft.agents.collectives.dtypes import average, dtype_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.unicast import Bytes


def combine(request: Request, one: Bytes, other: Bytes, out: Bytes, *, ranks: int = 0) -> None:
    """Reduce two arrays of whole elements, uint8[bytes], into `out`, which may be one of them.

    Half types are added in their own type. Integers wrap around.

    Args:
        ranks: if `out` is the whole reduction then, the ranks that it is of: an average is divided
            by them. 0 if more is to come.
    """
    kind = dtype_of(request.dtype)
    total = out.view(kind)
    request.ufunc(one.view(kind), other.view(kind), out=total)
    if ranks and request.op == "average":
        average(total, ranks)
