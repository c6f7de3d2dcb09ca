"""The lowered program: what BMv2 knows, before it is written as JSON or P4Info.

Expressions are over flat fields of header instances, with BMv2's operators. Arithmetic is on
integers of any size, so what wraps around in P4 carries a mask here. Truth values and numbers are
two kinds, as in BMv2 (``d2b`` and ``b2d`` convert).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.types import Type

# Expressions


@dataclass(frozen=True)
class Expression:
    """What a value is computed from; its operands are expressions, too."""


@dataclass(frozen=True)
class Number(Expression):
    value: int


@dataclass(frozen=True)
class Truth(Expression):
    value: bool


@dataclass(frozen=True)
class Field(Expression):
    """A field of a header instance; its name may be ``$valid$``."""

    header: str
    name: str


@dataclass(frozen=True)
class LastField(Expression):
    """A field of the last valid header of a stack."""

    stack: str
    name: str


@dataclass(frozen=True)
class LastUnionField(Expression):
    """A field of a member of the last valid union of a stack."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True)
class NextUnion(Expression):
    """A member of the next union of a stack, to extract to."""

    stack: str
    member: str


@dataclass(frozen=True)
class ElementField(Expression):
    """A field, by its offset, of a header that is only known when the packet is there."""

    header: Expression
    offset: int


@dataclass(frozen=True)
class ActionParameter(Expression):
    index: int


@dataclass(frozen=True)
class Lookahead(Expression):
    """Bits of the packet not yet parsed (parsers only)."""

    offset: int
    width: int


@dataclass(frozen=True)
class Reference(Expression):
    """A named object: `kind` is header, header_stack, header_union, counter_array and so on."""

    kind: str
    name: str


@dataclass(frozen=True)
class OperatorCall(Expression):
    operator: str
    left: Expression | None
    right: Expression


@dataclass(frozen=True)
class Choice(Expression):
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True)
class Text(Expression):
    value: str


@dataclass(frozen=True)
class Vector(Expression):
    items: tuple[Expression, ...]


TRUTH_OPERATORS = frozenset(
    ["==", "!=", "<", ">", "<=", ">=", "and", "or", "not", "d2b", "valid", "valid_union"]
)


def is_truth(node: Expression) -> bool:
    """Return whether an expression gives a truth value rather than a number."""
    match node:
        case OperatorCall():
            return node.operator in TRUTH_OPERATORS
        case Choice():
            return is_truth(node.then)
    return isinstance(node, Truth)


_OPERANDS: dict[type[Expression], Callable[[Any], Sequence[Expression | None]]] = {
    OperatorCall: lambda node: (node.left, node.right),
    Choice: lambda node: (node.condition, node.then, node.otherwise),
    ElementField: lambda node: (node.header,),
}


def operands(node: Expression) -> list[Expression]:
    """Return the expressions that an expression is computed from."""
    given = _OPERANDS.get(type(node))
    return [] if given is None else [item for item in given(node) if item is not None]


# Code: what actions, controls and parser states do


@dataclass
class Do:
    """A primitive of BMv2 (or, in a parser, an operation)."""

    operation: str
    operands: tuple[Expression, ...]
    span: Span = NOWHERE


@dataclass
class Branch:
    condition: Expression
    then: "list[Code]"
    otherwise: "list[Code]"
    span: Span = NOWHERE


@dataclass
class Labelled:
    """Code that `Leave` can leave: an inlined control, action or function."""

    label: int
    body: "list[Code]"


@dataclass
class Leave:
    label: int


@dataclass
class Repeat:
    """Code that runs again and again, until it leaves a label outside of it."""

    body: "list[Code]"
    span: Span = NOWHERE


@dataclass
class Stop:
    """The statement ``exit``."""

    span: Span = NOWHERE


@dataclass
class Apply:
    """Applies a table; what follows depends on hit or miss, or on the action, or on neither."""

    table: "LoweredTable"
    hit: "list[Code] | None" = None
    miss: "list[Code] | None" = None
    cases: "dict[str, list[Code]] | None" = None
    otherwise: "list[Code]" = field(default_factory=list)
    span: Span = NOWHERE


@dataclass
class RunParser:
    """Runs another parser's states (parsers only); `parser` is what the parser lowering needs."""

    parser: Any
    span: Span = NOWHERE


Code = Do | Branch | Labelled | Leave | Repeat | Stop | Apply | RunParser


# Headers


@dataclass
class HeaderType:
    name: str
    fields: list[tuple[str, int | str, bool]] = field(default_factory=list)
    max_length: int | None = None  # bytes, where there is a varbit field


@dataclass
class Header:
    name: str
    header_type: str
    metadata: bool = False


@dataclass
class Stack:
    name: str
    element_type: str
    elements: list[str]
    of_unions: bool = False


@dataclass
class Union_:
    name: str
    union_type: str
    members: list[str]


# Objects


@dataclass
class Object:
    """An object that has a name in the control plane."""

    name: str
    annotations: list[Any] = field(default_factory=list)
    span: Span = NOWHERE
    order: tuple[int, ...] = field(default=(), init=False)
    """The place where the object is declared. P4Info lists objects in this order."""


