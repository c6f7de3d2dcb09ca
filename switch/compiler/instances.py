"""Instances of externs, parsers and controls, made at compile time.

Specification, section "Compile-time Evaluation".
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import local_name
from weft.switch.compiler.check.calls import Target
from weft.switch.compiler.lower.statements import StatementLowering
from weft.switch.compiler.types import (
    BitType,
    EnumType,
    ExternType,
    IntType,
    StructType,
    Type,
    base_type,
    resolved,
)
from weft.switch.compiler.values import (
    BlockInstance,
    Environment,
    ExternInstance,
    Value,
    ValueSetInstance,
    full_name,
)

MAXIMUM_SIZE = 1 << 31


class InstanceLowering(StatementLowering):
    """Makes instances; an instance is made once for each instance of the block that it is in."""

    def instantiate(self, node: syntax.Instantiation, env: Environment) -> None:
        assert node.call is not None
        before, self.span = self.span, node.span
        name = full_name(env.path, node)
        env.bind(node, self.construct(node.call, name, node, env))
        self.span = before

    def construct(
        self,
        call: syntax.Call,
        name: str,
        declaration: syntax.Instantiation | None,
        env: Environment,
        annotations: Sequence[syntax.Annotation] = (),
    ) -> Value:
        """The instance that a constructor call makes.

        Without a declaration, its annotations are those given.
        """
        target: Target = call.target
        block = target.declaration
        if isinstance(block, (syntax.Parser, syntax.Control)):
            inner = Environment(
                self.shared.globals, name, order=self.shared.order(declaration, env)
            )
            for parameter, argument in zip(target.parameters, target.arguments, strict=True):
                if argument is None:
                    continue
                inner.bind(parameter, self._constructor_argument(argument, name, parameter, env))
            instance = BlockInstance(block, name, inner)
            self.declare_locals(instance)
            return instance
        kind = call.type
        assert isinstance(kind, ExternType)
        if declaration is not None:
            annotations = declaration.annotations
        return self._extern(kind, target, name, (declaration, list(annotations)), env, call)

    def _constructor_argument(
        self, argument: syntax.Expression, name: str, parameter: syntax.Parameter, env: Environment
    ) -> Value:
        if isinstance(argument, syntax.Call) and argument.target.kind == "constructor":
            return self.construct(argument, full_name(name, parameter), None, env)
        return self.value(argument, env)

    def declare_locals(self, instance: BlockInstance) -> None:
        """Make what a parser or control declares: its instances and value sets."""
        env = instance.environment
        for item in instance.declaration.locals:
            if isinstance(item, syntax.Instantiation):
                self.instantiate(item, env)
            elif isinstance(item, syntax.ValueSet):
                env.bind(item, self._value_set(item, env))

    def _value_set(self, node: syntax.ValueSet, env: Environment) -> ValueSetInstance:
        element: Type = node.type.element  # type: ignore[union-attr]
        bare = resolved(element)
        if isinstance(bare, StructType):
            fields = [
                (local_name(item), bare.fields[item.name], item.annotations)
                for item in bare.declaration.fields
            ]
        else:
            fields = [("", element, [])]
        size = node.size.constant
        assert isinstance(size, int)
        model = ir.ValueSet(full_name(env.path, node), node.annotations, node.span, size, fields)
        model.order = self.shared.order(node, env)
        self.shared.program.value_sets.append(model)
        return ValueSetInstance(model)

    def _size(self, target: Target, env: Environment, least: int = 1) -> int:
        node = self.argument(target, "size")
        size = self.known_number(node, env, "the size")
        if not least <= size < MAXIMUM_SIZE:
            raise self.fail(node, f"the size must be {least} to {MAXIMUM_SIZE - 1}, not {size}")
        return size

    def _extern(
        self, kind: ExternType, target: Target, name: str,
        declared: tuple[syntax.Instantiation | None, list[syntax.Annotation]], env: Environment,
        node: syntax.Node,
    ) -> ExternInstance:  # fmt: skip
        program = self.shared.program
        declaration, annotations = declared
        common = (name, annotations, node.span)
        model: ir.Object
        if kind.name in ("counter", "direct_counter"):
            unit = self.enum_member(self.argument(target, "type"), env)
            size = self._size(target, env, 0) if kind.name == "counter" else 0
            model = ir.Counter(*common, size, unit, kind.name == "direct_counter")
            program.counters.append(model)
        elif kind.name in ("meter", "direct_meter"):
            unit = self.enum_member(self.argument(target, "type"), env)
            size = self._size(target, env, 0) if kind.name == "meter" else 0
            model = ir.Meter(*common, size, unit, kind.name == "direct_meter")
            program.meters.append(model)
        elif kind.name == "register":
            model = ir.Register(*common, self._size(target, env), kind.arguments[0])
            if not isinstance(base_type(kind.arguments[0]), (BitType, IntType, EnumType)):
                message = (
                    f"not supported: a register of {kind.arguments[0]}; it holds bit<N>, int<N> or "
                    "an enum (BMv2)"
                )
                raise self.fail(node, message)
            program.registers.append(model)
        elif kind.name in ("action_profile", "action_selector"):
            algorithm = None
            if kind.name == "action_selector":
                algorithm = self.enum_member(self.argument(target, "algorithm"), env)
            model = ir.ActionProfile(*common, self._size(target, env), algorithm)
            program.profiles.append(model)
        else:
            raise self.fail(node, f"not supported: instances of extern '{kind.name}'")
        model.order = self.shared.order(declaration, env)
        return ExternInstance(kind.name, name, model)
