"""Instances of externs, parsers and controls, made at compile time.

Specification, section "Compile-time Evaluation".
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import local_name
from weft.switch.compiler.lower.calls import CallLowering, CopyOut
from weft.switch.compiler.lower.expressions import LoweringPart
from weft.switch.compiler.lower.externs import ExternObject
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Environment,
    ExternInstance,
    LoweredValue,
    applied,
    full_name,
    inner_name,
)
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.types import (
    BlockTypeType,
    ExternType,
    SetType,
    StructType,
    TupleType,
    member_types,
    resolved,
    scalar_width,
)

VALUE_SET_KINDS = ("exact", "ternary", "lpm", "range", "optional")
"""The match kinds that ``@match`` may give a field of a value set."""


@dataclass(eq=False)
class InstanceLowering(LoweringPart):
    """The making and applying of instances; one is made for each instance of the block that it is
    in."""

    calls: CallLowering
    direct: dict[tuple[int, int], BlockInstance] = field(default_factory=dict, init=False)
    named: dict[int, set[int]] = field(default_factory=dict, init=False)

    def instantiate(self, node: syntax.Instantiation, env: Environment) -> None:
        """Make the instance that is declared, and bind it to its name."""
        assert node.call is not None
        before, self.writer.span = self.writer.span, node.span
        env.bind(
            node, self.construct(node.call, full_name(env.path, node), node, env, node.annotations)
        )
        self.writer.span = before

    def construct(
        self, call: syntax.CallExpression, name: str, declaration: syntax.Instantiation | None,
        env: Environment, annotations: Sequence[syntax.Annotation] = (),
    ) -> LoweredValue:  # fmt: skip
        """Return the instance that a constructor call makes."""
        target: Target = call.target
        order = self.shared.order(declaration, env)
        block = target.declaration
        if not isinstance(block, (syntax.ParserDeclaration, syntax.ControlDeclaration)):
            kind = self.shared.reporter.needed(
                call.type,
                ExternType,
                call.span,
                f"not supported: an instance of {call.type} here",
            )
            make = self.calls.externs.objects.get(kind.name)
            if make is None:
                raise self.writer.fail(call, f"not supported: instances of extern '{kind.name}'")
            common = name, list(annotations), call.span
            model = make(ExternObject(call, target, env, self.expressions, kind, common))
            model.order = order
            return ExternInstance(kind.name, name, model)
        inner = Environment(self.shared.globals, name, order=order)
        for parameter, argument in zip(target.parameters, target.arguments, strict=True):
            if argument is not None:
                inner.bind(parameter, self._constructor_argument(argument, name, parameter, env))
        return self.block(block, inner)

    def block(
        self, block: syntax.ParserDeclaration | syntax.ControlDeclaration, env: Environment
    ) -> BlockInstance:
        """Return an instance of a parser or control, and of what it declares; not of parsers and
        controls that it does not apply, as with p4c, so that the control plane knows no part of
        these."""
        for item in block.locals:
            match item:
                case syntax.Instantiation():
                    is_block = isinstance(item.type, BlockTypeType)
                    if not is_block or id(item) in self._named_in(block):
                        self.instantiate(item, env)
                case syntax.ValueSetDeclaration():
                    env.bind(item, self._value_set(item, env))
        return BlockInstance(block, env.path, env)

    def _named_in(self, block: syntax.ParserDeclaration | syntax.ControlDeclaration) -> set[int]:
        """Return what names in a parser or control stand for, as the declarations' identities."""
        found = self.named.get(id(block))
        if found is None:
            names = (item for item in syntax.walk(block) if isinstance(item, syntax.Name))
            found = self.named[id(block)] = {id(name.declaration) for name in names}
        return found

    def _constructor_argument(
        self, argument: syntax.Expression, name: str, parameter: syntax.Parameter, env: Environment
    ) -> LoweredValue:
        if isinstance(argument, syntax.CallExpression) and argument.target.kind == "constructor":
            return self.construct(argument, full_name(name, parameter), None, env)
        return self.expressions.value(argument, env)

    def _value_set(self, node: syntax.ValueSetDeclaration, env: Environment) -> ir.LoweredValueSet:
        assert isinstance(node.type, SetType)
        bare = resolved(node.type.element)
        fields = [ir.LoweredParameter("", node.type.element, scalar_width(bare) or 0)]
        if isinstance(bare, (StructType, TupleType)):
            fields = _set_fields(bare)
            for field in fields:
                for note in field.annotations:
                    kind = note.body[0].text if note.name == "match" and note.body else "exact"
                    self.shared.reporter.error_if(
                        kind not in VALUE_SET_KINDS,
                        note.span,
                        f"not supported: match kind '{kind}'; there are "
                        f"{', '.join(VALUE_SET_KINDS)}",
                    )
        model = ir.LoweredValueSet(
            full_name(env.path, node), node.annotations, node.span,
            self.expressions.known_size(node.size, env, 0), fields,
        )  # fmt: skip
        model.order = self.shared.order(node, env)
        self.shared.program.value_sets.append(model)
        return model

    # Application: controls that a control applies become part of its code

    def instance(self, node: syntax.CallExpression, env: Environment) -> BlockInstance:
        """Return the instance that is applied. A direct application makes one for the type."""
        target: Target = node.target
        if target.base is not None:
            value = self.expressions.value(target.base, env)
            assert isinstance(value, BlockInstance)
            return value
        block = target.declaration
        assert isinstance(block, (syntax.ParserDeclaration, syntax.ControlDeclaration))
        key = (id(node), id(env.owner()))
        known = self.direct.get(key)
        if known is None:
            order = (*self.shared.order(node, env), len(self.direct))
            path = inner_name(env.path, block.name)  # whatever its @name is, as with p4c
            inner = Environment(self.shared.globals, path, order=order)
            known = self.direct[key] = self.block(block, inner)
        return known

    def bound(
        self, node: syntax.CallExpression, env: Environment
    ) -> tuple[BlockInstance, Environment, list[CopyOut]]:
        """Return the instance that is applied, with its parameters bound, and what to copy out of
        it."""
        instance = self.instance(node, env)
        # Actions and tables of the instance see its parameters through this environment.
        callee = applied(instance)
        target = _of_instance(node.target, instance)
        return instance, callee, self.calls.bind(target, env, callee, isolated=False)

    def apply_control(self, node: syntax.CallExpression, env: Environment) -> None:
        """Put a control's body in line."""
        self.writer.fail_if(
            self.writer.context != "control", node, "a control cannot be applied here"
        )
        self._run(*self.bound(node, env))

    def _run(self, instance: BlockInstance, env: Environment, copies: list[CopyOut]) -> None:
        control = instance.declaration
        assert isinstance(control, syntax.ControlDeclaration)
        self.expressions.declare_all(control.locals, env)
        self.calls.in_line(control.body.statements, env, copies)

    def top_level(self, instance: BlockInstance, arguments: list[LoweredValue]) -> list[ir.Code]:
        """Return the code of a control that the architecture applies."""
        return self.run(instance, applied(instance, arguments))

    def run(self, instance: BlockInstance, env: Environment) -> list[ir.Code]:
        """Return the code of a control in its environment."""
        return self.writer.captured(lambda: self._run(instance, env, []))


def _of_instance(target: Target, instance: BlockInstance) -> Target:
    """Return a call with the parameters of the instance; so far only those of its type were
    known."""
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


def _set_fields(kind: StructType | TupleType, prefix: str = "") -> list[ir.LoweredParameter]:
    """Return the fields of a value set's elements; those of structs inside have dotted names, and
    those of tuples numbers."""
    result: list[ir.LoweredParameter] = []
    declared = kind.declaration.fields if isinstance(kind, StructType) else []
    for index, (key, own) in enumerate(member_types(kind).items()):
        item, annotations = key, []
        if declared:
            item, annotations = local_name(declared[index]), declared[index].annotations
        name, bare = prefix + item, resolved(own)
        if isinstance(bare, (StructType, TupleType)):
            result += _set_fields(bare, f"{name}.")
        else:
            width = scalar_width(own) or 0
            result.append(ir.LoweredParameter(name, own, width, annotations))
    return result
