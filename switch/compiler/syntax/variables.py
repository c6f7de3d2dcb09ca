"""Declarations of what has a value: constants, variables, parameters and instances."""

from dataclasses import dataclass, field

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.syntax.expressions import (
    Annotation,
    Argument,
    CallExpression,
    Expression,
    SyntaxNode,
    TypeReference,
)
from weft.switch.compiler.types import Type


@dataclass(eq=False)
class Declaration(SyntaxNode):
    """A declaration gives something a name (section "Name resolution")."""

    annotations: list[Annotation]
    name: str
    name_span: Span
    type: Type | None = field(default=None, init=False)  # checker, of what has one


@dataclass(eq=False)
class Constant(Declaration):
    """A constant is declared by ``const type name = value;`` (section "Constants")."""

    reference: TypeReference
    value: Expression


@dataclass(eq=False)
class Variable(Declaration):
    """A variable is declared by ``type name;``, with or without an initial value (section
    "Variables")."""

    reference: TypeReference
    initializer: Expression | None


@dataclass(eq=False)
class Parameter(Declaration):
    """A parameter has a direction, ``in``, ``out`` or ``inout``, or none (section "Calling
    convention: call by copy in/copy out")."""

    direction: str
    reference: TypeReference
    default: Expression | None
    is_action_data: bool = field(default=False, init=False)
    """Whether the control plane gives the value (checker)."""


@dataclass(eq=False)
class Instantiation(Declaration):
    """An instance is declared by ``type(arguments) name;`` (section "Instantiations")."""

    reference: TypeReference
    arguments: list[Argument]
    initializer: list[SyntaxNode] | None  # None where there are no braces
    call: CallExpression | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class ValueSetDeclaration(Declaration):
    """A parser's value set is declared by ``value_set<type>(size) name;`` (section "Parser Value
    Sets")."""

    reference: TypeReference
    size: Expression
