"""Warnings of declarations that nothing uses: variables, parameters, actions, tables, instances."""

from __future__ import annotations

from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import find, string_of
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.parse.preprocess import INCLUDE_FOLDER
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.types import BlockTypeType

_OWN_INCLUDES = str(INCLUDE_FOLDER)


def warn_of_unused(program: syntax.Program, reporter: Reporter) -> None:
    """Warn of what no expression, call, table or property names; ``@noWarn("unused")`` keeps it."""
    declared: list[tuple[str, syntax.Declaration]] = []
    used: set[int] = set()
    for node in program.declarations:
        if node.span.file.startswith(_OWN_INCLUDES):
            continue
        match node:
            case syntax.Parser() | syntax.Control():
                declared += [("", item) for item in node.locals if isinstance(item, _NAMED)]
            case syntax.Action() | syntax.Instantiation() | syntax.Function():
                declared.append(("", node))
        _walk(node, declared, used)
    for what, item in declared:
        if id(item) in used or item.name == "main" or _is_kept(item):
            continue
        kind = what or _KINDS[type(item)]
        if kind == "instance" and isinstance(getattr(item, "type", None), BlockTypeType):
            kind = str(getattr(item.type, "kind", kind))
        reporter.warning(item.name_span, f"{kind} '{item.name}' is not used", "unused")


_KINDS: dict[type, str] = {
    syntax.Variable: "variable",
    syntax.Action: "action",
    syntax.Table: "table",
    syntax.Instantiation: "instance",
    syntax.Function: "function",
    syntax.ValueSet: "value set",
}
_NAMED = tuple(_KINDS)


def _is_kept(item: syntax.Declaration) -> bool:
    annotation = find(item.annotations, "noWarn")
    return annotation is not None and string_of(annotation) == "unused"


def _walk(
    node: syntax.Node, declared: list[tuple[str, syntax.Declaration]], used: set[int]
) -> None:
    """Note what is declared and used in a part of the tree."""
    waiting: list[Any] = [node]
    while waiting:
        item = waiting.pop()
        if isinstance(item, syntax.Name):
            if item.declaration is not None:
                used.add(id(item.declaration))
            continue
        match item:
            case syntax.Call():
                if isinstance(item.target, Target) and item.target.declaration is not None:
                    used.add(id(item.target.declaration))
            case syntax.Action():
                declared += [("parameter", parameter) for parameter in item.parameters]
            case syntax.Block() | syntax.ParserState():
                declared += [
                    ("", inner) for inner in item.statements if isinstance(inner, syntax.Variable)
                ]
        waiting += syntax.children(item)
