"""Lowering of controls: those that a control applies become part of its code."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.lower.calls import CallLowering, CopyOut
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.lower.instances import InstanceLowering
from weft.switch.compiler.lower.values import (
    BlockInstance,
    Environment,
    Value,
    applied,
    full_name,
)
from weft.switch.compiler.lower.variables import VariableLowering
from weft.switch.compiler.lower.writer import CodeWriter
from weft.switch.compiler.syntax import Target


@dataclass(eq=False)
class Applier:
    """Applies instances of parsers and controls."""

    writer: CodeWriter
    expressions: ExpressionLowering
    variables: VariableLowering
    calls: CallLowering
    instances: InstanceLowering
    direct: dict[tuple[int, int], BlockInstance] = field(default_factory=dict, init=False)

    def instance(self, node: syntax.Call, env: Environment) -> BlockInstance:
        """The instance that is applied; direct application makes one for the type."""
        target: Target = node.target
        if target.base is not None:
            value = self.expressions.value(target.base, env)
            assert isinstance(value, BlockInstance)
            return value
        block = target.declaration
        assert isinstance(block, (syntax.Parser, syntax.Control))
        key = (id(node), id(env.owner()))
        known = self.direct.get(key)
        if known is None:
            shared = self.writer.shared
            order = (*shared.order(node, env), len(self.direct))
            inner = Environment(shared.globals, full_name(env.path, block), order=order)
            known = self.direct[key] = self.instances.block(block, inner)
        return known

    def bound(
        self, node: syntax.Call, env: Environment
    ) -> tuple[BlockInstance, Environment, list[CopyOut]]:
        """The instance that is applied, with its parameters bound, and what to copy out of it."""
        instance = self.instance(node, env)
        # Actions and tables of the instance see its parameters through this environment.
        callee = applied(instance)
        target = _of_instance(node.target, instance)
        return instance, callee, self.calls.bind(target, env, callee, isolated=False)

    def apply_control(self, node: syntax.Call, env: Environment) -> None:
        """Put a control's body in line."""
        self.writer.fail_if(
            self.writer.context != "control", node, "a control cannot be applied here"
        )
        instance, callee, copies = self.bound(node, env)
        self._run(instance, callee, copies)

    def _run(self, instance: BlockInstance, env: Environment, copies: list[CopyOut]) -> None:
        control = instance.declaration
        assert isinstance(control, syntax.Control)
        self.variables.declare_all(control.locals, env)
        self.calls.in_line(control.body.statements, env, copies)

    def top_level(self, instance: BlockInstance, arguments: list[Value]) -> list[ir.Code]:
        """The code of a control that the architecture applies."""
        env = applied(instance, arguments)
        return self.writer.captured(lambda: self._run(instance, env, []))


def _of_instance(target: Target, instance: BlockInstance) -> Target:
    """A call with the parameters of the instance, which was known by its type's only."""
    parameters = instance.declaration.parameters
    if target.parameters is parameters:
        return target
    arguments = [
        own.default if argument is not None and argument is other.default else argument
        for own, other, argument in zip(
            parameters, target.parameters, target.arguments, strict=True
        )
    ]
    return replace(target, parameters=parameters, arguments=arguments)
