"""Places as operands of BMv2's primitives and expressions, and comparisons of what they hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.lower.storage import (
    PLACES,
    ChosenPlace,
    ElementPlace,
    FieldPlace,
    HeaderPlace,
    MovingSlicePlace,
    OffsetPlace,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    header_members,
)
from weft.switch.compiler.lower.values import Composite, Value, parts
from weft.switch.compiler.lower.writer import CodeWriter
from weft.switch.compiler.types import StructType, header_fields, is_flag, resolved

_HEADERS = (HeaderPlace, ElementPlace)
_OF_MEMBERS = (StructPlace, StackPlace, Composite)


@dataclass(eq=False)
class PlaceReader:
    """Reads places: gives the expressions that stand for what they hold."""

    writer: CodeWriter

    def expression_of(self, value: Value, node: syntax.Node) -> ir.Expression:
        """A value of a type that one field holds, as an expression."""
        if isinstance(value, ir.Expression):
            return value
        if isinstance(value, PLACES):
            return self.read(value, node)
        raise self.writer.fail(node, "not supported: this value here")

    def read(self, place: Place, node: syntax.Node) -> ir.Expression:
        """The value in a place that holds a number or truth value."""
        match place:
            case FieldPlace() | OffsetPlace():
                expression = self.target(place)
            case SlicePlace():
                kind = getattr(place.base, "type", place.type)
                return arithmetic.slice_of(self.read(place.base, node), place.high, place.low, kind)
            case MovingSlicePlace():
                kind = getattr(place.base, "type", place.type)
                whole = self.read(place.base, node)
                return arithmetic.moving_slice(whole, place.index, place.width, kind)
            case ChosenPlace():
                expression = self.read(place.choices[-1], node)
                for number, choice in reversed(list(enumerate(place.choices[:-1]))):
                    chosen = ir.OperatorCall("==", place.index, ir.Number(number))
                    expression = arithmetic.choose(chosen, self.read(choice, node), expression)
            case _:
                raise self.writer.fail(node, "not supported: a header or struct as an operand here")
        return arithmetic.truth(expression) if is_flag(place.type) else expression

    def target(self, place: FieldPlace | OffsetPlace) -> ir.Expression:
        """The field that a place is, which a primitive may write to."""
        if isinstance(place, FieldPlace):
            return place.field
        match place.index:
            case None if place.member:
                return ir.LastUnionField(place.stack.name, place.member, place.name)
            case None:
                return ir.LastField(place.stack.name, place.name)
        element = resolved(place.stack.type.element)
        assert isinstance(element, StructType)
        names = [name for name, _ in header_fields(element)]
        return ir.ElementField(_element(place.stack, place.index), names.index(place.name))

    def header_reference(self, value: Value, node: syntax.Node) -> ir.Expression:
        """A header as an operand of a primitive."""
        match value:
            case HeaderPlace():
                return ir.Reference("header", value.name)
            case ElementPlace():
                return _element(value.stack, value.index)
        raise self.writer.fail(node, "not supported: this header here")

    def is_valid(self, header: Value, node: syntax.Node) -> ir.Expression:
        """Whether a header or a union is valid, as a truth value."""
        match header:
            case HeaderPlace():
                return arithmetic.truth(ir.Field(header.name, "$valid$"))
            case UnionPlace():
                return ir.OperatorCall(
                    "valid_union", None, ir.Reference("header_union", header.name)
                )
        return ir.OperatorCall("valid", None, self.header_reference(header, node))

    # Comparison

    def equal(self, left: Value, right: Value, node: syntax.Binary) -> ir.Expression:
        """``left == right`` for values of any type that can be compared."""
        if isinstance(left, Composite) and isinstance(right, (*_HEADERS, UnionPlace)):
            left, right = right, left
        if isinstance(left, _HEADERS) and isinstance(right, _HEADERS):
            return self._equal_headers(left, right, node)
        if isinstance(left, _HEADERS) and isinstance(right, Composite):
            return self._equal_header(left, right, node)
        match left:
            case UnionPlace() if isinstance(right, UnionPlace):
                one, other = (ir.Reference("header_union", item.name) for item in (left, right))
                return ir.OperatorCall("==", one, other)
            case UnionPlace() if isinstance(right, Composite) and not right.valid:
                return arithmetic.negate(self.is_valid(left, node))
            case Composite() if isinstance(right, Composite) and not (left.valid and right.valid):
                return ir.Truth(left.valid == right.valid)
        if isinstance(left, _OF_MEMBERS) and isinstance(right, _OF_MEMBERS):
            return self._equal_members(zip(parts(left), parts(right), strict=True), node)
        return self._equal_scalars(
            self.expression_of(left, node.left), self.expression_of(right, node.right)
        )

    def _equal_scalars(self, one: ir.Expression, other: ir.Expression) -> ir.Expression:
        if ir.is_truth(one) != ir.is_truth(other):
            one, other = arithmetic.truth(one), arithmetic.truth(other)
        known = (ir.Number, ir.Truth)
        if isinstance(one, known) and isinstance(other, known):
            return ir.Truth(one == other)
        return ir.OperatorCall("==", one, other)

    def _equal_members(
        self, pairs: Iterable[tuple[Value, Value]], node: syntax.Binary
    ) -> ir.Expression:
        result: ir.Expression = ir.Truth(True)
        for one, other in pairs:
            result = arithmetic.both(result, self.equal(one, other, node))
        return result

    def _equal_headers(
        self, left: HeaderPlace | ElementPlace, right: HeaderPlace | ElementPlace,
        node: syntax.Binary,
    ) -> ir.Expression:  # fmt: skip
        """Both are invalid, or both are valid and have the same values."""
        one, other = self.is_valid(left, node), self.is_valid(right, node)
        same = arithmetic.both(one, other)
        members = header_members(right)
        for name, place in header_members(left).items():
            same = arithmetic.both(same, self.equal(place, members[name], node))
        neither = arithmetic.both(arithmetic.negate(one), arithmetic.negate(other))
        return arithmetic.either(neither, same)

    def _equal_header(
        self, header: HeaderPlace | ElementPlace, value: Composite, node: syntax.Binary
    ) -> ir.Expression:
        valid = self.is_valid(header, node)
        if not value.valid:
            return arithmetic.negate(valid)
        for name, place in header_members(header).items():
            valid = arithmetic.both(valid, self.equal(place, value.members[name], node))
        return valid


def _element(stack: StackPlace, index: ir.Expression) -> ir.Expression:
    return ir.OperatorCall(
        "dereference_header_stack", ir.Reference("header_stack", stack.name), index
    )
