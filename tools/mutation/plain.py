"""The plain form of the compiled packet code: the same source, run by Python.

With ``NUMBA_DISABLE_JIT=1`` numba's decorators leave functions as they are. What is left are the
few primitives that the code makes of LLVM's instructions (``weft.agents.wire.compiled``): here a
builder carries each instruction out where it would have been written down. Numbers are numpy's
int64, so arithmetic wraps as compiled arithmetic does.
"""

from __future__ import annotations

import ctypes
import os
import zlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np


def use_plain_form() -> None:
    """From now on compiled code that is imported is Python's; none may have been imported."""
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    import_module("numba").config.reload_config()
    vars(import_module("numba.extending"))["intrinsic"] = _primitive
    vars(import_module("numba.core.types"))["ExternalFunction"] = _library_function
    np.seterr(over="ignore")


def quicken(module: ModuleType) -> None:
    """Give ``weft.agents.wire.crc`` zlib's CRC-32, which Python need not work out 16 bytes at a
    time."""

    def crc_bytes(register: Any, address: int, size: int) -> Any:
        data = ctypes.string_at(int(address), int(size))
        return np.uint64(zlib.crc32(data, int(register) ^ 0xFFFFFFFF) ^ 0xFFFFFFFF)

    vars(module)["crc_bytes"] = crc_bytes


def crc_by_tables(module: ModuleType) -> None:
    """Let ``weft.agents.wire.crc`` take no carry-less products, which only compiled code has."""
    vars(module)["crc_bytes"] = module.crc_by_tables


class _Pointer(ctypes.c_void_p):
    """An address, and how many bytes are there."""

    size = 0


class _Builder:
    """LLVM's instructions, on Python's values. Memory is read and written at its address."""

    def inttoptr(self, value: Any, kind: Any) -> _Pointer:
        pointer = _Pointer(int(value))
        pointer.size = kind.pointee.width // 8
        return pointer

    def load(self, pointer: _Pointer, align: int) -> int:
        return int.from_bytes(ctypes.string_at(pointer, pointer.size), "little")

    def store(self, value: Any, pointer: _Pointer, align: int) -> None:
        data = (int(value) & ((1 << 8 * pointer.size) - 1)).to_bytes(pointer.size, "little")
        ctypes.memmove(pointer, data, pointer.size)

    def fence(self, ordering: str) -> None:
        pass

    def bitcast(self, value: Any, kind: Any) -> Any:
        return np.asarray(value)

    def trunc(self, value: Any, kind: Any) -> Any:
        return np.asarray(value).reshape(1).view(np.uint8)[: kind.width // 8]

    def bswap(self, value: Any) -> Any:
        return np.asarray(value).byteswap()


def _primitive(define: Callable[..., Any]) -> Callable[..., Any]:
    """What numba's ``intrinsic`` is here: carries its code out, by the types of its signature."""
    count = define.__code__.co_argcount - 1
    signature, code = define(*[None] * (count + 1))
    wanted = [_dtype(each) for each in signature.args]
    result = _dtype(signature.return_type)
    builder = _Builder()

    def primitive(*values: Any) -> Any:
        given = [_cast(value, dtype) for value, dtype in zip(values, wanted, strict=True)]
        made = code(None, builder, signature, given)
        if result is None:
            return made
        if isinstance(made, np.ndarray):
            return made.reshape(-1).view(result)[0]
        return _cast(getattr(made, "constant", made), result)

    return primitive


def _dtype(kind: Any) -> Any:
    """numpy's type for one of numba's; None for pointers."""
    return np.dtype(kind.name).type if hasattr(kind, "bitwidth") else None


def _cast(value: Any, dtype: Any) -> Any:
    """A number as one of a type, wrapped to its width."""
    if dtype is None:
        return value
    if issubclass(dtype, np.integer):
        bits = 8 * np.dtype(dtype).itemsize
        whole = int(value) & ((1 << bits) - 1)
        if issubclass(dtype, np.signedinteger) and whole >> (bits - 1):
            whole -= 1 << bits
        return dtype(whole)
    return dtype(value)


_C_TYPES: dict[str, Any] = {
    "int32": ctypes.c_int32,
    "int64": ctypes.c_int64,
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "none": None,
}


def _library_function(name: str, signature: Any) -> Callable[..., Any]:
    """What numba's ``ExternalFunction`` is here: libc's function, with its types."""
    function = ctypes.CDLL(None)[name]
    function.argtypes = [_C_TYPES[each.name] for each in signature.args]
    function.restype = _C_TYPES[signature.return_type.name]

    def call(*values: Any) -> Any:
        return function(*[int(value) for value in values])

    return call
