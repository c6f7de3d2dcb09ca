"""Actions as BMv2 has them, lists of primitives with jumps; and expressions as BMv2 JSON. The
latter is described in docs/JSON_format.md, "The type value object"."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from weft.switch.compiler import arithmetic, ir
from weft.switch.compiler.diagnostics import NOWHERE, Reporter, Span
from weft.switch.compiler.parse.preprocess import display_name
from weft.switch.compiler.simplify import simplify

Json = dict[str, Any]


@dataclass(eq=False)
class _Flattener:
    reporter: Reporter
    name: str
    primitives: list[ir.Do] = field(default_factory=list, init=False)
    open_jumps: list[tuple[int, int]] = field(
        default_factory=list, init=False
    )  # (place of the jump, label)
    end_jumps: list[int] = field(default_factory=list, init=False)

    def emit(self, operation: str, span: Span, *operands: ir.LoweredExpression) -> int:
        self.primitives.append(ir.Do(operation, operands, span))
        return len(self.primitives) - 1

    def aim(self, place: int, destination: int) -> None:
        jump = self.primitives[place]
        self.primitives[place] = replace(
            jump, operands=(*jump.operands[:-1], ir.Number(destination))
        )

    def sequence(self, code: list[ir.Code]) -> None:
        for item in code:
            match item:
                case ir.Do():
                    self.primitives.append(item)
                case ir.Branch():
                    self.branch(item)
                case ir.Labelled():
                    self.labelled(item)
                case ir.Repeat():
                    start = len(self.primitives)
                    self.sequence(item.body)
                    self.emit("_jump", item.span, ir.Number(start))
                    return
                case ir.Leave():
                    self.open_jumps.append((self.emit("_jump", NOWHERE, ir.Number(0)), item.label))
                    return
                case ir.Stop():
                    self.emit("exit", item.span)
                    self.end_jumps.append(self.emit("_jump", item.span, ir.Number(0)))
                    return
                case _:
                    raise self.reporter.fail(
                        getattr(item, "span", NOWHERE),
                        f"a table cannot be applied in action '{self.name}'",
                    )

    def branch(self, item: ir.Branch) -> None:
        test = self.emit(
            "_jump_if_zero", item.span, arithmetic.number(item.condition), ir.Number(0)
        )
        self.sequence(item.then)
        if not item.otherwise:
            self.aim(test, len(self.primitives))
        else:
            over = self.emit("_jump", item.span, ir.Number(0))
            self.aim(test, len(self.primitives))
            self.sequence(item.otherwise)
            self.aim(over, len(self.primitives))

    def labelled(self, item: ir.Labelled) -> None:
        self.sequence(item.body)
        end = len(self.primitives)
        for place in [place for place, label in self.open_jumps if label == item.label]:
            if place == end - 1:  # a jump to what comes next anyway
                self.drop_last()
                end -= 1
            else:
                self.aim(place, end)
        self.open_jumps = [jump for jump in self.open_jumps if jump[1] != item.label]

    def drop_last(self) -> None:
        """Remove the last primitive; jumps that lead behind it then lead to where it was."""
        self.primitives.pop()
        end = len(self.primitives)
        for place, primitive in enumerate(self.primitives):
            if primitive.operation in ("_jump", "_jump_if_zero"):
                target = primitive.operands[-1]
                if isinstance(target, ir.Number) and target.value > end:
                    self.aim(place, end)


def flatten(body: list[ir.Code], reporter: Reporter, name: str) -> list[ir.Do]:
    """Return the primitives of an action, with ``_jump`` and ``_jump_if_zero`` for what
    branches."""
    flattener = _Flattener(reporter, name)
    flattener.sequence(simplify(body))
    primitives = flattener.primitives
    if flattener.end_jumps and flattener.end_jumps[-1] == len(primitives) - 1:
        flattener.end_jumps.pop()
        flattener.drop_last()
    for place in flattener.end_jumps:
        flattener.aim(place, len(primitives))
    return primitives


def hexadecimal(value: int, width: int | None = None) -> str:
    """Return a number as BMv2 has it: hexadecimal, padded to the bytes of `width` bits."""
    if value < 0:
        return "-" + hexadecimal(-value, width)
    digits = (width + 7) // 8 * 2 if width else 1
    return f"0x{value:0{digits}x}"


def _operation(operator: str, left: Any, right: Any, **more: Any) -> tuple[str, Any]:
    return "expression", {"op": operator, "left": left, "right": right, **more}


_EXPRESSIONS: dict[type[ir.LoweredExpression], Callable[[Any], tuple[str, Any]]] = {
    ir.Number: lambda node: ("hexstr", hexadecimal(node.value)),
    ir.Truth: lambda node: ("bool", node.value),
    ir.HeaderField: lambda node: ("field", [node.header, node.name]),
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


def expression(node: ir.LoweredExpression) -> Json:
    """Return the JSON of an expression that stands inside another one."""
    kind, value = _EXPRESSIONS[type(node)](node)
    return {"type": kind, "value": value}


def condition(node: ir.LoweredExpression) -> Json:
    """Return the JSON of a condition that stands by itself."""
    result = expression(node)
    return result if result["type"] == "expression" else {"type": "expression", "value": result}


def operand(node: ir.LoweredExpression) -> Json:
    """Return the JSON of a parameter of a primitive."""
    match node:
        case ir.ActionParameter():
            return {"type": "runtime_data", "value": node.index}
        case ir.Text():
            return {"type": "string", "value": node.value}
        case ir.FieldList():
            return {"type": "field_list", "value": [expression(item) for item in node.items]}
        case ir.Vector():
            return {"type": "parameters_vector", "value": [operand(item) for item in node.items]}
    result = expression(node)
    if result["type"] in ("expression", "bool"):
        return {"type": "expression", "value": result}
    return result


@dataclass(eq=False)
class SourceNotes:
    """Notes on where in the source something comes from.

    The names of files are relative to the program's folder; `reporter` knows the source text.
    """

    reporter: Reporter
    folder: Path

    def add(self, item: Json, span: Span, key: str = "source_info") -> Json:
        """Add ``source_info`` to an item, if it comes from anywhere, and return the item."""
        if span.file:
            item[key] = {
                "filename": display_name(span.file, self.folder),
                "line": span.line,
                "column": span.column,
                "source_fragment": self._fragment(span),
            }
        return item

    def _fragment(self, span: Span) -> str:
        """Return the source text of a span, as far as it is on the span's first line."""
        line = self.reporter.line(span)
        end = span.end_column - 1 if span.end_line == span.line else len(line)
        return line[span.column - 1 : end].rstrip()

    def primitive(self, node: ir.Do) -> Json:
        """Return the JSON of a primitive, with its source."""
        item = {"op": node.operation, "parameters": [operand(item) for item in node.operands]}
        return self.add(item, node.span)
