"""The names of the architectures that programs can be for."""

from pathlib import Path

_COMPILER = Path(__file__).resolve().parent / "compiler" / "architectures"
_FOUND = (one.parent.name for one in _COMPILER.glob("*/include"))
ARCHITECTURES = tuple(sorted(_FOUND, reverse=True))
"""Those that the compiler has a folder for; v1model is the first."""
