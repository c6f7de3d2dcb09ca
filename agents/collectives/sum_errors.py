"""How far sums of floating-point numbers are from the exact ones, and how far they may be.

**Reference.** The exact sum s, in two float64s that together hold twice float64's precision (Ogita,
Rump, Oishi: "Accurate sum and dot product", 2005, algorithm Sum2 without its last addition).

**Bound.** n ranks, T = sum of |x|, u = 2**-p for a significand of p bits.

- Added one after the other in floating point, in any order, a sum is off by at most (n - 1) u T
  (Jeannerod, Rump: "Improved error bounds for inner products in floating-point arithmetic", 2013,
  for any order and any n). Additions do not underflow.
- Added by switches, every rank's number is rounded to a multiple of 2**(e + L - 30), by half of
  that at most, so a sum is off by at most n 2**(e + L - 31): e is the exponent of the block's
  largest number on all ranks, L = ceil(log2 n). The scaling by a block's exponent is SwitchML's
  (Sapio et al., NSDI 2021, where it deals with floating-point numbers), by a power of two here.
- An average has an n-th of that. Each rounding that follows (the division; reduction servers' and
  switches' result, in the type of the data) adds u (|s| + what there was) and half the smallest
  number of its type.
"""

from dataclasses import dataclass

import numpy as np

from weft.agents.collectives.dtypes import HALF_TYPES, Array, significand_bits, smallest_power
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.sum_orders import Floats, unit_exponents

_EPSILON = float(np.finfo(np.float64).eps)
_HIGH_BITS = np.int64(-1 << 27)
"""Leaves 26 bits of a float64's significand: times a number of ranks, they fit."""


@dataclass(frozen=True)
class SumErrors:
    """How far some elements of one rank's result, r, are from the exact sums, s."""

    max_relative: float = 0.0
    """The greatest |r - s| / |s|, of elements with s other than 0. Where terms cancel, s is small,
    and so this large."""
    max_of_terms: float = 0.0
    """The greatest |r - s| / T, T = the sum of the terms' magnitudes (of an average, an n-th of
    it): without what cancels."""
    max_of_bound: float = 0.0
    """The greatest |r - s| over its bound."""
    squared_error: float = 0.0
    """Sum of (r - s)**2."""
    squared_sum: float = 0.0
    """Sum of s**2."""

    def __add__(self, other: "SumErrors") -> "SumErrors":
        """Return the errors of both sets of elements together."""
        return SumErrors(
            max(self.max_relative, other.max_relative),
            max(self.max_of_terms, other.max_of_terms),
            max(self.max_of_bound, other.max_of_bound),
            self.squared_error + other.squared_error,
            self.squared_sum + other.squared_sum,
        )

    def figures(self) -> dict[str, float]:
        """Return the figures by the names that results have
        (`weft.experiments.results.results.Accuracy`)."""
        share = self.squared_error / self.squared_sum if self.squared_sum else 0.0
        return {
            "error_max_relative": self.max_relative,
            "error_rms_relative": float(np.sqrt(share)),
            "error_max_of_terms": self.max_of_terms,
            "error_max_of_bound": self.max_of_bound,
        }


def exact_sums(terms: Array) -> tuple[Floats, Floats]:
    """Return the sums over all ranks of [ranks, count] numbers, high and low parts."""
    high = np.zeros(terms.shape[1])
    low = np.zeros(terms.shape[1])
    for row in terms:
        high, error = _two_sum(high, row.astype(np.float64))
        low += error
    return _two_sum(high, low)


def _two_sum(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return a sum, and by what its rounding is off (Knuth)."""
    total = one + other
    part = total - one
    return total, (one - (total - part)) + (other - part)


def error_bound(request: Request, terms: Array, switch_values: int = 0) -> Floats:
    """Return the most that |r - s| may be, element by element; see the module."""
    size = len(terms)
    magnitudes = np.abs(terms.astype(np.float64)).sum(axis=0)
    divisor = size if request.op == "average" else 1
    exact = np.abs(exact_sums(terms)[0]) / divisor
    accumulated, then = _roundings(request, size)
    if algorithm_of(request.collective, request.algorithm).adds:
        units = np.ldexp(1.0, unit_exponents(terms, switch_values) - 1)
        bound = np.where(magnitudes > 0, size * units, 0.0)
    else:
        bound = (size - 1) * 2.0 ** -significand_bits(accumulated) * magnitudes
    # What the arithmetic of float64 here, and that of the reference, may be off by.
    bound = bound / divisor + (size * _EPSILON) ** 2 * magnitudes
    for dtype in then:
        bound += 2.0 ** -significand_bits(dtype) * (exact + bound) + half_smallest(dtype)
    found: Floats = bound * (1 + (size + 16) * _EPSILON)
    return found


def half_smallest(dtype: str) -> float:
    """Return half the smallest positive number of a type, as far as float64 has it."""
    return float(np.ldexp(1.0, max(smallest_power(dtype) - 1, -1074)))


def _roundings(request: Request, size: int) -> tuple[str, list[str]]:
    """Return the type in which an algorithm adds, and those to which it rounds afterwards, in
    order."""
    name, half = request.dtype, request.dtype in HALF_TYPES
    averaging = request.op == "average" and size > 1
    algorithm = algorithm_of(request.collective, request.algorithm)
    if algorithm.adds:
        return name, ["float64"] * averaging + [name]
    if algorithm.serves and half:
        return "float32", ["float32"] * averaging + [name]
    return name, (["float32"] * half + [name]) * averaging


def distances(request: Request, terms: Array, result: Array) -> Floats:
    """Return |r - s| of a result, [count], of what `terms` [ranks, count] come to; infinite for
    what is no finite number."""
    divisor = len(terms) if request.op == "average" else 1
    exact, rest = exact_sums(terms)
    # n r - s, without rounding n r: of each of the halves of r it is exact.
    with np.errstate(invalid="ignore"):  # a wrong result may be any bits
        found = result.astype(np.float64)
    good = np.isfinite(found)
    found = np.where(good, found, 0.0)
    high = (found.view(np.int64) & _HIGH_BITS).view(np.float64)
    off = np.abs((high * divisor - exact) + ((found - high) * divisor - rest)) / divisor
    return np.where(good, off, np.inf)


def errors_of(request: Request, terms: Array, result: Array, switch_values: int = 0) -> SumErrors:
    """Return the errors of a result, [count], of what `terms` [ranks, count] come to.

    `switch_values` and blocks as `sum_orders.sums_of` has them.
    """
    divisor = len(terms) if request.op == "average" else 1
    errors = distances(request, terms, result)
    sums = np.abs(exact_sums(terms)[0]) / divisor
    magnitudes = np.abs(terms.astype(np.float64)).sum(axis=0) / divisor
    return SumErrors(
        _greatest(errors[sums > 0], sums[sums > 0]),
        _greatest(errors, magnitudes),
        _greatest(errors, error_bound(request, terms, switch_values)),
        float(np.square(errors).sum()),
        float(np.square(sums).sum()),
    )


def _greatest(errors: Floats, of: Floats) -> float:
    """Return the greatest quotient; infinite for an error where none may be."""
    none = np.where(errors > 0, np.inf, 0.0)
    return float(np.divide(errors, of, out=none, where=of > 0).max(initial=0.0))
