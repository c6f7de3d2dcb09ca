"""Lowering of the checksum controls and the deparser of V1Switch.

BMv2 keeps both as lists, so these controls may hold nothing but calls of the externs for them
(behavioral-model, docs/simple_switch.md, "Restrictions on code").
"""

from __future__ import annotations

from collections.abc import Iterator

from switch.compiler import arithmetic, ir, syntax
from switch.compiler.check_calls import Target
from switch.compiler.check_operations import type_of
from switch.compiler.lower_controls import ControlLowering
from switch.compiler.storage import (
    FieldPlace,
    HeaderPlace,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
)
from switch.compiler.values import BlockInstance, Environment, Value, applied

_CHECKSUMS = {
    "verify_checksum": ("verify", False),
    "verify_checksum_with_payload": ("verify", True),
    "update_checksum": ("update", False),
    "update_checksum_with_payload": ("update", True),
}


class ListLowering(ControlLowering):
    """Controls that are lists of calls."""

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

    def environment(self, instance: BlockInstance, arguments: list[object]) -> Environment:
        env = applied(instance)
        control = instance.declaration
        for parameter, argument in zip(control.parameters, arguments, strict=True):
            env.bind(parameter, argument)  # type: ignore[arg-type]
        for item in control.locals:
            if isinstance(item, (syntax.Variable, syntax.Table)):
                kind = "tables" if isinstance(item, syntax.Table) else "variables"
                self.reporter.error(item.span, f"not supported: {kind} in this control (BMv2)")
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
        position = len(self.code)
        condition = self.truth(self.argument(target, "condition"), env)
        data = self.argument(target, "data")
        items = self.flat(self.value(data, env), type_of(data), data)
        checksum = self.argument(target, "checksum")
        place = self.value(checksum, env)
        if not isinstance(place, FieldPlace):
            raise self.fail(checksum, "the checksum must be a field of a header or of metadata")
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
        env = self.environment(instance, arguments)
        for call, scope in self.calls(instance, env, "the deparser"):
            if call.target.name != "emit":
                message = (
                    f"not supported: '{call.target.name}' in the deparser, which may only emit"
                )
                self.reporter.error(call.span, message)
                continue
            argument = self.argument(call.target, "hdr")
            self.shared.program.deparser += self._emitted(self.value(argument, scope), argument)

    def _emitted(self, value: Value | Place, node: syntax.Node) -> list[str]:
        if isinstance(value, HeaderPlace):
            return [value.name]
        if isinstance(value, (StructPlace, UnionPlace)):
            return [name for item in value.members.values() for name in self._emitted(item, node)]
        if isinstance(value, StackPlace):
            return [name for item in value.elements for name in self._emitted(item, node)]
        raise self.fail(node, "only headers, stacks, unions and structs of them can be emitted")
