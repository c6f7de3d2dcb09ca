"""What generated programs call: table look-up, hashes and checksums, random numbers.

This source is used twice, compiled and plain; see ``switch.engine.build``.
"""

from __future__ import annotations

from typing import Any

from switch.engine.layout import RANDOM
from switch.engine.native import (
    constant_table,
    inline,
    inner,
    less64,
    load64,
    modulo64,
    multiply64,
    shift_right64,
    unsigned64,
    word64,
)

# A table's directory in the image: [default record or 0, key words, groups, linear entries,
# their offset, then the groups]. A group holds the entries that have one mask in common:
# [bits of its hash, offset of its slots, greatest priority, mask of each key word]; a slot is
# [key words, priority, record or 0, index]. Linear entries (tables with a range key), by falling
# priority, are [low, high or value, mask of each key word, priority, record, index].
D_DEFAULT = 0
D_KEYS = 1
D_GROUPS = 2
D_LINEAR = 3
D_LINEAR_OFFSET = 4
D_RANGES = 5  # bit k: key word k of the linear entries is a range
DIRECTORY_WORDS = 6

G_BITS = 0
G_SLOTS = 1
G_PRIORITY = 2
GROUP_WORDS = 3

# After the key words of a slot.
E_PRIORITY = 0
E_RECORD = 1
E_INDEX = 2
ENTRY_WORDS = 3

# A record is [action, parameters] or [GROUP, count, a record for each].
GROUP = -2

HASH_MULTIPLIER = -7046029254386353131  # 2**64 / golden ratio, as a signed word


@inline
def hash_word(state: int, word: int) -> int:
    """Mix one more key word into the hash of a look-up."""
    mixed = multiply64(state ^ word, HASH_MULTIPLIER)
    return mixed ^ shift_right64(mixed, 29)


@inner
def lookup_word(image: Any, table: int, key: int) -> int:
    """Look a key of one word up: the image's offset of the best entry's priority word, or -1."""
    directory = image[table]
    groups = image[directory + D_GROUPS]
    if groups == 0:
        return -1
    best = -1
    best_priority = -1
    group = directory + DIRECTORY_WORDS
    for _ in range(groups):
        if best_priority >= image[group + G_PRIORITY]:
            break
        masked = key & image[group + GROUP_WORDS]
        bits = image[group + G_BITS]
        slots = image[group + G_SLOTS]
        slot = shift_right64(hash_word(0, masked), 64 - bits)
        while True:
            entry = slots + slot * (1 + ENTRY_WORDS)
            if image[entry + 1 + E_RECORD] == 0:
                break
            if image[entry] == masked:
                if image[entry + 1 + E_PRIORITY] > best_priority:
                    best = entry + 1
                    best_priority = image[entry + 1 + E_PRIORITY]
                break
            slot = (slot + 1) & ((1 << bits) - 1)
        group += GROUP_WORDS + 1
    return best


@inner
def lookup_words(image: Any, table: int, keys: Any) -> int:
    """As ``lookup_word`` for a key of several words, or of none, or with ranges."""
    directory = image[table]
    words = image[directory + D_KEYS]
    best = -1
    best_priority = -1
    group = directory + DIRECTORY_WORDS
    for _ in range(image[directory + D_GROUPS]):
        if best_priority >= image[group + G_PRIORITY]:
            break
        masks = group + GROUP_WORDS
        state = 0
        for k in range(words):
            state = hash_word(state, keys[k] & image[masks + k])
        bits = image[group + G_BITS]
        slots = image[group + G_SLOTS]
        slot = shift_right64(state, 64 - bits)
        while True:
            entry = slots + slot * (words + ENTRY_WORDS)
            if image[entry + words + E_RECORD] == 0:
                break
            same = True
            for k in range(words):
                if image[entry + k] != keys[k] & image[masks + k]:
                    same = False
            if same:
                if image[entry + words + E_PRIORITY] > best_priority:
                    best = entry + words
                    best_priority = image[best + E_PRIORITY]
                break
            slot = (slot + 1) & ((1 << bits) - 1)
        group += GROUP_WORDS + words
    return first_in_range(image, directory, keys, best)


@inner
def first_in_range(image: Any, directory: int, keys: Any, best: int) -> int:
    """The first matching linear entry, or ``best`` if there is none."""
    words = image[directory + D_KEYS]
    ranges = image[directory + D_RANGES]
    entry = image[directory + D_LINEAR_OFFSET]
    for _ in range(image[directory + D_LINEAR]):
        same = True
        for k in range(words):
            first = image[entry + 2 * k]
            second = image[entry + 2 * k + 1]
            if (ranges >> k) & 1:
                if less64(keys[k], first) or less64(second, keys[k]):
                    same = False
            elif keys[k] & second != first:
                same = False
        if same:
            return entry + 2 * words  # type: ignore[no-any-return]
        entry += 2 * words + ENTRY_WORDS
    return best


@inline
def choose(image: Any, record: int, hash_value: int) -> int:
    """The record that a group's hash chooses; -1 from an empty group."""
    count = image[record + 1]
    if count == 0:
        return -1
    return image[record + 2 + modulo64(hash_value, count)]  # type: ignore[no-any-return]


