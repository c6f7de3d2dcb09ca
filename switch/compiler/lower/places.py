"""Places: how they are read, compared, copied and assigned to. Copies are made where a later
assignment could change what a value is computed from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.lower.shared import CodeWriter
from weft.switch.compiler.lower.storage import (
    PLACES,
    BlockInstance,
    ChosenPlace,
    Composite,
    ElementPlace,
    ExternInstance,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    MovingSlicePlace,
    NextPlace,
    OffsetPlace,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    atoms,
    header_members,
    inside,
    parts,
    reads,
)
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    VOID,
    BitType,
    ListType,
    StructType,
    Type,
    header_fields,
    is_flag,
    is_header,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
)

_HEADERS = (HeaderPlace, ElementPlace)
_OF_MEMBERS = (StructPlace, StackPlace, Composite)
_UNCHANGING = (ir.Number, ir.Truth, ir.Text, ir.ActionParameter)


@dataclass(eq=False)
class PlaceLowering:
    """What reads places, compares what they hold, and stores values in them."""

    writer: CodeWriter

    def expression_of(self, value: LoweredValue, node: syntax.SyntaxNode) -> ir.LoweredExpression:
        """Return a value of a type that one field holds, as an expression."""
        if isinstance(value, ir.LoweredExpression):
            return value
        if isinstance(value, PLACES):
            return self.read(value, node)
        raise self.writer.fail(node, "not supported: this value here")

    def read(self, place: Place, node: syntax.SyntaxNode) -> ir.LoweredExpression:
        """Return the value in a place that holds a number or truth value."""
        match place:
            case FieldPlace() | OffsetPlace():
                expression = self.target(place)
            case SlicePlace():
                kind = getattr(place.base, "type", place.type)
                return arithmetic.slice_of(self.read(place.base, node), place.high, place.low, kind)
            case MovingSlicePlace():
                kind = getattr(place.base, "type", place.type)
                return arithmetic.moving_slice(
                    self.read(place.base, node), place.index, place.width, kind
                )
            case ChosenPlace():
                expression = self.read(place.choices[-1], node)
                for number, choice in reversed(list(enumerate(place.choices[:-1]))):
                    chosen = ir.OperatorCall("==", place.index, ir.Number(number))
                    expression = arithmetic.choose(chosen, self.read(choice, node), expression)
            case _:
                raise self.writer.fail(node, "not supported: a header or struct as an operand here")
        return arithmetic.truth(expression) if is_flag(place.type) else expression

    def target(self, place: FieldPlace | OffsetPlace) -> ir.LoweredExpression:
        """Return the field that a place is; a primitive may write to it."""
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

    def header_reference(
        self, value: LoweredValue, node: syntax.SyntaxNode
    ) -> ir.LoweredExpression:
        """Return a header as an operand of a primitive."""
        match value:
            case HeaderPlace():
                return ir.Reference("header", value.name)
            case ElementPlace():
                return _element(value.stack, value.index)
        raise self.writer.fail(node, "not supported: this header here")

    def is_valid(self, header: LoweredValue, node: syntax.SyntaxNode) -> ir.LoweredExpression:
        """Return whether a header or a union is valid, as a truth value."""
        match header:
            case NextPlace():
                return self.is_valid(self.element(header), node)
            case ChosenPlace():
                *others, last = header.choices
                result = self.is_valid(last, node)
                for number, choice in reversed(list(enumerate(others))):
                    chosen = ir.OperatorCall("==", header.index, ir.Number(number))
                    result = arithmetic.choose(chosen, self.is_valid(choice, node), result)
                return arithmetic.truth(result)
            case HeaderPlace():
                return arithmetic.truth(ir.HeaderField(header.name, "$valid$"))
            case UnionPlace():
                return ir.OperatorCall(
                    "valid_union", None, ir.Reference("header_union", header.name)
                )
        return ir.OperatorCall("valid", None, self.header_reference(header, node))

    def element(self, place: NextPlace) -> ElementPlace | ChosenPlace:
        """Return ``stack.next`` or ``stack.last`` as the element that it is now. There must be one,
        or parsing ends with error.StackOutOfBounds."""
        stack = place.stack
        last = ir.OperatorCall("last_stack_index", None, ir.Reference("header_stack", stack.name))
        number = last if place.last else ir.OperatorCall("+", last, ir.Number(1))
        index = self.frozen_index(arithmetic.wrapped(number, BitType(32)))
        there = ir.OperatorCall("<", index, ir.Number(stack.type.size))
        error = ir.Number(self.writer.shared.program.errors.index("StackOutOfBounds"))
        self.writer.do("verify", there, error)
        element = self.element_at(stack, index)
        if place.member:
            assert isinstance(element, ChosenPlace)
            unions = [item for item in element.choices if isinstance(item, UnionPlace)]
            return replace(
                element, choices=[item.members[place.member] for item in unions], type=place.type
            )
        return element

    def element_at(
        self, stack: StackPlace, index: ir.LoweredExpression
    ) -> ElementPlace | ChosenPlace:
        """Return the element of a stack at an index that is not known at compile time."""
        element = resolved(stack.type.element)
        if is_header(element):
            return ElementPlace(stack, index, element)
        return ChosenPlace(stack.elements, self.frozen_index(index), element)

    def settled(self, value: LoweredValue, node: syntax.SyntaxNode) -> LoweredValue:
        """Return a value that primitives can take: what is chosen among headers, structs or unions
        as a copy."""
        if isinstance(value, NextPlace):
            value = self.element(value)
        if isinstance(value, ChosenPlace) and not self.is_number(value.type):
            return self.saved(value, node)
        return value

    @staticmethod
    def is_number(kind: Type) -> bool:
        """Return whether values of a type are numbers or truth values, of which BMv2 computes
        others."""
        return scalar_width(kind) is not None and not is_varbit(kind)

    # Comparison

    def equal(
        self, left: LoweredValue, right: LoweredValue, node: syntax.Binary
    ) -> ir.LoweredExpression:
        """Return ``left == right`` for values of any type that can be compared."""
        left, right = self.settled(left, node), self.settled(right, node)
        if isinstance(left, Composite) and isinstance(right, (*_HEADERS, UnionPlace)):
            left, right = right, left
        match left, right:
            case HeaderPlace() | ElementPlace(), HeaderPlace() | ElementPlace():
                return self._equal_headers(left, right, node)
            case HeaderPlace() | ElementPlace(), Composite():
                return self._equal_header(left, right, node)
            case UnionPlace(), UnionPlace():
                return self._equal_unions(left, right, node)
            case UnionPlace(), Composite(valid=False):
                return arithmetic.negate(self.is_valid(left, node))
            case Composite(), Composite() if not (left.valid and right.valid):
                return ir.Truth(left.valid == right.valid)
        if isinstance(left, _OF_MEMBERS) and isinstance(right, _OF_MEMBERS):
            pairs = zip(parts(left), parts(right), strict=True)
            return arithmetic.all_of(self.equal(one, other, node) for one, other in pairs)
        return self._equal_scalars(
            self.expression_of(left, node.left), self.expression_of(right, node.right)
        )

    def _equal_scalars(
        self, one: ir.LoweredExpression, other: ir.LoweredExpression
    ) -> ir.LoweredExpression:
        if ir.is_truth(one) != ir.is_truth(other):
            one, other = arithmetic.truth(one), arithmetic.truth(other)
        known = (ir.Number, ir.Truth)
        if isinstance(one, known) and isinstance(other, known):
            return ir.Truth(one == other)
        return ir.OperatorCall("==", one, other)

    def _equal_headers(
        self, left: HeaderPlace | ElementPlace, right: HeaderPlace | ElementPlace,
        node: syntax.Binary,
    ) -> ir.LoweredExpression:  # fmt: skip
        """Return whether two headers are both invalid, or both valid with the same values."""
        one, other = self.is_valid(left, node), self.is_valid(right, node)
        members, others = header_members(left).items(), header_members(right)
        same = [self.equal(place, others[name], node) for name, place in members]
        return arithmetic.either(
            arithmetic.both(arithmetic.negate(one), arithmetic.negate(other)),
            arithmetic.all_of([one, other, *same]),
        )

    def _equal_unions(
        self, left: UnionPlace, right: UnionPlace, node: syntax.Binary
    ) -> ir.LoweredExpression:
        """Return whether two unions are both invalid, or have the same header valid with the same
        values."""
        one, other = (ir.Reference("header_union", item.name) for item in (left, right))
        valid = arithmetic.either(self.is_valid(left, node), self.is_valid(right, node))
        return arithmetic.either(arithmetic.negate(valid), ir.OperatorCall("==", one, other))

    def _equal_header(
        self, header: HeaderPlace | ElementPlace, value: Composite, node: syntax.Binary
    ) -> ir.LoweredExpression:
        valid = self.is_valid(header, node)
        if not value.valid:
            return arithmetic.negate(valid)
        same = [
            self.equal(place, value.members[name], node)
            for name, place in header_members(header).items()
        ]
        return arithmetic.all_of([valid, *same])

    # Assignment

    def assign(self, place: Place, value: LoweredValue, node: syntax.SyntaxNode) -> None:
        """Store a value of any type."""
        value = self.settled(value, node)
        place = self.element(place) if isinstance(place, NextPlace) else place
        if (
            isinstance(place, (StructPlace, HeaderPlace, ElementPlace, StackPlace))
            and isinstance(value, Composite)
            and value.valid
        ) and atoms(place) & reads(value):
            value = self.saved(value, node)
        match place:
            case StructPlace():
                assert isinstance(value, (StructPlace, Composite))
                for name, member in place.members.items():
                    self.assign(member, value.members[name], node)
            case HeaderPlace() | ElementPlace():
                self._assign_header(place, value, node)
            case UnionPlace():
                self._assign_union(place, value, node)
            case ChosenPlace():
                self._assign_chosen(place, value, node)
            case StackPlace():
                self._assign_stack(place, value, node)
            case SlicePlace() | MovingSlicePlace():
                self._assign_slice(place, value, node)
            case _:
                self._assign_scalar(place, value, node)

    def _assign_scalar(
        self, place: FieldPlace | OffsetPlace, value: LoweredValue, node: syntax.SyntaxNode
    ) -> None:
        source = arithmetic.number(self.expression_of(value, node))
        target = self.target(place)
        if is_varbit(place.type):
            self.writer.do("assign_VL", target, source)
        elif source != target:
            self.writer.do("assign", target, source)

    def _assign_chosen(
        self, place: ChosenPlace, value: LoweredValue, node: syntax.SyntaxNode
    ) -> None:
        """Assign to the element of an array whose number is the index."""
        value = self.saved(value, node, place.type)
        self._for_the_chosen(place, lambda choice: self.assign(choice, value, node))

    def _for_the_chosen(self, place: ChosenPlace, action: Callable[[Place], None]) -> None:
        """Emit code that does something with the one of the choices whose number is the index."""
        index = self.frozen_index(place.index)
        for number, choice in enumerate(place.choices):
            code = self.writer.captured(partial(action, choice))
            chosen = ir.OperatorCall("==", index, ir.Number(number))
            self.writer.code.append(ir.Branch(chosen, code, [], self.writer.span))

    def _assign_stack(
        self, place: StackPlace, value: LoweredValue, node: syntax.SyntaxNode
    ) -> None:
        if isinstance(value, Composite):
            for element, item in zip(place.elements, parts(value), strict=True):
                self.assign(element, item, node)
            return
        source = self.writer.shared.reporter.needed(
            value, StackPlace, node.span, "not supported: this value for a header stack"
        )
        kind = stack_kind(place)
        operation = "assign_header_stack" if kind == "header_stack" else "assign_union_stack"
        self.writer.do(operation, ir.Reference(kind, place.name), ir.Reference(kind, source.name))

    def _assign_slice(
        self, place: SlicePlace | MovingSlicePlace, value: LoweredValue, node: syntax.SyntaxNode
    ) -> None:
        inserted = arithmetic.number(self.expression_of(value, node))
        kind = getattr(place.base, "type", place.type)
        whole = self.read(place.base, node)
        if isinstance(place, MovingSlicePlace):
            whole = arithmetic.insert_moving_slice(whole, inserted, place.index, place.width, kind)
        else:
            whole = arithmetic.insert_slice(whole, inserted, place.high, place.low, kind)
        self.assign(place.base, whole, node)

    def _assign_header(
        self,
        place: HeaderPlace | ElementPlace,
        value: LoweredValue,
        node: syntax.SyntaxNode,
    ) -> None:
        target = self.header_reference(place, node)
        if isinstance(value, Composite):
            if not value.valid:
                self.remove(place, node)
                return
            self.writer.do("add_header", target)
            for name, member in header_members(place).items():
                self.assign(member, value.members[name], node)
            return
        source = self.header_reference(value, node)
        if source != target:
            self.writer.do("assign_header", target, source)
            self.remove_all(self._siblings(place))  # of an invalid header, too

    def _assign_union(
        self, place: UnionPlace, value: LoweredValue, node: syntax.SyntaxNode
    ) -> None:
        match value:
            case UnionPlace():
                self.writer.do(
                    "assign_union",
                    *(ir.Reference("header_union", item.name) for item in (place, value)),
                )
            case Composite() if not value.valid:
                self.invalidate(place)
            case _:
                raise self.writer.fail(node, "not supported: this value for a header union")

    # Validity of headers

    def add(self, place: LoweredValue, node: syntax.SyntaxNode) -> None:
        """Make a header valid; the others of its union become invalid."""
        if isinstance(place, NextPlace):
            place = self.element(place)
        if isinstance(place, ChosenPlace):
            self._for_the_chosen(place, lambda choice: self.add(choice, node))
            return
        self.remove_all(self._siblings(place))
        self.writer.do("add_header", self.header_reference(place, node))

    def remove(self, place: LoweredValue, node: syntax.SyntaxNode) -> None:
        """Make a header invalid, with all others of its union."""
        if isinstance(place, NextPlace):
            place = self.element(place)
        if isinstance(place, ChosenPlace):
            self._for_the_chosen(place, lambda choice: self.remove(choice, node))
            return
        self.writer.do("remove_header", self.header_reference(place, node))
        self.remove_all(self._siblings(place))

    def remove_all(self, names: list[str]) -> None:
        """Make headers invalid."""
        for name in names:
            self.writer.do("remove_header", ir.Reference("header", name))

    def _siblings(self, header: LoweredValue) -> list[str]:
        """Return the other members of the union that a header is in."""
        if not isinstance(header, HeaderPlace):
            return []
        return [
            name
            for union in self.writer.shared.program.unions
            if header.name in union.members
            for name in union.members
            if name != header.name
        ]

    def invalidate(self, place: Place) -> None:
        """Make the headers in a place invalid, as those of variables and ``out`` parameters
        begin."""
        match place:
            case HeaderPlace():
                self.remove_all([place.name])
            case StructPlace() | UnionPlace() | StackPlace():
                for part in inside(place):
                    self.invalidate(part)

    # Copies

    def copied(self, value: LoweredValue, kind: Type, node: syntax.SyntaxNode) -> Place:
        """Return a new place that holds a value."""
        temporary = self.writer.temporary(kind)
        self.assign(temporary, value, node)
        return temporary

    def saved(
        self, value: LoweredValue, node: syntax.SyntaxNode, kind: Type = VOID
    ) -> LoweredValue:
        """Return a copy of a value (of type `kind`) that later assignments do not change."""
        match value:
            case Composite():
                types = member_types(value.type, len(value.members))
                members = {
                    name: self.saved(item, node, types.get(name, VOID))
                    for name, item in value.members.items()
                }
                return Composite(value.type, members, value.valid)
            case ir.LoweredExpression():
                if isinstance(value, _UNCHANGING) or not reads(value):
                    return value
                self.writer.fail_if(
                    scalar_width(kind) is None,
                    node,
                    "not supported: this value overlaps what is assigned to",
                )
                return self.copied(value, kind, node)
            case ChosenPlace() if not self.is_number(value.type):
                temporary = self.writer.temporary(value.type)
                self._for_the_chosen(value, lambda choice: self.assign(temporary, choice, node))
                return temporary
        if isinstance(value, PLACES):
            return self.copied(value, getattr(value, "type", VOID), node)
        return value

    def kept(self, value: LoweredValue, node: syntax.Expression) -> LoweredValue:
        """Return a value of an expression, in a place of its own unless it cannot change."""
        if isinstance(value, (*_UNCHANGING, ExternInstance, BlockInstance)):
            return value
        if isinstance(value, Composite) and isinstance(resolved(value.type), ListType):
            return self.saved(value, node)
        return self.copied(value, type_of(node), node)

    def frozen(self, place: Place) -> Place:
        """Return the same place with its index saved, so that the variables in it may change."""
        match place:
            case MovingSlicePlace():
                return replace(
                    place, base=self.frozen(place.base), index=self.frozen_index(place.index)
                )
            case SlicePlace():
                return replace(place, base=self.frozen(place.base))
            case ElementPlace() | OffsetPlace() | ChosenPlace() if place.index is not None:
                return replace(place, index=self.frozen_index(place.index))
        return place

    def frozen_index(self, index: ir.LoweredExpression) -> ir.LoweredExpression:
        """Return an index that stays as it is now, in a field of its own unless it is a
        constant."""
        if isinstance(index, (ir.Number, ir.ActionParameter)):
            return index
        field = self.writer.temporary_field(BitType(32), "index").field
        self.writer.do("assign", field, index)
        return field


def _element(stack: StackPlace, index: ir.LoweredExpression) -> ir.LoweredExpression:
    return ir.OperatorCall(
        "dereference_header_stack", ir.Reference("header_stack", stack.name), index
    )


def stack_kind(stack: StackPlace) -> str:
    """Return what BMv2 calls a stack of headers or of unions."""
    return "header_stack" if is_header(resolved(stack.type.element)) else "header_union_stack"
