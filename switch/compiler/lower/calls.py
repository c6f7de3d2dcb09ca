"""Lowering of calls: functions and actions in line, methods of headers and stacks, externs.

Copy-in and copy-out follow the specification, section "Calling convention": an argument is copied
unless it makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.check.calls import Target
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.externs import NOTHING, ExternLowering
from weft.switch.compiler.lower.expressions import PLACES, member_types, parts
from weft.switch.compiler.shared import Shared
from weft.switch.compiler.storage import (
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
)
from weft.switch.compiler.types import (
    VOID,
    BitType,
    ListType,
    Type,
    VarbitType,
    base_type,
    is_header,
    resolved,
    scalar_width,
)
from weft.switch.compiler.values import BlockInstance, Composite, Environment, ExternInstance, Value


@dataclass
class _CopyOut:
    place: Place
    value: Place
    node: syntax.Node


def reads(value: Value) -> set[str]:
    """The header instances and fields that a value is computed from."""
    if isinstance(value, PLACES):
        found = atoms(value)
        index = getattr(value, "index", None)
        return found | reads(index) if isinstance(index, ir.Expression) else found
    if isinstance(value, Composite):
        return (
            set().union(*(reads(item) for item in value.members.values()))
            if value.members
            else set()
        )
    if isinstance(value, ir.Field):
        place = FieldPlace(value.header, value.name, VOID)
        return atoms(place)
    if isinstance(value, ir.Operation):
        left = reads(value.left) if value.left is not None else set()
        return left | reads(value.right)
    if isinstance(value, ir.Choice):
        return reads(value.condition) | reads(value.then) | reads(value.otherwise)
    if isinstance(value, (ir.LastField, ir.LastUnionField)):
        return {f"{value.stack}[]"}
    if isinstance(value, ir.ElementField):
        return reads(value.header)
    if isinstance(value, ir.Reference):
        return {value.name, f"{value.name}[]"}
    return set()


def stack_kind(stack: StackPlace) -> str:
    """What BMv2 calls a stack of headers or of unions."""
    return "header_stack" if is_header(resolved(stack.type.element)) else "header_union_stack"


MOST_CALLS = 1 << 14
"""Of actions, functions, controls and parsers, each of which becomes the callee's code."""


