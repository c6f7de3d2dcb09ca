"""Element types of the collectives: numpy's, and bfloat16, which ml_dtypes registers with numpy."""

from typing import Any

import ml_dtypes  # registers bfloat16 with numpy
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

_finfo: Any = ml_dtypes.finfo
"""It does what `numpy.finfo` does, and knows bfloat16, too."""

HALF_TYPES = ("float16", "bfloat16")
"""The types of 16 bits. Reduction servers and switches add them in float32."""


def dtype_of(name: str) -> np.dtype[np.generic]:
    """Return the dtype of a name, such as ``float32`` or ``bfloat16``.

    Raises TypeError, ValueError or SyntaxError, as numpy does, if there is none.
    """
    return np.dtype(name)


def is_float(name: str) -> bool:
    """Return whether elements are floating-point numbers."""
    return dtype_of(name).kind == "f" or name == "bfloat16"


def is_integer(name: str) -> bool:
    """Return whether elements are integers."""
    return dtype_of(name).kind in "iu"


def is_number(name: str) -> bool:
    """Return whether a name is that of a type of numbers."""
    try:
        return is_float(name) or dtype_of(name).kind in "biuc"
    except (TypeError, ValueError, SyntaxError):
        return False


def significand_bits(name: str) -> int:
    """Return the bits of a floating-point type's significand, the implicit one included: integers
    up to 2**bits are exact."""
    return int(_finfo(dtype_of(name)).nmant) + 1


def smallest_power(name: str) -> int:
    """Return the power of two that is a floating-point type's smallest positive number."""
    return int(np.frexp(np.float64(_finfo(dtype_of(name)).smallest_subnormal))[1]) - 1


def largest_power(name: str) -> int:
    """Return the power of two that a floating-point type's finite numbers are below."""
    return int(_finfo(dtype_of(name)).maxexp)


def average(total: Array, ranks: int) -> None:
    """Divide sums by the number of ranks, in place.

    Floating point in the type itself, half types in float32 and rounded once; integers truncate
    toward zero.
    """
    name = total.dtype.name
    if name in HALF_TYPES:
        total[...] = (total.astype(np.float32) / np.float32(ranks)).astype(total.dtype)
    elif is_float(name):
        np.divide(total, total.dtype.type(ranks), out=total)
    elif total.dtype.kind == "u":
        total[...] = total.astype(np.uint64) // np.uint64(ranks)
    else:
        count = np.int64(ranks)
        wide = total.astype(np.int64)
        total[...] = (wide - np.fmod(wide, count)) // count
