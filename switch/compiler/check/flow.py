"""Warnings of values that are read before they are set, and of headers that may be invalid.

Control flow is followed through the bodies of parsers, controls and functions, and from tables
into their actions. Specification, section "Reading uninitialized values and writing fields of
invalid headers".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.flow_facts import (
    Facts,
    FieldPath,
    PlaceKey,
    joined,
    key_of,
    leaves,
    written_key,
)
from weft.switch.compiler.diagnostics import Reporter, Span
from weft.switch.compiler.syntax import Target, type_of
from weft.switch.compiler.types import is_header, resolved

_LEAVING = (syntax.Return, syntax.Exit, syntax.Break, syntax.Continue)
MAXIMUM_DEPTH = 20
"""The depth to which actions that call actions are followed."""


@dataclass(eq=False)
class FlowChecker:
    """A flow checker follows control through a program, and warns of what is read before it is
    set."""

    reporter: Reporter
    quiet: bool = field(default=False, init=False)
    depth: int = field(default=0, init=False)
    returned: list[Facts] = field(default_factory=list, init=False)
    left: list[Facts] = field(default_factory=list, init=False)  # by break and continue
    by_action: dict[str, Facts | None] = field(
        default_factory=dict, init=False
    )  # after the last table

    def __post_init__(self) -> None:
        self._methods: dict[type, Callable[..., Facts | None]] = {
            syntax.Block: lambda node, facts: self.block(node.statements, facts),
            syntax.Variable: self._variable,
            syntax.Assignment: self._assignment,
            syntax.CallStatement: lambda node, facts: self.call(node.call, facts),
            syntax.If: self._if,
            syntax.SwitchStatement: self._switch,
            syntax.For: self._for,
            syntax.ForIn: self._for_in,
            syntax.Break: self._leave,
            syntax.Continue: self._leave,
            syntax.Return: self._return,
            syntax.Exit: lambda node, facts: None,
        }

    def check(self, program: syntax.SourceProgram) -> None:
        """Follow control through every function, control and parser of a program."""
        for node in program.declarations:
            match node:
                case syntax.Function():
                    self._body(node.prototype.parameters, [], node.body.statements)
                case syntax.ControlDeclaration():
                    self._body(node.parameters, node.locals, node.body.statements)
                case syntax.ParserDeclaration():
                    self._parser(node)

    def _begin(
        self, parameters: list[syntax.Parameter], locals_: Sequence[syntax.SyntaxNode]
    ) -> Facts:
        facts = Facts()
        for item in parameters:
            if item.direction == "out" and item.type is not None:
                facts.begin(item, item.type)
        for local in locals_:
            if isinstance(local, syntax.Variable):
                self._variable(local, facts)
        return facts

    def _body(
        self, parameters: list[syntax.Parameter], locals_: Sequence[syntax.SyntaxNode],
        statements: list[syntax.SyntaxNode],
    ) -> None:  # fmt: skip
        self.returned = []
        end = self.block(statements, self._begin(parameters, locals_))
        self._end(parameters, joined([end, *self.returned]))

    def _end(self, parameters: list[syntax.Parameter], facts: Facts | None) -> None:
        """Warn of ``out`` parameters that may be left without a value."""
        unset = set() if facts is None else facts.unset
        for item in parameters:
            missing = [path for number, path in unset if number == id(item)]
            if missing and item.direction == "out":
                self.warn(
                    item.name_span,
                    f"out parameter '{item.name}'{_listed(missing)} may be left without a value",
                    "uninitialized-out-param",
                )

    def _parser(self, node: syntax.ParserDeclaration) -> None:
        """Find what holds at each state, then warn."""
        states = {state.name: state for state in node.states}
        before: dict[str, Facts] = {}
        if "start" in states:
            self.quiet = True
            before["start"] = self._begin(node.parameters, node.locals)
            waiting = ["start"]
            while waiting:
                name = waiting.pop()
                after = self._state(states[name], before[name].copy())
                for target in states[name].next_states():
                    known = before.get(target)
                    reached = after if known is None else known.join(after)
                    if reached != known:
                        before[target] = reached
                        waiting += [target] if target in states else []
            self.quiet = False
        for name in filter(states.__contains__, before):
            self._state(states[name], before[name].copy())
        self._end(node.parameters, before.get("accept"))

    def _state(self, state: syntax.ParserState, facts: Facts) -> Facts:
        after = self.block(state.statements, facts) or facts
        if state.transition is not None:
            for key in state.transition.keys:
                self.read(key, after)
        return after

    def warn(self, span: Span, message: str, kind: str) -> None:
        """Report a warning, unless the flow is only being found out."""
        if not self.quiet:
            self.reporter.warning(span, message, kind)

    # Statements

    def block(self, nodes: list[syntax.SyntaxNode], facts: Facts) -> Facts | None:
        """Return the facts after statements, or None if control does not get past them."""
        now: Facts | None = facts
        for place, node in enumerate(nodes):
            if now is None:
                if isinstance(nodes[place - 1], _LEAVING):
                    self.warn(node.span, "no packet comes to this statement", "unreachable")
                return None
            now = self.statement(node, now)
        return now

    def statement(self, node: syntax.SyntaxNode | None, facts: Facts) -> Facts | None:
        """Return the facts after a statement, or None if control does not get past it."""
        method = self._methods.get(type(node))
        return facts if method is None else method(node, facts)

    def _variable(self, node: syntax.Variable, facts: Facts) -> Facts:
        if node.initializer is not None:
            self.read(node.initializer, facts)
            facts.set((id(node), ()))
            self._copy_validity((id(node), ()), node.initializer, facts)
        elif node.type is not None:
            facts.begin(node, node.type)
        return facts

    def _assignment(self, node: syntax.Assignment, facts: Facts) -> Facts:
        self.read(node.value, facts)
        if node.operator != "=":
            self.read(node.target, facts)
        self._write(node.target, facts)
        if (key := written_key(node.target)) is not None:
            self._copy_validity(key, node.value, facts)
        return facts

    def _copy_validity(self, key: PlaceKey, value: syntax.Expression, facts: Facts) -> None:
        source = key_of(value)
        if isinstance(value, syntax.InvalidHeader):
            facts.set_valid(key, valid=False)
        elif source in facts.invalid:
            facts.invalid.add(key)
            facts.valid -= {key}
            facts.valid |= {key} if source in facts.valid else set()

    def _write(self, node: syntax.Expression, facts: Facts) -> None:
        for part in _indices(node):
            self.read(part, facts)
        if (key := written_key(node)) is not None:
            header = (key[0], key[1][:-1])
            if key[1] and header in facts.invalid and header not in facts.valid:
                shown = _shown(node, header[1])
                self.warn(node.span, f"header {shown} is not valid here", "invalid-header")
            facts.set(key)

    def _if(self, node: syntax.If, facts: Facts) -> Facts | None:
        self.read(node.condition, facts)
        then = self.statement(node.then, self.assume(node.condition, True, facts.copy()))
        otherwise = self.assume(node.condition, False, facts.copy())
        rest = otherwise if node.otherwise is None else self.statement(node.otherwise, otherwise)
        if node.condition.constant is not None:
            return then if node.condition.constant else rest
        return joined([then, rest])

    def _switch(self, node: syntax.SwitchStatement, facts: Facts) -> Facts | None:
        self.by_action = {}
        self.read(node.subject, facts)
        by_action, has_default = self.by_action, False
        ways: list[Facts | None] = []
        pending: list[Facts | None] = []
        for case in node.cases:
            name = getattr(case.label, "name", "")
            has_default |= isinstance(case.label, syntax.AnyKeyset)
            entry = by_action.get(name, facts) if by_action else facts
            pending.append(None if entry is None else entry.copy())
            if case.body is not None:
                start = joined(pending)
                ways.append(None if start is None else self.statement(case.body, start.copy()))
                pending = []
        if not has_default:
            ways.append(facts)
        return joined(ways)

    def _for(self, node: syntax.For, facts: Facts) -> Facts | None:
        for item in node.initial:
            facts = self.statement(item, facts) or facts
        self.read(node.condition, facts)
        return self._loop([node.body, *node.update], facts)

    def _for_in(self, node: syntax.ForIn, facts: Facts) -> Facts | None:
        self.read(node.collection, facts)
        return self._loop([node.body], facts)

    def _loop(self, body: list[syntax.SyntaxNode], facts: Facts) -> Facts | None:
        outer, self.left = self.left, []
        once = self.block(body, facts.copy())
        start = joined([facts, once, *self.left]) or facts
        result = joined([start, self.block(body, start.copy()), *self.left])
        self.left = outer
        return result

    def _leave(self, node: syntax.SyntaxNode, facts: Facts) -> None:
        self.left.append(facts)

    def _return(self, node: syntax.Return, facts: Facts) -> None:
        if node.value is not None:
            self.read(node.value, facts)
        self.returned.append(facts)

    # Expressions

    def assume(self, condition: syntax.Expression, holds: bool, facts: Facts) -> Facts:
        """Add what follows from a condition that holds, or does not."""
        match condition:
            case syntax.Unary() if condition.operator == "!":
                return self.assume(condition.operand, not holds, facts)
            case syntax.Binary() if condition.operator == ("&&" if holds else "||"):
                return self.assume(
                    condition.right, holds, self.assume(condition.left, holds, facts)
                )
        target = getattr(condition, "target", None)
        if isinstance(target, Target) and target.name == "isValid" and target.base is not None:
            key = key_of(target.base)
            if key is not None and key in facts.invalid:
                facts.set_valid(key, holds)
        return facts

    def read(self, node: syntax.Expression | None, facts: Facts) -> None:
        """Evaluate an expression: warn of what it reads, and note what calls in it set."""
        if node is None or (facts.nothing() and not _may_call(node)):
            return
        if node.constant is not None and not isinstance(node, syntax.CallExpression):
            return
        key = key_of(node)
        match node:
            case syntax.CallExpression():
                self.call(node, facts)
            case syntax.Binary(operator="&&" | "||"):
                self.read(node.left, facts)
                self.read(node.right, self.assume(node.left, node.operator == "&&", facts.copy()))
            case syntax.Conditional():
                self.read(node.condition, facts)
                self.read(node.then, self.assume(node.condition, True, facts.copy()))
                self.read(node.otherwise, self.assume(node.condition, False, facts.copy()))
            case _ if key is not None:
                self._read_place(node, key, facts)
            case _:
                for item in _parts(node):
                    self.read(item, facts)

    def _read_place(self, node: syntax.Expression, key: PlaceKey, facts: Facts) -> None:
        header = (key[0], key[1][:-1])
        if key[1] and header in facts.invalid:
            verb = "may not be" if header in facts.valid else "is not"
            shown = _shown(node, header[1])
            self.warn(node.span, f"header {shown} {verb} valid here", "invalid-header")
        else:
            missing = [
                path for path, _ in leaves(node.type) if (key[0], key[1] + path) in facts.unset
            ]
            if missing:
                what = f"{_shown(node, key[1])}{_listed(missing)}"
                self.warn(
                    node.span, f"{what} may be read before it has a value", "uninitialized-use"
                )

    def call(self, node: syntax.CallExpression, facts: Facts) -> Facts | None:
        """Return the facts after a call; they may also be noted in `facts` itself."""
        target = node.target
        if not isinstance(target, Target):
            return facts
        match target.kind:
            case "builtin":
                return self._builtin(target, facts)
            case "table":
                return self._apply(target.declaration, facts)
        if target.kind == "extern_method" and target.base is not None:
            self.read(target.base, facts)
        self._pass(target, facts)
        if target.kind == "action" and isinstance(target.declaration, syntax.ActionDeclaration):
            after = self._action(target.declaration, facts)
            if after is None:
                return None
            facts.unset, facts.invalid, facts.valid = after.unset, after.invalid, after.valid
        return facts

    def _pass(self, target: Target, facts: Facts) -> None:
        """Read the arguments of a call, and note those that get a value from it."""
        for parameter, argument in zip(target.parameters, target.arguments, strict=False):
            if argument is not None and argument is not parameter.default:
                if parameter.direction != "out":
                    self.read(argument, facts)
                if parameter.direction in ("out", "inout"):
                    self._write(argument, facts)

    def _builtin(self, target: Target, facts: Facts) -> Facts:
        if target.base is not None and target.name in ("setValid", "setInvalid"):
            key = key_of(target.base)
            if key is not None and is_header(resolved(type_of(target.base))):
                facts.set_valid(key, target.name == "setValid")
        return facts

    def _apply(self, table: syntax.SyntaxNode | None, facts: Facts) -> Facts:
        assert isinstance(table, syntax.TableDeclaration)
        for key in table.keys:
            self.read(key.expression, facts)
        ways: dict[str, Facts | None] = {}
        for reference in table.actions:
            target = reference.call.target
            if isinstance(target, Target) and isinstance(
                target.declaration, syntax.ActionDeclaration
            ):
                entry = facts.copy()
                self._pass(target, entry)
                ways[target.declaration.name] = self._action(target.declaration, entry)
        after = joined([*ways.values(), facts.copy() if table.default_action is None else None])
        self.by_action = ways
        if after is not None:
            facts.unset, facts.invalid, facts.valid = after.unset, after.invalid, after.valid
        return facts

    def _action(self, node: syntax.ActionDeclaration, facts: Facts) -> Facts | None:
        """Return the facts after an action's body; None if it always exits."""
        if self.depth >= MAXIMUM_DEPTH or (
            facts.nothing()
            and not any(isinstance(item, syntax.Variable) for item in node.body.statements)
            and not any(item.direction == "out" for item in node.parameters)
        ):
            return facts
        outer, self.returned = self.returned, []
        for item in node.parameters:
            if item.direction == "out" and item.type is not None:
                facts.begin(item, item.type)
        self.depth += 1
        end = self.block(node.body.statements, facts)
        self.depth -= 1
        after = joined([end, *self.returned])
        self.returned = outer
        self._end(node.parameters, after)
        return after


def _shown(node: syntax.Expression, path: FieldPath) -> str:
    """Return the name of the variable that an expression is a part of, with a path of fields."""
    return f"'{'.'.join([syntax.name_of(syntax.root_of(node)), *path])}'"


def _listed(paths: list[FieldPath]) -> str:
    """Return some of the fields at paths, in brackets; an empty text where they are no fields."""
    names = sorted(".".join(path) for path in paths if path)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f" ({', '.join(names[:3])}{more})" if names else ""


def _parts(node: syntax.Expression) -> list[syntax.Expression]:
    """Return the expressions directly inside an expression."""
    return [item for item in syntax.children(node) if isinstance(item, syntax.Expression)]


def _indices(node: syntax.Expression) -> list[syntax.Expression]:
    """Return the indices in what is assigned to."""
    return [item.index for item in syntax.path_of(node) if isinstance(item, syntax.Index)]


def _may_call(node: syntax.Expression) -> bool:
    """Return whether an expression may hold a call."""
    return any(isinstance(item, syntax.CallExpression) for item in syntax.walk(node))
