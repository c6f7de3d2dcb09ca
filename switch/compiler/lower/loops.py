"""Lowering of for statements (specification, section "For statement").

A loop whose number of rounds is known at compile time is written out round by round. Others become
jumps backwards in an action, cycles in a control's graph and in the graph of a parser's states.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.constants import EvaluationError
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.lower.expressions import LoweringPart
from weft.switch.compiler.lower.storage import Environment, FieldPlace, LoweredValue, Place, parts
from weft.switch.compiler.order import operands
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import BOOL, is_flag, is_header_stack, resolved

MAXIMUM_ROUNDS = 256
"""The most rounds of a loop that are written out."""

Counters = dict[syntax.Variable, ir.LoweredExpression]


@dataclass(eq=False)
class LoopLowering(LoweringPart):
    """The lowering of loops; `statement` lowers what is in them."""

    statement: Callable[[syntax.SyntaxNode, Environment], None]
    loops: list[tuple[int, int]] = field(default_factory=list, init=False)
    """The labels of what break and continue leave."""

    def leave(self, node: syntax.Break, env: Environment) -> None:
        """Lower ``break``."""
        self.writer.code.append(ir.Leave(self.loops[-1][0]))

    def go_on(self, node: syntax.Continue, env: Environment) -> None:
        """Lower ``continue``."""
        self.writer.code.append(ir.Leave(self.loops[-1][1]))

    def _loop(self, rounds: Callable[[int], None]) -> None:
        """Emit a loop. `rounds` emits its code, and is given the label that ends it."""
        label = next(self.shared.labels)
        self.writer.code.append(ir.Labelled(label, self.writer.captured(lambda: rounds(label))))

    def _round(self, node: syntax.SyntaxNode, env: Environment, label: int) -> None:
        """Emit a loop's body once, which ``continue`` leaves."""
        inner = next(self.shared.labels)
        self.loops.append((label, inner))
        code = self.writer.captured(lambda: self.statement(node, env))
        self.loops.pop()
        self.writer.code.append(ir.Labelled(inner, code))

    # for (...; ...; ...)

    def for_statement(self, node: syntax.For, env: Environment) -> None:
        """Lower ``for (initial; condition; update) body``."""
        rounds = None if _applies(node.body) else self._rounds(node, env)
        if rounds is None:
            self._repeated(node, env)
        else:
            self._loop(lambda label: self._written_out(node, env, rounds, label))

    def _written_out(
        self, node: syntax.For, env: Environment, rounds: list[Counters], label: int
    ) -> None:
        *rounds, last = rounds
        outside = [item for item in last if item not in node.initial]

        def store(counters: Counters) -> None:
            for item in outside:
                self.places.assign(self._place_of(item, env), counters[item], node)

        for statement in node.initial:
            if _counter_set(statement, last) is None:
                self.statement(statement, env)
        for counters in rounds:
            inner = env.inner(counters)
            store(counters)
            self._round(node.body, inner, label)
            for statement in node.update:
                if _counter_set(statement, last) is None:
                    self.statement(statement, inner)
        store(last)

    def _place_of(self, node: syntax.Variable, env: Environment) -> Place:
        place = env.find(node)
        assert isinstance(place, FieldPlace)
        return place

    def _rounds(self, node: syntax.For, env: Environment) -> list[Counters] | None:
        """Return the values of a loop's counters in each round and after the last; None if
        unknown."""
        changed: set[int] = set()
        _note_changed(node.body, changed)
        counters: Counters = {}
        for statement in node.initial:
            found = _assigned(statement)
            if found is None:
                _note_changed(statement, changed)
                continue
            value = self._known_value(found[1], env)
            if value is None or not isinstance(found[0], syntax.Variable):
                return None
            counters[found[0]] = value
        for statement in node.update:
            if _counter_set(statement, counters) is None:
                _note_changed(statement, changed)
        if not counters or any(id(item) in changed for item in counters):
            return None
        rounds: list[Counters] = []
        while len(rounds) <= MAXIMUM_ROUNDS:
            inner = env.inner(counters)
            condition = self._known_value(node.condition, inner)
            if not isinstance(condition, ir.Truth):
                return None
            rounds.append(dict(counters))
            if not condition.value:
                return rounds
            for statement in node.update:
                setting = _counter_set(statement, counters)
                if setting is None:
                    continue
                value = self._known_value(setting[1], inner)
                if value is None:
                    return None
                counters[setting[0]] = value
                inner.bind(setting[0], value)
        return None

    def _known_value(
        self, node: syntax.Expression, env: Environment
    ) -> ir.LoweredExpression | None:
        """Return the value of an expression if it is known, and its evaluation has no effect."""
        if self.shared.effects.of(node):
            return None
        errors = len(self.shared.reporter.errors)
        try:
            value, code = self.writer.apart(lambda: self.expressions.value(node, env))
        except (Abandon, EvaluationError):
            del self.shared.reporter.errors[errors:]
            return None
        if code or not isinstance(value, (ir.Number, ir.Truth)):
            return None
        return arithmetic.truth(value) if is_flag(type_of(node)) else value

    def _repeated(self, node: syntax.For, env: Environment) -> None:
        for statement in node.initial:
            self.statement(statement, env)

        def once(label: int) -> None:
            self._leave_unless(self.expressions.truth(node.condition, env), label, node.condition)
            self._round(node.body, env, label)
            for statement in node.update:
                self.statement(statement, env)

        self._loop(lambda label: self._repeat(lambda: once(label), node))

    def _repeat(self, body: Callable[[], None], node: syntax.SyntaxNode) -> None:
        self.writer.code.append(ir.Repeat(self.writer.captured(body), node.span))

    def _leave_unless(
        self, condition: ir.LoweredExpression, label: int, node: syntax.SyntaxNode
    ) -> None:
        leave = ir.Leave(label)
        if not isinstance(condition, ir.Truth):
            self.writer.code.append(ir.Branch(arithmetic.negate(condition), [leave], [], node.span))
        elif not condition.value:
            self.writer.code.append(leave)

    # for (... in ...)

    def over(self, node: syntax.ForIn, env: Environment) -> None:
        """Lower ``for (type name in collection) body``."""
        collection = node.collection
        if isinstance(collection, syntax.RangeKeyset):
            low, high = (
                self.places.expression_of(value, collection)
                for value in self.expressions.in_order(operands(collection), env)
            )
            numbers = (
                range(low.value, high.value + 1)
                if isinstance(low, ir.Number) and isinstance(high, ir.Number)
                else None
            )
            if numbers is None or len(numbers) > MAXIMUM_ROUNDS or _applies(node.body):
                self._over_range(node, low, high, env)
                return
            values: list[LoweredValue] = [ir.Number(number) for number in numbers]
        else:
            value = self.expressions.value(collection, env)
            if is_header_stack(resolved(type_of(collection))) or not isinstance(value, ir.Number):
                value = self.places.kept(value, collection)  # the body may change it
            values = parts(value)
        self._loop(lambda label: self._over_values(node, values, env, label))

    def _over_values(
        self, node: syntax.ForIn, values: list[LoweredValue], env: Environment, label: int
    ) -> None:
        changed: set[int] = set()
        _note_changed(node.body, changed)
        for value in values:
            inner = env.inner()
            if isinstance(value, ir.Number) and id(node.variable) not in changed:
                inner.bind(node.variable, value)
            else:
                self.places.assign(self.expressions.variable(node.variable, inner), value, node)
            self._round(node.body, inner, label)

    def _over_range(
        self,
        node: syntax.ForIn,
        low: ir.LoweredExpression,
        high: ir.LoweredExpression,
        env: Environment,
    ) -> None:
        """Lower a loop over a range that is not known at compile time. It may end with the largest
        number."""
        kind, name = type_of(node.variable), node.variable.name
        at, end = (self.writer.temporary(kind, f"{name}_{place}") for place in ("at", "end"))
        more = self.writer.temporary(BOOL, f"{name}_more")
        self.places.assign(at, low, node)
        self.places.assign(end, high, node)
        number, last, again = (self.places.read(place, node) for place in (at, end, more))
        self.places.assign(more, arithmetic.binary("<=", number, last, kind, kind), node)
        inner = env.inner()

        def once(label: int) -> None:
            self._leave_unless(again, label, node)
            self.places.assign(self.expressions.variable(node.variable, inner), at, node)
            self._round(node.body, inner, label)
            self.places.assign(more, arithmetic.negate(ir.OperatorCall("==", number, last)), node)
            self.places.assign(at, arithmetic.binary("+", number, ir.Number(1), kind, kind), node)

        self._loop(lambda label: self._repeat(lambda: once(label), node))


