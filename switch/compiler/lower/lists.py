"""Lowering of the checksum controls and the deparser of V1Switch.

BMv2 keeps both as lists, so these controls may hold little but calls of the externs for them
(behavioral-model, docs/simple_switch.md, "Restrictions on code"). A variable in them stands for
what it was last set to.
"""

from collections.abc import Iterator

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.lower.body import BodyLowering
from weft.switch.compiler.lower.expressions import Numbers
from weft.switch.compiler.lower.shared import Shared
from weft.switch.compiler.lower.storage import (
    BlockInstance,
    Composite,
    Environment,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
    applied,
    inside,
)
from weft.switch.compiler.syntax import Target

_CHECKSUMS = {
    "verify_checksum": ("verify", False),
    "verify_checksum_with_payload": ("verify", True),
    "update_checksum": ("update", False),
    "update_checksum_with_payload": ("update", True),
}
_IN_DEPARSER = ("log_msg", "assert", "assume", "truncate")


def _mentions(value: LoweredValue, field: FieldPlace) -> bool:
    """Return whether a value is computed from a field."""
    match value:
        case FieldPlace():
            return value.field == field.field
        case ir.HeaderField():
            return value == field.field
        case HeaderPlace():
            return value.name == field.header
        case StructPlace() | UnionPlace() | Composite():
            return any(_mentions(item, field) for item in value.members.values())
        case ir.OperatorCall() | ir.Choice():
            return any(_mentions(item, field) for item in ir.operands(value))
    return not isinstance(value, (ir.Number, ir.Truth, ir.Text))