class CallLowering(ExternLowering):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.returning: list[tuple[int, Place | None]] = []
        self.pending: list[_CopyOut] = []

    # Assignment

    def assign(self, place: Place, value: Value, node: syntax.Node) -> None:
        """Store a value of any type."""
        if (
            isinstance(place, (StructPlace, HeaderPlace, ElementPlace, StackPlace))
            and isinstance(value, Composite)
            and value.valid
        ) and atoms(place) & reads(value):
            value = self.saved(value, node)
        if isinstance(place, StructPlace):
            if isinstance(value, ChosenPlace):
                value = self.saved(value, node)
            assert isinstance(value, (StructPlace, Composite))
            for name, member in place.members.items():
                self.assign(member, value.members[name], node)
        elif isinstance(place, (HeaderPlace, ElementPlace, NextPlace)):
            self._assign_header(place, value, node)
        elif isinstance(place, UnionPlace):
            self._assign_union(place, value, node)
        elif isinstance(place, ChosenPlace):
            self._assign_chosen(place, value, node)
        elif isinstance(place, StackPlace) and isinstance(value, Composite):
            for element, item in zip(place.elements, parts(value), strict=True):
                self.assign(element, item, node)
        elif isinstance(place, StackPlace):
            if not isinstance(value, StackPlace):
                raise self.fail(node, "not supported: this value for a header stack")
            kind = stack_kind(place)
            operation = "assign_header_stack" if kind == "header_stack" else "assign_union_stack"
            self.do(operation, ir.Reference(kind, place.name), ir.Reference(kind, value.name))
        elif isinstance(place, (SlicePlace, MovingSlicePlace)):
            self._assign_slice(place, value, node)
        else:
            self._assign_scalar(place, value, node)

    def _assign_scalar(
        self, place: FieldPlace | OffsetPlace, value: Value, node: syntax.Node
    ) -> None:
        source = arithmetic.number(self.expression_of(value, node))
        if isinstance(place, FieldPlace):
            target: ir.Expression = ir.Field(place.header, place.name)
        else:
            target = self.offset_field(place, node)
        if isinstance(base_type(place.type), VarbitType):
            self.do("assign_VL", target, source)
        elif source != target:
            self.do("assign", target, source)

    def _assign_chosen(self, place: ChosenPlace, value: Value, node: syntax.Node) -> None:
        """To an element of an array: to the one whose number is the index."""
        value = self.saved(value, node, place.type)
        index = self.frozen_index(place.index)
        for number, choice in enumerate(place.choices):
            code = self.captured(lambda choice=choice: self.assign(choice, value, node))  # type: ignore[misc]
            chosen = ir.Operation("==", index, ir.Number(number))
            self.code.append(ir.Branch(chosen, code, [], self.span))

    def _assign_slice(
        self, place: SlicePlace | MovingSlicePlace, value: Value, node: syntax.Node
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
        self, place: HeaderPlace | ElementPlace | NextPlace, value: Value, node: syntax.Node
    ) -> None:
        target = self.header_reference(place, node)
        if isinstance(value, Composite):
            if not value.valid:
                self.do("remove_header", target)
                return
            if isinstance(place, NextPlace):
                raise self.fail(node, "not supported: a list as the value of 'next'")
            self.do("add_header", target)
            for name, member in self.header_members(place).items():
                self.assign(member, value.members[name], node)
            return
        source = self.header_reference(value, node)
        if source != target:
            self.do("assign_header", target, source)

    def _assign_union(self, place: UnionPlace, value: Value, node: syntax.Node) -> None:
        if isinstance(value, UnionPlace):
            operands = [ir.Reference("header_union", item.name) for item in (place, value)]
            self.do("assign_union", *operands)
            return
        if isinstance(value, Composite) and not value.valid:
            for member in place.members.values():
                self.do("remove_header", ir.Reference("header", member.name))
            return
        raise self.fail(node, "not supported: this value for a header union")

    def saved(self, value: Value, node: syntax.Node, kind: Type = VOID) -> Value:
        """A copy of a value (of type `kind`) that later assignments do not change."""
        if isinstance(value, Composite):
            types = member_types(value.type)
            members = {
                name: self.saved(item, node, types.get(name, VOID))
                for name, item in value.members.items()
            }
            return Composite(value.type, members, value.valid)
        if isinstance(value, (ir.Number, ir.Truth, ir.Text, ir.ActionParameter)):
            return value
        if isinstance(value, ir.Expression):
            if not reads(value):
                return value
            if scalar_width(kind) is None:
                raise self.fail(node, "not supported: this value overlaps what is assigned to")
            copy = self.temporary(kind)
            self.assign(copy, value, node)
            return copy
        if isinstance(value, ChosenPlace) and scalar_width(value.type) is None:
            return self._saved_choice(value, node)
        if isinstance(value, PLACES):
            kind = getattr(value, "type", VOID)
            temporary = self.temporary(kind)
            self.assign(temporary, value, node)
            return temporary
        return value

    def _saved_choice(self, value: ChosenPlace, node: syntax.Node) -> Value:
        temporary = self.temporary(value.type)
        index = self.frozen_index(value.index)
        for number, choice in enumerate(value.choices):
            code = self.captured(lambda choice=choice: self.assign(temporary, choice, node))  # type: ignore[misc]
            chosen = ir.Operation("==", index, ir.Number(number))
            self.code.append(ir.Branch(chosen, code, [], self.span))
        return temporary

    def copied(self, node: syntax.Expression, env: Environment) -> Value:
        """The value of an argument, in a place of its own unless it cannot change."""
        return self.kept(self.value(node, env), node)

    def kept(self, value: Value, node: syntax.Expression) -> Value:
        """A value of an expression, in a place of its own unless it cannot change."""
        if isinstance(value, (ir.Number, ir.Truth, ir.Text, ExternInstance, BlockInstance)):
            return value
        if isinstance(value, ir.ActionParameter):
            return value
        if isinstance(value, Composite) and isinstance(resolved(value.type), ListType):
            element = resolved(value.type).element  # type: ignore[attr-defined]
            members = {
                name: self.saved(item, node, element) for name, item in value.members.items()
            }
            return Composite(value.type, members)
        temporary = self.temporary(type_of(node))
        self.assign(temporary, value, node)
        return temporary

    def frozen(self, place: Place, node: syntax.Expression) -> Place:
        """The same place, whatever becomes of the variables in its index."""
        if isinstance(place, (ElementPlace, OffsetPlace)) and place.index is not None:
            index = self.frozen_index(place.index)
            return replace(place, index=index)
        if isinstance(place, ChosenPlace):
            return replace(place, index=self.frozen_index(place.index))
        if isinstance(place, MovingSlicePlace):
            base = self.frozen(place.base, node)
            return replace(place, base=base, index=self.frozen_index(place.index))
        if isinstance(place, SlicePlace):
            return replace(place, base=self.frozen(place.base, node))
        return place

    def frozen_index(self, index: ir.Expression) -> ir.Expression:
        if isinstance(index, (ir.Number, ir.ActionParameter)):
            return index
        temporary = self.temporary(BitType(32), "index")
        assert isinstance(temporary, FieldPlace)
        field = ir.Field(temporary.header, temporary.name)
        self.do("assign", field, index)
        return field

    # Arguments

    def bind(
        self, target: Target, caller: Environment, callee: Environment, isolated: bool
    ) -> list[_CopyOut]:
        """Bind a callee's parameters; what to copy out afterwards.

        A callee that is `isolated` may see its arguments under other names too (an action does), so
        all of them are copied.
        """
        copies: list[_CopyOut] = []
        written: set[str] = set()
        acting = [item for item in target.arguments if item and self.shared.effects.of(item)]
        isolated = isolated or bool(acting)
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if argument is None or parameter.direction not in ("out", "inout") or acting:
                continue
            value = self.value(argument, caller)
            if isinstance(value, PLACES):
                written |= atoms(value)
        outs: set[str] = set()
        for parameter, argument, kind in zip(
            target.parameters, target.arguments, target.parameter_types, strict=True
        ):
            if parameter.direction not in ("out", "inout"):
                if argument is None:
                    continue
                source = caller if argument is not parameter.default else self.shared.globals
                value = self.value(argument, source)
                stable = isinstance(
                    value, (ExternInstance, BlockInstance, ir.Number, ir.Truth, ir.Text)
                )
                if not stable and (
                    isolated or reads(value) & written or not isinstance(value, PLACES)
                ):
                    value = self.kept(value, argument)
                callee.bind(parameter, value)
                continue
            if argument is None:
                callee.bind(parameter, self.temporary(kind, parameter.name))
                continue
            place = self.place(argument, caller)
            direct = isinstance(
                place, (FieldPlace, HeaderPlace, StackPlace, UnionPlace, StructPlace)
            )
            if direct and not isolated and not atoms(place) & outs:
                outs |= atoms(place)
                callee.bind(parameter, place)
                if parameter.direction == "out":
                    self.invalidate(place)
                continue
            outs |= atoms(place)
            place = self.frozen(place, argument)
            temporary = self.temporary(kind, parameter.name)
            if parameter.direction == "inout":
                self.assign(temporary, place, argument)
            else:
                self.invalidate(temporary)
            callee.bind(parameter, temporary)
            copies.append(_CopyOut(place, temporary, argument))
        return copies

    def invalidate(self, place: Place) -> None:
        """Headers begin invalid, as ``out`` parameters and as variables."""
        if isinstance(place, HeaderPlace):
            self.do("remove_header", ir.Reference("header", place.name))
        elif isinstance(place, (StructPlace, UnionPlace)):
            for member in place.members.values():
                self.invalidate(member)
        elif isinstance(place, StackPlace):
            for element in place.elements:
                self.invalidate(element)

    # Calls

    def _call(self, node: syntax.Call, env: Environment) -> Value:
        target: Target = node.target
        if target.kind == "function":
            return self._function(node, target, env)
        if target.kind == "builtin":
            return self._builtin(node, target, env)
        if target.kind in ("extern_method", "extern_function"):
            return self._extern_call(node, target, env)
        raise self.fail(
            node, f"not supported: a call of {target.kind} '{target.name}' in an expression"
        )

    def _extern_call(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        """A call of an extern; where an argument acts, all are evaluated in order first."""
        first: list[syntax.Expression] = []
        if any(item is not None and self.shared.effects.of(item) for item in target.arguments):
            first = [item for item in target.arguments if item is not None]
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if argument is None or argument not in first:
                continue
            if parameter.direction in ("out", "inout"):
                value: Value = self.frozen(self.place(argument, env), argument)
            else:
                value = self.kept(self.value(argument, env), argument)
            self.evaluated[id(argument)] = value
        method = self.extern_method if target.kind == "extern_method" else self.extern_function
        result = method(node, target, env)
        for argument in first:
            self.evaluated.pop(id(argument), None)
        return result

    def call_statement(self, node: syntax.Call, env: Environment) -> None:
        """A call whose result, if any, is not used."""
        target: Target = node.target
        if target.kind == "action":
            self._action(node, target, env)
        elif target.kind == "table":
            self.apply_table(node, env)
        elif target.kind == "control":
            self.apply_control(node, target, env)
        elif target.kind == "parser":
            self.apply_parser(node, target, env)
        else:
            self._call(node, env)

    def in_line(self, body: list[syntax.Node], env: Environment, copies: list[_CopyOut]) -> None:
        """The statements of a callee, which ``return`` leaves; then what is to be copied out."""
        self.shared.calls += 1
        if self.shared.calls > MOST_CALLS and body:
            raise self.fail(
                body[0],
                f"more than {MOST_CALLS} calls become code of their own: does each action, "
                "function or control call another more than once?",
            )
        label = self.shared.label()
        self.returning.append((label, self.returning_place))
        self.pending += copies
        code = self.captured(lambda: self.statements(body, env))
        self.returning.pop()
        for copy in copies:
            self.pending.remove(copy)
        self.code.append(ir.Labelled(label, code))
        for copy in copies:
            self.assign(copy.place, copy.value, copy.node)

    returning_place: Place | None = None

    def _function(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        declaration = target.declaration
        assert isinstance(declaration, syntax.Function)
        callee = Environment(self.shared.globals)
        result: Place | None = None
        if target.returns != VOID:
            result = self.temporary(target.returns, f"{declaration.name}_result")
        copies = self.bind(target, env, callee, isolated=False)
        before, self.returning_place = self.returning_place, result
        self.in_line(declaration.body.statements, callee, copies)
        self.returning_place = before
        return result if result is not None else ir.Number(0)

    def _action(self, node: syntax.Call, target: Target, env: Environment) -> None:
        declaration = target.declaration
        assert isinstance(declaration, syntax.Action)
        is_global = self.shared.is_global(declaration)
        owner = self.shared.globals if is_global else env.owner()
        if self.context == "control":
            self.note_called(declaration, env.owner())
        callee = Environment(owner, owner.path)
        copies = self.bind(target, env, callee, isolated=True)
        before, self.context = self.context, "action"
        self.in_line(declaration.body.statements, callee, copies)
        self.context = before

    def _builtin(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        if target.base is None:  # a type's size, which nothing is done with
            return NOTHING
        base = self.value(target.base, env)
        name = target.name
        if name == "isValid":
            if isinstance(base, HeaderPlace):
                return arithmetic.truth(ir.Field(base.name, "$valid$"))
            if isinstance(base, UnionPlace):
                return ir.Operation("valid_union", None, ir.Reference("header_union", base.name))
            if isinstance(base, NextPlace):
                raise self.fail(node, "not supported: isValid() of 'next' or 'last'")
            if isinstance(base, Composite):
                return ir.Truth(base.valid)
            return ir.Operation("valid", None, self.header_reference(base, node))
        if name in ("setValid", "setInvalid"):
            if name == "setValid" and isinstance(base, HeaderPlace):
                self._invalidate_siblings(base)
            operation = "add_header" if name == "setValid" else "remove_header"
            self.do(operation, self.header_reference(base, node))
            return ir.Number(0)
        if isinstance(base, StackPlace):
            count = target.arguments[0]
            assert count is not None and isinstance(count.constant, int)
            operation = "push" if name == "push_front" else "pop"
            reference = ir.Reference(stack_kind(base), base.name)
            self.do(operation, reference, ir.Number(count.constant))
            return ir.Number(0)
        raise self.fail(node, f"not supported: {name}() here")

    def _invalidate_siblings(self, header: HeaderPlace) -> None:
        """Of a header union at most one member is valid."""
        for union in self.shared.program.unions:
            if header.name in union.members:
                for other in union.members:
                    if other != header.name:
                        self.do("remove_header", ir.Reference("header", other))

    def leave(self, node: syntax.Return, env: Environment) -> None:
        """``return``."""
        label, result = self.returning[-1]
        if node.value is not None and result is not None:
            self.assign(result, self.value(node.value, env), node)
        self.code.append(ir.Leave(label))

    def stop(self, node: syntax.Exit) -> None:
        """``exit``: what is to be copied out is, from the innermost call outwards."""
        for copy in reversed(self.pending):
            self.assign(copy.place, copy.value, copy.node)
        self.code.append(ir.Stop(node.span))

    # Provided by the classes that build on this one

    def statements(self, nodes: list[syntax.Node], env: Environment) -> None:
        raise NotImplementedError

    def note_called(self, declaration: syntax.Action, owner: Environment) -> None:
        raise NotImplementedError

    def apply_table(self, node: syntax.Call, env: Environment) -> None:
        raise self.fail(node, "a table cannot be applied here")

    def apply_control(self, node: syntax.Call, target: Target, env: Environment) -> None:
        raise self.fail(node, "a control cannot be applied here")

    def apply_parser(self, node: syntax.Call, target: Target, env: Environment) -> None:
        raise self.fail(node, "a parser cannot be applied here")