def _assigned(node: syntax.SyntaxNode) -> tuple[syntax.SyntaxNode | None, syntax.Expression] | None:
    """Return the variable that a statement sets and its value; None if the statement does more."""
    match node:
        case syntax.Variable() if node.initializer is not None:
            return node, node.initializer
        case syntax.Assignment() if isinstance(node.target, syntax.Name):
            return node.target.declaration, node.value
    return None


def _counter_set(
    node: syntax.SyntaxNode, counters: Counters
) -> tuple[syntax.Variable, syntax.Expression] | None:
    found = _assigned(node)
    if found is None or not isinstance(found[0], syntax.Variable) or found[0] not in counters:
        return None
    return found[0], found[1]


def _root(node: syntax.Expression) -> syntax.SyntaxNode | None:
    """Return the declaration of the variable that an l-value is a part of."""
    root = syntax.root_of(node)
    return root.declaration if isinstance(root, syntax.Name) else None


def _note_changed(node: syntax.SyntaxNode, changed: set[int]) -> None:
    """Add the variables that a statement may change, by the identity of their declarations."""
    for item in syntax.walk(node):
        if isinstance(item, syntax.Assignment):
            changed.add(id(_root(item.target)))
        if isinstance(item, syntax.CallExpression) and item.target.kind not in ("builtin", "table"):
            target: Target = item.target
            changed |= {
                id(_root(argument))
                for parameter, argument in zip(target.parameters, target.arguments, strict=False)
                if argument is not None and parameter.direction in ("out", "inout")
            }
            if isinstance(target.declaration, syntax.ActionDeclaration):
                _note_changed(target.declaration.body, changed)


def _applies(node: syntax.SyntaxNode) -> bool:
    """Return whether a table is applied in a statement: BMv2 has it in one place only."""
    return any(
        item.target.kind == "table"
        or (
            isinstance(item.target.declaration, syntax.ControlDeclaration)
            and _applies(item.target.declaration.body)
        )
        for item in syntax.walk(node)
        if isinstance(item, syntax.CallExpression)
    )
