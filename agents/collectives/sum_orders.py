"""What a reduction's sums come to, bit for bit: in the order in which its algorithm adds, and with
which roundings.

This is written apart from the code that adds, as a model of it: a rank's result is compared with
what the model says.
"""

import numpy as np
import numpy.typing as npt

from weft.agents.collectives.algorithm import Algorithm, Order
from weft.agents.collectives.dtypes import (
    HALF_TYPES,
    Array,
    average,
    dtype_of,
    significand_bits,
    smallest_power,
)
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request

Floats = npt.NDArray[np.float64]


def sums_of(request: Request, terms: Array, first: int, switch_values: int = 0) -> Array:
    """Return the sums or averages of some elements, [count] of the request's type.

    Args:
        terms: what the ranks contribute, [ranks, count] of a floating-point type.
        first: the first element's place in the vector.
        switch_values: V, where switches add. The first element is the first of a block of V, and
            the last one that of a block, or of all that have one owner.
    """
    algorithm = algorithm_of(request.collective, request.algorithm)
    if algorithm.adds:
        return _quantized(request, terms, switch_values)
    size, count = terms.shape
    total = np.empty(count, terms.dtype)
    begin = 0
    for place, end in enumerate(algorithm.sum_spans(request, size)):
        here = slice(max(begin - first, 0), max(min(end - first, count), 0))
        if here.start < here.stop:
            total[here] = _added(
                request, algorithm, terms[:, here], algorithm.sum_order(request, size, place)
            )
        begin = end
    return total


def _added(request: Request, algorithm: Algorithm, terms: Array, order: Order) -> Array:
    """Return the sums of a span. Reduction servers add half types in float32, and round once."""
    size, name = len(terms), request.dtype
    wide = algorithm.serves and name in HALF_TYPES
    total = _evaluated(terms.astype(np.float32) if wide else terms, order)
    if request.op == "average" and size > 1:
        average(total, size)
    found: Array = total.astype(dtype_of(name))
    return found


def _evaluated(terms: Array, order: Order) -> Array:
    if isinstance(order, int):
        own: Array = terms[order].copy()
        return own
    total = _evaluated(terms, order[0])
    for each in order[1:]:
        np.add(total, _evaluated(terms, each), out=total)
    return total


def block_exponents(terms: Array, switch_values: int) -> npt.NDArray[np.int64]:
    """Return the exponent of every element's block, int64[count]: the smallest integer e with all
    |x| < 2**e, of the block on all ranks."""
    count = terms.shape[1]
    if not count:
        return np.zeros(0, np.int64)
    magnitudes = np.abs(terms.astype(np.float64)).max(axis=0)
    largest = np.maximum.reduceat(magnitudes, np.arange(0, count, switch_values))
    exponents = np.frexp(largest)[1].astype(np.int64)
    return np.repeat(exponents, switch_values)[:count]


def unit_exponents(terms: Array, switch_values: int) -> npt.NDArray[np.int64]:
    """Return the exponents of the units in which switches count every element: a unit is 2**u, u =
    e - (30 - ceil(log2 P))."""
    headroom = 30 - (len(terms) - 1).bit_length()
    return block_exponents(terms, switch_values) - headroom


def _quantized(request: Request, terms: Array, switch_values: int) -> Array:
    """Return the sum as switches make it: they add whole numbers of a unit exactly, and the sum is
    rounded once."""
    units = unit_exponents(terms, switch_values)
    whole = np.rint(np.ldexp(terms.astype(np.float64), -units)).astype(np.int64).sum(axis=0)
    total = np.ldexp(whole.astype(np.float64), units)
    if request.op == "average":
        total /= len(terms)
    found = rounded(total, request.dtype)
    found[found == 0] = 0  # a rank writes no negative zero
    return found


def rounded(values: Floats, dtype: str) -> Array:
    """Return values as rounded once to a floating-point type, ties to even."""
    exponents = np.frexp(values)[1] - significand_bits(dtype)
    last = np.maximum(exponents, smallest_power(dtype))
    found: Array = np.ldexp(np.rint(np.ldexp(values, -last)), last).astype(dtype_of(dtype))
    return found
