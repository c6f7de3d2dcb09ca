"""Expressions and primitives as BMv2 JSON (docs/JSON_format.md, "The type value object")."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.switch.compiler import ir
from weft.switch.compiler.diagnostics import Reporter, Span


def hexadecimal(value: int, width: int | None = None) -> str:
    """A number as BMv2 has it: hexadecimal, padded to the bytes of `width` bits."""
    if value < 0:
        return "-" + hexadecimal(-value, width)
    digits = (width + 7) // 8 * 2 if width else 1
    return f"0x{value:0{digits}x}"


class ExpressionEmitter:
    """Writes one program. `file_name` gives the name that a source file has in the output."""

    def __init__(
        self, program: ir.Program, reporter: Reporter, file_name: Callable[[str], str],
        source: Callable[[Span], str],
    ) -> None:  # fmt: skip
        self.program = program
        self.reporter = reporter
        self.file_name = file_name
        self.source = source
        self.header_ids = {header.name: index for index, header in enumerate(program.headers)}

    # Expressions

    def expression(self, node: ir.Expression) -> dict[str, Any]:
        """An expression inside another one."""
        if isinstance(node, ir.Number):
            return {"type": "hexstr", "value": hexadecimal(node.value)}
        if isinstance(node, ir.Truth):
            return {"type": "bool", "value": node.value}
        if isinstance(node, ir.Field):
            return {"type": "field", "value": [node.header, node.name]}
        if isinstance(node, ir.LastField):
            return {"type": "stack_field", "value": [node.stack, node.name]}
        if isinstance(node, ir.LastUnionField):
            return {"type": "union_stack_field", "value": [node.stack, node.member, node.name]}
        if isinstance(node, ir.NextUnion):
            return {"type": "union_stack", "value": [node.stack, node.member]}
        if isinstance(node, ir.ActionParameter):
            return {"type": "local", "value": node.index}
        if isinstance(node, ir.Reference):
            return {"type": node.kind, "value": node.name}
        if isinstance(node, ir.Lookahead):
            return {"type": "lookahead", "value": [node.offset, node.width]}
        if isinstance(node, ir.ElementField):
            body: dict[str, Any] = {
                "op": "access_field",
                "left": self.expression(node.header),
                "right": node.offset,
            }
        elif isinstance(node, ir.Operation):
            body = {
                "op": node.operator,
                "left": None if node.left is None else self.expression(node.left),
                "right": self.expression(node.right),
            }
        elif isinstance(node, ir.Choice):
            body = {
                "op": "?",
                "left": self.expression(node.then),
                "right": self.expression(node.otherwise),
                "cond": self.expression(node.condition),
            }
        else:
            raise AssertionError(f"no JSON for {node}")
        return {"type": "expression", "value": body}

    def condition(self, node: ir.Expression) -> dict[str, Any]:
        """A condition by itself."""
        result = self.expression(node)
        if result["type"] == "expression":
            return result
        return {"type": "expression", "value": result}

    def operand(self, node: ir.Expression) -> dict[str, Any]:
        """A parameter of a primitive."""
        if isinstance(node, ir.ActionParameter):
            return {"type": "runtime_data", "value": node.index}
        if isinstance(node, ir.Text):
            return {"type": "string", "value": node.value}
        if isinstance(node, ir.Vector):
            return {
                "type": "parameters_vector",
                "value": [self.operand(item) for item in node.items],
            }
        if isinstance(node, ir.Truth):
            return {"type": "expression", "value": {"type": "bool", "value": node.value}}
        result = self.expression(node)
        if result["type"] == "expression":
            return {"type": "expression", "value": result}
        return result

    def primitive(self, node: ir.Do) -> dict[str, Any]:
        result: dict[str, Any] = {
            "op": node.operation,
            "parameters": [self.operand(item) for item in node.operands],
        }
        return self.with_source(result, node.span)

    def with_source(self, item: dict[str, Any], span: Span) -> dict[str, Any]:
        if span.file:
            item["source_info"] = {
                "filename": self.file_name(span.file),
                "line": span.line,
                "column": span.column,
                "source_fragment": self.source(span),
            }
        return item
