"""Which processors machine code is made for, and which code this one runs.

Code that is compiled here is for this very processor. A wheel has code for levels of processors:
for all that have certain instructions.
"""

import hashlib
import os
import platform
from functools import cache
from importlib import import_module
from importlib.metadata import version
from typing import Any, NamedTuple

_OF_NO_CONCERN = ("NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR")
"""Settings of numba that change no code."""


@cache
def llvm() -> Any:
    """Return LLVM, which is loaded where it is first wanted; its stubs do not say all it has."""
    return import_module("llvmlite.binding")


class Level(NamedTuple):
    """Processors that have some instructions, by LLVM's names."""

    name: str
    has: frozenset[str]
    beyond: str = ""
    """What of it LLVM does not take for granted by the level's name."""

    @property
    def settings(self) -> dict[str, str]:
        """Return the environment in which numba compiles for the level."""
        names = [f"+{each}" for each in self.beyond.split()]
        return {"NUMBA_CPU_NAME": self.name, "NUMBA_CPU_FEATURES": ",".join(names)}


# The x86-64 psABI's levels; CRCs want carry-less multiplication, which is on no level of it.
_V2 = frozenset(["cx16", "pclmul", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"])
_V3 = _V2 | {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
_LEVELS = {
    "x86_64": (Level("x86-64-v3", _V3, "pclmul"), Level("x86-64-v2", _V2, "pclmul")),
    "aarch64": (Level("generic", frozenset(["neon"])),),
}


def levels() -> tuple[Level, ...]:
    """Return the levels that a wheel made here has code for: the highest first."""
    return _LEVELS.get(platform.machine(), ())


@cache
def levels_met() -> tuple[Level, ...]:
    """Return the levels whose code this processor runs: the highest first. None, where numba is
    told to make other code than it would by itself."""
    has = {name for name, there in llvm().get_host_cpu_features().items() if there}
    return () if _settings() else tuple(level for level in levels() if level.has <= has)


def may_use(instructions: str) -> bool:
    """Return whether code that is compiled in this process may use some instructions, by LLVM's
    name of them."""
    if os.environ.get("NUMBA_CPU_NAME") or os.environ.get("NUMBA_CPU_FEATURES"):
        return f"+{instructions}" in os.environ.get("NUMBA_CPU_FEATURES", "").split(",")
    return bool(llvm().get_host_cpu_features().get(instructions))


@cache
def processor() -> str:
    """Return a digest of what code is made for and by: the processor, numba, and its settings."""
    features = llvm().get_host_cpu_features().flatten()
    made_by = version("numba"), version("llvmlite"), platform.python_version()
    made_for = (llvm().get_process_triple(), llvm().get_host_cpu_name(), features, _settings())
    return hashlib.sha256(repr((made_by, made_for)).encode()).hexdigest()[:12]


def _settings() -> list[tuple[str, str]]:
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name not in _OF_NO_CONCERN
    )
