"""The text of an expression, as names in the control plane have it."""

import re
from collections.abc import Callable
from typing import Any

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import field_name
from weft.switch.compiler.types import StructType, resolved

_PREFIXES = {"x": "#x", "b": "#b", "o": "#o"}


def source_text(node: syntax.Expression) -> str:
    """Return an expression's text (specification, section "Control plane names", keys)."""
    if isinstance(node.constant, int) and not isinstance(node.constant, bool):
        return format(node.constant, _base_of(node))
    written = _TEXTS.get(type(node))
    return "expression" if written is None else written(node)


def _member_text(node: syntax.MemberAccess) -> str:
    if isinstance(node.base, syntax.TypeExpression):
        reference = node.base.reference
        if isinstance(reference, syntax.NamedTypeReference):
            return f"{reference.name}.{node.name}"
        return f"{getattr(reference, 'kind', 'type')}.{node.name}"
    name = _field_name(node)
    return name[1:] if name.startswith(".") else f"{source_text(node.base)}.{name}"


def _call_text(node: syntax.CallExpression) -> str:
    if isinstance(node.callee, syntax.MemberAccess) and node.callee.name == "isValid":
        return f"{source_text(node.callee.base)}.$valid$"  # as p4c and BMv2 have it
    arguments = ("_" if item.value is None else source_text(item.value) for item in node.arguments)
    return f"{source_text(node.callee)}({', '.join(arguments)})"


_TEXTS: dict[type[syntax.Expression], Callable[[Any], str]] = {
    syntax.Name: lambda node: node.name,
    syntax.MemberAccess: _member_text,
    syntax.Index: lambda node: f"{source_text(node.base)}[{source_text(node.index)}]",
    syntax.Slice: lambda node: (
        f"{source_text(node.base)}[{source_text(node.high)}:{source_text(node.low)}]"
    ),
    syntax.IntegerLiteral: lambda node: format(node.value, _base_of(node)),
    syntax.BooleanLiteral: lambda node: "true" if node.value else "false",
    syntax.CallExpression: _call_text,
    syntax.Unary: lambda node: f"{node.operator}{source_text(node.operand)}",
    syntax.Binary: lambda node: (
        f"{source_text(node.left)} {node.operator} {source_text(node.right)}"
    ),
    syntax.CastExpression: lambda node: source_text(node.operand),
    syntax.Conditional: lambda node: (
        f"{source_text(node.condition)} ? {source_text(node.then)} : {source_text(node.otherwise)}"
    ),
}


def _field_name(node: syntax.MemberAccess) -> str:
    """Return a field's name, which ``@name`` may change."""
    kind = None if node.base.type is None else resolved(node.base.type)
    return field_name(kind, node.name) if isinstance(kind, StructType) else node.name


def _base_of(node: syntax.Expression) -> str:
    """Return the format for a number: in the base of the literal that it comes from, or decimal."""
    match node:
        case syntax.IntegerLiteral():
            digits = re.sub(r"^\d+[ws]", "", node.text.lower())
            return _PREFIXES.get(digits[1:2], "d") if digits.startswith("0") else "d"
        case syntax.Name() if isinstance(node.declaration, syntax.Constant):
            return _base_of(node.declaration.value)
        case syntax.Binary():
            return _base_of(node.left)
        case syntax.CastExpression() | syntax.Unary():
            return _base_of(node.operand)
    return "d"
