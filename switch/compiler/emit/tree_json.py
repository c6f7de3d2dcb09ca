"""A checked program as JSON: its syntax tree, with the types and values that the checker found."""

from __future__ import annotations

import json
from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.raw_token import RawToken
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.syntax.expressions import SyntaxNode
from weft.switch.compiler.types import Type


def tree_text(program: syntax.SourceProgram) -> str:
    """Return a program's declarations as JSON text.

    A node is an object with its `node`, which is the name of its class, its `place`, which is
    FILE:LINE:COLUMN, and its parts. What a name or a call means is said by the place of the
    declaration.
    """
    return json.dumps([_node(item) for item in program.declarations], indent=1) + "\n"


def _place(span: Span) -> str:
    return f"{span.file}:{span.line}:{span.column}"


def _node(node: SyntaxNode) -> dict[str, Any]:
    result: dict[str, Any] = {"node": type(node).__name__, "place": _place(node.span)}
    for name, value in vars(node).items():
        if name in ("span", "name_span") or value is None or value == []:
            continue
        if name == "declaration":
            result["declared"] = _place(value.span)
        elif not isinstance(value, Span):
            result[name] = _value(value)
    return result


def _value(value: Any) -> Any:
    match value:
        case SyntaxNode():
            return _node(value)
        case Type():
            return str(value)
        case Target():
            declared = None if value.declaration is None else _place(value.declaration.span)
            return {"kind": value.kind, "name": value.name, "declared": declared}
        case RawToken():
            return value.text
        case list() | tuple() | set():
            parts = [_value(item) for item in value if not isinstance(item, Span)]
            return parts[0] if isinstance(value, tuple) and len(parts) == 1 else parts
        case dict():
            return {str(key): _value(item) for key, item in value.items()}
        case bool() | int() | str() | None:
            return value
    return str(value)
