"""Lowering of statements, in actions, controls and parsers alike."""

from __future__ import annotations

from weft.switch.compiler import arithmetic, ir, syntax
from weft.switch.compiler.check.operations import type_of
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.lower.loops import LoopLowering
from weft.switch.compiler.types import BOOL, ActionEnumType
from weft.switch.compiler.values import Environment, Value


class StatementLowering(LoopLowering):
    """Lowers statements into `code`. `context` says where: control, action or parser."""

    def statements(self, nodes: list[syntax.Node], env: Environment) -> None:
        for node in nodes:
            self.statement(node, env)

    def statement(self, node: syntax.Node, env: Environment) -> None:
        before, self.span = self.span, node.span
        method = getattr(self, "_do_" + type(node).__name__.lower())
        try:
            method(node, env)
        except Abandon:
            # Reported; the names that it would have bound are not missed: there is no output.
            if isinstance(node, syntax.Variable) and node.type is not None:
                env.bind(node, self.temporary(node.type, node.name))
        self.span = before

    def _do_empty(self, node: syntax.Empty, env: Environment) -> None:
        pass

    def _do_block(self, node: syntax.Block, env: Environment) -> None:
        self.statements(node.statements, env)

    def _do_constant(self, node: syntax.Constant, env: Environment) -> None:
        pass

    def _do_variable(self, node: syntax.Variable, env: Environment) -> None:
        self.declare_variable(node, env)
        self.initialize_variable(node, env)

    def declare_variable(self, node: syntax.Variable, env: Environment) -> None:
        """Give a variable its place: one for each instance of the block that it is in."""
        assert node.type is not None
        key = (id(node), id(env.owner()))
        place = self.shared.variables.get(key)
        if place is None:
            prefix = f"{env.path}." if env.path else ""
            place = self.allocated(prefix + node.name, node.type)
            self.shared.variables[key] = place
        env.bind(node, place)

    def initialize_variable(self, node: syntax.Variable, env: Environment) -> None:
        place = env.find(node)
        assert place is not None
        if node.initializer is not None:
            self.assign(place, self.value(node.initializer, env), node)  # type: ignore[arg-type]
        else:
            self.invalidate(place)  # type: ignore[arg-type]

    def _do_assignment(self, node: syntax.Assignment, env: Environment) -> None:
        if not self.shared.effects.of(node.target) and not self.shared.effects.of(node.value):
            value = self.value(node.value, env)
            self.assign(self.place(node.target, env), value, node)
            return
        place = self.frozen(self.place(node.target, env), node.target)
        self.evaluated[id(node.target)] = place  # which ``target += x`` reads
        value = self.value(node.value, env)
        del self.evaluated[id(node.target)]
        self.assign(place, value, node)

    def _do_callstatement(self, node: syntax.CallStatement, env: Environment) -> None:
        self.call_statement(node.call, env)

    def _do_return(self, node: syntax.Return, env: Environment) -> None:
        self.leave(node, env)

    def _do_exit(self, node: syntax.Exit, env: Environment) -> None:
        self.stop(node)

    def _do_if(self, node: syntax.If, env: Environment) -> None:
        def then() -> None:
            self.statement(node.then, env)

        def otherwise() -> None:
            if node.otherwise is not None:
                self.statement(node.otherwise, env)

        found = _table_condition(node.condition)
        if found is not None:
            call, on_hit = found
            apply = self.prepare_table(call, env)
            hit, miss = (then, otherwise) if on_hit else (otherwise, then)
            apply.hit, apply.miss = self.captured(hit), self.captured(miss)
            self.code.append(apply)
            return
        condition = self.truth(node.condition, env)
        if isinstance(condition, ir.Truth):
            (then if condition.value else otherwise)()
            return
        branch = ir.Branch(
            condition, self.captured(then), self.captured(otherwise), node.condition.span
        )
        self.code.append(branch)

    def table_result(self, call: syntax.Call, name: str, env: Environment) -> Value:
        """``t.apply().hit`` or ``.miss`` inside an expression: kept in a variable."""
        if name == "action_run":
            raise self.fail(call, "action_run can only be the subject of 'switch'")
        place = self.temporary(BOOL, f"{call.target.name}_{name}")
        apply = self.prepare_table(call, env)
        is_hit = name == "hit"
        apply.hit = self.captured(lambda: self.assign(place, ir.Truth(is_hit), call))
        apply.miss = self.captured(lambda: self.assign(place, ir.Truth(not is_hit), call))
        self.code.append(apply)
        return place

    def apply_table(self, node: syntax.Call, env: Environment) -> None:
        self.code.append(self.prepare_table(node, env))

    def prepare_table(self, call: syntax.Call, env: Environment) -> ir.Apply:
        raise self.fail(call, "a table can only be applied in a control's apply block")

    # Switch

    def _do_switch(self, node: syntax.Switch, env: Environment) -> None:
        if isinstance(type_of(node.subject), ActionEnumType):
            self._switch_on_action(node, env)
        else:
            self._switch_on_value(node, env)

    def _bodies(
        self, node: syntax.Switch
    ) -> list[tuple[list[syntax.Expression], syntax.Block | None]]:
        """The labels that share each block; labels without one fall through to the next."""
        groups: list[tuple[list[syntax.Expression], syntax.Block | None]] = []
        labels: list[syntax.Expression] = []
        for case in node.cases:
            labels.append(case.label)
            if case.body is not None:
                groups.append((labels, case.body))
                labels = []
        if labels:
            groups.append((labels, None))
        return groups

    def _block_code(self, body: syntax.Block | None, env: Environment) -> list[ir.Code]:
        if body is None:
            return []
        return self.captured(lambda: self.statement(body, env))

    def _switch_on_action(self, node: syntax.Switch, env: Environment) -> None:
        subject = node.subject
        is_result = isinstance(subject, syntax.Member) and isinstance(subject.base, syntax.Call)
        if not is_result:
            raise self.fail(subject, "not supported: action_run of anything but table.apply()")
        assert isinstance(subject, syntax.Member) and isinstance(subject.base, syntax.Call)
        apply = self.prepare_table(subject.base, env)
        apply.cases = {}
        names = {
            _name(item.call.callee): index
            for index, item in enumerate(subject.base.target.declaration.actions)
        }
        if apply.table.actions[-1:] and apply.table.actions[-1].implicit:
            names.setdefault("NoAction", len(apply.table.actions) - 1)
        for labels, body in self._bodies(node):
            code = self._block_code(body, env)
            for label in labels:
                if isinstance(label, syntax.AnyKeyset):
                    apply.otherwise = code
                    continue
                choice = apply.table.actions[names[_name(label)]]
                apply.cases[choice.action.name] = code
        self.code.append(apply)

    def _switch_on_value(self, node: syntax.Switch, env: Environment) -> None:
        subject = self.copied(node.subject, env)
        otherwise: list[ir.Code] = []
        branches: list[tuple[ir.Expression, list[ir.Code]]] = []
        for labels, body in self._bodies(node):
            if any(isinstance(label, syntax.AnyKeyset) for label in labels):
                otherwise = self._block_code(body, env)
                continue
            condition: ir.Expression = ir.Truth(False)
            for label in labels:
                comparison = syntax.Binary(label.span, "==", node.subject, label)
                same = self.equal(subject, self.value(label, env), comparison)
                condition = arithmetic.either(condition, same)
            branches.append((condition, self._block_code(body, env)))
        code = otherwise
        for condition, body_code in reversed(branches):
            if isinstance(condition, ir.Truth):
                code = body_code if condition.value else code
            else:
                code = [ir.Branch(condition, body_code, code, node.subject.span)]
        self.code += code


def _name(node: syntax.Expression) -> str:
    return node.name if isinstance(node, syntax.Name) else ""


def _table_condition(node: syntax.Expression) -> tuple[syntax.Call, bool] | None:
    """The call and whether hit is meant, if a condition is just a table's hit or miss."""
    negated = False
    while isinstance(node, syntax.Unary) and node.operator == "!":
        node, negated = node.operand, not negated
    if not isinstance(node, syntax.Member) or not isinstance(node.base, syntax.Call):
        return None
    if node.base.target.kind == "table" and node.name in ("hit", "miss"):
        return node.base, (node.name == "hit") != negated
    return None
