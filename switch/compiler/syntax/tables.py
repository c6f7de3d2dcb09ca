"""Declarations of tables."""

from dataclasses import dataclass, field

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.syntax.blocks import ActionDeclaration
from weft.switch.compiler.syntax.expressions import (
    Annotation,
    CallExpression,
    Expression,
    SyntaxNode,
)
from weft.switch.compiler.syntax.tree import name_of
from weft.switch.compiler.syntax.variables import Declaration


@dataclass(eq=False)
class KeyElement(SyntaxNode):
    """An element of a table's key is written ``expression : match_kind;`` (section "Keys")."""

    expression: Expression
    match_kind: str
    match_kind_span: Span
    annotations: list[Annotation]


@dataclass(eq=False)
class ActionReference(SyntaxNode):
    """A reference to an action has its name, with arguments of which some may be missing. The
    checker resolves the call."""

    call: CallExpression
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(eq=False)
class Entry(SyntaxNode):
    """An entry of a table is declared in its ``entries`` (section "Entries")."""

    is_constant: bool
    priority: Expression | None
    keyset: Expression
    action: ActionReference
    annotations: list[Annotation]


@dataclass(eq=False)
class Property(SyntaxNode):
    """A property of a table is written ``name = value;`` (section "Table properties")."""

    annotations: list[Annotation]
    name: str
    is_constant: bool
    value: Expression


@dataclass(eq=False)
class TableDeclaration(Declaration):
    """A table is declared with its key, actions, entries and other properties (section
    "Tables")."""

    keys: list[KeyElement]
    actions: list[ActionReference]
    entries: list[Entry]
    entries_are_constant: bool
    properties: dict[str, Property]
    has_actions: bool = field(default=False, init=False)
    default_action_first: bool = field(default=False, init=False)  # before the list of actions
    entries_first: bool = field(default=False, init=False)  # before the key
    repeated: list[tuple[str, Span]] = field(default_factory=list, init=False)  # properties
    default_action: ActionReference | None = field(default=None, init=False)  # checker
    no_action: ActionDeclaration | None = field(
        default=None, init=False
    )  # checker: what NoAction is there

    def listed(self, name: str) -> ActionReference | None:
        """Return an action of this name among those of the table."""
        return next((item for item in self.actions if name_of(item.call.callee) == name), None)
