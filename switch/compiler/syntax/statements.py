"""Statements."""

from dataclasses import dataclass

from weft.switch.compiler.syntax.expressions import (
    Annotation,
    CallExpression,
    Expression,
    SyntaxNode,
)
from weft.switch.compiler.syntax.variables import Variable


@dataclass(eq=False)
class Statement(SyntaxNode):
    """A statement does something; a declaration may stand among statements, too (section
    "Statements")."""


@dataclass(eq=False)
class Block(Statement):
    """A block holds statements in braces (section "Block statement")."""

    annotations: list[Annotation]
    statements: list[SyntaxNode]


@dataclass(eq=False)
class Assignment(Statement):
    """An assignment is written ``target = value``. Once ``target += x`` is checked its `value` is
    the operation (section "Assignment statement")."""

    target: Expression
    operator: str
    value: Expression


@dataclass(eq=False)
class CallStatement(Statement):
    """A call may stand as a statement, and its result is not used."""

    call: CallExpression


@dataclass(eq=False)
class If(Statement):
    """A conditional statement is written ``if (condition) then else otherwise`` (section
    "Conditional statement")."""

    condition: Expression
    then: SyntaxNode
    otherwise: SyntaxNode | None


@dataclass(eq=False)
class Empty(Statement):
    """An empty statement is written ``;`` (section "Empty statement")."""


@dataclass(eq=False)
class Return(Statement):
    """A function, action or control is left by ``return`` (section "Return statement")."""

    value: Expression | None


@dataclass(eq=False)
class Exit(Statement):
    """All blocks are left by ``exit`` (section "Exit statement")."""


@dataclass(eq=False)
class Break(Statement):
    """A loop is left by ``break``."""


@dataclass(eq=False)
class Continue(Statement):
    """The next round of a loop begins at ``continue``."""


@dataclass(eq=False)
class SwitchCase(SyntaxNode):
    """A case of a switch has a label; without a `body` it shares the one of the next case."""

    label: Expression
    body: Block | None


@dataclass(eq=False)
class SwitchStatement(Statement):
    """A switch statement runs the case that its subject matches (section "Switch statement")."""

    subject: Expression
    cases: list[SwitchCase]


@dataclass(eq=False)
class For(Statement):
    """A loop is written ``for (initial; condition; update) body`` (section "For statement")."""

    initial: list[SyntaxNode]
    condition: Expression
    update: list[SyntaxNode]
    body: SyntaxNode


@dataclass(eq=False)
class ForIn(Statement):
    """A loop over a collection is written ``for (type name in collection) body``; a range is a
    `RangeKeyset` (section "For statement")."""

    variable: Variable
    collection: Expression
    body: SyntaxNode
