"""Declarations of what is called or applied, but for tables, and a whole program."""

from dataclasses import dataclass, field

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.syntax.expressions import Expression, SyntaxNode, TypeReference
from weft.switch.compiler.syntax.statements import Block
from weft.switch.compiler.syntax.variables import Declaration, Parameter


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
    is_abstract: bool = False


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
class SourceProgram:
    """A program is all its declarations in order. `broken` holds the names whose declarations did
    not parse."""

    declarations: list[SyntaxNode]
    broken: set[str] = field(default_factory=set)
