"""The names of ``native.compiled`` on Python's own integers: the plain form of a program.

Nothing here is compiled. Arrays are memoryviews, which check every index, and integers are
unbounded, which makes this form the reference for the compiled one.
"""

import ctypes
from functools import lru_cache
from typing import Any, TypeVar

Function = TypeVar("Function")

WORD = (1 << 64) - 1
MOST_SHIFT = 65536
"""From this amount on all bits are shifted out: no field has as many."""


def jit(function: Function) -> Function:
    """Leave the function as it is."""
    return function


inline = jit
inner = jit


def constant_table(values: list[int]) -> list[int]:
    """Return a table of integers for look-up by index."""
    return list(values)


@lru_cache(maxsize=65536)
def int64_view(address: int, count: int) -> Any:
    """Return the ``count`` int64 words at ``address``."""
    return memoryview((ctypes.c_uint8 * (count * 8)).from_address(address)).cast("B").cast("q")


def address_of(words: Any, place: int) -> int:
    """Return the address of a word of an array."""
    return ctypes.addressof(ctypes.c_int64.from_buffer(words, 8 * place))


@lru_cache(maxsize=65536)
def uint8_view(address: int, count: int) -> Any:
    """Return the ``count`` bytes at ``address``."""
    return memoryview((ctypes.c_uint8 * count).from_address(address)).cast("B")


def load64(data: Any, offset: int) -> int:
    """Return the 8 bytes at ``data[offset]``, first byte most significant, as a stored word."""
    if offset < 0 or offset + 8 > len(data):
        raise IndexError(f"8 bytes at {offset} of {len(data)}")
    return int.from_bytes(data[offset : offset + 8], "big", signed=True)


def store64(data: Any, offset: int, value: int) -> None:
    """Write 8 bytes at ``data[offset]``, most significant byte first."""
    if offset < 0 or offset + 8 > len(data):
        raise IndexError(f"8 bytes at {offset} of {len(data)}")
    data[offset : offset + 8] = (value & WORD).to_bytes(8, "big")


def release_fence() -> None:
    """Do nothing: Python keeps stores in order."""


def unsigned64(value: int) -> int:
    """Return the unsigned 64-bit value that a stored word holds."""
    return value & WORD


def word64(value: int) -> int:
    """Return the low 64 bits of a value as a word to be stored."""
    value &= WORD
    return value - (1 << 64) if value >> 63 else value


def less64(left: int, right: int) -> bool:
    """Return ``left < right`` of numbers without sign."""
    return (left & WORD) < (right & WORD)


def divide64(left: int, right: int) -> int:
    """Return ``left // right`` of numbers without sign; 0 if right is 0."""
    return (left & WORD) // (right & WORD) if right else 0


def modulo64(left: int, right: int) -> int:
    """Return ``left % right`` of numbers without sign; 0 if right is 0."""
    return (left & WORD) % (right & WORD) if right else 0


def shift_left(value: int, amount: int) -> int:
    """Return ``value << amount``, which is 0 for an amount beyond any field."""
    return value << amount if 0 <= amount < MOST_SHIFT else 0


def shift_right(value: int, amount: int) -> int:
    """Return ``value >> amount``, which keeps the sign."""
    return value >> amount if 0 <= amount < MOST_SHIFT else (-1 if value < 0 else 0)


def shift_right64(value: int, amount: int) -> int:
    """Return ``value >> amount`` of a number without sign."""
    return (value & WORD) >> amount if 0 <= amount < MOST_SHIFT else 0


def multiply64(left: int, right: int) -> int:
    """Return ``left * right`` modulo 2**64, as a word."""
    return word64(left * right)
