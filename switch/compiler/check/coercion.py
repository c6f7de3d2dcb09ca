"""Casts that are not written in the program (specification, section "Implicit casts")."""

from dataclasses import dataclass

from weft.switch.compiler import constants, syntax
from weft.switch.compiler.diagnostics import Reporter
from weft.switch.compiler.syntax import type_of
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
    written_types,
)

_COMPOSITE = (StructType, TupleType, StackType)


@dataclass(eq=False)
class Coercer:
    """A coercer inserts the casts that are not written in the program."""

    reporter: Reporter

    def implicit(self, node: syntax.Expression, target: Type) -> syntax.Expression:
        """Wrap a node in a cast that was not written."""
        if isinstance(node.type, IntegerType) and node.constant is None:
            return self.widened(node, target)
        cast = syntax.CastExpression(node.span, None, node)
        cast.type = target
        if isinstance(node.constant, int):
            value = constants.cast(node.constant, type_of(node), target)
            if isinstance(node.type, IntegerType) and value != node.constant:
                self.reporter.warning(
                    node.span,
                    f"{node.constant} does not fit {target}: it becomes {value}",
                    "mismatch",
                )
            cast.constant = value
        return cast

    def widened(self, node: syntax.Expression, target: Type) -> syntax.Expression:
        """Return a number without a width that is not known yet, such as ``1 << n``, as a `target`.
        Its operands become of that type, as with p4c."""
        sides: tuple[str, ...] = ()
        match node:
            case syntax.Binary():
                sides = ("left",) if node.operator in ("<<", ">>") else ("left", "right")
            case syntax.Unary() | syntax.Conditional():
                sides = ("operand",) if isinstance(node, syntax.Unary) else ("then", "otherwise")
            case _:
                node = syntax.CastExpression(node.span, None, node)
        for side in sides:
            setattr(node, side, self.coerce(getattr(node, side), target))
        node.type = target
        return node

    def to_underlying(self, node: syntax.Expression) -> syntax.Expression:
        """Return a value of an enum that has an underlying type as a value of that type."""
        if isinstance(node.type, SerializableEnumType):
            return self.implicit(node, base_type(node.type))
        return node

    def coerce(self, node: syntax.Expression, target: Type, what: str = "") -> syntax.Expression:
        """Return the node as a value of type `target`; raise an error if it cannot be one."""
        source = type_of(node)
        if source == target or isinstance(source, DontCareType) or isinstance(target, DontCareType):
            return node
        bare = resolved(target)
        if (isinstance(source, IntegerType) and isinstance(target, (BitType, IntType))) or (
            isinstance(source, SerializableEnumType) and base_type(source) == target
        ):
            return self.implicit(node, target)
        self.reporter.fail_if(
            not self._take_type(node, bare),
            node.span,
            f"{what or 'this'} has type {source}, but {target} is expected",
        )
        node.type = target
        return node

    def _take_type(self, node: syntax.Expression, bare: Type) -> bool:
        """Give ``{#}``, a list or a record a type, if it can be of that type. Return whether it
        can."""
        match node.type:
            case InvalidHeaderType():
                return is_header(bare) or is_union(bare)
            case TupleType() if isinstance(node, syntax.ListExpression) and not isinstance(
                bare, ListType
            ):
                wanted = written_types(bare, len(node.items))
                if wanted is None or len(wanted) != len(node.items):
                    return False
                node.items = [
                    self.coerce(item, kind) for item, kind in zip(node.items, wanted, strict=True)
                ]
                return True
        if not isinstance(node.type, RecordType) or not isinstance(node, syntax.RecordExpression):
            return False
        given = dict(node.fields)
        if not isinstance(bare, StructType) or is_union(bare) or given.keys() != bare.fields.keys():
            return False
        node.fields = [(name, self.coerce(given[name], kind)) for name, kind in bare.fields.items()]
        return True

    def unify_operands(self, node: syntax.Binary, what: str = "") -> None:
        """Bring the two operands of an operation to one type, if an implicit cast does that."""
        left, right = type_of(node.left), type_of(node.right)
        numeric = (BitType, IntType, IntegerType, SerializableEnumType)
        numbers = isinstance(left, numeric) and isinstance(right, numeric)
        if what if left == right else numbers:
            # Arithmetic on enums is arithmetic on their values.
            node.left = self.to_underlying(node.left)
            node.right = self.to_underlying(node.right)
        if left == right:
            return
        left, right = type_of(node.left), type_of(node.right)
        if isinstance(left, (BitType, IntType)) and isinstance(right, IntegerType):
            node.right = self.implicit(node.right, left)
        elif isinstance(right, (BitType, IntType)) and isinstance(left, IntegerType):
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
        """Give numbers in one list the widths of those in the other."""
        if len(left.items) != len(right.items) or not (
            isinstance(left.type, TupleType) and isinstance(right.type, TupleType)
        ):
            return
        for place, (one, other) in enumerate(zip(left.items, right.items, strict=True)):
            pair = syntax.Binary(one.span, "==", one, other)
            self.unify_operands(pair)
            left.items[place], right.items[place] = pair.left, pair.right
        for node in (left, right):
            node.type = TupleType(tuple(type_of(item) for item in node.items))


def _is_written_out(node: syntax.Expression) -> bool:
    """Return whether an expression takes its type from what it is used with."""
    written = (syntax.ListExpression, syntax.RecordExpression, syntax.InvalidHeader)
    return isinstance(node, written) and isinstance(
        node.type, (TupleType, RecordType, InvalidHeaderType)
    )
