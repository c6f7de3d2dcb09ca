"""What compiled packet code is made with: the decorator, and memory by address.

Compiled code is kept in the cache folder under a digest of all the sources it is made from: numba
itself looks at one file only, and would go on using code whose callees have changed.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from weft.base.cache import cache_dir

# How much of numba is typed differs from version to version: to the type checker it is all Any.
numba: Any = import_module("numba")
types: Any = import_module("numba.core.types")
cgutils: Any = import_module("numba.core.cgutils")
intrinsic: Any = import_module("numba.extending").intrinsic
ir: Any = import_module("llvmlite.ir")

Word = Any
"""A uint64 inside compiled code; mixed with a signed number it would become a float."""

Function = TypeVar("Function", bound=Callable[..., Any])

_AGENTS = Path(__file__).resolve().parent.parent
_SOURCES = (
    "datagrams.py",
    "wire/*.py",
    "transport/*layout.py",
    "transport/kernels/*.py",
    "servers/compiled_*.py",
    "drivers/compiled_*.py",
)


def source_digest() -> str:
    """A digest of everything that compiled code of the agents is made from."""
    digest = hashlib.sha256(f"{numba.__version__} {platform.python_version()}".encode())
    for pattern in _SOURCES:
        for path in sorted(_AGENTS.glob(pattern)):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_CACHE = cache_dir() / "compiled" / source_digest()


def compiled(function: Function) -> Function:
    """Compile a function without the GIL at its first call, or load what an earlier process
    compiled."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_CACHE)
    try:
        made: Function = numba.njit(cache=True, nogil=True)(function)
    finally:
        numba.config.CACHE_DIR = before
    return made


def internal(function: Function) -> Function:
    """Compile a function that only compiled code calls: without the wrappers for Python and C.

    It becomes part of its callers, so it needs no place in the cache of its own.
    """
    made: Function = numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    return made


memcpy = types.ExternalFunction("memcpy", types.intp(types.intp, types.intp, types.intp))
"""memcpy(to, from, size) of libc, on addresses as integers."""


def _loader(width: int, result: Any) -> Any:
    def load(context: Any, address: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            return builder.load(pointer, align=1)

        return result(types.int64), code

    return intrinsic(load)


def _storer(width: int, argument: Any) -> Any:
    def store(context: Any, address: Any, value: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(width).as_pointer())
            builder.store(arguments[1], pointer, align=1)
            return ir.Constant(ir.IntType(64), 0)

        return types.int64(types.int64, argument), code

    return intrinsic(store)


load8 = _loader(8, types.uint8)
load16 = _loader(16, types.uint16)
load32 = _loader(32, types.uint32)
load64 = _loader(64, types.uint64)
load64_signed = _loader(64, types.int64)
store8 = _storer(8, types.uint8)
store16 = _storer(16, types.uint16)
store32 = _storer(32, types.uint32)
store64 = _storer(64, types.uint64)


def _fence(ordering: str) -> Any:
    def fence(context: Any) -> Any:
        def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            builder.fence(ordering)
            return ir.Constant(ir.IntType(64), 0)

        return types.int64(), code

    return intrinsic(fence)


release_fence = _fence("release")
"""release_fence(): who sees what is stored after it sees all that was stored before it."""
full_fence = _fence("seq_cst")
"""full_fence(): nothing after it is read before what was stored before it can be seen."""


def _view(context: Any, address: Any) -> Any:
    def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), code


_pointer = intrinsic(_view)
_carray: Any = numba.carray


@internal
def words_at(address: int, count: int) -> Any:
    """The int64[count] array at an address."""
    return _carray(_pointer(address), count, np.int64)


@internal
def table_at(address: int, rows: int, columns: int) -> Any:
    """The int64[rows, columns] array at an address."""
    return _carray(_pointer(address), (rows, columns), np.int64)


@internal
def items_at(address: int, count: int, dtype: Any) -> Any:
    """The array of so many items of a numpy type at an address."""
    return _carray(_pointer(address), count, dtype)
