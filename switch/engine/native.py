"""How compiled code reaches memory and other compiled code: the few primitives below numba's own.

Generated programs and the library of the engine are compiled by ``jit``. The plain form of a
program uses ``weft.switch.engine.plain`` instead, which offers the same names on Python's own
integers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numba.extending
import numpy as np
from llvmlite import ir
from numba.np import arrayobj

from weft.base.cache import cache_dir

Function = TypeVar("Function", bound=Callable[..., Any])

# What numba's type stubs say of these is not how they are used.
types: Any = numba.types
make_array: Any = arrayobj.make_array
populate_array: Any = arrayobj.populate_array
intrinsic: Callable[[Any], Any] = numba.extending.intrinsic
numba_config: Any = numba.config

PACKAGE = Path(__file__).resolve().parent


def source_digest() -> str:
    """A digest of everything compiled code depends on: the engine, the real-time loop, numba.

    numba's own cache does not see that a *called* function changed; a cache folder per digest does.
    """
    digest = hashlib.sha256(numba.__version__.encode())
    folders = (PACKAGE, PACKAGE.parent / "realtime")
    for path in sorted(path for folder in folders for path in folder.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


SOURCE_DIGEST = source_digest()


def use_cache_folder(function: Callable[[], Any]) -> Any:
    """Call ``function`` while numba's cache folder is the engine's own."""
    before = numba_config.CACHE_DIR
    numba_config.CACHE_DIR = str(cache_dir() / "machine-code" / SOURCE_DIGEST)
    try:
        return function()
    finally:
        numba_config.CACHE_DIR = before


def _compile(function: Function, **options: Any) -> Function:
    compiler: Any = numba.njit(cache=True, nogil=True, error_model="numpy", **options)
    compiled: Function = use_cache_folder(lambda: compiler(function))
    return compiled


def jit(function: Function) -> Function:
    """Compile on first call; no GIL; division never raises; kept in the cache folder.

    Arrays in compiled code are views of memory that Python owns: they are not reference-counted.
    """
    return _compile(function, _nrt=False)


def inline(function: Function) -> Function:
    """As ``jit``, for a small function that is compiled into each of its callers."""
    return _compile(
        function, forceinline=True, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )


def inner(function: Function) -> Function:
    """As ``jit``, for a function that only compiled code calls; it compiles faster."""
    return _compile(function, _nrt=False, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def constant_table(values: list[int]) -> Any:
    """A table of integers for look-up by index."""
    return np.array(values, dtype=np.int64)


def _make_view(context: Any, builder: Any, array_type: Any, address: Any, count: Any) -> Any:
    """LLVM code for an array of ``count`` elements at ``address``, without an owner."""
    array = make_array(array_type)(context, builder)
    bytes_each = context.get_constant(types.intp, array_type.dtype.bitwidth // 8)
    populate_array(
        array,
        data=builder.inttoptr(address, array.data.type),
        shape=[count],
        strides=[bytes_each],
        itemsize=bytes_each,
        meminfo=None,
    )
    return array._getvalue()


@intrinsic
def int64_view(typingctx: Any, address: Any, count: Any) -> Any:
    """The ``count`` int64 words at ``address`` as an array."""
    array_type = types.Array(types.int64, 1, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _make_view(context, builder, array_type, args[0], args[1])

    return array_type(types.int64, types.int64), codegen


@intrinsic
def uint8_view(typingctx: Any, address: Any, count: Any) -> Any:
    """The ``count`` bytes at ``address`` as an array."""
    array_type = types.Array(types.uint8, 1, "C")

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _make_view(context, builder, array_type, args[0], args[1])

    return array_type(types.int64, types.int64), codegen


def rows(place: int, words: int, words_place: int = -1) -> Callable[[Any, int], Any]:
    """A compiled-only function row(context, index) of the int64 rows at address context[place].

    Rows have ``words`` words, or ``context[words_place]`` if that is given.
    """

    def row(typingctx: Any, base: Any, index: Any) -> Any:
        array_type = types.Array(types.int64, 1, "C")

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def word(number: int) -> Any:
                data = context.make_array(signature.args[0])(context, builder, args[0]).data
                return builder.load(builder.gep(data, [ir.Constant(ir.IntType(64), number)]))

            count = ir.Constant(ir.IntType(64), words) if words_place < 0 else word(words_place)
            offset = builder.mul(args[1], builder.mul(count, ir.Constant(ir.IntType(64), 8)))
            address = builder.add(word(place), offset)
            return _make_view(context, builder, array_type, address, count)

        return array_type(base, types.int64), codegen

    compiled: Callable[[Any, int], Any] = intrinsic(row)
    return compiled


def _element_pointer(context: Any, builder: Any, array_type: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [offset]), ir.IntType(64).as_pointer())


@intrinsic
def load64(typingctx: Any, data: Any, offset: Any) -> Any:
    """The 8 bytes at ``data[offset]``, first byte most significant (unaligned is fine)."""
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
def store_release(typingctx: Any, words: Any, place: Any, value: Any) -> Any:
    """``words[place] = value``, after all earlier stores, for a reader in another thread."""
    signature = types.void(words, types.int64, types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store_atomic(args[2], builder.gep(data, [args[1]]), "release", 8)
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
    """Call the pipeline function at an address; ``weft.switch.engine.generate`` has its
    arguments."""
    signature = types.int64(*([types.int64] * 6))

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word = ir.IntType(64)
        kind = ir.FunctionType(word, [word] * 5)
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return signature, codegen


@intrinsic
def fence(typingctx: Any) -> Any:
    """What was written before is seen by other threads before what is written after."""
    signature = types.void()

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return signature, codegen


@intrinsic
def _as_unsigned(typingctx: Any, value: Any) -> Any:
    signature = types.uint64(types.int64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    return signature, codegen


@intrinsic
def _as_signed(typingctx: Any, value: Any) -> Any:
    signature = types.int64(types.uint64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return args[0]

    return signature, codegen


# Integers are int64 in compiled code. A 64-bit unsigned value is the int64 with the same bits;
# these functions do what differs between the two. In the plain form values are unbounded.


@inline
def unsigned64(value: int) -> int:
    """A stored word as the unsigned 64-bit value that it holds."""
    return value


@inline
def word64(value: int) -> int:
    """The low 64 bits of a value as a storable word."""
    return value


@inline
def less64(left: int, right: int) -> bool:
    """Unsigned ``left < right``."""
    return _as_unsigned(left) < _as_unsigned(right)  # type: ignore[no-any-return]


@inline
def divide64(left: int, right: int) -> int:
    """Unsigned ``left // right``; 0 if right is 0."""
    if right == 0:
        return 0
    return _as_signed(_as_unsigned(left) // _as_unsigned(right))  # type: ignore[no-any-return]


@inline
def modulo64(left: int, right: int) -> int:
    """Unsigned ``left % right``; 0 if right is 0."""
    if right == 0:
        return 0
    return _as_signed(_as_unsigned(left) % _as_unsigned(right))  # type: ignore[no-any-return]


@inline
def shift_left(value: int, amount: int) -> int:
    """``value << amount`` in 64 bits, 0 from 64 on."""
    if amount < 0 or amount > 63:
        return 0
    return value << amount


@inline
def shift_right(value: int, amount: int) -> int:
    """Arithmetic ``value >> amount``."""
    if amount < 0 or amount > 63:
        return value >> 63
    return value >> amount


@inline
def shift_right64(value: int, amount: int) -> int:
    """Unsigned ``value >> amount``, 0 from 64 on."""
    if amount < 0 or amount > 63:
        return 0
    if amount == 0:
        return value
    return (value >> amount) & ((1 << (64 - amount)) - 1)


@inline
def multiply64(left: int, right: int) -> int:
    """``left * right`` modulo 2**64, as a word."""
    return left * right
