"""All that lowers the code of one kind of block, put together, and the lowering of statements, in
actions, controls and parsers alike.

Expressions have calls in them and calls have statements, so what lowers one is handed what lowers
the other here.
"""

from collections.abc import Callable
from typing import TypeAlias

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.lower.calls import CallLowering
from weft.switch.compiler.lower.expressions import ExpressionLowering, LoweringPart
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.instances import InstanceLowering
from weft.switch.compiler.lower.loops import LoopLowering
from weft.switch.compiler.lower.shared import CodeWriter, Shared
from weft.switch.compiler.lower.storage import Environment
from weft.switch.compiler.lower.tables import TableLowering
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import ActionEnumType

MakeExterns: TypeAlias = Callable[[ExpressionLowering], ExternLowering]


class StatementLowering(LoweringPart):
    """The lowering of statements; their code goes to the writer."""

    def __init__(
        self, expressions: ExpressionLowering, calls: CallLowering, tables: TableLowering
    ) -> None:
        super().__init__(expressions)
        self.tables = tables
        loops = LoopLowering(expressions, self.statement)
        self._methods: dict[type[syntax.SyntaxNode], Callable[..., None]] = {
            syntax.Empty: lambda node, env: None,
            syntax.Constant: lambda node, env: None,
            syntax.Block: lambda node, env: self.statements(node.statements, env),
            syntax.Variable: expressions.declare,
            syntax.Assignment: self._assignment,
            syntax.CallStatement: lambda node, env: calls.statement(node.call, env),
            syntax.Return: calls.leave,
            syntax.Exit: calls.stop,
            syntax.If: self._if,
            syntax.SwitchStatement: self._switch,
            syntax.For: loops.for_statement,
            syntax.ForIn: loops.over,
            syntax.Break: loops.leave,
            syntax.Continue: loops.go_on,
        }

    def statements(self, nodes: list[syntax.SyntaxNode], env: Environment) -> None:
        """Lower statements in their order."""
        for node in nodes:
            self.statement(node, env)

    def statement(self, node: syntax.SyntaxNode, env: Environment) -> None:
        """Lower a statement; after an error in it the next can be lowered too."""
        before, self.writer.span = self.writer.span, node.span
        try:
            self._methods[type(node)](node, env)
        except Abandon:
            # Reported; the names that it would have bound are not missed: there is no output.
            if isinstance(node, syntax.Variable) and node.type is not None:
                env.bind(node, self.writer.temporary(node.type, node.name))
        self.writer.span = before

    def _assignment(self, node: syntax.Assignment, env: Environment) -> None:
        effects = self.shared.effects
        if not effects.of(node.target) and not effects.of(node.value):
            value = self.expressions.value(node.value, env)
            self.places.assign(self.expressions.place(node.target, env), value, node)
            return
        place = self.expressions.evaluated[id(node.target)] = self.places.frozen(
            self.expressions.place(node.target, env)
        )  # which ``target += x`` reads
        value = self.expressions.value(node.value, env)
        del self.expressions.evaluated[id(node.target)]
        self.places.assign(place, value, node)

    def _code(self, node: syntax.SyntaxNode | None, env: Environment) -> list[ir.Code]:
        """Return the code of a statement that runs only if something holds."""
        return [] if node is None else self.writer.captured(lambda: self.statement(node, env))

    def _if(self, node: syntax.If, env: Environment) -> None:
        sides = [node.then, node.otherwise]
        if (found := _table_condition(node.condition)) is not None:
            call, on_hit = found
            apply = self.tables.prepare(call, env)
            hit, miss = sides if on_hit else reversed(sides)
            apply.hit, apply.miss = self._code(hit, env), self._code(miss, env)
            self.writer.code.append(apply)
            return
        condition = self.expressions.truth(node.condition, env)
        if isinstance(condition, ir.Truth):
            self.writer.code += self._code(sides[not condition.value], env)
        else:
            then, otherwise = (self._code(side, env) for side in sides)
            self.writer.code.append(ir.Branch(condition, then, otherwise, node.condition.span))

    # Switch

    def _switch(self, node: syntax.SwitchStatement, env: Environment) -> None:
        if isinstance(type_of(node.subject), ActionEnumType):
            self._switch_on_action(node, env)
        else:
            self._switch_on_value(node, env)

    def _switch_on_action(self, node: syntax.SwitchStatement, env: Environment) -> None:
        subject = node.subject
        if not isinstance(subject, syntax.MemberAccess) or not isinstance(
            subject.base, syntax.CallExpression
        ):
            raise self.writer.fail(
                subject, "not supported: action_run of anything but table.apply()"
            )
        apply = self.tables.prepare(subject.base, env)
        apply.cases = {}
        names = {
            syntax.name_of(item.call.callee): index
            for index, item in enumerate(subject.base.target.declaration.actions)
        }
        if apply.table.actions[-1:] and apply.table.actions[-1].implicit:
            names.setdefault("NoAction", len(apply.table.actions) - 1)
        for labels, body in _bodies(node):
            code = self._code(body, env)
            for label in labels:
                if isinstance(label, syntax.AnyKeyset):
                    apply.otherwise = code
                else:
                    apply.cases[apply.table.actions[names[syntax.name_of(label)]].action.name] = (
                        code
                    )
        self.writer.code.append(apply)

    def _switch_on_value(self, node: syntax.SwitchStatement, env: Environment) -> None:
        subject = self.expressions.kept(node.subject, env)
        code: list[ir.Code] = []
        branches: list[tuple[ir.LoweredExpression, list[ir.Code]]] = []
        for labels, body in _bodies(node):
            if any(isinstance(label, syntax.AnyKeyset) for label in labels):
                code = self._code(body, env)
            else:
                condition = arithmetic.any_of(
                    self.places.equal(
                        subject,
                        ir.Number(self.expressions.known(label, env, "a case")),
                        syntax.Binary(label.span, "==", node.subject, label),
                    )
                    for label in labels
                )
                branches.append((condition, self._code(body, env)))
        for condition, body_code in reversed(branches):
            if isinstance(condition, ir.Truth):
                code = body_code if condition.value else code
            else:
                code = [ir.Branch(condition, body_code, code, node.subject.span)]
        self.writer.code += code


