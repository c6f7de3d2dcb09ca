"""Implicit casts (specification, section "Implicit casts")."""

from __future__ import annotations

from switch.compiler import constants, syntax
from switch.compiler.scope import Context
from switch.compiler.types import (
    BitType,
    DontCareType,
    IntegerType,
    IntType,
    InvalidHeaderType,
    RecordType,
    SerializableEnumType,
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
        cast = syntax.Cast(node.span, None, node)
        cast.type = target
        assert node.type is not None
        if isinstance(node.constant, int):
            value = constants.cast(node.constant, node.type, target)
            if isinstance(node.type, IntegerType) and value != node.constant:
                self.reporter.warning(
                    node.span, f"{node.constant} does not fit {target}: it becomes {value}"
                )
            cast.constant = value
        return cast

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
        if isinstance(source, IntegerType) and isinstance(target, (BitType, IntType)):
            return self.implicit(node, target)
        if isinstance(source, SerializableEnumType) and base_type(source) == target:
            return self.implicit(node, target)
        if isinstance(source, InvalidHeaderType) and (
            is_header(resolved(target)) or is_union(resolved(target))
        ):
            node.type = target
            return node
        if isinstance(source, (TupleType, RecordType)) and isinstance(node, syntax.ListExpression):
            bare = resolved(target)
            if isinstance(bare, TupleType) and len(bare.elements) == len(node.items):
                node.items = [
                    self.coerce(item, kind)
                    for item, kind in zip(node.items, bare.elements, strict=True)
                ]
                node.type = target
                return node
            if isinstance(bare, StructType) and len(bare.fields) == len(node.items):
                node.items = [
                    self.coerce(item, kind)
                    for item, kind in zip(node.items, bare.fields.values(), strict=True)
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
        if isinstance(left, SerializableEnumType) and isinstance(
            right, (BitType, IntType, IntegerType)
        ):
            node.left = self.to_underlying(node.left)
        if isinstance(right, SerializableEnumType) and isinstance(
            left, (BitType, IntType, IntegerType)
        ):
            node.right = self.to_underlying(node.right)
        left, right = node.left.type, node.right.type
        if isinstance(left, IntegerType) and isinstance(right, (BitType, IntType)):
            node.left = self.implicit(node.left, right)
        elif isinstance(right, IntegerType) and isinstance(left, (BitType, IntType)):
            node.right = self.implicit(node.right, left)
            return
        assert left is not None and right is not None
        composite = (TupleType, RecordType, InvalidHeaderType)
        if isinstance(left, composite) and isinstance(resolved(right), StructType):
            node.left = self.coerce(node.left, right)
        elif isinstance(right, composite) and isinstance(resolved(left), StructType):
            node.right = self.coerce(node.right, left)
