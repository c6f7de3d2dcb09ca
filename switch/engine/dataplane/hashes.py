"""Hashes and checksums of bytes: what BMv2 computes by the names of `codegen.calculations`.

This source is used twice, compiled and plain; see ``weft.switch.engine.build``.
"""

from weft.switch.engine.dataplane.layout import Octets
from weft.switch.engine.native.compiled import (
    constant_table,
    inline,
    inner,
    load64,
    multiply64,
    shift_right64,
    unsigned64,
    word64,
)

XXH_1 = -7046029288634856825  # the five primes of XXH64, as signed words
XXH_2 = -4417276706812531889
XXH_3 = 1609587929392839161
XXH_4 = -8796714831421723037
XXH_5 = 2870177450012600261


def reflected_table(polynomial: int) -> list[int]:
    """Return the byte table of a CRC that takes the least significant bit first (its
    polynomial is reversed)."""
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (polynomial if byte & 1 else 0)
        table.append(byte)
    return table


def forward_table(polynomial: int) -> list[int]:
    """Return the byte table of a 16-bit CRC that takes the most significant bit first."""
    table = []
    for byte in range(256):
        value = byte << 8
        for _ in range(8):
            value = (value << 1) ^ (polynomial if value & 0x8000 else 0)
        table.append(value & 0xFFFF)
    return table


def slicing_tables(table: list[int]) -> list[int]:
    """Return eight tables of a reflected CRC, one behind the other.

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
def crc16(data: Octets, start: int, length: int) -> int:
    """Return the CRC-16/ARC of bytes, as BMv2's ``crc16`` does."""
    value = 0
    for i in range(start, start + length):
        value = (value >> 8) ^ CRC16[(value ^ data[i]) & 0xFF]
    return value


@inner
def crc32(data: Octets, start: int, length: int) -> int:
    """Return the CRC-32 of Ethernet and zlib, as BMv2's ``crc32`` does."""
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
def crcCCITT(data: Octets, start: int, length: int) -> int:
    """Return the CRC-16 with polynomial 0x1021 from 0xFFFF, as BMv2's ``crcCCITT`` does."""
    value = 0xFFFF
    for i in range(start, start + length):
        value = ((value << 8) & 0xFFFF) ^ CRC_CCITT[((value >> 8) ^ data[i]) & 0xFF]
    return value


@inner
def csum16(data: Octets, start: int, length: int) -> int:
    """Return the Internet checksum (RFC 1071)."""
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
def identity(data: Octets, start: int, length: int) -> int:
    """Return the first 8 bytes as a number, as BMv2's ``identity`` does."""
    value = 0
    for i in range(start, start + min(length, 8)):
        value = (value << 8) | data[i]
    return unsigned64(value)


@inner
def xor16(data: Octets, start: int, length: int) -> int:
    """Return the exclusive or of the 16-bit words, the last one padded with 0."""
    value = 0
    for i in range(length):
        value ^= data[start + i] << 8 if i & 1 == 0 else data[start + i] << 0
    return value


@inner
def xor32(data: Octets, start: int, length: int) -> int:
    """Return the exclusive or of the 32-bit words, the last one padded with 0."""
    value = 0
    for i in range(length):
        value ^= data[start + i] << (24 - 8 * (i & 3))
    return value


@inner
def reflect_bits(value: int, width: int) -> int:
    """Return the low ``width`` bits of a value in reverse order, as a word."""
    result = 0
    for i in range(width):
        result = word64((result << 1) | (shift_right64(value, i) & 1))
    return result


@inner
def crc_bits(
    data: Octets,
    start: int,
    length: int,
    width: int,
    polynomial: int,
    initial: int,
    final: int,
    reflected: bool,
    result_reflected: bool,
) -> int:
    """Return any CRC of 8 to 64 bits, bit by bit; a ``reflected`` one takes the least significant
    bit of bytes first, and its result may have it first, too."""
    value = initial
    for i in range(start, start + length):
        byte = reflect_bits(data[i], 8) if reflected else word64(data[i])
        value = word64(value ^ word64(byte << (width - 8)))
        for _ in range(8):
            top = shift_right64(value, width - 1) & 1
            value = word64(value << 1)
            if width < 64:
                value &= (1 << width) - 1
            if top:
                value ^= polynomial
    if result_reflected:
        value = reflect_bits(value, width)
    return unsigned64(value ^ final)


