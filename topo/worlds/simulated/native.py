"""How the simulated world's compiled code is made, and of what: see `weft.base.jit`."""

from __future__ import annotations

from pathlib import Path

from weft.agents.wire.compiled import JIT as AGENTS
from weft.base.jit import Jit
from weft.switch.engine.native import JIT as ENGINE

JIT = Jit(
    "simulated",
    (*ENGINE.sources, *AGENTS.sources, *Path(__file__).resolve().parent.glob("*.py")),
    error_model="numpy",
)
compiled, internal = JIT.compiled, JIT.internal
