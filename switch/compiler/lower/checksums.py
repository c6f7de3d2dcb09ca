"""Lowering of the checksum controls and the deparser of V1Switch.

BMv2 keeps both as lists, so these controls may hold little but calls of the externs for them
(behavioral-model, docs/simple_switch.md, "Restrictions on code"). A variable in them stands for
what it was last set to.
"""

from __future__ import annotations

from collections.abc import Iterator

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.check.calls import Target
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.lower.controls import ControlLowering
from weft.switch.compiler.shared import Shared
from weft.switch.compiler.storage import (
    FieldPlace,
    HeaderPlace,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
)
from weft.switch.compiler.values import BlockInstance, Composite, Environment, Value, applied

_CHECKSUMS = {
    "verify_checksum": ("verify", False),
    "verify_checksum_with_payload": ("verify", True),
    "update_checksum": ("update", False),
    "update_checksum_with_payload": ("update", True),
}
_IN_DEPARSER = ("log_msg", "assert", "assume", "truncate")


def _mentions(value: Value, field: FieldPlace) -> bool:
    """Whether a value is computed from a field."""
    if isinstance(value, FieldPlace):
        return (value.header, value.name) == (field.header, field.name)
    if isinstance(value, ir.Field):
        return (value.header, value.name) == (field.header, field.name)
    if isinstance(value, HeaderPlace):
        return value.name == field.header
    if isinstance(value, (StructPlace, UnionPlace, Composite)):
        return any(_mentions(item, field) for item in value.members.values())
    if isinstance(value, ir.Operation):
        parts = [value.right] if value.left is None else [value.left, value.right]
        return any(_mentions(item, field) for item in parts)
    if isinstance(value, ir.Choice):
        parts = [value.condition, value.then, value.otherwise]
        return any(_mentions(item, field) for item in parts)
    return not isinstance(value, (ir.Number, ir.Truth, ir.Text))


