"""The text of an expression, as names in the control plane have it."""

from __future__ import annotations

from switch.compiler import syntax


def source_text(node: syntax.Expression) -> str:
    """An expression written out (specification, section "Control plane names", keys)."""
    if isinstance(node, syntax.Name):
        return node.name
    if isinstance(node, syntax.Member):
        if isinstance(node.base, syntax.TypeExpression):
            return f"{_type_text(node.base)}.{node.name}"
        return f"{source_text(node.base)}.{node.name}"
    if isinstance(node, syntax.Index):
        return f"{source_text(node.base)}[{source_text(node.index)}]"
    if isinstance(node, syntax.Slice):
        return f"{source_text(node.base)}[{source_text(node.high)}:{source_text(node.low)}]"
    if isinstance(node, syntax.IntegerLiteral):
        return node.text or str(node.value)
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


def _type_text(node: syntax.TypeExpression) -> str:
    reference = node.reference
    if isinstance(reference, syntax.NamedTypeReference):
        return reference.name
    return getattr(reference, "kind", "type")
