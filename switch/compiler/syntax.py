"""The syntax tree of a P4_16 program.

The parser builds it; the checker writes its findings into the fields marked "checker": the type of
each expression, its value if it is known at compile time, and what each name and call refers to.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.parse.tokens import RawToken
from weft.switch.compiler.types import VOID, Bindings, Type

KnownValue = int | bool | str | tuple[Any, ...]
"""A value known at compile time: enum members and errors by name, lists as tuples."""


@dataclass(eq=False)
class SyntaxNode:
    span: Span


@dataclass(eq=False)
class Annotation(SyntaxNode):
    """``@name``, ``@name(...)`` or ``@name[...]``; `body` holds the tokens inside the brackets."""

    name: str
    bracket: str = ""
    body: list[RawToken] = field(default_factory=list)


# References to types


@dataclass(eq=False)
class TypeReference(SyntaxNode):
    """A type, as it is written."""


@dataclass(eq=False)
class BaseTypeReference(TypeReference):
    """``bool``, ``bit<8>``, ``int``, ``varbit<(N)>``, ``error``, ``void``, ``_`` and the like."""

    kind: str
    width: "Expression | None" = None


@dataclass(eq=False)
class NamedTypeReference(TypeReference):
    name: str
    arguments: list[TypeReference] = field(default_factory=list)


@dataclass(eq=False)
class StackTypeReference(TypeReference):
    element: TypeReference
    size: "Expression"


@dataclass(eq=False)
class TupleTypeReference(TypeReference):
    elements: list[TypeReference]
    is_list: bool = False


# Expressions


@dataclass(eq=False)
class Expression(SyntaxNode):
    type: Type | None = field(default=None, init=False)  # checker
    constant: KnownValue | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class IntegerLiteral(Expression):
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
    value: bool


@dataclass(eq=False)
class StringLiteral(Expression):
    value: str


@dataclass(eq=False)
class Name(Expression):
    name: str
    absolute: bool = False
    declaration: SyntaxNode | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class TypeExpression(Expression):
    """A type where an expression may stand: ``Type.member``, ``Type(arguments)``."""

    reference: TypeReference


@dataclass(eq=False)
class MemberAccess(Expression):
    base: Expression
    name: str
    name_span: Span


@dataclass(eq=False)
class Index(Expression):
    base: Expression
    index: Expression


@dataclass(eq=False)
class Slice(Expression):
    """``base[high:low]``, or ``base[low+:width]`` where `low_and_width` is set."""

    base: Expression
    high: Expression
    low: Expression
    low_and_width: bool = False


@dataclass(eq=False)
class ListExpression(Expression):
    items: list[Expression]


@dataclass(eq=False)
class RecordExpression(Expression):
    fields: list[tuple[str, Expression]]
    defaults: bool = False


@dataclass(eq=False)
class InvalidHeader(Expression):
    """``{#}``."""


@dataclass(eq=False)
class Dots(Expression):
    """``...``: default values."""


@dataclass(eq=False)
class Unary(Expression):
    operator: str
    operand: Expression


@dataclass(eq=False)
class Binary(Expression):
    operator: str
    left: Expression
    right: Expression


@dataclass(eq=False)
class Conditional(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(eq=False)
class CastExpression(Expression):
    """A cast; one that the checker inserted has no `reference`."""

    reference: TypeReference | None
    operand: Expression


@dataclass(eq=False)
class Argument(SyntaxNode):
    """An argument of a call; its `value` is None for ``_``."""

    name: str | None
    value: Expression | None


@dataclass(eq=False)
class CallExpression(Expression):
    callee: Expression
    type_arguments: list[TypeReference]
    arguments: list[Argument]
    target: Any = field(default=None, init=False)  # checker: a `Target`


@dataclass
class Target:
    """What a call refers to.

    `kind` is one of: action, function, extern_function, extern_method, table, parser, control,
    builtin (of headers and stacks), constructor (of an extern, parser, control or package).
    `parameters` and `arguments` go together; an argument that was left out or is ``_`` is None.
    `base` is the object that a method is called on.
    """

    kind: str
    name: str
    declaration: SyntaxNode | None = None
    base: Expression | None = None
    parameters: "list[Parameter]" = field(default_factory=list)
    parameter_types: list[Type] = field(default_factory=list)
    arguments: list[Expression | None] = field(default_factory=list)
    returns: Type = VOID
    bindings: Bindings = field(default_factory=dict)

    def argument(self, name: str) -> Expression:
        """Return the argument for a parameter; raises KeyError if none was given."""
        for parameter, argument in zip(self.parameters, self.arguments, strict=True):
            if parameter.name == name and argument is not None:
                return argument
        raise KeyError(name)


def name_of(node: Expression) -> str:
    """Return the name that an expression consists of; empty if it is anything else."""
    return node.name if isinstance(node, Name) else ""


def children(node: Any) -> Iterator[SyntaxNode]:
    """Yield the nodes directly inside a node."""
    for value in vars(node).values():
        match value:
            case SyntaxNode():
                yield value
            case list() | dict():
                for item in value if isinstance(value, list) else value.values():
                    parts = item if isinstance(item, tuple) else (item,)
                    yield from (part for part in parts if isinstance(part, SyntaxNode))


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """Yield a node and all nodes inside it, but not the declarations that names refer to."""
    waiting = [node]
    while waiting:
        item = waiting.pop()
        yield item
        if not isinstance(item, Name):
            waiting += children(item)


def type_of(node: "Expression | Declaration") -> Type:
    """Return the type that the checker found."""
    assert node.type is not None
    return node.type


# Key sets (also expressions, of select cases, table entries and switch labels)


@dataclass(eq=False)
class AnyKeyset(Expression):
    """``default`` or ``_``."""


@dataclass(eq=False)
class MaskKeyset(Expression):
    value: Expression
    mask: Expression


@dataclass(eq=False)
class RangeKeyset(Expression):
    low: Expression
    high: Expression


@dataclass(eq=False)
class TupleKeyset(Expression):
    items: list[Expression]


# Statements


@dataclass(eq=False)
class Statement(SyntaxNode):
    """A statement; a declaration may stand among statements, too."""


@dataclass(eq=False)
class Block(Statement):
    annotations: list[Annotation]
    statements: list[SyntaxNode]


@dataclass(eq=False)
class Assignment(Statement):
    """An assignment. Once ``target += x`` is checked its `value` is the operation."""

    target: Expression
    operator: str
    value: Expression


@dataclass(eq=False)
class CallStatement(Statement):
    call: CallExpression


@dataclass(eq=False)
class If(Statement):
    condition: Expression
    then: SyntaxNode
    otherwise: SyntaxNode | None


@dataclass(eq=False)
class Empty(Statement):
    """``;``."""


@dataclass(eq=False)
class Return(Statement):
    value: Expression | None


@dataclass(eq=False)
class Exit(Statement):
    """``exit;``."""


@dataclass(eq=False)
class Break(Statement):
    """``break;``."""


@dataclass(eq=False)
class Continue(Statement):
    """``continue;``."""


@dataclass(eq=False)
class SwitchCase(SyntaxNode):
    label: Expression
    body: Block | None


@dataclass(eq=False)
class SwitchStatement(Statement):
    subject: Expression
    cases: list[SwitchCase]


@dataclass(eq=False)
class For(Statement):
    """``for (initial; condition; update) body``."""

    initial: list[SyntaxNode]
    condition: Expression
    update: list[SyntaxNode]
    body: SyntaxNode


@dataclass(eq=False)
class ForIn(Statement):
    """``for (type name in collection) body``; a range is a `RangeKeyset`."""

    variable: "Variable"
    collection: Expression
    body: SyntaxNode


# Declarations


@dataclass(eq=False)
class Declaration(SyntaxNode):
    annotations: list[Annotation]
    name: str
    name_span: Span
    type: Type | None = field(default=None, init=False)  # checker, of what has one


@dataclass(eq=False)
class Constant(Declaration):
    reference: TypeReference
    value: Expression


@dataclass(eq=False)
class Variable(Declaration):
    reference: TypeReference
    initializer: Expression | None


@dataclass(eq=False)
class Parameter(Declaration):
    direction: str
    reference: TypeReference
    default: Expression | None


@dataclass(eq=False)
class Instantiation(Declaration):
    reference: TypeReference
    arguments: list[Argument]
    initializer: list[SyntaxNode]
    call: CallExpression | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class ValueSetDeclaration(Declaration):
    reference: TypeReference
    size: Expression


@dataclass(eq=False)
class ActionDeclaration(Declaration):
    parameters: list[Parameter]
    body: Block


@dataclass(eq=False)
class Prototype(SyntaxNode):
    name: str
    name_span: Span
    returns: TypeReference | None
    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class Function(Declaration):
    prototype: Prototype
    body: Block


@dataclass(eq=False)
class ExternFunction(Declaration):
    prototype: Prototype


@dataclass(eq=False)
class Method(Declaration):
    """A method of an extern object; its constructors are methods that return nothing."""

    prototype: Prototype
    is_constructor: bool = False


@dataclass(eq=False)
class ExternObject(Declaration):
    type_parameters: list[str]
    methods: list[Method]


@dataclass(eq=False)
class PackageType(Declaration):
    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class BlockType(Declaration):
    """A parser or control type (`kind` tells which), or the head of a parser or control."""

    kind: str
    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class ParserState(Declaration):
    statements: list[SyntaxNode]
    transition: "Transition | None"

    def next_states(self) -> list[str]:
        """Return the names of the states that the transition leads to, accept and reject
        included."""
        if self.transition is None:
            return []
        if self.transition.cases is None:
            return [self.transition.state or "reject"]
        return [case.state for case in self.transition.cases]


@dataclass(eq=False)
class SelectCase(SyntaxNode):
    keyset: Expression
    state: str
    state_span: Span


@dataclass(eq=False)
class Transition(SyntaxNode):
    """``transition state;``, or a select if `cases` is not None."""

    state: str | None
    keys: list[Expression]
    cases: list[SelectCase] | None


@dataclass(eq=False)
class ParserDeclaration(BlockType):
    constructor_parameters: list[Parameter]
    locals: list[Declaration]
    states: list[ParserState]

    def reachable(self) -> set[str]:
        """Return the names of the states that lead on from ``start``, and of that one if it is
        there."""
        states = {state.name: state for state in self.states}
        found: set[str] = set()
        waiting = ["start"]
        while waiting:
            name = waiting.pop()
            if name not in found and name in states:
                found.add(name)
                waiting += states[name].next_states()
        return found


@dataclass(eq=False)
class ControlDeclaration(BlockType):
    constructor_parameters: list[Parameter]
    locals: list[Declaration]
    body: Block


@dataclass(eq=False)
class StructField(Declaration):
    reference: TypeReference


@dataclass(eq=False)
class Struct(Declaration):
    kind: str
    type_parameters: list[str]
    fields: list[StructField]


@dataclass(eq=False)
class Enum(Declaration):
    members: list[tuple[str, Span]]


@dataclass(eq=False)
class SerializableEnum(Declaration):
    reference: TypeReference
    members: list[tuple[str, Span, Expression]]


@dataclass(eq=False)
class Typedef(Declaration):
    reference: TypeReference | Struct
    is_new_type: bool


@dataclass(eq=False)
class ErrorDeclaration(SyntaxNode):
    members: list[tuple[str, Span]]


@dataclass(eq=False)
class MatchKindDeclaration(SyntaxNode):
    members: list[tuple[str, Span]]


# Tables


@dataclass(eq=False)
class KeyElement(SyntaxNode):
    expression: Expression
    match_kind: str
    match_kind_span: Span
    annotations: list[Annotation]


@dataclass(eq=False)
class ActionReference(SyntaxNode):
    """An action's name with arguments, of which some may be missing. The checker resolves the
    call."""

    call: CallExpression
    annotations: list[Annotation] = field(default_factory=list)


@dataclass(eq=False)
class Entry(SyntaxNode):
    is_constant: bool
    priority: Expression | None
    keyset: Expression
    action: ActionReference
    annotations: list[Annotation]


@dataclass(eq=False)
class Property(SyntaxNode):
    annotations: list[Annotation]
    name: str
    is_constant: bool
    value: Expression


@dataclass(eq=False)
class TableDeclaration(Declaration):
    keys: list[KeyElement]
    actions: list[ActionReference]
    entries: list[Entry]
    entries_are_constant: bool
    properties: dict[str, Property]
    has_actions: bool = field(default=False, init=False)
    repeated: list[tuple[str, Span]] = field(default_factory=list, init=False)  # properties
    default_action: ActionReference | None = field(default=None, init=False)  # checker
    no_action: ActionDeclaration | None = field(
        default=None, init=False
    )  # checker: what NoAction is there

    def listed(self, name: str) -> ActionReference | None:
        """Return an action of this name among those of the table."""
        return next((item for item in self.actions if name_of(item.call.callee) == name), None)


@dataclass(eq=False)
class SourceProgram:
    """A program. `broken` holds the names whose declarations did not parse."""

    declarations: list[SyntaxNode]
    broken: set[str] = field(default_factory=set)
