"""Memory of arrays in which records are looked up all over.

A processor knows the places of a few thousand pages by heart and looks others up, in tables that
are memory, too: where pages are of 4 KiB, that is much of what a look-up costs. So large arrays are
in large pages, where the system has them, and small ones share some.
"""

import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.base.deferred import PLAIN, intrinsic, ir, types

LARGE_BYTES = 1 << 21
"""A large page, of which systems have none smaller."""
LINE_BYTES = 64
"""A cache line."""

_shared: list[tuple[mmap.mmap, int]] = []
"""Memory for small arrays, and how much of it is used. Who takes from it has it alone meanwhile."""


def zeroed(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """Return an array of zeros that begins with a cache line, so that rows of whole lines are whole
    lines.

    It takes memory where it is written to; small ones give it back with those beside them. Raises
    MemoryError.
    """
    item = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    size = max(-(-count * item // LINE_BYTES) * LINE_BYTES, LINE_BYTES)
    if size > LARGE_BYTES // 8:
        return np.frombuffer(_mapped(size), dtype, count).reshape(shape)
    memory, used = _shared.pop() if _shared else (_mapped(LARGE_BYTES), 0)
    if used + size > LARGE_BYTES:
        memory, used = _mapped(LARGE_BYTES), 0
    _shared.append((memory, used + size))
    return np.frombuffer(memory, dtype, count, used).reshape(shape)


def _mapped(size: int) -> mmap.mmap:
    """Return memory of this process's own."""
    try:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes: {error.strerror}") from None
    if size >= LARGE_BYTES and sys.platform == "linux":
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def _prefetch(context: Any, address: Any) -> Any:
    def code(_: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
        how = [ir.Constant(number, each) for each in (0, 3, 1)]  # to read, into all caches, data
        builder.call(function, [builder.inttoptr(arguments[0], pointer), *how])
        return ir.Constant(ir.IntType(64), 0)

    return types.int64(types.int64), code


prefetch: Any = intrinsic(_prefetch) if not PLAIN else lambda address: 0
"""prefetch(address): what is there will be wanted soon, if anything is there."""