@inner
def draw(state: Any) -> int:
    """The next 64 random bits of a switch (splitmix64), as a word."""
    word = word64(state[RANDOM] + HASH_MULTIPLIER)
    state[RANDOM] = word
    word = multiply64(word ^ shift_right64(word, 30), -4658895280553007687)
    word = multiply64(word ^ shift_right64(word, 27), -7723592293110705685)
    return word ^ word64(shift_right64(word, 31))


@inline
def random_between(state: Any, low: int, high: int) -> int:
    """A random number from ``low`` to ``high``, both included (unsigned words, low <= high)."""
    span = word64(high - low + 1)
    if span == 0:
        return unsigned64(draw(state))
    return low + modulo64(draw(state), unsigned64(span))


def reflected_table(polynomial: int) -> list[int]:
    """Byte table of a CRC that takes the least significant bit first (polynomial reversed)."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


def forward_table(polynomial: int) -> list[int]:
    """Byte table of a 16-bit CRC that takes the most significant bit first."""
    table = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value & 0x8000 else 0)
        table.append(value & 0xFFFF)
    return table


def slicing_tables(table: list[int]) -> list[int]:
    """Eight tables of a reflected CRC, one behind the other.

    The last is ``table``; entry ``256 * k + byte`` is what ``byte`` does with 7 - k bytes after it
    (Kounavis and Berry, "A systematic approach to building high performance, software-based, CRC
    generators", 2005).
    """
    tables = [table]
    for _ in range(7):
        tables.insert(0, [(value >> 8) ^ table[value & 0xFF] for value in tables[0]])
    return [value for part in tables for value in part]


CRC16 = constant_table(reflected_table(0xA001))
CRC32 = constant_table(reflected_table(0xEDB88320))
CRC32_SLICES = constant_table(slicing_tables(reflected_table(0xEDB88320)))
CRC_CCITT = constant_table(forward_table(0x1021))


@inner
def crc16(data: Any, start: int, length: int) -> int:
    """CRC-16/ARC, as BMv2's ``crc16``."""
    value = 0
    for i in range(start, start + length):
        value = (value >> 8) ^ CRC16[(value ^ data[i]) & 0xFF]
    return value


@inner
def crc32(data: Any, start: int, length: int) -> int:
    """CRC-32 of Ethernet and zlib, as BMv2's ``crc32``."""
    value = 0xFFFFFFFF
    whole = start + (length & ~7)
    for i in range(start, whole, 8):
        word = load64(data, i)
        value = (
            CRC32_SLICES[((word >> 56) ^ value) & 0xFF]
            ^ CRC32_SLICES[256 + (((word >> 48) ^ (value >> 8)) & 0xFF)]
            ^ CRC32_SLICES[512 + (((word >> 40) ^ (value >> 16)) & 0xFF)]
            ^ CRC32_SLICES[768 + (((word >> 32) ^ (value >> 24)) & 0xFF)]
            ^ CRC32_SLICES[1024 + ((word >> 24) & 0xFF)]
            ^ CRC32_SLICES[1280 + ((word >> 16) & 0xFF)]
            ^ CRC32_SLICES[1536 + ((word >> 8) & 0xFF)]
            ^ CRC32_SLICES[1792 + (word & 0xFF)]
        )
    for i in range(whole, start + length):
        value = (value >> 8) ^ CRC32[(value ^ data[i]) & 0xFF]
    return value ^ 0xFFFFFFFF


@inner
def crcCCITT(data: Any, start: int, length: int) -> int:
    """CRC-16 with polynomial 0x1021 from 0xFFFF, as BMv2's ``crcCCITT``."""
    value = 0xFFFF
    for i in range(start, start + length):
        value = ((value << 8) & 0xFFFF) ^ CRC_CCITT[((value >> 8) ^ data[i]) & 0xFF]
    return value


@inner
def csum16(data: Any, start: int, length: int) -> int:
    """The Internet checksum (RFC 1071)."""
    total = 0
    whole = length & ~7
    for i in range(start, start + whole, 8):
        word = load64(data, i)
        total += ((word >> 32) & 0xFFFFFFFF) + (word & 0xFFFFFFFF)
    for i in range(whole, length):
        total += data[start + i] << 8 if i & 1 == 0 else data[start + i] << 0
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


@inner
def identity(data: Any, start: int, length: int) -> int:
    """The first 8 bytes as a number, as BMv2's ``identity``."""
    value = 0
    for i in range(start, start + min(length, 8)):
        value = (value << 8) | data[i]
    return unsigned64(value)


@inner
def xor16(data: Any, start: int, length: int) -> int:
    """Exclusive or of the 16-bit words, the last one padded with 0."""
    value = 0
    for i in range(length):
        value ^= data[start + i] << 8 if i & 1 == 0 else data[start + i] << 0
    return value


@inner
def put_bits(data: Any, position: int, value: int, width: int) -> None:
    """Write the low ``width`` bits (at most 64) of a value at a bit position of zeroed bytes."""
    for i in range(width):
        if (value >> (width - 1 - i)) & 1:
            at = position + i
            data[at >> 3] |= 0x80 >> (at & 7)
