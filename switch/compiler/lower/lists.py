"""Lowering of controls that BMv2 keeps as lists of calls: deparsers, and controls of checksums.

So they may hold little but calls of the externs for them (behavioral-model,
docs/simple_switch.md, "Restrictions on code"). A variable in them stands for what it was last set
to. What is no such list may be lowered to code (`tails.py`).
"""

from collections.abc import Collection, Iterator

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.lower.body import BodyLowering, MakeExterns
from weft.switch.compiler.lower.shared import CodeWriter, Shared
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


class NotAList(Exception):
    """A control is no list of calls; `message` is the error, if it has to be one."""

    def __init__(self, span: Span, message: str) -> None:
        super().__init__(message)
        self.span = span
        self.message = message


class ListLowering:
    """The lowering of controls that are lists of calls. Raises `NotAList` for those that are
    none."""

    def __init__(self, shared: Shared, externs: MakeExterns) -> None:
        self.program = shared.program
        self.reporter = shared.reporter
        self.body = BodyLowering(shared, externs)
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
                    raise NotAList(
                        node.span,
                        f"not supported: {kind} in {what}, which may only hold calls (BMv2)",
                    )

    def _set_variable(
        self, node: syntax.SyntaxNode, value: syntax.Expression | None, env: Environment
    ) -> None:
        if value is not None:
            position = len(self.writer.code)
            env.bind(node, self.body.expressions.value(value, env))
            if len(self.writer.code) > position:
                raise NotAList(
                    value.span, "not supported: this value in a control that is a list (BMv2)"
                )
            self.variables_set.append((node, env))

    def check_variables(self, place: FieldPlace, node: syntax.SyntaxNode) -> None:
        """See that no call changes a field that a variable stands for."""
        for declaration, env in self.variables_set:
            if (value := env.find(declaration)) is not None and _mentions(value, place):
                name = getattr(declaration, "name", "")
                raise NotAList(
                    node.span,
                    f"not supported: this changes what variable '{name}' was set to (BMv2)",
                )

    def environment(self, instance: BlockInstance, arguments: list[LoweredValue]) -> Environment:
        """Return the environment of such a control."""
        return applied(instance, arguments)

    def variables(self, instance: BlockInstance, env: Environment) -> None:
        """Set the variables of such a control."""
        for item in instance.declaration.locals:
            if isinstance(item, syntax.Variable):
                self._set_variable(item, item.initializer, env)

    def deparser(
        self,
        instance: BlockInstance,
        arguments: list[LoweredValue],
        functions: Collection[str],
        name: str = "deparser",
    ) -> None:
        """Lower a deparser, which the JSON calls by a name: which headers are emitted, in which
        order. It may call some extern functions besides. Any other is an error."""
        try:
            self.deparser_calls(instance, self.environment(instance, arguments), functions, name)
        except NotAList as problem:
            self.reporter.error(problem.span, problem.message)

    def deparser_calls(
        self, instance: BlockInstance, env: Environment, functions: Collection[str], name: str
    ) -> None:
        """Lower a deparser, in its environment, that is a list of calls."""
        result = ir.LoweredDeparser(name)
        self.program.deparsers.append(result)
        position = len(self.writer.code)
        self.variables(instance, env)
        for call, scope in self.calls(instance, env, "the deparser"):
            if call.target.name in functions and call.target.kind == "extern_function":
                self.writer.span = call.span
                self.body.externs.call(call, call.target, scope)
            elif call.target.name == "emit":
                argument = call.target.argument("hdr")
                value = self.body.expressions.value(argument, scope)
                if not isinstance(value, (HeaderPlace, StructPlace, UnionPlace, StackPlace)):
                    raise NotAList(argument.span, "not supported: emit() of a value (BMv2)")
                result.order += emitted_headers(self.writer, value, argument)
            else:
                raise NotAList(
                    call.span,
                    f"not supported: '{call.target.name}' in the deparser, which may only emit, "
                    f"and call {', '.join(functions)} (BMv2)",
                )
        for item in self.writer.code[position:]:
            if isinstance(item, ir.Do) and item.operation in functions:
                result.code.append(item)
            else:
                span = getattr(item, "span", instance.declaration.span)
                raise NotAList(span, "not supported: a computation in the deparser (BMv2)")
        del self.writer.code[position:]


def emitted_headers(
    writer: CodeWriter, value: LoweredValue | Place, node: syntax.SyntaxNode
) -> list[str]:
    """Return the headers that emit() of a value stands for, in their order."""
    match value:
        case HeaderPlace():
            writer.shared.storage.in_packets.add(value.type)
            return [value.name]
        case StructPlace() | UnionPlace() | StackPlace():
            return [name for item in inside(value) for name in emitted_headers(writer, item, node)]
    writer.fail_if(
        isinstance(value, Composite),
        node,
        "not supported: emit() of a value that is no variable or parameter (BMv2)",
    )
    raise writer.fail(node, "only headers, stacks, unions and structs of them can be emitted")
