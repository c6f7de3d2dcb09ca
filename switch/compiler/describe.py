"""The text of an expression, as names in the control plane have it."""

from __future__ import annotations

import re

from weft.switch.compiler import syntax
from weft.switch.compiler.annotations import local_name
from weft.switch.compiler.types import StructType, resolved


def source_text(node: syntax.Expression) -> str:
    """An expression written out (specification, section "Control plane names", keys)."""
    if isinstance(node.constant, int) and not isinstance(node.constant, bool):
        return _number_text(node.constant, _base_of(node))
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Member):
        if isinstance(node.base, syntax.TypeExpression):
            return f"{_type_text(node.base)}.{node.name}"
        name = _field_name(node)
        return name[1:] if name.startswith(".") else f"{source_text(node.base)}.{name}"
    if isinstance(node, syntax.Index):
        return f"{source_text(node.base)}[{source_text(node.index)}]"
    if isinstance(node, syntax.Slice):
        return f"{source_text(node.base)}[{source_text(node.high)}:{source_text(node.low)}]"
    if isinstance(node, syntax.IntegerLiteral):
        return _number_text(node.value, _base_of(node))
    if isinstance(node, syntax.BooleanLiteral):
        return "true" if node.value else "false"
    if isinstance(node, syntax.Call):
        arguments = ", ".join(
            "_" if item.value is None else source_text(item.value) for item in node.arguments
        )
        if isinstance(node.callee, syntax.Member) and node.callee.name == "isValid":
            return f"{source_text(node.callee.base)}.$valid$"  # as p4c and BMv2 have it
        return f"{source_text(node.callee)}({arguments})"
    if isinstance(node, syntax.Unary):
        return f"{node.operator}{source_text(node.operand)}"
    if isinstance(node, syntax.Binary):
        return f"{source_text(node.left)} {node.operator} {source_text(node.right)}"
    if isinstance(node, syntax.Cast):
        return source_text(node.operand)
    if isinstance(node, syntax.Conditional):
        parts = (node.condition, node.then, node.otherwise)
        return "{} ? {} : {}".format(*(source_text(item) for item in parts))
    return "expression"


def _field_name(node: syntax.Member) -> str:
    """A field's name, which ``@name`` may change."""
    kind = None if node.base.type is None else resolved(node.base.type)
    if isinstance(kind, StructType):
        for item in getattr(kind.declaration, "fields", ()):
            if item.name == node.name:
                return local_name(item)
    return node.name


_PREFIXES = {"x": "#x", "b": "#b", "o": "#o"}


def _base_of(node: syntax.Expression) -> str:
    """The format for a number: the base of the literal that it comes from, decimal if of none."""
    if isinstance(node, syntax.IntegerLiteral):
        digits = re.sub(r"^\d+[ws]", "", node.text.lower())
        return _PREFIXES.get(digits[1:2], "d") if digits.startswith("0") else "d"
    if isinstance(node, syntax.Name) and isinstance(node.declaration, syntax.Constant):
        return _base_of(node.declaration.value)
    if isinstance(node, syntax.Binary):
        return _base_of(node.left)
    if isinstance(node, (syntax.Cast, syntax.Unary)):
        return _base_of(node.operand)
    return "d"


def _number_text(value: int, style: str) -> str:
    return format(value, style)


def _type_text(node: syntax.TypeExpression) -> str:
    reference = node.reference
    if isinstance(reference, syntax.NamedTypeReference):
        return reference.name
    return getattr(reference, "kind", "type")
