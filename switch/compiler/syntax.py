"""The syntax tree of a P4_16 program.

The parser builds it; the checker writes its findings into the fields marked "checker": the type of
each expression, its value if it is known at compile time, and what each name and call refers to.
Sections that docstrings name are those of the P4_16 specification.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.raw_token import RawToken
from weft.switch.compiler.types import VOID, Bindings, Type

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


# References to types


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


# Expressions


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
    """A list is written ``{ a, b }`` (section "Operations on lists")."""

    items: list[Expression]


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


@dataclass
class Target:
    """A target tells what a call refers to.

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
        pairs = zip(self.parameters, self.arguments, strict=True)
        return {one.name: argument for one, argument in pairs if argument is not None}[name]


def name_of(node: Expression) -> str:
    """Return the name that an expression consists of; empty if it is anything else."""
    return node.name if isinstance(node, Name) else ""


def path_of(node: Expression) -> Iterator[Expression]:
    """Yield an expression, then that of which it is a member, element or slice, and so on down to
    the variable, or whatever else it is a part of."""
    yield node
    if isinstance(node, (MemberAccess, Index, Slice)):
        yield from path_of(node.base)


def root_of(node: Expression) -> Expression:
    """Return the variable, or whatever else, of which an expression is a member, element or slice,
    at any depth; it may be the expression itself."""
    *_, root = path_of(node)
    return root


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


def same(one: Any, other: Any) -> bool:
    """Return whether two checked expressions are written alike, and mean the same declarations."""
    match one:
        case Name():
            return isinstance(other, Name) and one.declaration is other.declaration
        case IntegerLiteral() | BooleanLiteral():
            return type(one) is type(other) and one.value == other.value
        case SyntaxNode():
            names = vars(one).keys() - _NOT_WRITTEN
            return type(one) is type(other) and all(
                same(getattr(one, name), getattr(other, name)) for name in names
            )
        case list() | tuple():
            pairs = zip(one, other, strict=False)
            return len(one) == len(other) and all(same(left, right) for left, right in pairs)
    return bool(one == other)


_NOT_WRITTEN = frozenset(["span", "name_span", "type", "constant", "target"])
"""What nodes have besides that which is written."""


def type_of(node: "Expression | Declaration") -> Type:
    """Return the type that the checker found."""
    assert node.type is not None
    return node.type


# Key sets (also expressions, of select cases, table entries and switch labels)


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


# Statements


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

    variable: "Variable"
    collection: Expression
    body: SyntaxNode


# Declarations


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


@dataclass(eq=False)
class Instantiation(Declaration):
    """An instance is declared by ``type(arguments) name;`` (section "Instantiations")."""

    reference: TypeReference
    arguments: list[Argument]
    initializer: list[SyntaxNode]
    call: CallExpression | None = field(default=None, init=False)  # checker


@dataclass(eq=False)
class ValueSetDeclaration(Declaration):
    """A parser's value set is declared by ``value_set<type>(size) name;`` (section "Parser Value
    Sets")."""

    reference: TypeReference
    size: Expression


@dataclass(eq=False)
class ActionDeclaration(Declaration):
    """An action is declared by ``action name(parameters) { ... }`` (section "Actions")."""

    parameters: list[Parameter]
    body: Block


@dataclass(eq=False)
class Prototype(SyntaxNode):
    """A prototype has the name, types and parameters of a function or method."""

    name: str
    name_span: Span
    returns: TypeReference | None
    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class Function(Declaration):
    """A function is declared with a body (section "Function declarations")."""

    prototype: Prototype
    body: Block


@dataclass(eq=False)
class ExternFunction(Declaration):
    """An extern function is declared without a body, by ``extern`` and its prototype (section
    "Extern types")."""

    prototype: Prototype


@dataclass(eq=False)
class Method(Declaration):
    """A method belongs to an extern object; its constructors are methods that return nothing
    (section "Extern types")."""

    prototype: Prototype
    is_constructor: bool = False


@dataclass(eq=False)
class ExternObject(Declaration):
    """An extern object is declared by ``extern name { ... }`` with its methods (section "Extern
    types")."""

    type_parameters: list[str]
    methods: list[Method]


@dataclass(eq=False)
class PackageType(Declaration):
    """A package type is declared by ``package name(parameters);`` (section "Package types")."""

    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class BlockType(Declaration):
    """A block type is a parser or control type (`kind` tells which), or the head of a parser or
    control (section "Parser and control blocks types")."""

    kind: str
    type_parameters: list[str]
    parameters: list[Parameter]


@dataclass(eq=False)
class ParserState(Declaration):
    """A state of a parser holds statements, and a transition to other states (section "Parser
    states")."""

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
    """A case of a select is written ``keyset : state;`` (section "Select expressions")."""

    keyset: Expression
    state: str
    state_span: Span


@dataclass(eq=False)
class Transition(SyntaxNode):
    """A transition is written ``transition state;``, or is a select if `cases` is not None (section
    "Transition statements")."""

    state: str | None
    keys: list[Expression]
    cases: list[SelectCase] | None


@dataclass(eq=False)
class ParserDeclaration(BlockType):
    """A parser is declared with its states (section "Parser declarations")."""

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
    """A control is declared with its body (section "Control blocks")."""

    constructor_parameters: list[Parameter]
    locals: list[Declaration]
    body: Block


@dataclass(eq=False)
class StructField(Declaration):
    """A field belongs to a struct, header or header union."""

    reference: TypeReference


@dataclass(eq=False)
class Struct(Declaration):
    """A struct, header or header union (`kind` tells which) is declared with its fields (sections
    "Struct types", "Header types" and "Header unions")."""

    kind: str
    type_parameters: list[str]
    fields: list[StructField]


@dataclass(eq=False)
class Enum(Declaration):
    """An enum is declared without values for its members (section "Enumeration types")."""

    members: list[tuple[str, Span]]


@dataclass(eq=False)
class SerializableEnum(Declaration):
    """An enum with an underlying type is declared with a value for each member (section
    "Enumeration types")."""

    reference: TypeReference
    members: list[tuple[str, Span, Expression]]


@dataclass(eq=False)
class Typedef(Declaration):
    """A type gets another name by ``typedef``, and a new type is made of it by ``type`` (sections
    "typedef" and "Introducing new types")."""

    reference: TypeReference | Struct | Enum | SerializableEnum
    is_new_type: bool


@dataclass(eq=False)
class ErrorDeclaration(SyntaxNode):
    """A declaration of errors, ``error { ... }`` (section "The error type")."""

    members: list[tuple[str, Span]]


@dataclass(eq=False)
class MatchKindDeclaration(SyntaxNode):
    """A declaration of match kinds, ``match_kind { ... }`` (section "The match kind type")."""

    members: list[tuple[str, Span]]


# Tables


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
    """A program is all its declarations in order. `broken` holds the names whose declarations did
    not parse."""

    declarations: list[SyntaxNode]
    broken: set[str] = field(default_factory=set)
