"""How compiled code reaches memory and other compiled code: the few primitives below numba's own.

Generated programs and the library of the engine are compiled by ``jit``. The plain form of a
program uses ``native.plain`` instead, which offers the same names on Python's own
integers.
"""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from weft.base.deferred import deferred, ir
from weft.base.deferred import intrinsic as intrinsic
from weft.base.deferred import types as types
from weft.base.jit import Jit, Words
from weft.base.jit import release_fence as release_fence

_arrayobj = deferred(lambda: import_module("numba.np.arrayobj"))

_SWITCH = Path(__file__).resolve().parent.parent.parent

JIT = Jit(
    "machine-code",
    (*(_SWITCH / "engine").rglob("*.py"), *(_SWITCH / "realtime").glob("*.py")),
    error_model="numpy",
    _nrt=False,
)
"""Division never raises. Arrays in compiled code are views of memory that Python owns: they are not
reference-counted. The real-time loop is compiled with the engine."""
jit, entry, inner, inline = JIT.compiled, JIT.entry, JIT.internal, JIT.inline


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function's text a part of its callers': no other can return a view of memory here."""
    return JIT.internal(function, inline="always")


def constant_table(values: list[int]) -> Any:
    """Return a table of integers for look-up by index."""
    return np.array(values, dtype=np.int64)


def _viewer(name: str) -> Any:
    """Make the function that gives ``count`` items at an address as an array without an owner."""

    def view(typingctx: Any, address: Any, count: Any) -> Any:
        kind = getattr(types, name)
        array_type = types.Array(kind, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = _arrayobj.make_array(array_type)(context, builder)
            bytes_each = context.get_constant(types.intp, kind.bitwidth // 8)
            _arrayobj.populate_array(
                array,
                data=builder.inttoptr(args[0], array.data.type),
                shape=[args[1]],
                strides=[bytes_each],
                itemsize=bytes_each,
                meminfo=None,
            )
            return array._getvalue()

        return array_type(types.int64, types.int64), codegen

    return intrinsic(view)


@inline
def address_of(words: Words, place: int) -> int:
    """Return the address of a word of an array."""
    return words.ctypes.data + 8 * place


int64_view = _viewer("int64")
"""int64_view(address, count): words in memory, as an array."""
uint8_view = _viewer("uint8")
"""uint8_view(address, count): bytes in memory, as an array."""


def _element_pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ir.IntType(64).as_pointer())


@intrinsic
def load64(typingctx: Any, data: Any, offset: Any) -> Any:
    """Return the 8 bytes at ``data[offset]``, first byte most significant (unaligned is fine)."""
    signature = types.int64(data, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _element_pointer(context, builder, signature.args[0], args[0], args[1])
        return builder.bswap(builder.load(pointer, align=1))

    return signature, codegen


@intrinsic
def store64(typingctx: Any, data: Any, offset: Any, value: Any) -> Any:
    """Write 8 bytes at ``data[offset]``, most significant byte first."""
    signature = types.void(data, types.int64, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _element_pointer(context, builder, signature.args[0], args[0], args[1])
        builder.store(builder.bswap(args[2]), pointer, align=1)
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def call_pipeline(
    typingctx: Any,
    function: Any,
    context: Any,
    operation: Any,
    switch: Any,
    packet: Any,
    other: Any,
) -> Any:
    """Call the pipeline function at an address; ``weft.switch.engine.codegen.generate`` has its
    arguments."""
    signature = types.int64(*([types.int64] * 6))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 5)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return signature, codegen


# Integers are int64 in compiled code. A 64-bit unsigned value is the int64 with the same bits;
# these functions do what differs between the two. In the plain form values are unbounded.


@inline
def unsigned64(value: int) -> int:
    """Return the unsigned 64-bit value that a stored word holds."""
    return value


@inline
def word64(value: int) -> int:
    """Return the low 64 bits of a value as a word to be stored."""
    return value


@inline
def less64(left: int, right: int) -> bool:
    """Return ``left < right`` of numbers without sign."""
    return bool(np.uint64(left) < np.uint64(right))


@inline
def divide64(left: int, right: int) -> int:
    """Return ``left // right`` of numbers without sign; 0 if right is 0."""
    if right == 0:
        return 0
    return np.int64(np.uint64(left) // np.uint64(right))  # type: ignore[no-any-return]


@inline
def modulo64(left: int, right: int) -> int:
    """Return ``left % right`` of numbers without sign; 0 if right is 0."""
    if right == 0:
        return 0
    return np.int64(np.uint64(left) % np.uint64(right))  # type: ignore[no-any-return]


@inline
def shift_left(value: int, amount: int) -> int:
    """Return ``value << amount`` in 64 bits, which is 0 from 64 on."""
    return 0 if amount < 0 or amount > 63 else value << amount


@inline
def shift_right(value: int, amount: int) -> int:
    """Return ``value >> amount``, which keeps the sign."""
    return value >> 63 if amount < 0 or amount > 63 else value >> amount


@inline
def shift_right64(value: int, amount: int) -> int:
    """Return ``value >> amount`` of a number without sign, which is 0 from 64 on."""
    if amount < 0 or amount > 63:
        return 0
    return value if amount == 0 else (value >> amount) & ((1 << (64 - amount)) - 1)


@inline
def multiply64(left: int, right: int) -> int:
    """Return ``left * right`` modulo 2**64, as a word."""
    return left * right
