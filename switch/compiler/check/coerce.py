"""Implicit casts (specification, section "Implicit casts")."""

from __future__ import annotations

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.check.scope import Context
from weft.switch.compiler.types import (
    BitType,
    DontCareType,
    IntegerType,
    IntType,
    InvalidHeaderType,
    ListType,
    RecordType,
    SerializableEnumType,
    StackType,
    StructType,
    TupleType,
    Type,
    base_type,
    is_header,
    is_union,
    resolved,
)


class Coercer:
    def __init__(self, context: Context) -> None:
        self.reporter = context.reporter

    def implicit(self, node: syntax.Expression, target: Type) -> syntax.Expression:
        """Wrap a node in a cast that was not written."""
        if isinstance(node.type, IntegerType) and node.constant is None:
            return self.widened(node, target)
        cast = syntax.Cast(node.span, None, node)
        cast.type = target
        assert node.type is not None
        if isinstance(node.constant, int):
            value = constants.cast(node.constant, node.type, target)
            if isinstance(node.type, IntegerType) and value != node.constant:
                self.reporter.warning(
                    node.span,
                    f"{node.constant} does not fit {target}: it becomes {value}",
                    "mismatch",
                )
            cast.constant = value
        return cast

    def widened(self, node: syntax.Expression, target: Type) -> syntax.Expression:
        """A number without a width that is not known yet, such as ``1 << n``, as a `target`: its
        operands become that, as p4c has it."""
        if isinstance(node, syntax.Binary):
            node.left = self.coerce(node.left, target)
            if node.operator not in ("<<", ">>"):
                node.right = self.coerce(node.right, target)
        elif isinstance(node, syntax.Unary):
            node.operand = self.coerce(node.operand, target)
        elif isinstance(node, syntax.Conditional):
            node.then = self.coerce(node.then, target)
            node.otherwise = self.coerce(node.otherwise, target)
        else:
            cast = syntax.Cast(node.span, None, node)
            cast.type = target
            return cast
        node.type = target
        return node

    def to_underlying(self, node: syntax.Expression) -> syntax.Expression:
        """A value of an enum with an underlying type becomes one of that type."""
        if isinstance(node.type, SerializableEnumType):
            return self.implicit(node, base_type(node.type))
        return node

    def coerce(self, node: syntax.Expression, target: Type, what: str = "") -> syntax.Expression:
        """The node as a value of type `target`, or an error."""
        source = node.type
        assert source is not None
        if source == target or isinstance(source, DontCareType) or isinstance(target, DontCareType):
            return node
        if isinstance(source, IntegerType) and isinstance(resolved(target), (BitType, IntType)):
            return self.implicit(node, target)
        if isinstance(source, SerializableEnumType) and base_type(source) == target:
            return self.implicit(node, target)
        if isinstance(source, InvalidHeaderType) and (
            is_header(resolved(target)) or is_union(resolved(target))
        ):
            node.type = target
            return node
        if isinstance(source, TupleType) and isinstance(node, syntax.ListExpression):
            wanted = _element_types(resolved(target), len(node.items))
            if wanted is not None and len(wanted) == len(node.items):
                node.items = [
                    self.coerce(item, kind) for item, kind in zip(node.items, wanted, strict=True)
                ]
                node.type = target
                return node
        if isinstance(source, RecordType) and isinstance(node, syntax.RecordExpression):
            bare = resolved(target)
            given = dict(node.fields)
            complete = isinstance(bare, StructType) and given.keys() == bare.fields.keys()
            if complete and isinstance(bare, StructType) and not is_union(bare):
                node.fields = [
                    (name, self.coerce(given[name], kind)) for name, kind in bare.fields.items()
                ]
                node.type = target
                return node
        subject = f"{what} has type {source}" if what else f"this has type {source}"
        raise self.reporter.fail(node.span, f"{subject}, but {target} is expected")

    def unify_operands(self, node: syntax.Binary, what: str = "") -> None:
        """Bring the two operands of an operation to one type, if an implicit cast does that."""
        left, right = node.left.type, node.right.type
        assert left is not None and right is not None
        if left == right:
            if what:  # arithmetic on enums is arithmetic on their values
                node.left = self.to_underlying(node.left)
                node.right = self.to_underlying(node.right)
            return
        numeric = (BitType, IntType, IntegerType, SerializableEnumType)
        if isinstance(left, numeric) and isinstance(right, numeric):
            node.left = self.to_underlying(node.left)
            node.right = self.to_underlying(node.right)
        left, right = node.left.type, node.right.type
        if isinstance(left, IntegerType) and isinstance(right, (BitType, IntType)):
            node.left = self.implicit(node.left, right)
        elif isinstance(right, IntegerType) and isinstance(left, (BitType, IntType)):
            node.right = self.implicit(node.right, left)
            return
        assert left is not None and right is not None
        if isinstance(resolved(left), (BitType, IntType)) and isinstance(right, IntegerType):
            node.right = self.implicit(node.right, left)
        elif isinstance(resolved(right), (BitType, IntType)) and isinstance(left, IntegerType):
            node.left = self.implicit(node.left, right)
        if isinstance(node.left, syntax.ListExpression) and isinstance(
            node.right, syntax.ListExpression
        ):
            self._unify_lists(node.left, node.right)
        elif _is_written_out(node.left) and isinstance(resolved(right), _COMPOSITE):
            node.left = self.coerce(node.left, right)
        elif _is_written_out(node.right) and isinstance(resolved(left), _COMPOSITE):
            node.right = self.coerce(node.right, left)

    def _unify_lists(self, left: syntax.ListExpression, right: syntax.ListExpression) -> None:
        """Numbers in one list take their widths from the other."""
        if len(left.items) != len(right.items) or not (
            isinstance(left.type, TupleType) and isinstance(right.type, TupleType)
        ):
            return
        for place, (one, other) in enumerate(zip(left.items, right.items, strict=True)):
            pair = syntax.Binary(one.span, "==", one, other)
            self.unify_operands(pair)
            left.items[place], right.items[place] = pair.left, pair.right
        for node in (left, right):
            node.type = TupleType(tuple(_known(item.type) for item in node.items))


def _known(kind: Type | None) -> Type:
    assert kind is not None
    return kind


_COMPOSITE = (StructType, TupleType, StackType)


def _is_written_out(node: syntax.Expression) -> bool:
    """Whether an expression takes its type from what it is used with."""
    written = (syntax.ListExpression, syntax.RecordExpression, syntax.InvalidHeader)
    return isinstance(node, written) and isinstance(
        node.type, (TupleType, RecordType, InvalidHeaderType)
    )


def _element_types(kind: Type, count: int) -> list[Type] | None:
    """The types of the values that a list of `count` of them gives to a type."""
    if isinstance(kind, TupleType):
        return list(kind.elements)
    if isinstance(kind, StructType) and not is_union(kind):
        return list(kind.fields.values())
    if isinstance(kind, StackType):
        return [kind.element] * kind.size
    if isinstance(kind, ListType):
        return [kind.element] * count
    return None
