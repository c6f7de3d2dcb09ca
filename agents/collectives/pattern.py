"""The bytes that a rank contributes: a function of seed, operation, rank and offset.

Any rank computes any part of any shard on its own, so a gathered result is checked without asking
anyone. The generator is counter-based: 64-bit word i is the finalizer of SplitMix64 (Steele, Lea,
Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014) on key + (i + 1) * golden
    ratio.
"""

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_BLOCK_WORDS = 1 << 15
"""Words made at a time: 256 KiB of temporaries stay in the cache."""


def shard_key(seed: int, operation: int, rank: int) -> int:
    """Return the 64-bit key of one shard's bytes."""
    key = 0
    for part in (seed, operation, rank):
        key = int(_mix(np.array([(key ^ (part & _MASK)) & _MASK], dtype=np.uint64), _GOLDEN)[0])
    return key


def fill_shard(
    out: NDArray[np.uint8], seed: int, operation: int, rank: int, offset: int = 0
) -> None:
    """Write ``len(out)`` bytes of a shard, from ``offset`` (a multiple of 8) on, into a buffer."""
    key = shard_key(seed, operation, rank)
    for first in range(0, len(out), 8 * _BLOCK_WORDS):
        part = out[first : first + 8 * _BLOCK_WORDS]
        part[:] = _block(key, (offset + first) // 8, len(part))


def first_difference(
    data: NDArray[np.uint8], seed: int, operation: int, rank: int, offset: int = 0
) -> int | None:
    """Compare ``data`` with a shard's bytes from ``offset`` (a multiple of 8) on.

    Returns:
        the place in the shard of the first byte that differs; None if all are right.
    """
    key = shard_key(seed, operation, rank)
    for first in range(0, len(data), 8 * _BLOCK_WORDS):
        part = data[first : first + 8 * _BLOCK_WORDS]
        expected = _block(key, (offset + first) // 8, len(part))
        if not np.array_equal(part, expected):
            return offset + first + int(np.flatnonzero(part != expected)[0])
    return None


def words(key: int, first: int, count: int) -> NDArray[np.uint64]:
    """Return words ``first`` to ``first + count - 1`` of a key: uint64[count]."""
    return words_at_places(key, np.arange(first, first + count, dtype=np.uint64))


def words_at_places(key: int, places: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the words of a key at these places: uint64 of the same shape."""
    return _mix((places + np.uint64(1)) * np.uint64(_GOLDEN), key)


def _block(key: int, first_word: int, size_bytes: int) -> NDArray[np.uint8]:
    mixed = words(key, first_word, (size_bytes + 7) // 8)
    return mixed.astype("<u8", copy=False).view(np.uint8)[:size_bytes]


def _mix(words: NDArray[np.uint64], key: int) -> NDArray[np.uint64]:
    words = words + np.uint64(key)
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