class ListLowering(ControlLowering):
    """Controls that are lists of calls."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.variables_set: list[tuple[syntax.Node, Environment]] = []

    def calls(
        self, instance: BlockInstance, env: Environment, what: str
    ) -> Iterator[tuple[syntax.Call, Environment]]:
        """The calls in a control, those of controls that it applies included."""
        control = instance.declaration
        assert isinstance(control, syntax.Control)
        yield from self._calls_of(control.body.statements, env, what)

    def _calls_of(
        self, nodes: list[syntax.Node], env: Environment, what: str
    ) -> Iterator[tuple[syntax.Call, Environment]]:
        for node in nodes:
            if isinstance(node, syntax.Block):
                yield from self._calls_of(node.statements, env, what)
            elif isinstance(node, (syntax.Empty, syntax.Constant)):
                continue
            elif isinstance(node, syntax.Variable):
                self._set_variable(node, node.initializer, env)
            elif isinstance(node, syntax.Assignment) and self._is_variable(node):
                assert isinstance(node.target, syntax.Name)
                assert node.target.declaration is not None
                self._set_variable(node.target.declaration, node.value, env)
            elif isinstance(node, syntax.If) and node.condition.constant is not None:
                chosen = node.then if node.condition.constant else node.otherwise
                yield from self._calls_of([] if chosen is None else [chosen], env, what)
            elif isinstance(node, syntax.CallStatement):
                target: Target = node.call.target
                if target.kind != "control":
                    yield node.call, env
                    continue
                inner = self.block_instance(node.call, target, env)
                callee = applied(inner)
                self.bind(target, env, callee, isolated=False)
                yield from self.calls(inner, callee, what)
            else:
                kind = type(node).__name__.lower()
                message = f"not supported: {kind} in {what}, which may only hold calls (BMv2)"
                self.reporter.error(node.span, message)

    def _is_variable(self, node: syntax.Assignment) -> bool:
        target = node.target
        return (
            node.operator == "="
            and isinstance(target, syntax.Name)
            and isinstance(target.declaration, syntax.Variable)
        )

    def _set_variable(
        self, node: syntax.Node, value: syntax.Expression | None, env: Environment
    ) -> None:
        if value is None:
            return
        position = len(self.code)
        env.bind(node, self.value(value, env))
        if len(self.code) > position:
            raise self.fail(value, "not supported: this value in a control that is a list (BMv2)")
        self.variables_set.append((node, env))

    def _check_variables(self, place: FieldPlace, node: syntax.Node) -> None:
        """Refuse to change a field that a variable stands for."""
        for declaration, env in self.variables_set:
            value = env.find(declaration)
            if value is not None and _mentions(value, place):
                name = getattr(declaration, "name", "")
                message = f"not supported: this changes what variable '{name}' was set to (BMv2)"
                self.reporter.error(node.span, message)

    def environment(self, instance: BlockInstance, arguments: list[object]) -> Environment:
        env = applied(instance)
        control = instance.declaration
        for parameter, argument in zip(control.parameters, arguments, strict=True):
            env.bind(parameter, argument)  # type: ignore[arg-type]
        for item in control.locals:
            if isinstance(item, syntax.Table):
                self.reporter.error(item.span, "not supported: tables in this control (BMv2)")
            elif isinstance(item, syntax.Variable):
                self._set_variable(item, item.initializer, env)
        return env

    # Checksums

    def checksums(self, instance: BlockInstance, arguments: list[object], kind: str) -> None:
        """The calls of verify_checksum or update_checksum; `kind` is verify or update."""
        env = self.environment(instance, arguments)
        what = "VerifyChecksum" if kind == "verify" else "ComputeChecksum"
        for call, scope in self.calls(instance, env, what):
            target: Target = call.target
            found = _CHECKSUMS.get(target.name)
            if found is None or found[0] != kind:
                message = f"not supported: '{target.name}' in {what}, which takes {kind}_checksum"
                self.reporter.error(call.span, message)
                continue
            self._checksum_call(call, target, scope, kind, found[1])

    def _checksum_call(
        self, call: syntax.Call, target: Target, env: Environment, kind: str, payload: bool
    ) -> None:
        self.shared.program.calls_extern_functions = True
        position = len(self.code)
        condition = self.truth(self.argument(target, "condition"), env)
        data = self.argument(target, "data")
        items = self.flat(self.value(data, env), type_of(data), data)
        checksum = self.argument(target, "checksum")
        place = self.value(checksum, env)
        if not isinstance(place, FieldPlace):
            raise self.fail(checksum, "the checksum must be a field of a header or of metadata")
        if kind == "update":
            self._check_variables(place, call)
        simple = all(isinstance(item, (ir.Field, ir.Number)) for item, _ in items)
        if not simple or len(self.code) > position:
            raise self.fail(
                data, "not supported: anything but fields and constants in a checksum (BMv2)"
            )
        algorithm = self.enum_member(self.argument(target, "algo"), env)
        name = self.calculation(algorithm, items, payload, call)
        number = len(self.shared.program.checksums)
        checksum_name = "cksum" if not number else f"cksum_{number - 1}"
        field = ir.Field(place.header, place.name)
        self.shared.program.checksums.append(
            ir.Checksum(
                checksum_name, field, name, arithmetic.truth(condition), kind == "verify",
                kind == "update", call.span,
            )
        )  # fmt: skip

    # Deparser

    def deparser(self, instance: BlockInstance, arguments: list[object]) -> None:
        position = len(self.code)
        env = self.environment(instance, arguments)
        for call, scope in self.calls(instance, env, "the deparser"):
            if call.target.name in _IN_DEPARSER and call.target.kind == "extern_function":
                self.span = call.span
                self.extern_function(call, call.target, scope)
                continue
            if call.target.name != "emit":
                message = (
                    f"not supported: '{call.target.name}' in the deparser, which may only emit, "
                    f"and call {', '.join(_IN_DEPARSER)} (BMv2)"
                )
                self.reporter.error(call.span, message)
                continue
            argument = self.argument(call.target, "hdr")
            self.shared.program.deparser += self._emitted(self.value(argument, scope), argument)
        for item in self.code[position:]:
            if not isinstance(item, ir.Do) or item.operation not in _IN_DEPARSER:
                span = getattr(item, "span", instance.declaration.span)
                message = "not supported: a computation in the deparser (BMv2)"
                self.reporter.error(span, message)
                continue
            self.shared.program.deparser_code.append(item)
        del self.code[position:]

    def _emitted(self, value: Value | Place, node: syntax.Node) -> list[str]:
        if isinstance(value, HeaderPlace):
            return [value.name]
        if isinstance(value, (StructPlace, UnionPlace)):
            return [name for item in value.members.values() for name in self._emitted(item, node)]
        if isinstance(value, StackPlace):
            return [name for item in value.elements for name in self._emitted(item, node)]
        raise self.fail(node, "only headers, stacks, unions and structs of them can be emitted")
