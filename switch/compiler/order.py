"""Which expressions do something besides giving a value.

Operands are evaluated from left to right (specification, section "Expression evaluation order"). An
operand is saved before a later one is evaluated only if that one may change something.
"""

from __future__ import annotations

from weft.switch.compiler import syntax

_ACTING = frozenset(
    ["function", "action", "table", "control", "parser", "extern_function", "extern_method"]
)
_HARMLESS = frozenset(["lookahead", "length", "static_assert"])


def operands(node: syntax.Expression) -> list[syntax.Expression]:
    """The expressions that an expression is made of, in the order of their evaluation."""
    if isinstance(node, syntax.Member):
        return [node.base]
    if isinstance(node, syntax.Index):
        return [node.base, node.index]
    if isinstance(node, syntax.Slice):
        return [node.base, node.low]
    if isinstance(node, syntax.ListExpression):
        return node.items
    if isinstance(node, syntax.RecordExpression):
        return [value for _, value in node.fields]
    if isinstance(node, (syntax.Unary, syntax.Cast)):
        return [node.operand]
    if isinstance(node, syntax.Binary):
        return [node.left, node.right]
    if isinstance(node, syntax.Conditional):
        return [node.condition, node.then, node.otherwise]
    if isinstance(node, syntax.RangeKeyset):
        return [node.low, node.high]
    if isinstance(node, syntax.Call):
        given = [argument.value for argument in node.arguments if argument.value is not None]
        return [node.callee, *given]
    return []


def is_static(node: syntax.Expression) -> bool:
    """Whether nothing in an expression depends on the packet."""
    if isinstance(node, syntax.Name):
        declaration = node.declaration
        if isinstance(declaration, syntax.Parameter):
            return not declaration.direction
        return not isinstance(declaration, syntax.Variable)
    if isinstance(node, syntax.Call):
        return node.target.kind in ("constructor", "builtin")
    return all(is_static(item) for item in operands(node))


class Effects:
    """Remembers of each expression whether its evaluation may change something, and its depth."""

    def __init__(self) -> None:
        self._known: dict[int, bool] = {}
        self._depths: dict[int, int] = {}

    def depth(self, node: syntax.Expression) -> int:
        """How deeply the operations in an expression are nested."""
        known = self._depths.get(id(node))
        if known is None:
            known = 1 + max((self.depth(item) for item in operands(node)), default=0)
            self._depths[id(node)] = known
        return known

    def of(self, node: syntax.Expression) -> bool:
        known = self._known.get(id(node))
        if known is None:
            acts = (
                isinstance(node, syntax.Call)
                and node.target.kind in _ACTING
                and node.target.name not in _HARMLESS
            )
            known = acts or any([self.of(item) for item in operands(node)])
            self._known[id(node)] = known
        return known
