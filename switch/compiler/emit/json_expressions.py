"""Expressions and primitives as BMv2 JSON (docs/JSON_format.md, "The type value object")."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft.switch.compiler import ir
from weft.switch.compiler.diagnostics import Span

Json = dict[str, Any]


def hexadecimal(value: int, width: int | None = None) -> str:
    """A number as BMv2 has it: hexadecimal, padded to the bytes of `width` bits."""
    if value < 0:
        return "-" + hexadecimal(-value, width)
    digits = (width + 7) // 8 * 2 if width else 1
    return f"0x{value:0{digits}x}"


def _operation(operator: str, left: Any, right: Any, **more: Any) -> tuple[str, Any]:
    return "expression", {"op": operator, "left": left, "right": right, **more}


_EXPRESSIONS: dict[type[ir.Expression], Callable[[Any], tuple[str, Any]]] = {
    ir.Number: lambda node: ("hexstr", hexadecimal(node.value)),
    ir.Truth: lambda node: ("bool", node.value),
    ir.Field: lambda node: ("field", [node.header, node.name]),
    ir.LastField: lambda node: ("stack_field", [node.stack, node.name]),
    ir.LastUnionField: lambda node: ("union_stack_field", [node.stack, node.member, node.name]),
    ir.NextUnion: lambda node: ("union_stack", [node.stack, node.member]),
    ir.ActionParameter: lambda node: ("local", node.index),
    ir.Reference: lambda node: (node.kind, node.name),
    ir.Lookahead: lambda node: ("lookahead", [node.offset, node.width]),
    ir.ElementField: lambda node: _operation("access_field", expression(node.header), node.offset),
    ir.OperatorCall: lambda node: _operation(
        node.operator, None if node.left is None else expression(node.left), expression(node.right)
    ),
    ir.Choice: lambda node: _operation(
        "?", expression(node.then), expression(node.otherwise), cond=expression(node.condition)
    ),
}


def expression(node: ir.Expression) -> Json:
    """An expression inside another one."""
    kind, value = _EXPRESSIONS[type(node)](node)
    return {"type": kind, "value": value}


def condition(node: ir.Expression) -> Json:
    """A condition by itself."""
    result = expression(node)
    return result if result["type"] == "expression" else {"type": "expression", "value": result}


def operand(node: ir.Expression) -> Json:
    """A parameter of a primitive."""
    match node:
        case ir.ActionParameter():
            return {"type": "runtime_data", "value": node.index}
        case ir.Text():
            return {"type": "string", "value": node.value}
        case ir.Vector():
            return {"type": "parameters_vector", "value": [operand(item) for item in node.items]}
    result = expression(node)
    if result["type"] in ("expression", "bool"):
        return {"type": "expression", "value": result}
    return result


@dataclass(eq=False)
class SourceNotes:
    """Adds where in the source something comes from.

    `file_name` gives the name that a source file has in the output, `fragment` the text of a span.
    """

    file_name: Callable[[str], str]
    fragment: Callable[[Span], str]

    def add(self, item: Json, span: Span) -> Json:
        """The same item, with ``source_info`` if it comes from anywhere."""
        if span.file:
            item["source_info"] = {
                "filename": self.file_name(span.file),
                "line": span.line,
                "column": span.column,
                "source_fragment": self.fragment(span),
            }
        return item

    def primitive(self, node: ir.Do) -> Json:
        item = {"op": node.operation, "parameters": [operand(item) for item in node.operands]}
        return self.add(item, node.span)
