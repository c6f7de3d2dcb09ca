"""What code calls to read and write files, found in its syntax tree."""

from __future__ import annotations

import ast

FOLDERS = (
    "base", "switch", "agents", "topo", "pytorch", "controller", "experiments",
    "interface", "cli", "tools/bench", "tools/figures",
)  # fmt: skip


def called(function: ast.expr) -> str:
    """What a call names, as far as names go: ``os.path.join``."""
    if isinstance(function, ast.Attribute):
        before = called(function.value)
        return f"{before}.{function.attr}" if before else function.attr
    return function.id if isinstance(function, ast.Name) else ""


def mode_of(call: ast.Call, place: int) -> ast.expr | None:
    """The mode that a call opens with; None if it says none."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "mode"]
    return named[0] if named else call.args[place] if len(call.args) > place else None


def writes(mode: ast.expr | None) -> bool:
    """Whether a mode of `open` may be one that writes."""
    if mode is None:
        return False
    return not (isinstance(mode, ast.Constant) and not set(str(mode.value)) & set("wax+"))