@inner
def crc_set(data: Octets, start: int, length: int, width: int, place: int) -> int:
    """Return the CRC whose parameters are at a place of the same memory: the controller has set
    them (`weft.switch.engine.control.memory.SwitchState.set_crc`)."""
    flags = load64(data, place)
    polynomial, initial = load64(data, place + 8), load64(data, place + 16)
    final = load64(data, place + 24)
    reflected, result_reflected = (flags & 2) != 0, (flags & 4) != 0
    return crc_bits(
        data, start, length, width, polynomial, initial, final, reflected, result_reflected
    )


@inner
def hash_ex(data: Octets, start: int, length: int) -> int:
    """Return simple_switch's ``hash_ex``: FNV with five mixing steps; a byte from 128 on is
    negative."""
    value = 2166136261
    for i in range(start, start + length):
        byte = data[i] - ((data[i] & 0x80) << 1)
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    value = (value + (value << 13)) & 0xFFFFFFFF
    value ^= value >> 7
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 17
    return (value + (value << 5)) & 0xFFFFFFFF


@inline
def rotate(value: int, count: int) -> int:
    """Return a word rotated left by 1 to 63 bits."""
    return word64(word64(value << count) | shift_right64(value, 64 - count))


@inline
def swap64(value: int) -> int:
    """Return a word's bytes in reverse order."""
    result = 0
    for i in range(8):
        result = word64((result << 8) | (shift_right64(value, 8 * i) & 0xFF))
    return result


@inline
def xxh_round(state: int, word: int) -> int:
    """Return the state of XXH64 after one more word."""
    return multiply64(rotate(word64(state + multiply64(word, XXH_2)), 31), XXH_1)


@inner
def xxh64(data: Octets, start: int, length: int) -> int:
    """Return XXH64 with seed 0, as BMv2's ``xxh64`` and ``bmv2_hash`` do."""
    at = start
    end = start + length
    if length >= 32:
        one = word64(XXH_1 + XXH_2)
        two = word64(XXH_2)
        three = word64(0)
        four = word64(-XXH_1)
        while at + 32 <= end:
            one = xxh_round(one, swap64(load64(data, at)))
            two = xxh_round(two, swap64(load64(data, at + 8)))
            three = xxh_round(three, swap64(load64(data, at + 16)))
            four = xxh_round(four, swap64(load64(data, at + 24)))
            at += 32
        value = word64(rotate(one, 1) + rotate(two, 7) + rotate(three, 12) + rotate(four, 18))
        value = word64(multiply64(word64(value ^ xxh_round(0, one)), XXH_1) + XXH_4)
        value = word64(multiply64(word64(value ^ xxh_round(0, two)), XXH_1) + XXH_4)
        value = word64(multiply64(word64(value ^ xxh_round(0, three)), XXH_1) + XXH_4)
        value = word64(multiply64(word64(value ^ xxh_round(0, four)), XXH_1) + XXH_4)
    else:
        value = word64(XXH_5)
    value = word64(value + length)
    while at + 8 <= end:
        value = word64(value ^ xxh_round(0, swap64(load64(data, at))))
        value = word64(multiply64(rotate(value, 27), XXH_1) + XXH_4)
        at += 8
    if at + 4 <= end:
        four_bytes = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24
        value = word64(value ^ multiply64(word64(four_bytes), XXH_1))
        value = word64(multiply64(rotate(value, 23), XXH_2) + XXH_3)
        at += 4
    while at < end:
        value = word64(value ^ multiply64(word64(data[at]), XXH_5))
        value = multiply64(rotate(value, 11), XXH_1)
        at += 1
    value = multiply64(word64(value ^ shift_right64(value, 33)), XXH_2)
    value = multiply64(word64(value ^ shift_right64(value, 29)), XXH_3)
    return unsigned64(word64(value ^ shift_right64(value, 32)))
