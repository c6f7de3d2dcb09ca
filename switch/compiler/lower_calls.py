"""Lowering of calls: functions and actions in line, methods of headers and stacks, externs.

Copy-in and copy-out follow the specification, section "Calling convention": an argument is copied
unless it makes no difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from switch.compiler import arithmetic, ir, syntax
from switch.compiler.check_calls import Target
from switch.compiler.check_operations import type_of
from switch.compiler.externs import ExternLowering
from switch.compiler.lower_expressions import PLACES
from switch.compiler.shared import Shared
from switch.compiler.storage import (
    ElementPlace,
    FieldPlace,
    HeaderPlace,
    NextPlace,
    OffsetPlace,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    atoms,
)
from switch.compiler.types import VOID, VarbitType, base_type
from switch.compiler.values import BlockInstance, Composite, Environment, ExternInstance, Value


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
    if isinstance(value, ir.LastField):
        return {f"{value.stack}[]"}
    if isinstance(value, ir.ElementField):
        return reads(value.header)
    if isinstance(value, ir.Reference):
        return {value.name, f"{value.name}[]"}
    return set()


class CallLowering(ExternLowering):
    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.returning: list[tuple[int, Place | None]] = []
        self.pending: list[_CopyOut] = []

    # Assignment

    def assign(self, place: Place, value: Value, node: syntax.Node) -> None:
        """Store a value of any type."""
        if (
            isinstance(place, (StructPlace, HeaderPlace))
            and isinstance(value, Composite)
            and value.valid
        ) and atoms(place) & reads(value):
            value = self.saved(value, node)
        if isinstance(place, StructPlace):
            assert isinstance(value, (StructPlace, Composite))
            for name, member in place.members.items():
                self.assign(member, value.members[name], node)
        elif isinstance(place, (HeaderPlace, ElementPlace, NextPlace)):
            self._assign_header(place, value, node)
        elif isinstance(place, UnionPlace):
            self._assign_union(place, value, node)
        elif isinstance(place, StackPlace):
            if not isinstance(value, StackPlace):
                raise self.fail(node, "not supported: this value for a header stack")
            operation = "assign_header_stack"
            self.do(
                operation,
                ir.Reference("header_stack", place.name),
                ir.Reference("header_stack", value.name),
            )
        elif isinstance(place, SlicePlace):
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

    def _assign_slice(self, place: SlicePlace, value: Value, node: syntax.Node) -> None:
        inserted = arithmetic.number(self.expression_of(value, node))
        kind = getattr(place.base, "type", place.type)
        whole = arithmetic.insert_slice(
            self.read(place.base, node), inserted, place.high, place.low, kind
        )
        self.assign(place.base, whole, node)

    def _assign_header(
        self, place: HeaderPlace | ElementPlace | NextPlace, value: Value, node: syntax.Node
    ) -> None:
        target = self.header_reference(place, node)
        if isinstance(value, Composite):
            if not value.valid:
                self.do("remove_header", target)
                return
            if not isinstance(place, HeaderPlace):
                raise self.fail(node, "not supported: a list as the value of this header")
            self.do("add_header", target)
            for name, item in place.type.fields.items():
                self.assign(self._header_field(place.name, name, item), value.members[name], node)
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

    def saved(self, value: Value, node: syntax.Node) -> Value:
        """A copy of a value that later assignments do not change."""
        if isinstance(value, Composite):
            members = {name: self.saved(item, node) for name, item in value.members.items()}
            return Composite(value.type, members, value.valid)
        if isinstance(value, (ir.Number, ir.Truth, ir.Text, ir.ActionParameter)):
            return value
        if isinstance(value, ir.Expression):
            if not reads(value):
                return value
            raise self.fail(node, "not supported: this value overlaps what is assigned to")
        if isinstance(value, PLACES):
            kind = getattr(value, "type", VOID)
            temporary = self.temporary(kind)
            self.assign(temporary, value, node)
            return temporary
        return value

    def copied(self, node: syntax.Expression, env: Environment) -> Value:
        """The value of an argument, in a place of its own unless it cannot change."""
        value = self.value(node, env)
        if isinstance(value, (ir.Number, ir.Truth, ir.Text, ExternInstance, BlockInstance)):
            return value
        if isinstance(value, ir.ActionParameter):
            return value
        temporary = self.temporary(type_of(node))
        self.assign(temporary, value, node)
        return temporary

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
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if argument is not None and parameter.direction in ("out", "inout"):
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
                    value = self.copied(argument, source)
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
        if target.kind == "extern_method":
            return self.extern_method(node, target, env)
        if target.kind == "extern_function":
            return self.extern_function(node, target, env)
        raise self.fail(
            node, f"not supported: a call of {target.kind} '{target.name}' in an expression"
        )

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
        self.note_called(declaration, owner)
        callee = Environment(owner, owner.path)
        copies = self.bind(target, env, callee, isolated=True)
        self.in_line(declaration.body.statements, callee, copies)

    def _builtin(self, node: syntax.Call, target: Target, env: Environment) -> Value:
        assert target.base is not None
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
            self.do(operation, ir.Reference("header_stack", base.name), ir.Number(count.constant))
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
