"""Turns values into 32-bit integers that a switch can add, and sums back into values, by block
floating point.

A block has one exponent e, the smallest integer with all |x| < 2**e. A value goes out as
rint(x * 2**(h - e)), h the job's headroom bits, and a sum comes back divided by that scale, rounded
once to its kind. Loops are written so that LLVM makes vector code of them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.agents.transport import aggregation_layout as at_job
from weft.agents.wire.compiled import internal
from weft.base.deferred import intrinsic, ir, types
from weft.base.jit import items_at

Integers = npt.NDArray[np.int32]

_ROUNDING = 6755399441055744.0
"""1.5 * 2**52: added to a double below 2**51 it leaves the nearest integer in the lowest bits, ties
to even."""
_LARGEST = 2147483647
_HALF_SCALE = 2.0**112
"""A float16's bits at the place of a float32's give a value that is that much too small; subnormal
ones, too."""


def _reinterpreting(to: str, source: str, cut: bool = False) -> Any:
    """Make the function that gives the bits of a number as another type; of a float64 as an int32
    it gives only the lowest (`cut`)."""

    def reinterpret(context: Any, value: Any) -> Any:
        kinds = {
            "int32": ir.IntType(32), "uint32": ir.IntType(32), "int64": ir.IntType(64),
            "float32": ir.FloatType(), "float64": ir.DoubleType(),
        }  # fmt: skip

        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            number = arguments[0]
            if cut:
                return builder.trunc(builder.bitcast(number, kinds["int64"]), kinds[to])
            return builder.bitcast(number, kinds[to])

        return getattr(types, to)(getattr(types, source)), code

    return intrinsic(reinterpret)


_low_bits = _reinterpreting("int32", "float64", cut=True)
_float64_bits = _reinterpreting("int64", "float64")
_float64_of = _reinterpreting("float64", "int64")
_float32_bits = _reinterpreting("uint32", "float32")
_float32_of = _reinterpreting("float32", "uint32")


def _swap(context: Any, value: Any) -> Any:
    def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.int32(types.int32), code


_swapped: Any = intrinsic(_swap)


@internal
def item_bytes(kind: int) -> int:
    """Return the size of a value."""
    return 2 if kind == at_job.FLOAT16 or kind == at_job.BFLOAT16 else 4


@internal
def exponent_of(top: int, mantissa_bits: int, bias: int) -> int:
    """Return the smallest e with |x| < 2**e, from the bits of |x| in a format of IEEE 754."""
    if top == 0:
        return at_job.NO_EXPONENT
    exponent = top >> mantissa_bits
    if exponent == 2 * bias + 1:
        return at_job.NOT_FINITE
    if exponent:
        return exponent - bias + 1
    length = 0
    while top >> length:
        length += 1
    return length - (bias - 1) - mantissa_bits


@internal
def block_exponent(kind: int, address: int, count: int) -> int:
    """Return the exponent of `count` values at an address; NO_EXPONENT if all are zero, NOT_FINITE
    if one is not."""
    if kind == at_job.INT32:
        return at_job.NO_EXPONENT
    if kind == at_job.FLOAT32:
        words = items_at(address, count, np.int32)
        top = np.int32(0)
        for index in range(count):
            top = max(top, np.int32(words[index] & np.int32(0x7FFFFFFF)))
        return exponent_of(np.int64(top), 23, 127)
    halves = items_at(address, count, np.int16)
    highest = np.int16(0)
    for index in range(count):
        highest = max(highest, np.int16(halves[index] & np.int16(0x7FFF)))
    if kind == at_job.FLOAT16:
        return exponent_of(np.int64(highest), 10, 15)
    return exponent_of(np.int64(highest), 7, 127)


@internal
def quantize(kind: int, address: int, count: int, scale: float, to: Integers) -> bool:
    """Fill `to` with `count` values at an address times `scale`, rounded, and return whether one
    that is not 0 became 0."""
    lost = 0
    if kind == at_job.INT32:
        whole = items_at(address, count, np.int32)
        for index in range(count):
            to[index] = whole[index]
    elif kind == at_job.FLOAT32:
        floats = items_at(address, count, np.float32)
        for index in range(count):
            number = _low_bits(np.float64(floats[index]) * scale + _ROUNDING)
            to[index] = number
            lost |= (number == 0) & (floats[index] != 0)
    elif kind == at_job.BFLOAT16:
        words = items_at(address, count, np.uint16)
        for index in range(count):
            value = _float32_of(np.uint32(np.uint32(words[index]) << np.uint32(16)))
            number = _low_bits(np.float64(value) * scale + _ROUNDING)
            to[index] = number
            lost |= (number == 0) & (value != 0)
    else:
        scale *= _HALF_SCALE
        words = items_at(address, count, np.uint16)
        for index in range(count):
            word = np.uint32(words[index])
            bits = ((word & np.uint32(0x7FFF)) << np.uint32(13)) | (
                (word & np.uint32(0x8000)) << np.uint32(16)
            )
            value = _float32_of(np.uint32(bits))
            number = _low_bits(np.float64(value) * scale + _ROUNDING)
            to[index] = number
            lost |= (number == 0) & (value != 0)
    return lost != 0


@internal
def store_swapped(source: Integers, address: int, count: int) -> None:
    """Write integers to an address, most significant byte first."""
    to = items_at(address, count, np.int32)
    for index in range(count):
        to[index] = _swapped(source[index])


@internal
def load_swapped(address: int, count: int, to: Integers) -> None:
    """Read integers from an address, most significant byte first."""
    source = items_at(address, count, np.int32)
    for index in range(count):
        to[index] = _swapped(source[index])


@internal
def add_saturating(to: Integers, other: Integers, count: int) -> bool:
    """Add integers, and return whether a sum left the range; one that does stays at its end."""
    saturated = 0
    for index in range(count):
        total = np.int64(to[index]) + np.int64(other[index])
        kept = min(max(total, -_LARGEST - 1), _LARGEST)
        saturated |= kept != total
        to[index] = np.int32(kept)
    return saturated != 0


@internal
def rounded(value: float, bits: int, smallest: int) -> float:
    """Return a double rounded to so many significant bits, but not finer than 2**smallest; ties to
    even."""
    exponent = ((_float64_bits(value) >> 52) & 0x7FF) - 1023
    quantum = max(exponent - bits + 1, smallest)
    magic = _float64_of(((52 + quantum + 1023) << 52) | (1 << 51))
    return float((value + magic) - magic)


@internal
def half_bits(value: float) -> int:
    """Return the float16 of a double that is one, or too large for one."""
    single = np.float32(value)
    bits = np.int64(_float32_bits(single))
    sign = (bits >> 16) & 0x8000
    magnitude = bits & 0x7FFFFFFF
    normal = (magnitude >> 13) - (112 << 10)
    small = np.int64(abs(value) * 16777216.0) if abs(value) < 1.0 else 0
    found = small if abs(value) < 2.0**-14 else normal
    found = 0x7C00 if abs(value) >= 65536.0 else found
    return int(sign | found)


@internal
def store_nan(kind: int, address: int, count: int) -> None:
    """Write so many NaNs of a floating-point kind to an address."""
    if kind == at_job.FLOAT32:
        floats = items_at(address, count, np.float32)
        for index in range(count):
            floats[index] = np.float32(np.nan)
        return
    words = items_at(address, count, np.uint16)
    bits = np.uint16(0x7FC0) if kind == at_job.BFLOAT16 else np.uint16(0x7E00)
    for index in range(count):
        words[index] = bits


@internal
def dequantize(
    kind: int, sums: Integers, count: int, factor: float, divisor: int, address: int
) -> None:
    """Write `count` sums times `factor`, divided by `divisor` (0: not at all), to an address."""
    if kind == at_job.INT32:
        whole = items_at(address, count, np.int32)
        if divisor == 0:
            for index in range(count):
                whole[index] = sums[index]
            return
        for index in range(count):
            total = np.int64(sums[index])
            quotient = abs(total) // divisor
            whole[index] = np.int32(quotient if total >= 0 else -quotient)
        return
    by = np.float64(max(divisor, 1))
    if kind == at_job.FLOAT32:
        floats = items_at(address, count, np.float32)
        if divisor == 0:
            for index in range(count):
                floats[index] = np.float32(np.float64(sums[index]) * factor)
        else:
            for index in range(count):
                floats[index] = np.float32(np.float64(sums[index]) * factor / by)
        return
    words = items_at(address, count, np.uint16)
    if kind == at_job.BFLOAT16:
        for index in range(count):
            value = rounded(np.float64(sums[index]) * factor / by, 8, -133)
            words[index] = np.uint16(_float32_bits(np.float32(value)) >> np.uint32(16))
    else:
        for index in range(count):
            value = rounded(np.float64(sums[index]) * factor / by, 11, -24)
            words[index] = np.uint16(half_bits(value))
