"""BMv2's hashes and checksums of bytes, by their names."""

import binascii
import zlib
from collections.abc import Callable
from functools import partial

from weft.switch.engine.program.algorithms import CRCS, CUSTOM, SAME, CrcParameters, custom_crc
from weft.switch.engine.program.errors import ProgramError

M32, M64 = (1 << 32) - 1, (1 << 64) - 1


def reflected(value: int, width: int) -> int:
    """Return the bits of a number in reverse order."""
    return int(f"{value:0{width}b}"[::-1], 2)


def crc(
    data: bytes, width: int, poly: int, init: int, xor: int, reflect: bool, turn: bool | None = None
) -> int:
    """Return any CRC, bit by bit; ``turn``: whether its result is reflected, as bytes are without
    it."""
    register, top = init, 1 << (width - 1)
    for byte in data:
        register ^= (reflected(byte, 8) if reflect else byte) << (width - 8)
        for _ in range(8):
            register = (register << 1) ^ (poly if register & top else 0)
            register &= (1 << width) - 1
    return (reflected(register, width) if (reflect if turn is None else turn) else register) ^ xor


def words(data: bytes, size: int) -> list[int]:
    """Return bytes as numbers of ``size`` bytes each, the last filled with zeros."""
    padded = data + bytes(-len(data) % size)
    return [int.from_bytes(padded[at : at + size], "big") for at in range(0, len(padded), size)]


def csum16(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071)."""
    total = sum(words(data, 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def exclusive_or(size: int, data: bytes) -> int:
    """Return the exclusive or of the words of bytes."""
    result = 0
    for word in words(data, size):
        result ^= word
    return result


def hash_ex(data: bytes) -> int:
    """Return simple_switch's ``hash_ex``, for which bytes have signs."""
    value = 2166136261
    for byte in data:
        value = ((value ^ (byte - 256 if byte > 127 else byte)) * 16777619) & M32
    for shift, left in ((13, True), (7, False), (3, True), (17, False), (5, True)):
        value = (value + (value << shift)) & M32 if left else value ^ value >> shift
    return value


P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotated(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & M64


def _round(state: int, lane: int) -> int:
    return _rotated((state + lane * P2) & M64, 31) * P1 & M64


def xxh64(data: bytes) -> int:
    """Return XXH64 with seed 0."""
    at, size = 0, len(data)

    def take(count: int) -> int:
        nonlocal at
        at += count
        return int.from_bytes(data[at - count : at], "little")

    value = P5
    if size >= 32:
        lanes = [(P1 + P2) & M64, P2, 0, -P1 & M64]
        while size - at >= 32:
            lanes = [_round(lane, take(8)) for lane in lanes]
        value = sum(map(_rotated, lanes, (1, 7, 12, 18))) & M64
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * P1 + P4) & M64
    value = (value + size) & M64
    while size - at >= 8:
        value = (_rotated(value ^ _round(0, take(8)), 27) * P1 + P4) & M64
    if size - at >= 4:
        value = (_rotated(value ^ take(4) * P1 & M64, 23) * P2 + P3) & M64
    while at < size:
        value = _rotated(value ^ take(1) * P5 & M64, 11) * P1 & M64
    value = (value ^ value >> 33) * P2 & M64
    value = (value ^ value >> 29) * P3 & M64
    return value ^ value >> 32


FUNCTIONS: dict[str, Callable[[bytes], int]] = {
    "crc16": partial(crc, width=16, poly=0x8005, init=0, xor=0, reflect=True),
    "crc32": zlib.crc32,
    "crcCCITT": lambda data: binascii.crc_hqx(data, 0xFFFF),
    "csum16": csum16,
    "identity": lambda data: int.from_bytes(data[:8], "big"),
    "xor16": partial(exclusive_or, 2),
    "xor32": partial(exclusive_or, 4),
    "xxh64": xxh64,
    "hash_ex": hash_ex,
    "toeplitz": lambda data: 0,  # of the key 0, which only Thrift could change
}


def computed(algorithm: str, data: bytes, custom: CrcParameters | None = None) -> int:
    """Return what an algorithm makes of bytes; ``custom`` is what has been set of a custom CRC.
    Raises ``ProgramError`` where there is none."""
    if custom is not None:
        return crc(
            data, CUSTOM[algorithm], custom.polynomial, custom.initial, custom.final,
            custom.reflects_data, custom.reflects_result,
        )  # fmt: skip
    algorithm = SAME.get(algorithm, algorithm)
    if algorithm in FUNCTIONS:
        return FUNCTIONS[algorithm](data)
    parameters = CRCS.get(algorithm) or custom_crc(algorithm)
    if parameters is None:
        raise ProgramError(f"BMv2 has no hash algorithm {algorithm!r}")
    return crc(data, *parameters)
