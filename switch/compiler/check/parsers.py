"""Checks of parsers' states, select expressions, key sets and value sets."""

from contextlib import suppress
from dataclasses import dataclass

from weft.switch.compiler import syntax
from weft.switch.compiler.check.expressions import ExpressionChecker, ExpressionUser
from weft.switch.compiler.check.scope import Scope, closest
from weft.switch.compiler.check.statements import StatementChecker
from weft.switch.compiler.diagnostics import Abandon, Span
from weft.switch.compiler.order import is_static
from weft.switch.compiler.syntax import type_of
from weft.switch.compiler.types import (
    BitType,
    BoolType,
    EnumType,
    IntegerType,
    IntType,
    NewType,
    SerializableEnumType,
    SetType,
    StructType,
    TupleType,
    Type,
    TypeVariable,
    base_type,
    member_types,
    resolved,
)


def check_keyset(
    expressions: ExpressionChecker, node: syntax.Expression, scope: Scope, types: list[Type]
) -> syntax.Expression:
    """Check a key set against the types of what it is matched with.

    Specification, section "Operations on sets".
    """
    reporter = expressions.reporter
    if isinstance(node, syntax.AnyKeyset):
        return node
    if isinstance(node, syntax.ListExpression) and len(types) > 1:
        node = syntax.TupleKeyset(node.span, node.items)
    if isinstance(node, syntax.TupleKeyset):
        reporter.fail_if(
            len(node.items) != len(types),
            node.span,
            f"{len(node.items)} value(s) to match {len(types)} key(s)",
        )
        node.items = [
            check_keyset(expressions, item, scope, [kind])
            for item, kind in zip(node.items, types, strict=True)
        ]
        for item in node.items:
            reporter.fail_if(
                isinstance(item.type, SetType),
                item.span,
                "not supported: a value set beside other values (BMv2); let one hold them all",
            )
        return node
    if isinstance(node, syntax.Name):
        symbol = scope.find(node.name)
        if isinstance(symbol, syntax.ValueSetDeclaration):
            node = expressions.check(node, scope)
            assert isinstance(symbol.type, SetType)
            reporter.fail_if(
                [resolved(kind) for kind in _flattened([symbol.type.element])]
                != [resolved(kind) for kind in _flattened(types)],
                node.span,
                f"a value set of {symbol.type.element} does not fit what is selected on",
            )
            return node
    reporter.fail_if(
        len(types) != 1, node.span, f"expected a tuple of {len(types)} values in parentheses"
    )
    kind = types[0]
    match node:
        case syntax.MaskKeyset() | syntax.RangeKeyset():
            is_mask = isinstance(node, syntax.MaskKeyset)
            bare = base_type(kind)
            reporter.fail_if(
                not isinstance(bare, (BitType, IntType)),
                node.span,
                f"a {'mask' if is_mask else 'range'} cannot be used on {kind}",
            )
            sides = ("value", "mask") if is_mask else ("low", "high")
            parts = [expressions.check(getattr(node, side), scope, bare) for side in sides]
            for side, part in zip(sides, parts, strict=True):
                setattr(node, side, part)
            low, high = (part.constant for part in parts)
            reporter.warn_if(
                not is_mask and isinstance(low, int) and isinstance(high, int) and low > high,
                node.span,
                f"the range {low} .. {high} is empty",
                "mismatch",
            )
        case _:
            node = _single_value(expressions, node, scope, kind)
            parts = [node]
    for part in parts:
        reporter.fail_if(
            isinstance(part, syntax.Dots), part.span, "'...' stands for no value in a set; write _"
        )
        reporter.fail_if(
            part.constant is None and not is_static(part),
            part.span,
            "not supported: a case that is not known at compile time (BMv2)"
            if expressions.context.place == "parser"
            else "this must be known at compile time",
        )
    return node


def _single_value(
    expressions: ExpressionChecker, node: syntax.Expression, scope: Scope, kind: Type
) -> syntax.Expression:
    """Check a value that is matched with one of a type. An enum is matched with numbers as its
    underlying type; a type that ``type`` makes is matched with none."""
    if not isinstance(kind, (NewType, SerializableEnumType)):
        return expressions.check(node, scope, kind)
    node = expressions.check(node, scope)
    source = type_of(node)
    expressions.reporter.fail_if(
        isinstance(kind, NewType) and isinstance(source, IntegerType),
        node.span,
        f"a number is not matched with {kind}: write ({kind}) before it",
    )
    is_number = not isinstance(source, SerializableEnumType) and not isinstance(kind, NewType)
    return expressions.coercer.coerce(node, base_type(kind) if is_number else kind)


