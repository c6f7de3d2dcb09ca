"""The invariant CRC of RoCEv2 (InfiniBand specification 1.4, annex A17.3.3), compiled.

CRC-32 as Ethernet has it, over 8 bytes of ones, the IPv4 and UDP headers and the datagram, with
the fields that a router may change taken as ones: TOS, TTL, both checksums, and the fifth byte of
the BTH. The world sends identification 0 and DF.

Where the processor has carry-less multiplication, 64 bytes are taken at a time by the method of V.
Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel,
2009): four 128-bit accumulators are multiplied past the next 64 bytes and added to them. What is
left in the end is 16 bytes with the same remainder as the whole, which the table method finishes.
"""

import zlib
from importlib import import_module
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt

from weft.agents.wire.compiled import entry, internal
from weft.base.deferred import deferred, intrinsic, ir, types
from weft.base.jit import READ_ONLY, Word, load8, load64
from weft.base.processors import may_use

cgutils = deferred(lambda: import_module("numba.core.cgutils"))

_PAST_512_BITS = (0x154442BD4, 0x1C6E41596)
_PAST_128_BITS = (0x1751997D0, 0x0CCAA009E)


def _fold_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, blocks, register = arguments
    byte, word = ir.IntType(8), ir.IntType(64)
    vector = ir.VectorType(word, 2)
    multiply = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(vector, [vector, vector, byte]),
        "llvm.x86.pclmulqdq",
    )

    def load(block: Any, index: int) -> Any:
        offset = builder.add(
            builder.mul(block, ir.Constant(word, 64)), ir.Constant(word, 16 * index)
        )
        pointer = builder.inttoptr(builder.add(address, offset), vector.as_pointer())
        return builder.load(pointer, align=1)

    def fold(value: Any, constants: tuple[int, int], data: Any) -> Any:
        factor = ir.Constant(vector, [ir.Constant(word, constant) for constant in constants])
        low = builder.call(multiply, [value, factor, ir.Constant(byte, 0x00)])
        high = builder.call(multiply, [value, factor, ir.Constant(byte, 0x11)])
        return builder.xor(builder.xor(low, high), data)

    start = builder.insert_element(
        ir.Constant(vector, None), register, ir.Constant(ir.IntType(32), 0)
    )
    values = [load(ir.Constant(word, 0), index) for index in range(4)]
    values[0] = builder.xor(values[0], start)
    lanes = [cgutils.alloca_once_value(builder, value) for value in values]
    with cgutils.for_range(builder, blocks, start=ir.Constant(word, 1)) as loop:
        for index, lane in enumerate(lanes):
            builder.store(fold(builder.load(lane), _PAST_512_BITS, load(loop.index, index)), lane)
    value = builder.load(lanes[0])
    for lane in lanes[1:]:
        value = fold(value, _PAST_128_BITS, builder.load(lane))
    words = [
        builder.extract_element(value, ir.Constant(ir.IntType(32), index)) for index in range(2)
    ]
    return context.make_tuple(builder, signature.return_type, words)


def _fold_blocks(typing_context: Any, address: Any, blocks: Any, register: Any) -> Any:
    """Return the two words that remain of `blocks` (at least 1) times 64 bytes and the register
    before them."""
    signature = types.UniTuple(types.uint64, 2)(types.int64, types.int64, types.uint64)
    return signature, _fold_code


fold_blocks: Any = intrinsic(_fold_blocks)
"""fold_blocks(address, blocks, register): the two words that remain of `blocks` (at least 1) times
64 bytes and the CRC register before them; compiled code only."""


def _make_tables() -> npt.NDArray[np.uint32]:
    """Make slicing tables: row k is the effect of a byte that 15 - k bytes follow in its block of
    16."""
    table = np.zeros((16, 256), np.uint32)
    # zlib inverts the register before and after the byte.
    table[15] = [zlib.crc32(bytes([value ^ 0xFF])) ^ 0xFF000000 for value in range(256)]
    for row in range(14, -1, -1):
        previous = table[row + 1]
        table[row] = (previous >> np.uint32(8)) ^ table[15, previous & np.uint32(0xFF)]
    return table.reshape(-1)


TABLES = _make_tables()


