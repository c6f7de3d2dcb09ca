"""Which expressions do something besides giving a value.

Operands are evaluated from left to right (specification, section "Expression evaluation order"). An
operand is saved before a later one is evaluated only if that one may change something.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler import syntax

_ACTING = frozenset(
    ["function", "action", "table", "control", "parser", "extern_function", "extern_method"]
)
_HARMLESS = frozenset(["lookahead", "length", "static_assert"])


_OPERANDS: dict[type[syntax.Expression], Callable[[Any], list[syntax.Expression]]] = {
    syntax.MemberAccess: lambda node: [node.base],
    syntax.Index: lambda node: [node.base, node.index],
    syntax.Slice: lambda node: [node.base, node.low],
    syntax.ListExpression: lambda node: node.items,
    syntax.RecordExpression: lambda node: [value for _, value in node.fields],
    syntax.Unary: lambda node: [node.operand],
    syntax.CastExpression: lambda node: [node.operand],
    syntax.Binary: lambda node: [node.left, node.right],
    syntax.Conditional: lambda node: [node.condition, node.then, node.otherwise],
    syntax.RangeKeyset: lambda node: [node.low, node.high],
    syntax.CallExpression: lambda node: [
        node.callee, *(item.value for item in node.arguments if item.value is not None)
    ],
}  # fmt: skip


def operands(node: syntax.Expression) -> list[syntax.Expression]:
    """Return the expressions that an expression is made of, in the order of their evaluation."""
    found = _OPERANDS.get(type(node))
    return [] if found is None else found(node)


def is_static(node: syntax.Expression, action_data: bool = False) -> bool:
    """Return whether an expression is known once instances are made; that also holds of what the
    control plane gives actions if `action_data` counts, which no packet changes."""
    match node:
        case syntax.Name():
            declaration = node.declaration
            if isinstance(declaration, syntax.Parameter):
                known = not declaration.is_action_data or action_data
                return not declaration.direction and known
            return not isinstance(declaration, syntax.Variable)
        case syntax.CallExpression():
            return node.target.kind in ("constructor", "builtin")
    return all(is_static(item, action_data) for item in operands(node))


@dataclass(eq=False)
class Effects:
    """Whether the evaluation of an expression may change something, and how deep it is."""

    _known: dict[int, bool] = field(default_factory=dict, init=False)
    _depths: dict[int, int] = field(default_factory=dict, init=False)

    def depth(self, node: syntax.Expression) -> int:
        """Return how deeply the operations in an expression are nested."""
        known = self._depths.get(id(node))
        if known is None:
            known = self._depths[id(node)] = 1 + max(map(self.depth, operands(node)), default=0)
        return known

    def of(self, node: syntax.Expression) -> bool:
        """Return whether the evaluation of an expression may change something."""
        known = self._known.get(id(node))
        if known is None:
            acts = (
                isinstance(node, syntax.CallExpression)
                and node.target.kind in _ACTING
                and node.target.name not in _HARMLESS
            )
            known = self._known[id(node)] = acts or any([self.of(item) for item in operands(node)])
        return known