def _flattened(types: list[Type]) -> list[Type]:
    """Return types with structs and tuples replaced by the types of their members."""
    found: list[Type] = []
    for kind in types:
        bare = resolved(kind)
        composite = isinstance(bare, TupleType) or (
            isinstance(bare, StructType) and bare.kind == "struct"
        )
        found += _flattened(list(member_types(kind).values())) if composite else [kind]
    return found


def _can_be_selected(kind: Type) -> bool:
    """Return whether a select may have a key of a type."""
    bare = resolved(kind)
    if isinstance(bare, TupleType):
        return all(map(_can_be_selected, bare.elements))
    plain = (BitType, IntType, BoolType, EnumType, SerializableEnumType, TypeVariable)
    return isinstance(bare, plain) and not isinstance(kind, NewType)


def _can_end(node: syntax.ParserDeclaration) -> bool:
    """Return whether a transition of a state that is reached leads to accept or reject. That of a
    select without a default case leads to reject."""
    reached = node.reachable()
    names = {state.name for state in node.states}
    for state in node.states:
        if state.name in reached:
            cases = state.transition.cases if state.transition is not None else None
            if not names.issuperset(state.next_states() or ["reject"]):
                return True
            if cases is not None and not any(_takes_all(case.keyset) for case in cases):
                return True
    return False


def _takes_all(keyset: syntax.Expression) -> bool:
    items = keyset.items if isinstance(keyset, syntax.TupleKeyset) else [keyset]
    return all(isinstance(item, syntax.AnyKeyset) for item in items)


@dataclass(eq=False)
class ParserChecker(ExpressionUser):
    """A parser checker checks the states of parsers, and their value sets."""

    statements: StatementChecker

    def value_set(self, node: syntax.ValueSetDeclaration, scope: Scope) -> None:
        """Check the declaration of a value set, and add it to the scope."""
        element = self.expressions.types.resolve(node.reference, scope)
        fields = [base_type(item) for item in _flattened([element])]
        self.reporter.fail_if(
            not fields
            or any(not isinstance(item, (BitType, IntType, BoolType, EnumType)) for item in fields),
            node.reference.span,
            f"not supported: a value set of {element}; it can hold bit<N>, int<N>, bool, "
            "enums, and structs and tuples of those",
        )
        node.size = self.expressions.static_number(
            node.size, scope, "expected a number that is known at compile time"
        )
        size = node.size.constant
        self.reporter.fail_if(
            isinstance(size, int) and size < 1,
            node.size.span,
            f"the size of a value set must be at least 1, not {size}",
        )
        node.type = SetType(element)
        self.context.declare(scope, node)

    def check(self, node: syntax.ParserDeclaration, scope: Scope) -> None:
        """Check a parser's states, and that each that is named exists and is reached."""
        given = [(state.name, state.name_span) for state in node.states]
        names = {"accept", "reject", *(name for name, _ in given)}
        self.context.no_repeats(given, "there are two states '{}'", ("accept", "reject"))
        declared = {*scope.symbols, *(item.name for item in node.parameters)}
        for name, span in given:
            self.reporter.error_if(
                name in declared, span, f"the parser declares '{name}' otherwise, too"
            )
        self.reporter.error_if(
            "start" not in names, node.name_span, f"parser '{node.name}' has no state 'start'"
        )
        with self.context.inside("parser"):
            for state in node.states:
                self.expressions.annotations(state, scope)
                inner = Scope(scope)
                self.statements.check_all(state.statements, inner)
                if state.transition is not None:
                    self._transition(state.transition, inner, names)
        self._unreachable(node)
        self.reporter.error_if(
            "start" in names and not _can_end(node),
            node.name_span,
            f"no state of parser '{node.name}' that is reached leads to accept or reject",
        )

    def _state(self, name: str, span: Span, names: set[str]) -> None:
        if name not in names:
            self.reporter.error(span, f"there is no state '{name}'{closest(name, names)}")

    def _transition(self, node: syntax.Transition, scope: Scope, names: set[str]) -> None:
        if node.cases is None:
            self._state(node.state or "", node.span, names)
            return
        try:
            node.keys = [self.expressions.check(key, scope) for key in node.keys]
        except Abandon:
            return
        for key in node.keys:
            kind = type_of(key)
            if not _can_be_selected(kind):
                self.reporter.error(key.span, f"a value of type {kind} cannot be selected on")
                return
        types = [type_of(key) for key in node.keys]
        for case in node.cases:
            self._state(case.state, case.state_span, names)
            with suppress(Abandon):
                case.keyset = check_keyset(self.expressions, case.keyset, scope, types)

    def _unreachable(self, node: syntax.ParserDeclaration) -> None:
        """Warn of states that no transition leads to."""
        reached = node.reachable()
        for state in node.states:
            self.reporter.warn_if(
                state.name not in reached,
                state.name_span,
                f"state '{state.name}' is never reached",
                "unreachable",
            )
