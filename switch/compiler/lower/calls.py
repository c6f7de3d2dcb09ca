"""Lowering of calls: functions and actions in line, methods of headers and stacks.

Copy-in and copy-out follow the specification, section "Calling convention": an argument is copied
unless it makes no difference.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.lower.expressions import LoweringPart
from weft.switch.compiler.lower.externs import NOTHING, ExternLowering
from weft.switch.compiler.lower.places import stack_kind
from weft.switch.compiler.lower.storage import (
    PLACES,
    BlockInstance,
    Composite,
    Environment,
    ExternInstance,
    FieldPlace,
    HeaderPlace,
    LoweredValue,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
    atoms,
    reads,
)
from weft.switch.compiler.syntax import Target
from weft.switch.compiler.types import VOID

MOST_CALLS = 1 << 14
"""The most calls of actions, functions, controls and parsers. Each becomes the callee's code."""

_STABLE = (ExternInstance, BlockInstance, ir.Number, ir.Truth, ir.Text)
_DIRECT = (FieldPlace, HeaderPlace, StackPlace, UnionPlace, StructPlace)
_WRITTEN = ("out", "inout")

Statements = Callable[[list[syntax.SyntaxNode], Environment], None]
Applications = Mapping[str, Callable[[syntax.CallExpression, Environment], None]]
"""The functions that apply a table, a control or a parser, by kind."""


@dataclass
class CopyOut:
    """Where an argument's value goes once the callee has returned."""

    place: Place
    value: Place
    node: syntax.SyntaxNode


@dataclass
class Frames:
    """The calls that the code is inside of, from the outermost to the innermost."""

    returning: list[tuple[int, Place | None]] = field(default_factory=list)
    """The label that ``return`` leaves in each call, and the place that its value goes to."""
    pending: list[CopyOut] = field(default_factory=list)


