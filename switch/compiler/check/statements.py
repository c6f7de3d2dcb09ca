"""Checks of statements (specification, chapter "Statements")."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from weft.switch.compiler import syntax
from weft.switch.compiler.check.expressions import ExpressionUser
from weft.switch.compiler.check.scope import Scope, closest
from weft.switch.compiler.diagnostics import Abandon
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BOOL,
    VOID,
    ActionEnumType,
    BitType,
    BoolType,
    IntegerType,
    IntType,
    ListType,
    MatchKindType,
    NewType,
    StackType,
    Type,
    VarbitType,
    base_type,
    resolved,
    scalar_width,
)

_COMPOUND = ("*=", "/=", "%=", "+=", "-=", "|+|=", "|-|=", "<<=", ">>=", "&=", "|=", "^=")


@dataclass(eq=False)
class StatementChecker(ExpressionUser):
    """A statement checker checks the statements of one place: a parser, an action, a function or a
    control's body."""

    returns: Type = field(default=VOID, init=False)
    loops: int = field(default=0, init=False)  # that the statement is inside of

    def __post_init__(self) -> None:
        super().__post_init__()
        self._methods: dict[type[syntax.SyntaxNode], Callable[..., None]] = {
            syntax.Block: self._block,
            syntax.Empty: lambda node, scope: None,
            syntax.Constant: self._constant,
            syntax.Variable: self._variable,
            syntax.Instantiation: self._instantiation,
            syntax.Assignment: self._assignment,
            syntax.CallStatement: self._call,
            syntax.If: self._if,
            syntax.Return: self._return,
            syntax.Exit: self._exit,
            syntax.Break: self._leave,
            syntax.Continue: self._leave,
            syntax.For: self._for,
            syntax.ForIn: self._for_in,
            syntax.SwitchStatement: self._switch,
        }

    def check_all(self, nodes: list[syntax.SyntaxNode], scope: Scope) -> None:
        """Check statements and declarations in their order."""
        for node in nodes:
            self.check(node, scope)

    def check(self, node: syntax.SyntaxNode, scope: Scope) -> None:
        """Check a statement or declaration; after an error in it the next is checked too."""
        self.context.attempt(self._methods, node, scope)

    def _block(self, node: syntax.Block, scope: Scope) -> None:
        self.expressions.annotations(node, scope)
        self.check_all(node.statements, Scope(scope))

    def _constant(self, node: syntax.Constant, scope: Scope) -> None:
        node.type = self.expressions.types.resolve(node.reference, scope)
        node.value = self.expressions.assigned(node.value, scope, node.type)
        self._declare(node, scope)
        written = isinstance(node.value, (syntax.ListExpression, syntax.RecordExpression))
        self.reporter.fail_if(
            node.value.constant is None and not (written and is_static(node.value)),
            node.value.span,
            f"the value of constant '{node.name}' is not known at compile time",
        )

    def _variable(self, node: syntax.Variable, scope: Scope) -> None:
        node.type = self.expressions.types.resolve(node.reference, scope)
        kind = resolved(node.type)
        storable = scalar_width(kind) is not None or type(kind).__name__ in (
            "StructType", "StackType", "TupleType", "UnknownType", "TypeVariable",
        )  # fmt: skip
        what = "a variable cannot have"
        if isinstance(kind, (ListType, MatchKindType)):
            what = "not supported: a variable of"
        self.reporter.fail_if(not storable, node.reference.span, f"{what} type {kind}")
        if node.initializer is not None:
            node.initializer = self.expressions.assigned(node.initializer, scope, node.type)
        self._declare(node, scope)

    def _declare(self, node: syntax.Declaration, scope: Scope) -> None:
        outer = None if scope.parent is None else scope.parent.find(node.name)
        if isinstance(outer, syntax.Parameter):
            self.reporter.error_if(
                not scope.hides_parameters,
                node.name_span,
                f"'{node.name}' has the name of a parameter (line {outer.span.line}), which "
                "it would hide; give it another one",
            )
        self.context.declare(scope, node)

    def _instantiation(self, node: syntax.Instantiation, scope: Scope) -> None:
        raise self.reporter.fail(node.span, "nothing can be instantiated among statements")

    def _assignment(self, node: syntax.Assignment, scope: Scope) -> None:
        node.target = self.expressions.check(node.target, scope)
        self.expressions.members.check_writable(node.target)
        if node.operator in _COMPOUND:
            node.value = syntax.Binary(node.span, node.operator[:-1], node.target, node.value)
            node.operator = "="
        node.value = self.expressions.assigned(node.value, scope, type_of(node.target))

    def _call(self, node: syntax.CallStatement, scope: Scope) -> None:
        self.expressions.check(node.call, scope)
        kind = node.call.target.kind
        self.reporter.fail_if(kind == "constructor", node.span, "an instance needs a name")

    def _if(self, node: syntax.If, scope: Scope) -> None:
        with suppress(Abandon):
            node.condition = self._condition(node.condition, scope, "if")
        self.check(node.then, Scope(scope))
        if node.otherwise is not None:
            self.check(node.otherwise, Scope(scope))

    def _condition(self, node: syntax.Expression, scope: Scope, what: str) -> syntax.Expression:
        node = self.expressions.check(node, scope)
        return self.expressions.coercer.coerce(node, BOOL, f"the condition of '{what}'")

    def _return(self, node: syntax.Return, scope: Scope) -> None:
        self._not_in_parser(node, "return")
        if node.value is None:
            self.reporter.fail_if(
                self.returns != VOID, node.span, f"a value of type {self.returns} must be returned"
            )
        else:
            self.reporter.fail_if(
                self.returns == VOID,
                node.value.span,
                "nothing is returned here, but there is a value",
            )
            node.value = self.expressions.assigned(node.value, scope, self.returns)

    def _exit(self, node: syntax.Exit, scope: Scope) -> None:
        self.reporter.fail_if(
            self.context.place in ("parser", "function"),
            node.span,
            f"'exit' cannot stand in a {self.context.place}",
        )

    def _leave(self, node: syntax.SyntaxNode, scope: Scope) -> None:
        self.reporter.fail_if(
            not self.loops, node.span, "'break' and 'continue' can only stand in a loop"
        )

    def _for(self, node: syntax.For, scope: Scope) -> None:
        self._not_in_parser(node, "for")
        inner = Scope(scope, hides_parameters=True)
        self.check_all(node.initial, inner)
        with suppress(Abandon):
            node.condition = self._condition(node.condition, inner, "for")
        self.check_all(node.update, inner)
        self._loop_body(node.body, inner)

    def _for_in(self, node: syntax.ForIn, scope: Scope) -> None:
        self._not_in_parser(node, "for")
        variable = node.variable
        self._variable(variable, Scope(scope, hides_parameters=True))
        self._collection(node, type_of(variable), scope)
        inner = Scope(scope)
        self.context.declare(inner, variable)
        self._loop_body(node.body, inner)

    def _collection(self, node: syntax.ForIn, kind: Type, scope: Scope) -> None:
        """Check what a loop runs over: a range, a list, or the elements of a stack or array."""
        collection = node.collection
        check = self.expressions.check
        match collection:
            case syntax.RangeKeyset():
                self.reporter.fail_if(
                    not isinstance(base_type(kind), (BitType, IntType)),
                    node.variable.span,
                    f"a loop over a range needs a variable of bit<N> or int<N>, not {kind}",
                )
                collection.low = check(collection.low, scope, kind)
                collection.high = check(collection.high, scope, kind)
                return
            case syntax.ListExpression():
                node.collection = check(collection, scope, ListType(kind))
                return
        node.collection = check(collection, scope)
        found = resolved(type_of(node.collection))
        if not isinstance(found, (ListType, StackType)):
            raise self.reporter.fail(
                collection.span,
                f"a loop runs over a range, a list, an array or a stack, not over {found}",
            )
        self.reporter.fail_if(
            found.element != kind,
            node.variable.span,
            f"the elements have type {found.element}, but the variable has type {kind}",
        )

    def _loop_body(self, body: syntax.SyntaxNode, scope: Scope) -> None:
        self.loops += 1
        self.check(body, Scope(scope))
        self.loops -= 1

    def _not_in_parser(self, node: syntax.SyntaxNode, what: str) -> None:
        self.reporter.fail_if(
            self.context.place == "parser", node.span, f"'{what}' cannot stand in a parser"
        )

    def _switch(self, node: syntax.SwitchStatement, scope: Scope) -> None:
        self._not_in_parser(node, "switch")
        node.subject = self.expressions.check(node.subject, scope)
        kind = type_of(node.subject)
        if isinstance(kind, ActionEnumType):
            self.reporter.fail_if(
                not isinstance(node.subject, syntax.MemberAccess),
                node.subject.span,
                "action_run must be all that a switch is on",
            )
            self._action_labels(node, kind)
        else:
            self._value_labels(node, kind, scope)
        for position, case in enumerate(node.cases):
            self.reporter.error_if(
                isinstance(case.label, syntax.AnyKeyset) and position != len(node.cases) - 1,
                case.label.span,
                "'default' must be the last case",
            )
            if case.body is not None:
                self.check(case.body, scope)

    def _action_labels(self, node: syntax.SwitchStatement, kind: ActionEnumType) -> None:
        names: dict[str, object] = {}
        if kind.declaration.default_action is None:
            names["NoAction"] = self.context.globals.find("NoAction")
        for item in kind.declaration.actions:
            callee = item.call.callee
            names[syntax.name_of(callee)] = getattr(callee, "declaration", None)
        seen: set[str] = set()
        for case in _labelled(node):
            name = syntax.name_of(case.label)
            elsewhere = isinstance(case.label, syntax.Name) and case.label.absolute
            if name not in names or (
                elsewhere and self.context.globals.find(name) is not names[name]
            ):
                known = ", ".join(sorted(names)) + closest(name, set(names))
                self.reporter.error(
                    case.label.span, f"expected an action of table {kind.declaration.name}: {known}"
                )
            elif name in seen:
                self.reporter.error(case.label.span, f"there are two cases for '{name}'")
            seen.add(name)

    def _value_labels(self, node: syntax.SwitchStatement, kind: Type, scope: Scope) -> None:
        unfit = (IntegerType, BoolType, VarbitType)
        if (
            scalar_width(kind) is None
            or isinstance(kind, NewType)
            or (isinstance(base_type(kind), unfit))
        ):
            raise self.reporter.fail(
                node.subject.span,
                f"'switch' takes an action_run, a number with a width or an enum, not {kind}",
            )
        seen: set[object] = set()
        for case in _labelled(node):
            try:
                case.label = self.expressions.check(case.label, scope, kind)
            except Abandon:
                continue
            if case.label.constant is None:
                self.reporter.error_if(
                    not is_static(case.label),
                    case.label.span,
                    "a case must be known at compile time",
                )
            elif case.label.constant in seen:
                self.reporter.error(
                    case.label.span, f"there are two cases for {case.label.constant}"
                )
            seen.add(case.label.constant)


def _labelled(node: syntax.SwitchStatement) -> list[syntax.SwitchCase]:
    """Return the cases of a switch but for the default."""
    return [case for case in node.cases if not isinstance(case.label, syntax.AnyKeyset)]
