"""CRC-32 by carry-less multiplication, 64 bytes at a time, where the processor has it.

The method is that of V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using
PCLMULQDQ Instruction" (Intel, 2009): four 128-bit accumulators are multiplied past the next 64
bytes and added to them. What is left in the end is 16 bytes with the same remainder as the whole,
which the table method finishes.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from weft.base.jit import intrinsic, ir, numba, types

cgutils: Any = import_module("numba.core.cgutils")
_processor: Any = import_module("llvmlite.binding")

AVAILABLE: bool = (
    bool(_processor.get_host_cpu_features().get("pclmul"))
    and not numba.config.CPU_NAME
    and not numba.config.CPU_FEATURES
)
"""Whether compiled code may use the instruction (numba compiles for this very processor)."""

_PAST_512_BITS = (0x154442BD4, 0x1C6E41596)
_PAST_128_BITS = (0x1751997D0, 0x0CCAA009E)
_WORD = ir.IntType(64)
_VECTOR = ir.VectorType(_WORD, 2)


def _fold_code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    address, blocks, register = arguments
    byte = ir.IntType(8)
    multiply = cgutils.get_or_insert_function(
        builder.module,
        ir.FunctionType(_VECTOR, [_VECTOR, _VECTOR, byte]),
        "llvm.x86.pclmulqdq",
    )

    def load(block: Any, index: int) -> Any:
        offset = builder.add(
            builder.mul(block, ir.Constant(_WORD, 64)), ir.Constant(_WORD, 16 * index)
        )
        pointer = builder.inttoptr(builder.add(address, offset), _VECTOR.as_pointer())
        return builder.load(pointer, align=1)

    def fold(value: Any, constants: tuple[int, int], data: Any) -> Any:
        factor = ir.Constant(_VECTOR, [ir.Constant(_WORD, constant) for constant in constants])
        low = builder.call(multiply, [value, factor, ir.Constant(byte, 0x00)])
        high = builder.call(multiply, [value, factor, ir.Constant(byte, 0x11)])
        return builder.xor(builder.xor(low, high), data)

    first = ir.Constant(_WORD, 0)
    start = builder.insert_element(
        ir.Constant(_VECTOR, None), register, ir.Constant(ir.IntType(32), 0)
    )
    lanes = []
    for index in range(4):
        value = load(first, index)
        if index == 0:
            value = builder.xor(value, start)
        lanes.append(cgutils.alloca_once_value(builder, value))
    with cgutils.for_range(builder, blocks, start=ir.Constant(_WORD, 1)) as loop:
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
    """The two words that remain of `blocks` (at least 1) times 64 bytes and the register before
    them."""
    result = types.UniTuple(types.uint64, 2)
    return result(types.int64, types.int64, types.uint64), _fold_code


fold_blocks: Any = intrinsic(_fold_blocks)
"""fold_blocks(address, blocks, register): the two words that remain of `blocks` (at least 1) times
64 bytes and the CRC register before them; compiled code only."""