@dataclass(eq=False)
class CallLowering(LoweringPart):
    """The lowering of calls. `statements` lowers a callee's body; `applications` lower what else is
    applied."""

    externs: ExternLowering
    statements: Statements
    applications: Applications
    frames: Frames = field(default_factory=Frames, init=False)
    returning_place: Place | None = field(default=None, init=False)

    # Arguments

    def bind(
        self, target: Target, caller: Environment, callee: Environment, isolated: bool
    ) -> list[CopyOut]:
        """Bind a callee's parameters, and return what is to be copied out afterwards.

        A callee that is `isolated` may see its arguments under other names too (an action does), so
        all of them are copied.
        """
        acting = any(item and self.shared.effects.of(item) for item in target.arguments)
        given = zip(target.parameters, target.arguments, strict=True)
        values = [
            self.expressions.value(argument, caller)
            for parameter, argument in given
            if argument is not None and parameter.direction in _WRITTEN and not acting
        ]
        written = {atom for value in values if isinstance(value, PLACES) for atom in atoms(value)}
        isolated = isolated or acting
        copies: list[CopyOut] = []
        outs: set[str] = set()
        for parameter, argument, kind in zip(
            target.parameters, target.arguments, target.parameter_types, strict=True
        ):
            if parameter.direction not in _WRITTEN:
                if argument is not None:
                    source = caller if argument is not parameter.default else self.shared.globals
                    callee.bind(parameter, self._passed(argument, source, isolated, written))
            elif argument is None:
                callee.bind(parameter, self.writer.temporary(kind, parameter.name))
            else:
                place = self.expressions.place(argument, caller)
                direct = isinstance(place, _DIRECT) and not isolated and not atoms(place) & outs
                outs |= atoms(place)
                if not direct:
                    place = self.places.frozen(place)
                    temporary = self.writer.temporary(kind, parameter.name)
                    if parameter.direction == "inout":
                        self.places.assign(temporary, place, argument)
                    else:
                        self.places.invalidate(temporary)
                    copies.append(CopyOut(place, temporary, argument))
                callee.bind(parameter, place if direct else copies[-1].value)
                if direct and parameter.direction == "out":
                    self.places.invalidate(place)
        return copies

    def _passed(
        self, argument: syntax.Expression, env: Environment, isolated: bool, written: set[str]
    ) -> LoweredValue:
        """Return the value of an argument that the callee does not change; it changes what is in
        `written`."""
        value = self.expressions.value(argument, env)
        if isinstance(value, _STABLE):
            return value
        if isolated or reads(value) & written or not isinstance(value, PLACES):
            return self.places.kept(value, argument)
        return value

    def copy_out(self, copies: list[CopyOut]) -> None:
        """Copy arguments' values to where they go."""
        for copy in copies:
            self.places.assign(copy.place, copy.value, copy.node)

    # Calls

    def value(self, node: syntax.CallExpression, env: Environment) -> LoweredValue:
        """Lower a call in an expression."""
        target: Target = node.target
        match target.kind:
            case "function":
                return self._function(target, env)
            case "builtin":
                return self._builtin(node, target, env)
            case "extern_method" | "extern_function":
                return self._extern(node, target, env)
        raise self.writer.fail(
            node, f"not supported: a call of {target.kind} '{target.name}' in an expression"
        )

    def statement(self, node: syntax.CallExpression, env: Environment) -> None:
        """Lower a call whose result, if any, is not used."""
        if (apply := self.applications.get(node.target.kind)) is not None:
            apply(node, env)
        elif node.target.kind == "action":
            self._action(node.target, env)
        else:
            self.value(node, env)

    def _extern(
        self, node: syntax.CallExpression, target: Target, env: Environment
    ) -> LoweredValue:
        """Lower a call of an extern. Where an argument has an effect, all are evaluated in order
        first."""
        evaluated = self.expressions.evaluated
        given = [
            (parameter, argument)
            for parameter, argument in zip(target.parameters, target.arguments, strict=True)
            if argument is not None
        ]
        first = given if any(self.shared.effects.of(argument) for _, argument in given) else []
        for parameter, argument in first:
            if parameter.direction in _WRITTEN:
                evaluated[id(argument)] = self.places.frozen(self.expressions.place(argument, env))
            else:
                evaluated[id(argument)] = self.expressions.kept(argument, env)
        result = self.externs.call(node, target, env)
        for _, argument in first:
            evaluated.pop(id(argument), None)
        return result

    def in_line(
        self, body: list[syntax.SyntaxNode], env: Environment, copies: list[CopyOut]
    ) -> None:
        """Put a callee's statements in line, which ``return`` leaves, and then copy out what is to
        be."""
        self.shared.calls += 1
        if self.shared.calls > MOST_CALLS and body:
            raise self.writer.fail(
                body[0],
                f"more than {MOST_CALLS} calls become code of their own: does each action, "
                "function or control call another more than once?",
            )
        label, frames = next(self.shared.labels), self.frames
        frames.returning.append((label, self.returning_place))
        frames.pending += copies
        code = self.writer.captured(lambda: self.statements(body, env))
        frames.returning.pop()
        for copy in copies:
            frames.pending.remove(copy)
        self.writer.code.append(ir.Labelled(label, code))
        self.copy_out(copies)

    def _function(self, target: Target, env: Environment) -> LoweredValue:
        declaration = target.declaration
        assert isinstance(declaration, syntax.Function)
        callee = Environment(self.shared.globals)
        result = (
            None
            if target.returns == VOID
            else self.writer.temporary(target.returns, f"{declaration.name}_result")
        )
        copies = self.bind(target, env, callee, isolated=False)
        before, self.returning_place = self.returning_place, result
        self.in_line(declaration.body.statements, callee, copies)
        self.returning_place = before
        return result if result is not None else NOTHING

    def _action(self, target: Target, env: Environment) -> None:
        declaration = target.declaration
        assert isinstance(declaration, syntax.ActionDeclaration)
        owner = self.shared.globals if self.shared.is_global(declaration) else env.owner()
        if self.writer.context == "control":
            self.shared.note_called(declaration, env.owner())
        callee = owner.inner()
        copies = self.bind(target, env, callee, isolated=True)
        before, self.writer.context = self.writer.context, "action"
        self.in_line(declaration.body.statements, callee, copies)
        self.writer.context = before

    def action_body(
        self,
        declaration: syntax.ActionDeclaration,
        target: Target,
        env: Environment,
        callee: Environment,
    ) -> list[ir.Code]:
        """Return the code of an action that tables call, with the arguments that they bind."""
        before = self.writer.context, self.frames
        self.writer.context, self.frames = "action", Frames()

        # The arguments of the parameters with a direction are in the table's scope.
        code = self.writer.captured(
            lambda: self.in_line(
                declaration.body.statements, callee, self.bind(target, env, callee, isolated=True)
            )
        )
        self.writer.context, self.frames = before
        return code

    def _builtin(
        self, node: syntax.CallExpression, target: Target, env: Environment
    ) -> LoweredValue:
        if target.base is None:  # a type's size, which nothing is done with
            return NOTHING
        base, name = self.expressions.value(target.base, env), target.name
        if name == "isValid":
            if isinstance(base, Composite):
                return ir.Truth(base.valid)
            return self.places.is_valid(base, node)
        if name == "setValid":
            self.places.add(base, node)
        elif name == "setInvalid":
            self.places.remove(base, node)
        elif isinstance(base, StackPlace):
            self._shift(base, target, env)
        else:
            raise self.writer.fail(node, f"not supported: {name}() here")
        return NOTHING

    def _shift(self, stack: StackPlace, target: Target, env: Environment) -> None:
        """Lower push_front or pop_front of a stack."""
        argument = target.arguments[0]
        assert argument is not None
        count = self.expressions.known(argument, env, f"the argument of {target.name}")
        self.writer.fail_if(
            count < 1, argument, f"{target.name} takes a number of at least 1, not {count}"
        )
        is_push = target.name == "push_front"
        kind = stack_kind(stack)
        self.writer.do(
            "push" if is_push else "pop", ir.Reference(kind, stack.name), ir.Number(count)
        )
        if kind == "header_union_stack":  # in BMv2 what leaves at one end comes back at the other
            for element in stack.elements[:count] if is_push else stack.elements[-count:]:
                self.places.invalidate(element)

    def leave(self, node: syntax.Return, env: Environment) -> None:
        """Lower ``return``."""
        label, result = self.frames.returning[-1]
        if node.value is not None and result is not None:
            self.places.assign(result, self.expressions.value(node.value, env), node)
        self.writer.code.append(ir.Leave(label))

    def stop(self, node: syntax.Exit, env: Environment) -> None:
        """Lower ``exit``: what is to be copied out is copied, from the innermost call outwards."""
        self.copy_out(self.frames.pending[::-1])
        self.writer.code.append(ir.Stop(node.span))
