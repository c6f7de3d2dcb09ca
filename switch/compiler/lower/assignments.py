"""Lowering of assignments, and of values that have to be kept as they are.

Copies are made where a later assignment could change what a value is computed from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.lower.places import PlaceReader
from weft.switch.compiler.lower.storage import (
    PLACES,
    ChosenPlace,
    ElementPlace,
    FieldPlace,
    HeaderPlace,
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
)
from weft.switch.compiler.lower.values import (
    BlockInstance,
    Composite,
    ExternInstance,
    Value,
    parts,
    reads,
)
from weft.switch.compiler.lower.writer import CodeWriter
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    VOID,
    BitType,
    ListType,
    Type,
    is_header,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
)

_UNCHANGING = (ir.Number, ir.Truth, ir.Text, ir.ActionParameter)


def stack_kind(stack: StackPlace) -> str:
    """What BMv2 calls a stack of headers or of unions."""
    return "header_stack" if is_header(resolved(stack.type.element)) else "header_union_stack"


@dataclass(eq=False)
class Assigner:
    """Stores values in places."""

    writer: CodeWriter
    places: PlaceReader

    def assign(self, place: Place, value: Value, node: syntax.Node) -> None:
        """Store a value of any type."""
        if (
            isinstance(place, (StructPlace, HeaderPlace, ElementPlace, StackPlace))
            and isinstance(value, Composite)
            and value.valid
        ) and atoms(place) & reads(value):
            value = self.saved(value, node)
        match place:
            case StructPlace():
                if isinstance(value, ChosenPlace):
                    value = self.saved(value, node)
                assert isinstance(value, (StructPlace, Composite))
                for name, member in place.members.items():
                    self.assign(member, value.members[name], node)
            case HeaderPlace() | ElementPlace() | NextPlace():
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
        self, place: FieldPlace | OffsetPlace, value: Value, node: syntax.Node
    ) -> None:
        source = arithmetic.number(self.places.expression_of(value, node))
        target = self.places.target(place)
        if is_varbit(place.type):
            self.writer.do("assign_VL", target, source)
        elif source != target:
            self.writer.do("assign", target, source)

    def _assign_chosen(self, place: ChosenPlace, value: Value, node: syntax.Node) -> None:
        """To an element of an array: to the one whose number is the index."""
        value = self.saved(value, node, place.type)
        self._for_the_chosen(place, lambda choice: self.assign(choice, value, node))

    def _for_the_chosen(self, place: ChosenPlace, action: Callable[[Place], None]) -> None:
        """Do something with that one of the choices whose number is the index."""
        index = self.frozen_index(place.index)
        for number, choice in enumerate(place.choices):
            code = self.writer.captured(partial(action, choice))
            chosen = ir.OperatorCall("==", index, ir.Number(number))
            self.writer.code.append(ir.Branch(chosen, code, [], self.writer.span))

    def _assign_stack(self, place: StackPlace, value: Value, node: syntax.Node) -> None:
        if isinstance(value, Composite):
            for element, item in zip(place.elements, parts(value), strict=True):
                self.assign(element, item, node)
            return
        if not isinstance(value, StackPlace):
            raise self.writer.fail(node, "not supported: this value for a header stack")
        kind = stack_kind(place)
        operation = "assign_header_stack" if kind == "header_stack" else "assign_union_stack"
        self.writer.do(operation, ir.Reference(kind, place.name), ir.Reference(kind, value.name))

    def _assign_slice(
        self, place: SlicePlace | MovingSlicePlace, value: Value, node: syntax.Node
    ) -> None:
        inserted = arithmetic.number(self.places.expression_of(value, node))
        kind = getattr(place.base, "type", place.type)
        whole = self.places.read(place.base, node)
        if isinstance(place, MovingSlicePlace):
            whole = arithmetic.insert_moving_slice(whole, inserted, place.index, place.width, kind)
        else:
            whole = arithmetic.insert_slice(whole, inserted, place.high, place.low, kind)
        self.assign(place.base, whole, node)

    def _assign_header(
        self, place: HeaderPlace | ElementPlace | NextPlace, value: Value, node: syntax.Node
    ) -> None:
        target = self.places.header_reference(place, node)
        if isinstance(value, Composite):
            if not value.valid:
                self.writer.do("remove_header", target)
                return
            if isinstance(place, NextPlace):
                raise self.writer.fail(node, "not supported: a list as the value of 'next'")
            self.writer.do("add_header", target)
            for name, member in header_members(place).items():
                self.assign(member, value.members[name], node)
            return
        source = self.places.header_reference(value, node)
        if source != target:
            self.writer.do("assign_header", target, source)

    def _assign_union(self, place: UnionPlace, value: Value, node: syntax.Node) -> None:
        match value:
            case UnionPlace():
                operands = [ir.Reference("header_union", item.name) for item in (place, value)]
                self.writer.do("assign_union", *operands)
            case Composite() if not value.valid:
                self.invalidate(place)
            case _:
                raise self.writer.fail(node, "not supported: this value for a header union")

    def invalidate(self, place: Place) -> None:
        """Headers begin invalid, as ``out`` parameters and as variables."""
        match place:
            case HeaderPlace():
                self.writer.do("remove_header", ir.Reference("header", place.name))
            case StructPlace() | UnionPlace():
                for member in place.members.values():
                    self.invalidate(member)
            case StackPlace():
                for element in place.elements:
                    self.invalidate(element)

    # Copies

    def copied(self, value: Value, kind: Type, node: syntax.Node) -> Place:
        """A value in a new place."""
        temporary = self.writer.temporary(kind)
        self.assign(temporary, value, node)
        return temporary

    def saved(self, value: Value, node: syntax.Node, kind: Type = VOID) -> Value:
        """A copy of a value (of type `kind`) that later assignments do not change."""
        match value:
            case Composite():
                types = member_types(value.type)
                members = {
                    name: self.saved(item, node, types.get(name, VOID))
                    for name, item in value.members.items()
                }
                return Composite(value.type, members, value.valid)
            case ir.Expression():
                if isinstance(value, _UNCHANGING) or not reads(value):
                    return value
                self.writer.fail_if(
                    scalar_width(kind) is None,
                    node,
                    "not supported: this value overlaps what is assigned to",
                )
                return self.copied(value, kind, node)
            case ChosenPlace() if scalar_width(value.type) is None:
                temporary = self.writer.temporary(value.type)
                self._for_the_chosen(value, lambda choice: self.assign(temporary, choice, node))
                return temporary
        if isinstance(value, PLACES):
            return self.copied(value, getattr(value, "type", VOID), node)
        return value

    def kept(self, value: Value, node: syntax.Expression) -> Value:
        """A value of an expression, in a place of its own unless it cannot change."""
        if isinstance(value, (*_UNCHANGING, ExternInstance, BlockInstance)):
            return value
        bare = resolved(value.type) if isinstance(value, Composite) else None
        if isinstance(value, Composite) and isinstance(bare, ListType):
            members = {
                name: self.saved(item, node, bare.element) for name, item in value.members.items()
            }
            return Composite(value.type, members)
        return self.copied(value, type_of(node), node)

    def frozen(self, place: Place) -> Place:
        """The same place, whatever becomes of the variables in its index."""
        match place:
            case MovingSlicePlace():
                base = self.frozen(place.base)
                return replace(place, base=base, index=self.frozen_index(place.index))
            case SlicePlace():
                return replace(place, base=self.frozen(place.base))
            case ElementPlace() | OffsetPlace() | ChosenPlace() if place.index is not None:
                return replace(place, index=self.frozen_index(place.index))
        return place

    def frozen_index(self, index: ir.Expression) -> ir.Expression:
        if isinstance(index, (ir.Number, ir.ActionParameter)):
            return index
        field = self.writer.temporary_field(BitType(32), "index").field
        self.writer.do("assign", field, index)
        return field
