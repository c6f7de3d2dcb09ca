"""How the agents' compiled code is made, and of what: see `weft.base.jit`."""

from pathlib import Path

from weft.base.jit import Jit

_AGENTS = Path(__file__).resolve().parent.parent
_SOURCES = (
    "congestion.py",
    "datagrams.py",
    "wire/*.py",
    "transport/*layout.py",
    "transport/types.py",
    "transport/kernels/*.py",
    "transport/congestion/**/*.py",
    "collectives/compiled_*.py",
    "drivers/compiled_*.py",
)

JIT = Jit(
    "compiled",
    (path for pattern in _SOURCES for path in _AGENTS.glob(pattern)),
    brought="weft.congestion_controls",
)
compiled, entry, internal, inline = JIT.compiled, JIT.entry, JIT.internal, JIT.inline