@internal
def crc_block(register: Word, low: Word, high: Word) -> Word:
    """Return the CRC register (not inverted) after 16 bytes, given as two little-endian words."""
    mixed = low ^ register
    byte = np.uint64(0xFF)
    return np.uint64(
        TABLES[np.int64(mixed & byte)]
        ^ TABLES[256 + np.int64((mixed >> np.uint64(8)) & byte)]
        ^ TABLES[512 + np.int64((mixed >> np.uint64(16)) & byte)]
        ^ TABLES[768 + np.int64((mixed >> np.uint64(24)) & byte)]
        ^ TABLES[1024 + np.int64((mixed >> np.uint64(32)) & byte)]
        ^ TABLES[1280 + np.int64((mixed >> np.uint64(40)) & byte)]
        ^ TABLES[1536 + np.int64((mixed >> np.uint64(48)) & byte)]
        ^ TABLES[1792 + np.int64(mixed >> np.uint64(56))]
        ^ TABLES[2048 + np.int64(high & byte)]
        ^ TABLES[2304 + np.int64((high >> np.uint64(8)) & byte)]
        ^ TABLES[2560 + np.int64((high >> np.uint64(16)) & byte)]
        ^ TABLES[2816 + np.int64((high >> np.uint64(24)) & byte)]
        ^ TABLES[3072 + np.int64((high >> np.uint64(32)) & byte)]
        ^ TABLES[3328 + np.int64((high >> np.uint64(40)) & byte)]
        ^ TABLES[3584 + np.int64((high >> np.uint64(48)) & byte)]
        ^ TABLES[3840 + np.int64(high >> np.uint64(56))]
    )


@internal
def crc_by_tables(register: Word, address: int, size: int) -> Word:
    """Return the CRC register (not inverted) after `size` bytes at an address, 16 at a time by
    tables."""
    at = address
    end = address + size
    while at + 16 <= end:
        register = crc_block(register, load64(at), load64(at + 8))
        at += 16
    while at < end:
        index = np.int64((register ^ np.uint64(load8(at))) & np.uint64(0xFF))
        register = np.uint64(TABLES[3840 + index]) ^ (register >> np.uint64(8))
        at += 1
    return register


@internal
def _crc_by_folding(register: Word, address: int, size: int) -> Word:
    folded = 0
    if size >= 64:
        low, high = fold_blocks(address, size >> 6, register)
        register = crc_block(np.uint64(0), low, high)
        folded = size & -64
    return crc_by_tables(register, address + folded, size - folded)


crc_bytes = deferred(lambda: _crc_by_folding if may_use("pclmul") else crc_by_tables)
"""The faster of the two on this machine."""


@internal
def swap16(value: int) -> int:
    """Return the two bytes of a 16-bit number, exchanged."""
    return ((value & 0xFF) << 8) | ((value >> 8) & 0xFF)


@internal
def swap32(value: int) -> int:
    """Return the four bytes of a 32-bit number, reversed."""
    return (
        ((value & 0xFF) << 24)
        | ((value & 0xFF00) << 8)
        | ((value >> 8) & 0xFF00)
        | ((value >> 24) & 0xFF)
    )


@internal
def icrc_at(address: int, size: int, source: int, destination: int, source_port: int) -> int:
    """Return the ICRC of a datagram whose `size` bytes from BTH to pad (at least 12) are at an
    address."""
    udp_length = size + 12
    low = np.uint64(0xFFFFFFFFFFFFFFFF)
    high = np.uint64(0x004000000000FF45) | np.uint64(swap16(udp_length + 20) << 16)
    register = crc_block(np.uint64(0xFFFFFFFF), low, high)
    low = np.uint64(0xFFFF11FF) | (np.uint64(swap32(source)) << np.uint64(32))
    high = np.uint64(swap32(destination)) | (
        np.uint64(swap16(source_port) | 0xB7120000) << np.uint64(32)
    )
    register = crc_block(register, low, high)
    head = load64(address)
    low = np.uint64(swap16(udp_length) | 0xFFFF0000) | (head << np.uint64(32))
    rest = load64(address + 4)
    register = crc_block(register, low, rest | np.uint64(0xFF))
    register = crc_bytes(register, address + 12, size - 12)
    return int(np.int64(register ^ np.uint64(0xFFFFFFFF)))


@entry
def _crc_of(data: Annotated[npt.NDArray[np.uint8], READ_ONLY]) -> int:
    register = crc_bytes(np.uint64(0xFFFFFFFF), data.ctypes.data, len(data))
    return int(np.int64(register ^ np.uint64(0xFFFFFFFF)))


def crc32(data: bytes | npt.NDArray[np.uint8]) -> int:
    """Return the CRC-32 of some bytes, as `zlib.crc32` does."""
    return int(_crc_of(np.frombuffer(data, np.uint8)))
