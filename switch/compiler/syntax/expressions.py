"""Expressions, the key sets among them, and references to types."""

from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.raw_token import RawToken
from weft.switch.compiler.types import Type

KnownValue = int | bool | str | tuple[Any, ...]
"""A value known at compile time: enum members and errors by name, lists as tuples."""


@dataclass(eq=False)
class SyntaxNode:
    """A node is a part of the program; `span` tells where in the source it stands."""

    span: Span


@dataclass(eq=False)
class Annotation(SyntaxNode):
    """An annotation is written ``@name``, ``@name(...)`` or ``@name[...]``; `body` holds the tokens
    inside the brackets (section "Annotations")."""

    name: str
    bracket: str = ""
    body: list[RawToken] = field(default_factory=list)


@dataclass(eq=False)
class TypeReference(SyntaxNode):
    """A reference to a type is what a program writes where it means a type (section "P4 data
    types")."""


@dataclass(eq=False)
class BaseTypeReference(TypeReference):
    """A base type is written ``bool``, ``bit<8>``, ``int``, ``varbit<(N)>``, ``error``, ``void``,
    ``_`` and the like (section "Base types")."""

    kind: str
    width: "Expression | None" = None


@dataclass(eq=False)
class NamedTypeReference(TypeReference):
    """A type is named by its declaration, with type arguments if that has parameters (section "Type
    specialization")."""

    name: str
    arguments: list[TypeReference] = field(default_factory=list)


@dataclass(eq=False)
class StackTypeReference(TypeReference):
    """An array is written ``element[size]``; of headers it is a header stack (section "Header
    stacks")."""

    element: TypeReference
    size: "Expression"


@dataclass(eq=False)
class TupleTypeReference(TypeReference):
    """A tuple is written ``tuple<...>``, and a list ``list<element>`` (sections "Tuple types" and
    "List types")."""

    elements: list[TypeReference]
    is_list: bool = False


@dataclass(eq=False)
class Expression(SyntaxNode):
    """An expression has a value; the checker notes its type, and the value if that is known at
    compile time (section "Expressions")."""

    type: Type | None = field(default=None, init=False)  # checker
    constant: KnownValue | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class IntegerLiteral(Expression):
    """An integer literal is a number like ``8w0xFF``; its `width` is None if none is written
    (section "Integer literals")."""

    value: int
    width: int | None = None
    signed: bool = False
    text: str = ""


def known_integer(span: Span, value: int) -> IntegerLiteral:
    """Return a literal for the checker to put in the place of an expression that it has
    evaluated."""
    node = IntegerLiteral(span, value)
    node.constant = value
    return node


@dataclass(eq=False)
class BooleanLiteral(Expression):
    """A Boolean literal is written ``true`` or ``false`` (section "Boolean literals")."""

    value: bool


@dataclass(eq=False)
class StringLiteral(Expression):
    """A string literal is written in double quotes (section "String literals")."""

    value: str


@dataclass(eq=False)
class Name(Expression):
    """A name stands for what the checker finds declared; an `absolute` one begins with a dot, and
    is looked for outside of all blocks (section "Name resolution")."""

    name: str
    absolute: bool = False
    declaration: SyntaxNode | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class TypeExpression(Expression):
    """A type may stand where an expression may: in ``Type.member`` and ``Type(arguments)``."""

    reference: TypeReference


@dataclass(eq=False)
class MemberAccess(Expression):
    """A member is accessed by ``base.name``: a field, a method, or a member of an enum."""

    base: Expression
    name: str
    name_span: Span


@dataclass(eq=False)
class Index(Expression):
    """An element is indexed by ``base[index]`` (section "Operations on header stacks")."""

    base: Expression
    index: Expression


@dataclass(eq=False)
class Slice(Expression):
    """A slice is written ``base[high:low]``, or ``base[low+:width]`` where `low_and_width` is set
    (section "Operations on fixed-width bit types (unsigned integers)")."""

    base: Expression
    high: Expression
    low: Expression
    low_and_width: bool = False


@dataclass(eq=False)
class ListExpression(Expression):
    """A list is written ``{ a, b }`` (section "Operations on lists"); `is_list` says that
    ``(list<T>)`` stands before it."""

    items: list[Expression]
    is_list: bool = False


@dataclass(eq=False)
class RecordExpression(Expression):
    """A structure-valued expression is written ``{ name = value }``; `defaults` says that it ends
    with ``...`` (section "Operations on structure-valued expressions")."""

    fields: list[tuple[str, Expression]]
    defaults: bool = False


@dataclass(eq=False)
class InvalidHeader(Expression):
    """An invalid header is written ``{#}`` (section "Operations on headers")."""


@dataclass(eq=False)
class Dots(Expression):
    """Three dots, ``...``, which stand for default values (section "Initializing with default
    values")."""


@dataclass(eq=False)
class Unary(Expression):
    """A unary operation has its operator before its operand, like ``!a``, ``~a`` and ``-a``."""

    operator: str
    operand: Expression


@dataclass(eq=False)
class Binary(Expression):
    """A binary operation has its operator between its operands, like ``a + b``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Conditional(Expression):
    """A conditional is written ``condition ? then : otherwise`` (section "Conditional
    operator")."""

    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(eq=False)
class CastExpression(Expression):
    """A cast is written ``(type) operand``; one that the checker inserted has no `reference`
    (section "Casts")."""

    reference: TypeReference | None
    operand: Expression


@dataclass(eq=False)
class Argument(SyntaxNode):
    """An argument of a call may have the name of a parameter; its `value` is None for ``_``."""

    name: str | None
    value: Expression | None


@dataclass(eq=False)
class CallExpression(Expression):
    """A call is written ``callee<types>(arguments)`` (sections "Method invocations and function
    calls" and "Constructor invocations")."""

    callee: Expression
    type_arguments: list[TypeReference]
    arguments: list[Argument]
    target: Any = field(default=None, init=False)  # checker: a `Target`


@dataclass(eq=False)
class AnyKeyset(Expression):
    """A key set that everything matches, ``default`` or ``_`` (section "Operations on sets")."""


@dataclass(eq=False)
class MaskKeyset(Expression):
    """A masked value is written ``value &&& mask`` (section "Operations on sets")."""

    value: Expression
    mask: Expression


@dataclass(eq=False)
class RangeKeyset(Expression):
    """A range is written ``low .. high``, with both of them in it (section "Operations on
    sets")."""

    low: Expression
    high: Expression


@dataclass(eq=False)
class TupleKeyset(Expression):
    """A product of sets is written in parentheses, a set for each key (section "Operations on
    sets")."""

    items: list[Expression]
