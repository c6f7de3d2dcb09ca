"""Many vectors into one, in a fixed order: compiled, in blocks that stay in the first-level cache.

Vectors are given by the addresses of their first elements. A block of the result is written once
for every vector and read from memory never; so what limits is how fast inputs come from memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from agents.wire.compiled import compiled, internal, items_at

BLOCK = 2048
"""Elements that are combined at a time."""
SUM, MINIMUM, MAXIMUM = range(3)

Words = npt.NDArray[np.int64]


@internal
def apply(into: Any, offset: int, other: Any, first: int, count: int, op: int) -> None:
    """into[offset:][i] = into[offset:][i] op other[first:][i]; a NaN stays one, as numpy has it."""
    if op == SUM:
        for i in range(count):
            into[offset + i] += other[first + i]
    elif op == MINIMUM:
        for i in range(count):
            a, b = into[offset + i], other[first + i]
            into[offset + i] = a if a < b or a != a else b
    else:
        for i in range(count):
            a, b = into[offset + i], other[first + i]
            into[offset + i] = a if a > b or a != a else b


@compiled
def combine(like: Any, rows: Words, count: int, out: int, op: int) -> None:
    """Combine vectors of `like.dtype` at the addresses `rows`, in their order, into `out`.

    Integers wrap around. `out` may not overlap the vectors.
    """
    result = items_at(out, count, like.dtype)
    for first in range(0, count, BLOCK):
        some = min(BLOCK, count - first)
        start = items_at(rows[0], count, like.dtype)
        if len(rows) == 1:
            for i in range(first, first + some):
                result[i] = start[i]
            continue
        second = items_at(rows[1], count, like.dtype)
        if op == SUM:
            for i in range(first, first + some):
                result[i] = start[i] + second[i]
        else:
            for i in range(first, first + some):
                result[i] = start[i]
            apply(result, first, second, first, some, op)
        for row in range(2, len(rows)):
            apply(result, first, items_at(rows[row], count, like.dtype), first, some, op)


@internal
def widen(source: Any, first: int, count: int, bits: Any, values: Any, brain: bool) -> None:
    """float16 or bfloat16, given by their bits, as float32: `bits` and `values` are one memory."""
    if brain:
        for i in range(count):
            bits[i] = np.uint32(source[first + i]) << np.uint32(16)
        return
    # A float16's exponent and fraction in a float32's place are 2^112 too small; multiplication
    # makes subnormals normal. Infinity and NaN get their exponent by hand.
    for i in range(count):
        bits[i] = np.uint32(source[first + i] & np.uint16(0x7FFF)) << np.uint32(13)
    for i in range(count):
        values[i] *= np.float32(2.0**112)
    for i in range(count):
        half = np.uint32(source[first + i])
        whole = bits[i]
        if half & np.uint32(0x7C00) == np.uint32(0x7C00):
            whole = whole | np.uint32(0x7F800000)
        bits[i] = whole | (half & np.uint32(0x8000)) << np.uint32(16)


@internal
def narrow(bits: Any, values: Any, count: int, target: Any, first: int, brain: bool) -> None:
    """float32 rounded to the nearest float16 or bfloat16, ties to even; overwrites `values`."""
    if brain:
        for i in range(count):
            whole = bits[i]
            rounded = (whole + np.uint32(0x7FFF) + (whole >> np.uint32(16) & np.uint32(1))) >> (
                np.uint32(16)
            )
            if whole & np.uint32(0x7FFFFFFF) > np.uint32(0x7F800000):
                rounded = whole >> np.uint32(16) & np.uint32(0x8000) | np.uint32(0x7FC0)
            target[first + i] = np.uint16(rounded)
        return
    for i in range(count):
        whole = bits[i]
        size = whole & np.uint32(0x7FFFFFFF)
        sign = whole >> np.uint32(16) & np.uint32(0x8000)
        target[first + i] = np.uint16(sign)
        if size > np.uint32(0x7F800000):
            size = np.uint32(0x7FC00000)
        bits[i] = size
    # Below 2^-14 the float16's last place is 2^-24: adding 0.5 rounds the sum to that place.
    for i in range(count):
        size = bits[i]
        if size < np.uint32(0x38800000):
            values[i] += np.float32(0.5)
            bits[i] -= np.uint32(0x3F000000)
        elif size >= np.uint32(0x47800000):
            bits[i] = np.uint32(0x7E00 if size > np.uint32(0x7F800000) else 0x7C00)
        else:
            odd = size >> np.uint32(13) & np.uint32(1)
            bits[i] = (size - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)
    for i in range(count):
        target[first + i] |= np.uint16(bits[i])


@compiled
def combine_halves(
    rows: Words, count: int, out: int, op: int, ranks: int, brain: bool, wide: bool, wide_out: bool
) -> None:
    """Combine float16 (`brain`: bfloat16) vectors in float32, divide by `ranks`, and round once.

    With `wide` the vectors are float32 already, with `wide_out` the result stays it.
    """
    total_bits = np.empty(BLOCK, np.uint32)
    total = total_bits.view(np.float32)
    other_bits = np.empty(BLOCK, np.uint32)
    other = other_bits.view(np.float32)
    for first in range(0, count, BLOCK):
        some = min(BLOCK, count - first)
        for row in range(len(rows)):
            if wide:
                values = items_at(rows[row], count, np.float32)
                if row:
                    apply(total, 0, values, first, some, op)
                else:
                    total[:some] = values[first : first + some]
                continue
            halves = items_at(rows[row], count, np.uint16)
            if row:
                widen(halves, first, some, other_bits, other, brain)
                apply(total, 0, other, 0, some, op)
            else:
                widen(halves, first, some, total_bits, total, brain)
        if ranks > 1:
            for i in range(some):
                total[i] /= np.float32(ranks)
        if wide_out:
            items_at(out, count, np.float32)[first : first + some] = total[:some]
        else:
            narrow(total_bits, total, some, items_at(out, count, np.uint16), first, brain)