def _bodies(
    node: syntax.SwitchStatement,
) -> list[tuple[list[syntax.Expression], syntax.Block | None]]:
    """Return the labels that share each block; labels without one fall through to the next."""
    groups: list[tuple[list[syntax.Expression], syntax.Block | None]] = []
    labels: list[syntax.Expression] = []
    for case in node.cases:
        labels.append(case.label)
        if case.body is not None:
            groups.append((labels, case.body))
            labels = []
    return [*groups, (labels, None)] if labels else groups


def _table_condition(node: syntax.Expression) -> tuple[syntax.CallExpression, bool] | None:
    """Return the call and whether hit is meant, if a condition is just a table's hit or miss."""
    negated = False
    while isinstance(node, syntax.Unary) and node.operator == "!":
        node, negated = node.operand, not negated
    if not isinstance(node, syntax.MemberAccess) or not isinstance(
        node.base, syntax.CallExpression
    ):
        return None
    if node.base.target.kind == "table" and node.name in ("hit", "miss"):
        return node.base, (node.name == "hit") != negated
    return None


class BodyLowering:
    """The parts together that lower parsers, controls, or the lists that other controls are.

    `externs` makes what lowers the architecture's externs; `context` is control or parser;
    `apply_parser` lowers the application of a parser.
    """

    def __init__(
        self, shared: Shared, externs: MakeExterns, context: str = "control",
        apply_parser: Callable[[syntax.CallExpression, Environment], None] | None = None,
    ) -> None:  # fmt: skip
        self.writer = CodeWriter(shared, context)
        self.expressions = ExpressionLowering(
            self.writer,
            lambda call, env: self.calls.value(call, env),
            lambda call, name, env: self.tables.result(call, name, env),
        )
        self.externs = externs(self.expressions)
        self.calls = CallLowering(
            self.expressions, self.externs,
            lambda nodes, env: self.statements.statements(nodes, env),
            {
                "table": lambda node, env: self.writer.code.append(self.tables.prepare(node, env)),
                "control": lambda node, env: self.instances.apply_control(node, env),
                "parser": apply_parser or self._no_parser,
            },
        )  # fmt: skip
        self.instances = InstanceLowering(self.expressions, self.calls)
        self.tables = TableLowering(self.expressions, self.calls, self.instances)
        self.statements = StatementLowering(self.expressions, self.calls, self.tables)

    def _no_parser(self, node: syntax.CallExpression, env: Environment) -> None:
        raise self.writer.fail(node, "a parser cannot be applied here")
