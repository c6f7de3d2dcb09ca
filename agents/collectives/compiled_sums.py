"""Many vectors into one, in a fixed order: compiled, in blocks that stay in the first-level cache.

Vectors are given by the addresses of their first elements. A block of the result is written once
for every vector and read from memory never; so what limits is how fast inputs come from memory.
Loops count from 0 over arrays of their own length: so they become vector instructions.
"""

from typing import Any

import numpy as np

from weft.agents.wire.compiled import compiled, inline, internal
from weft.base.jit import Words, items_at, memcpy

BLOCK = 2048
"""Elements that are combined at a time."""
ROOM_BYTES = 8 * BLOCK
SUM, MINIMUM, MAXIMUM = range(3)


@inline
def smaller(one: Any, other: Any) -> Any:
    """Return the smaller of two numbers; a NaN stays one, as numpy has it."""
    return one if (one < other) | (one != one) else other


@inline
def larger(one: Any, other: Any) -> Any:
    """Return the larger of two numbers; a NaN stays one, as numpy has it."""
    return one if (one > other) | (one != one) else other


@internal
def apply(into: Any, left: Any, right: Any, count: int, op: int) -> None:
    """Set into[i] = left[i] op right[i]."""
    if op == SUM:
        for i in range(count):
            into[i] = left[i] + right[i]
    elif op == MINIMUM:
        for i in range(count):
            into[i] = smaller(left[i], right[i])
    else:
        for i in range(count):
            into[i] = larger(left[i], right[i])


@internal
def apply_four(into: Any, a: Any, b: Any, c: Any, d: Any, count: int, op: int) -> None:
    """Set into[i] = (((into[i] op a[i]) op b[i]) op c[i]) op d[i], with one load and store of
    it."""
    if op == SUM:
        for i in range(count):
            into[i] = into[i] + a[i] + b[i] + c[i] + d[i]
    elif op == MINIMUM:
        for i in range(count):
            into[i] = smaller(smaller(smaller(smaller(into[i], a[i]), b[i]), c[i]), d[i])
    else:
        for i in range(count):
            into[i] = larger(larger(larger(larger(into[i], a[i]), b[i]), c[i]), d[i])


@compiled
def combine(like: Any, rows: Words, count: int, out: int, op: int) -> None:
    """Combine vectors of `like.dtype` at the addresses `rows`, in their order, into `out`.

    Integers wrap around. `out` may not overlap the vectors.
    """
    size = like.itemsize
    for first in range(0, count, BLOCK):
        some, offset = min(BLOCK, count - first), first * size
        result = items_at(out + offset, some, like.dtype)
        start = items_at(rows[0] + offset, some, like.dtype)
        if len(rows) == 1:
            memcpy(out + offset, rows[0] + offset, some * size)
            continue
        apply(result, start, items_at(rows[1] + offset, some, like.dtype), some, op)
        fours = (len(rows) - 2) // 4 * 4 + 2
        for row in range(2, fours, 4):
            a = items_at(rows[row] + offset, some, like.dtype)
            b = items_at(rows[row + 1] + offset, some, like.dtype)
            c = items_at(rows[row + 2] + offset, some, like.dtype)
            d = items_at(rows[row + 3] + offset, some, like.dtype)
            apply_four(result, a, b, c, d, some, op)
        for row in range(fours, len(rows)):
            apply(result, result, items_at(rows[row] + offset, some, like.dtype), some, op)


@internal
def widen(source: Any, count: int, bits: Any, values: Any, brain: bool) -> None:
    """Turn float16 or bfloat16, given by their bits, into float32: `bits` and `values` are one
    memory."""
    if brain:
        for i in range(count):
            bits[i] = np.uint32(source[i]) << np.uint32(16)
        return
    # A float16's exponent and fraction in a float32's place are 2^112 too small; multiplication
    # makes subnormals normal. Infinity and NaN get their exponent by hand.
    for i in range(count):
        bits[i] = (np.uint32(source[i]) & np.uint32(0x7FFF)) << np.uint32(13)
    for i in range(count):
        values[i] *= np.float32(2.0**112)
    for i in range(count):
        half = np.uint32(source[i])
        special = (half & np.uint32(0x7C00)) == np.uint32(0x7C00)
        whole = bits[i] | (np.uint32(0x7F800000) if special else np.uint32(0))
        bits[i] = whole | ((half & np.uint32(0x8000)) << np.uint32(16))


@internal
def narrow(bits: Any, values: Any, small: Any, count: int, target: Any, brain: bool) -> None:
    """Round float32 to the nearest float16 or bfloat16, ties to even, and write its bits to
    `target`.

    `bits` and `values` are one memory; `small` is float32[count] of room.
    """
    if brain:
        for i in range(count):
            whole = bits[i]
            odd = (whole >> np.uint32(16)) & np.uint32(1)
            rounded = (whole + np.uint32(0x7FFF) + odd) >> np.uint32(16)
            quiet = ((whole >> np.uint32(16)) & np.uint32(0x8000)) | np.uint32(0x7FC0)
            is_nan = (whole & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
            target[i] = np.uint16(quiet if is_nan else rounded)
        return
    # Below 2^-14 the float16's last place is 2^-24: adding 0.5 rounds the sum to that place.
    for i in range(count):
        small[i] = abs(values[i]) + np.float32(0.5)
    small_bits = small.view(np.uint32)
    for i in range(count):
        whole = bits[i]
        size = whole & np.uint32(0x7FFFFFFF)
        odd = (size >> np.uint32(13)) & np.uint32(1)
        half = (size - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)
        half = small_bits[i] - np.uint32(0x3F000000) if size < np.uint32(0x38800000) else half
        half = np.uint32(0x7C00) if size >= np.uint32(0x47800000) else half
        half = np.uint32(0x7E00) if size > np.uint32(0x7F800000) else half
        target[i] = np.uint16(half | ((whole >> np.uint32(16)) & np.uint32(0x8000)))


@compiled
def combine_halves(
    rows: Words, count: int, out: int, op: int, ranks: int, brain: bool, wide: bool, wide_out: bool,
    room: int,
) -> None:  # fmt: skip
    """Combine float16 (`brain`: bfloat16) vectors in float32, divide by `ranks`, and round once.

    With `wide` the vectors are float32 already, with `wide_out` the result stays it. `room` is the
    address of `ROOM_BYTES` to work in.
    """
    total_bits = items_at(room, BLOCK, np.uint32)
    total = items_at(room, BLOCK, np.float32)
    other_bits = items_at(room + 4 * BLOCK, BLOCK, np.uint32)
    other = items_at(room + 4 * BLOCK, BLOCK, np.float32)
    for first in range(0, count, BLOCK):
        some = min(BLOCK, count - first)
        for row in range(len(rows)):
            if wide:
                values = items_at(rows[row] + 4 * first, some, np.float32)
                if row:
                    apply(total, total, values, some, op)
                else:
                    memcpy(room, rows[row] + 4 * first, 4 * some)
                continue
            halves = items_at(rows[row] + 2 * first, some, np.uint16)
            if row:
                widen(halves, some, other_bits, other, brain)
                apply(total, total, other, some, op)
            else:
                widen(halves, some, total_bits, total, brain)
        if ranks > 1:
            for i in range(some):
                total[i] /= np.float32(ranks)
        if wide_out:
            memcpy(out + 4 * first, room, 4 * some)
        else:
            target = items_at(out + 2 * first, some, np.uint16)
            narrow(total_bits, total, other, some, target, brain)
