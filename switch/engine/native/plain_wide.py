"""The names of ``native.wide`` on Python's own integers: the plain form of a program.

Numbers are exact, whatever their size, so counts of words only matter where words are stored.
"""

import operator
from typing import Any

from weft.switch.engine.native.plain import WORD, shift_left, shift_right, word64


def wide_load(array: Any, place: int, stored: int, words: int) -> int:
    """Return the unsigned number in ``stored`` words from array[place] on, most significant
    first."""
    value = 0
    for i in range(stored):
        value = value << 64 | array[place + i] & WORD
    return value


def wide_load_signed(array: Any, place: int, stored: int, words: int) -> int:
    """Do as `wide_load` for a signed number."""
    value = wide_load(array, place, stored, words)
    return value - (1 << 64 * stored) if array[place] < 0 else value


def wide_store(array: Any, place: int, value: int, words: int) -> None:
    """Store the low words of a value at array[place] and behind."""
    for i in range(words):
        array[place + i] = word64(value >> 64 * (words - 1 - i))


def wide_read(data: Any, at: int, skip: int, width: int, words: int) -> int:
    """Return the unsigned field of ``width`` bits that begins ``skip`` bits (0 to 7) behind
    data[at]."""
    size = (skip + width + 7) // 8
    if at < 0 or at + size > len(data):
        raise IndexError(f"{size} bytes at {at} of {len(data)}")
    value = int.from_bytes(data[at : at + size], "big")
    return value >> (8 * size - skip - width) & ((1 << width) - 1)


def wide_int(value: int, words: int) -> int:
    """Return a word as a wide integer."""
    return value


def wide_word(value: int, words: int) -> int:
    """Return an unsigned word as a wide integer."""
    return value & WORD


def wide_constant(parts: tuple[int, ...], words: int) -> int:
    """Return the unsigned number with these words."""
    return wide_load(parts, 0, len(parts), words)


def wide_cast(value: int, words: int) -> int:
    """Return the low words of a value: here all of it, as callers use no more."""
    return value


def wide_narrow(value: int) -> int:
    """Return the least significant word: here all of the value, as callers use no more."""
    return value


wide_add, wide_sub, wide_mul, wide_negate = operator.add, operator.sub, operator.mul, operator.neg
wide_and, wide_or, wide_xor, wide_not = operator.and_, operator.or_, operator.xor, operator.invert
wide_equal, wide_less = operator.eq, operator.lt
wide_multiply, wide_less_unsigned = wide_mul, wide_less


wide_shift_left, wide_shift_right, wide_shift_right_unsigned = shift_left, shift_right, shift_right


def wide_cut(value: int, width: int) -> int:
    """Return the low bits of a number, unsigned."""
    return value & ((1 << width) - 1)


def wide_sign(value: int, width: int) -> int:
    """Return the low bits of a number, in two's complement."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


def wide_clamp(value: int, low: int, high: int) -> int:
    """Return the number from low to high that is nearest."""
    return min(max(value, low), high)


def wide_clip(value: int) -> int:
    """Return the number from -2**62 to 2**62 that is nearest."""
    return min(max(value, -(1 << 62)), 1 << 62)


def wide_divide(left: int, right: int) -> int:
    """Return ``left // right`` of numbers without sign; 0 if right is 0."""
    return left // right if right else 0


def wide_modulo(left: int, right: int) -> int:
    """Return ``left % right`` of numbers without sign; 0 if right is 0."""
    return left % right if right else 0