class ListLowering:
    """The lowering of controls that are lists of calls."""

    def __init__(self, shared: Shared) -> None:
        self.program = shared.program
        self.reporter = shared.reporter
        self.body = BodyLowering(shared)
        self.writer = self.body.writer
        self.variables_set: list[tuple[syntax.SyntaxNode, Environment]] = []

    def calls(
        self, instance: BlockInstance, env: Environment, what: str
    ) -> Iterator[tuple[syntax.CallExpression, Environment]]:
        """Yield the calls in a control, those of controls that it applies included."""
        control = instance.declaration
        assert isinstance(control, syntax.ControlDeclaration)
        yield from self._calls_of(control.body.statements, env, what)

    def _calls_of(
        self, nodes: list[syntax.SyntaxNode], env: Environment, what: str
    ) -> Iterator[tuple[syntax.CallExpression, Environment]]:
        for node in nodes:
            match node:
                case syntax.Block():
                    yield from self._calls_of(node.statements, env, what)
                case syntax.Empty() | syntax.Constant():
                    continue
                case syntax.Variable():
                    self._set_variable(node, node.initializer, env)
                case syntax.Assignment() if (
                    node.operator == "="
                    and isinstance(node.target, syntax.Name)
                    and isinstance(node.target.declaration, syntax.Variable)
                ):
                    self._set_variable(node.target.declaration, node.value, env)
                case syntax.If() if node.condition.constant is not None:
                    chosen = node.then if node.condition.constant else node.otherwise
                    yield from self._calls_of([] if chosen is None else [chosen], env, what)
                case syntax.CallStatement():
                    target: Target = node.call.target
                    if target.kind == "control":
                        inner = self.body.instances.instance(node.call, env)
                        callee = applied(inner)
                        self.body.calls.bind(target, env, callee, isolated=False)
                        yield from self.calls(inner, callee, what)
                    else:
                        yield node.call, env
                case _:
                    kind = type(node).__name__.removesuffix("Statement").lower()
                    self.reporter.error(
                        node.span,
                        f"not supported: {kind} in {what}, which may only hold calls (BMv2)",
                    )

    def _set_variable(
        self, node: syntax.SyntaxNode, value: syntax.Expression | None, env: Environment
    ) -> None:
        if value is not None:
            position = len(self.writer.code)
            env.bind(node, self.body.expressions.value(value, env))
            self.writer.fail_if(
                len(self.writer.code) > position,
                value,
                "not supported: this value in a control that is a list (BMv2)",
            )
            self.variables_set.append((node, env))

    def _check_variables(self, place: FieldPlace, node: syntax.SyntaxNode) -> None:
        """Report an error if a call changes a field that a variable stands for."""
        for declaration, env in self.variables_set:
            if (value := env.find(declaration)) is not None and _mentions(value, place):
                name = getattr(declaration, "name", "")
                self.reporter.error(
                    node.span,
                    f"not supported: this changes what variable '{name}' was set to (BMv2)",
                )

    def environment(self, instance: BlockInstance, arguments: list[LoweredValue]) -> Environment:
        """Return the environment of such a control, with its variables set."""
        env = applied(instance, arguments)
        for item in instance.declaration.locals:
            match item:
                case syntax.TableDeclaration():
                    self.reporter.error(item.span, "not supported: tables in this control (BMv2)")
                case syntax.Variable():
                    self._set_variable(item, item.initializer, env)
        return env

    # Checksums

    def checksums(self, instance: BlockInstance, arguments: list[LoweredValue], kind: str) -> None:
        """Lower the calls of verify_checksum or update_checksum; `kind` is verify or update."""
        env = self.environment(instance, arguments)
        what = "VerifyChecksum" if kind == "verify" else "ComputeChecksum"
        for call, scope in self.calls(instance, env, what):
            target: Target = call.target
            if (found := _CHECKSUMS.get(target.name)) is not None and found[0] == kind:
                self._checksum_call(call, target, scope, kind, found[1])
            else:
                self.reporter.error(
                    call.span,
                    f"not supported: '{target.name}' in {what}, which takes {kind}_checksum",
                )

    def _checksum_call(
        self,
        call: syntax.CallExpression,
        target: Target,
        env: Environment,
        kind: str,
        payload: bool,
    ) -> None:
        self.program.calls_extern_functions = True
        position = len(self.writer.code)
        condition = self.body.expressions.truth(target.argument("condition"), env)
        data = target.argument("data")
        items = [
            part
            for item, width in self.body.expressions.numbers(data, env)
            for part in self._filled_up(item, width)
        ]
        checksum = target.argument("checksum")
        place = self.reporter.needed(
            self.body.expressions.value(checksum, env),
            FieldPlace,
            checksum.span,
            "the checksum must be a field of a header or of metadata",
        )
        if kind == "update":
            self._check_variables(place, call)
        simple = all(isinstance(item, (ir.HeaderField, ir.Number)) for item, _ in items)
        self.writer.fail_if(
            not simple or len(self.writer.code) > position,
            data,
            "not supported: anything but fields, constants and casts of fields to a greater width "
            "in a checksum (BMv2); compute it before, into a field of metadata",
        )
        algorithm = self.body.expressions.algorithm(target.argument("algo"), env)
        name = self.body.externs.calculation(algorithm, items, payload, call)
        number = len(self.program.checksums)
        checksum_name = "cksum" if not number else f"cksum_{number - 1}"
        self.program.checksums.append(
            ir.Checksum(
                checksum_name, place.field, name, arithmetic.truth(condition), kind == "verify",
                kind == "update", call.span,
            )
        )  # fmt: skip

    def _filled_up(self, item: ir.LoweredExpression, width: int) -> Numbers:
        """Return a field that is cast to a greater width as zeros and the field."""
        match item:
            case ir.OperatorCall("&", ir.HeaderField() as field, ir.Number(mask)):
                own = self.body.expressions.shared.storage.stored_width(field)
                if own is not None and own < width and mask == arithmetic.mask_of(width):
                    return [(ir.Number(0), width - own), (field, own)]
        return [(item, width)]

    # Deparser

    def deparser(self, instance: BlockInstance, arguments: list[LoweredValue]) -> None:
        """Lower the deparser: which headers are emitted, in which order."""
        position = len(self.writer.code)
        for call, scope in self.calls(
            instance, self.environment(instance, arguments), "the deparser"
        ):
            if call.target.name in _IN_DEPARSER and call.target.kind == "extern_function":
                self.writer.span = call.span
                self.body.externs.call(call, call.target, scope)
            elif call.target.name == "emit":
                argument = call.target.argument("hdr")
                self.program.deparser += self._emitted(
                    self.body.expressions.value(argument, scope), argument
                )
            else:
                self.reporter.error(
                    call.span,
                    f"not supported: '{call.target.name}' in the deparser, which may only emit, "
                    f"and call {', '.join(_IN_DEPARSER)} (BMv2)",
                )
        for item in self.writer.code[position:]:
            if isinstance(item, ir.Do) and item.operation in _IN_DEPARSER:
                self.program.deparser_code.append(item)
            else:
                span = getattr(item, "span", instance.declaration.span)
                self.reporter.error(span, "not supported: a computation in the deparser (BMv2)")
        del self.writer.code[position:]

    def _emitted(self, value: LoweredValue | Place, node: syntax.SyntaxNode) -> list[str]:
        match value:
            case HeaderPlace():
                return [value.name]
            case StructPlace() | UnionPlace() | StackPlace():
                return [name for item in inside(value) for name in self._emitted(item, node)]
        raise self.writer.fail(
            node, "only headers, stacks, unions and structs of them can be emitted"
        )
