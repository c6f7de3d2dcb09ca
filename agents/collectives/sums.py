"""How a reduction server combines what ranks contribute: in their order, whatever came first.

Sums of float16 and bfloat16 are made in float32 and rounded once at the end; integers wrap around,
as numpy's do; an average is the sum, divided once at the end. What servers of a tree pass on to
each other are *partial* results: of half types float32, of all others the type itself.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.compiled_sums import (
    MAXIMUM,
    MINIMUM,
    ROOM_BYTES,
    SUM,
    combine,
    combine_halves,
)
from weft.agents.collectives.dtypes import HALF_TYPES, average, dtype_of
from weft.agents.collectives.names import OPS
from weft.base.errors import InputError

DTYPES = (
    "float32", "float16", "bfloat16", "float64", "int32", "int64",
    "int8", "int16", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Their places are the numbers that messages carry."""

_CODES = {"sum": SUM, "min": MINIMUM, "max": MAXIMUM, "average": SUM}
Bytes = npt.NDArray[np.uint8]


class ReductionKind:
    """A kind of reduction combines vectors of one element type by one operation.

    Args:
        dtype: by name, one of `DTYPES` (also another name of the same).
        op: one of `OPS`.

    Raises:
        InputError: another type or operation.
    """

    def __init__(self, dtype: str, op: str) -> None:
        wanted = dtype_of(dtype)
        names = [name for name in DTYPES if dtype_of(name) == wanted]
        if not names:
            raise InputError(
                f"dtype {dtype!r}: reduction servers combine {', '.join(DTYPES)}; choose one of "
                "these, or another algorithm"
            )
        if op not in OPS:
            raise InputError(f"op {op!r}: choose from {', '.join(OPS)}")
        self.dtype = names[0]
        self.op = op
        self.item_bytes = wanted.itemsize
        self.is_half = self.dtype in HALF_TYPES
        self.partial_bytes = 4 if self.is_half else self.item_bytes
        """The bytes of an element of a partial result."""
        self._type = wanted
        self._like = np.zeros(0, wanted) if not self.is_half else np.zeros(0, np.uint16)
        self._code = _CODES[op]

    def combine(
        self,
        vectors: npt.NDArray[np.int64],
        count: int,
        out: Bytes,
        *,
        partial: bool = False,
        ranks: int = 0,
    ) -> None:
        """Combine vectors of `count` elements, given by their addresses, in their order.

        Args:
            out: uint8[bytes], where the result begins; it may not overlap a vector.
            partial: the vectors are partial results, not elements.
            ranks: how many ranks have contributed: the result is the final one. 0: it is partial.
        """
        if not self.is_half:
            combine(self._like, vectors, count, out.ctypes.data, self._code)
            if ranks > 1 and self.op == "average":
                average(out[: count * self.item_bytes].view(self._type), ranks)
            return
        divisor = ranks if self.op == "average" else 1
        room = np.empty(ROOM_BYTES, np.uint8)
        combine_halves(
            vectors, count, out.ctypes.data, self._code, divisor,
            self.dtype == "bfloat16", partial, ranks == 0, room.ctypes.data,
        )  # fmt: skip


def prepare(dtypes: Sequence[str] = DTYPES) -> None:
    """Compile the sums of some element types, or load them from the cache."""
    for dtype in dtypes:
        reduction = ReductionKind(dtype, "sum")
        vectors = np.zeros((2, 8), np.uint8)
        out = np.zeros(8, np.uint8)
        addresses = np.array([vector.ctypes.data for vector in vectors], np.int64)
        reduction.combine(addresses, 8 // reduction.partial_bytes, out, ranks=2)
