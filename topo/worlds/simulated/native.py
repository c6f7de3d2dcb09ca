"""How the simulated world's own code is compiled, and where the machine code is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from weft.agents.wire.compiled import numba, source_digest
from weft.base.cache import cache_dir
from weft.switch.engine.native import SOURCE_DIGEST

Function = TypeVar("Function", bound=Callable[..., Any])


def _digest() -> str:
    """A digest of all sources that the event loop is made of, callees included."""
    digest = hashlib.sha256(f"{SOURCE_DIGEST} {source_digest()}".encode())
    for path in sorted(Path(__file__).resolve().parent.glob("*.py")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


_FOLDER = cache_dir() / "simulated" / _digest()


def compiled(function: Function) -> Function:
    """Compile on first call, or load what an earlier process compiled."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(_FOLDER)
    try:
        made: Function = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = before
    return made


def internal(function: Function) -> Function:
    """Compile as part of the functions that call it."""
    made: Function = numba.njit(
        nogil=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
    return made