@dataclass
class Resource(Object):
    """A counter or a meter."""

    size: int = 0
    unit: str = "packets"
    is_direct: bool = False
    table: str | None = None
    """The name of the table that a direct counter or meter belongs to."""


@dataclass
class Counter(Resource):
    """Counters, as many as its size says."""


@dataclass
class Meter(Resource):
    """Meters, as many as its size says."""

    result: Field | None = None
    """The field into which a direct meter is read."""


@dataclass
class Register(Object):
    size: int = 0
    type: Type | None = None


@dataclass
class ActionProfile(Object):
    size: int = 0
    algorithm: str | None = None  # selectors
    inputs: list[Field] | None = None
    tables: list[str] = field(default_factory=list)
    pipeline: str = ""


@dataclass
class ValueSet(Object):
    size: int = 0
    fields: "list[Parameter]" = field(default_factory=list)
    is_used: bool = False  # by a state that packets may reach


@dataclass
class Digest(Object):
    id: int = 0
    type: Type | None = None
    fields: list[Field] = field(default_factory=list)


@dataclass
class Parameter:
    name: str
    type: Type
    width: int
    annotations: list[Any] = field(default_factory=list)


@dataclass
class Action(Object):
    parameters: list[Parameter] = field(default_factory=list)
    body: list[Code] = field(default_factory=list)
    hidden: bool = False
    is_global: bool = False  # declared outside of controls
    id: int = -1


@dataclass
class Key:
    name: str
    match_kind: str
    target: Field
    width: int
    type: Type
    annotations: list[Any] = field(default_factory=list)


@dataclass
class ActionChoice:
    """One of a table's actions."""

    action: Action
    annotations: list[Any] = field(default_factory=list)
    implicit: bool = False  # NoAction, of a table that names no default action


@dataclass
class Entry:
    """An entry of a table. Each of its `keys` is, by match kind, a value or a pair of value and
    prefix length, value and mask, or low and high."""

    keys: list[Any]
    action: Action
    arguments: list[int]
    priority: int
    constant: bool
    span: Span = NOWHERE
    rank: int | None = None  # in BMv2's numbers; its place among the entries if None


@dataclass
class LoweredTable(Object):
    keys: list[Key] = field(default_factory=list)
    actions: list[ActionChoice] = field(default_factory=list)
    default_action: Action | None = None
    default_arguments: list[int] = field(default_factory=list)
    default_constant: bool = False
    entries: list[Entry] = field(default_factory=list)
    """The entries in the order in which they are matched."""
    entries_constant: bool = False
    size: int = 1024
    profile: ActionProfile | None = None
    counter: Resource | None = None
    meter: Meter | None = None
    support_timeout: bool = False
    hidden: bool = False

    @property
    def capacity(self) -> int:
        """The number of entries that BMv2 must have room for."""
        return max(self.size, len(self.entries))


# Control flow


@dataclass
class TableNode:
    table: LoweredTable
    next_by_action: dict[str, str | None] | None = None
    next_hit: str | None = None
    next_miss: str | None = None
    default_next: str | None = None

    @property
    def name(self) -> str:
        return self.table.name


@dataclass
class ConditionNode:
    name: str
    condition: Expression
    true_next: str | None
    false_next: str | None
    span: Span = NOWHERE


Node = TableNode | ConditionNode


@dataclass
class Pipeline:
    name: str
    first: str | None = None
    nodes: list[Node] = field(default_factory=list)


@dataclass
class TransitionCase:
    """A case of a transition. Its `kind` is hexstr, default or parse_vset; the values of its keys
    are padded to bytes and put together."""

    kind: str
    next_state: str | None
    value: int | str = 0
    mask: int | None = None


@dataclass
class State:
    name: str
    operations: list[Do] = field(default_factory=list)
    key: list[tuple[Expression, int]] = field(default_factory=list)
    cases: list[TransitionCase] = field(default_factory=list)


@dataclass
class Calculation:
    name: str
    algorithm: str
    inputs: Sequence[tuple[Expression, int]]
    with_payload: bool = False
    span: Span = NOWHERE


@dataclass
class Checksum:
    name: str
    target: Field
    calculation: str
    condition: Expression
    verify: bool
    update: bool
    span: Span = NOWHERE


@dataclass
class LoweredProgram:
    """A whole program for BMv2's simple_switch."""

    header_types: list[HeaderType] = field(default_factory=list)
    headers: list[Header] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[Union_] = field(default_factory=list)
    aliases: list[tuple[str, Field]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    enums: list[tuple[str, list[str]]] = field(default_factory=list)
    states: list[State] = field(default_factory=list)
    value_sets: list[ValueSet] = field(default_factory=list)
    deparser: list[str] = field(default_factory=list)
    deparser_code: list[Do] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    meters: list[Meter] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    profiles: list[ActionProfile] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)
    field_lists: list[tuple[int, list[Field]]] = field(default_factory=list)
    calculations: list[Calculation] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    called_actions: list[Action] = field(default_factory=list)  # called directly, so in line
    pipelines: list[Pipeline] = field(default_factory=list)
    calls_extern_functions: bool = False  # in a control
    controller_headers: list[Any] = field(default_factory=list)
    package_annotations: list[Any] = field(default_factory=list)
