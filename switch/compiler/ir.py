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
class LoweredExpression:
    """An expression tells how a value is computed; its operands are expressions, too."""


@dataclass(frozen=True)
class Number(LoweredExpression):
    """A number of any size is an expression."""

    value: int


@dataclass(frozen=True)
class Truth(LoweredExpression):
    """A truth value is an expression."""

    value: bool


@dataclass(frozen=True)
class HeaderField(LoweredExpression):
    """A field of a header instance is read by its name, which may be ``$valid$``."""

    header: str
    name: str


@dataclass(frozen=True)
class LastField(LoweredExpression):
    """A field is read of the last valid header of a stack."""

    stack: str
    name: str


@dataclass(frozen=True)
class LastUnionField(LoweredExpression):
    """A field is read of a member of the last valid union of a stack."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True)
class NextUnion(LoweredExpression):
    """A parser extracts to a member of the next union of a stack."""

    stack: str
    member: str


@dataclass(frozen=True)
class ElementField(LoweredExpression):
    """A field is read, by its offset, of a header that is only known when the packet is there."""

    header: LoweredExpression
    offset: int


@dataclass(frozen=True)
class ActionParameter(LoweredExpression):
    """A parameter of an action is read by its place among those that the control plane gives."""

    index: int


@dataclass(frozen=True)
class Lookahead(LoweredExpression):
    """A parser looks at bits of the packet that are not parsed yet."""

    offset: int
    width: int


@dataclass(frozen=True)
class Reference(LoweredExpression):
    """A reference names an object: `kind` is header, header_stack, header_union, counter_array and
    so on."""

    kind: str
    name: str


@dataclass(frozen=True)
class OperatorCall(LoweredExpression):
    """An operator of BMv2 is applied to one operand, the right one, or to two."""

    operator: str
    left: LoweredExpression | None
    right: LoweredExpression


@dataclass(frozen=True)
class Choice(LoweredExpression):
    """One of two values is chosen by a condition."""

    condition: LoweredExpression
    then: LoweredExpression
    otherwise: LoweredExpression


@dataclass(frozen=True)
class Text(LoweredExpression):
    """A text is an operand of primitives that log."""

    value: str


@dataclass(frozen=True)
class Vector(LoweredExpression):
    """Several operands are given to a primitive as one."""

    items: tuple[LoweredExpression, ...]


TRUTH_OPERATORS = frozenset(
    ["==", "!=", "<", ">", "<=", ">=", "and", "or", "not", "d2b", "valid", "valid_union"]
)


def is_truth(node: LoweredExpression) -> bool:
    """Return whether an expression gives a truth value rather than a number."""
    match node:
        case OperatorCall():
            return node.operator in TRUTH_OPERATORS
        case Choice():
            return is_truth(node.then)
    return isinstance(node, Truth)


_OPERANDS: dict[type[LoweredExpression], Callable[[Any], Sequence[LoweredExpression | None]]] = {
    OperatorCall: lambda node: (node.left, node.right),
    Choice: lambda node: (node.condition, node.then, node.otherwise),
    ElementField: lambda node: (node.header,),
}


def operands(node: LoweredExpression) -> list[LoweredExpression]:
    """Return the expressions that an expression is computed from."""
    given = _OPERANDS.get(type(node))
    return [] if given is None else [item for item in given(node) if item is not None]


# Code: what actions, controls and parser states do


@dataclass
class Do:
    """A primitive of BMv2 runs (or, in a parser, an operation)."""

    operation: str
    operands: tuple[LoweredExpression, ...]
    span: Span = NOWHERE


@dataclass
class Branch:
    """Code that runs if a condition holds, and other code if it does not."""

    condition: LoweredExpression
    then: "list[Code]"
    otherwise: "list[Code]"
    span: Span = NOWHERE


@dataclass
class Labelled:
    """Code of an inlined control, action or function that may be left by `Leave`."""

    label: int
    body: "list[Code]"


@dataclass
class Leave:
    """An end of the `Labelled` code with this label, which it is inside of."""

    label: int


@dataclass
class Repeat:
    """Code that runs again and again, until it leaves a label outside of it."""

    body: "list[Code]"
    span: Span = NOWHERE


@dataclass
class Stop:
    """The statement ``exit`` ends the pipeline."""

    span: Span = NOWHERE


@dataclass
class Apply:
    """A table is applied; what follows depends on hit or miss, or on the action, or on neither."""

    table: "LoweredTable"
    hit: "list[Code] | None" = None
    miss: "list[Code] | None" = None
    cases: "dict[str, list[Code]] | None" = None
    otherwise: "list[Code]" = field(default_factory=list)
    span: Span = NOWHERE


@dataclass
class RunParser:
    """The run of another parser's states (parsers only); `parser` is what the parser lowering
    needs."""

    parser: Any
    span: Span = NOWHERE


Code = Do | Branch | Labelled | Leave | Repeat | Stop | Apply | RunParser


# Headers


@dataclass
class HeaderType:
    """A header type lists its fields: name, width in bits (``*`` for a varbit), whether signed."""

    name: str
    fields: list[tuple[str, int | str, bool]] = field(default_factory=list)
    max_length: int | None = None  # bytes, where there is a varbit field


@dataclass
class HeaderInstance:
    """A header instance has a name and a header type; metadata are no part of the packet."""

    name: str
    header_type: str
    metadata: bool = False


@dataclass
class HeaderStack:
    """A header stack names the headers, or unions, that are its elements."""

    name: str
    element_type: str
    elements: list[str]
    of_unions: bool = False


@dataclass
class HeaderUnion:
    """A header union names the headers that are its members."""

    name: str
    union_type: str
    members: list[str]


# Objects


@dataclass
class Object:
    """An object has a name in the control plane."""

    name: str
    annotations: list[Any] = field(default_factory=list)
    span: Span = NOWHERE
    order: tuple[int, ...] = field(default=(), init=False)
    """The place where the object is declared. P4Info lists objects in this order."""


@dataclass
class Resource(Object):
    """A resource is a counter or a meter, an array of them or the direct one of a table."""

    size: int = 0
    unit: str = "packets"
    is_direct: bool = False
    table: str | None = None
    """The name of the table that a direct counter or meter belongs to."""


@dataclass
class LoweredCounter(Resource):
    """A counter has as many cells as its size says."""


@dataclass
class LoweredMeter(Resource):
    """A meter has as many cells as its size says."""

    result: HeaderField | None = None
    """The field into which a direct meter is read."""


@dataclass
class LoweredRegister(Object):
    """A register has as many cells of a type as its size says."""

    size: int = 0
    type: Type | None = None


@dataclass
class ActionProfile(Object):
    """An action profile belongs to tables; with an `algorithm` it is an action selector."""

    size: int = 0
    algorithm: str | None = None  # selectors
    inputs: list[HeaderField] | None = None
    tables: list[str] = field(default_factory=list)
    pipeline: str = ""


@dataclass
class LoweredValueSet(Object):
    """A value set of a parser has room for members of these fields."""

    size: int = 0
    fields: "list[LoweredParameter]" = field(default_factory=list)
    is_used: bool = False  # by a state that packets may reach


@dataclass
class LoweredDigest(Object):
    """A digest sends the values of fields to the controller."""

    id: int = 0
    type: Type | None = None
    fields: list[HeaderField] = field(default_factory=list)


@dataclass
class LoweredParameter:
    """A parameter of an action, or a field of a value set, gets its value from the control
    plane."""

    name: str
    type: Type
    width: int
    annotations: list[Any] = field(default_factory=list)


@dataclass
class LoweredAction(Object):
    """An action has parameters that the control plane gives, and code."""

    parameters: list[LoweredParameter] = field(default_factory=list)
    body: list[Code] = field(default_factory=list)
    hidden: bool = False
    is_global: bool = False  # declared outside of controls
    id: int = -1


@dataclass
class LoweredKey:
    """A key of a table is a field with its match kind."""

    name: str
    match_kind: str
    target: HeaderField
    width: int
    type: Type
    annotations: list[Any] = field(default_factory=list)


@dataclass
class ActionChoice:
    """A choice is one of a table's actions."""

    action: LoweredAction
    annotations: list[Any] = field(default_factory=list)
    implicit: bool = False  # NoAction, of a table that names no default action


@dataclass
class LoweredEntry:
    """An entry of a table has an action and keys. Each of its `keys` is, by match kind, a value or
    a pair of value and prefix length, value and mask, or low and high."""

    keys: list[Any]
    action: LoweredAction
    arguments: list[int]
    priority: int
    constant: bool
    span: Span = NOWHERE
    rank: int | None = None  # in BMv2's numbers; its place among the entries if None


@dataclass
class LoweredTable(Object):
    """A table has keys, actions, entries, and what its properties attach to it."""

    keys: list[LoweredKey] = field(default_factory=list)
    actions: list[ActionChoice] = field(default_factory=list)
    default_action: LoweredAction | None = None
    default_arguments: list[int] = field(default_factory=list)
    default_constant: bool = False
    entries: list[LoweredEntry] = field(default_factory=list)
    """The entries in the order in which they are matched."""
    entries_constant: bool = False
    size: int = 1024
    profile: ActionProfile | None = None
    counter: Resource | None = None
    meter: LoweredMeter | None = None
    support_timeout: bool = False
    hidden: bool = False

    @property
    def capacity(self) -> int:
        """Return the number of entries that BMv2 must have room for."""
        return max(self.size, len(self.entries))


# Control flow


@dataclass
class TableNode:
    """A node of a pipeline's graph applies a table; the names of the nodes that may follow are
    here."""

    table: LoweredTable
    next_by_action: dict[str, str | None] | None = None
    next_hit: str | None = None
    next_miss: str | None = None
    default_next: str | None = None

    @property
    def name(self) -> str:
        """Return the name of the table, which is that of the node."""
        return self.table.name


@dataclass
class ConditionNode:
    """A node of a pipeline's graph tests a condition."""

    name: str
    condition: LoweredExpression
    true_next: str | None
    false_next: str | None
    span: Span = NOWHERE


PipelineNode = TableNode | ConditionNode


@dataclass
class LoweredPipeline:
    """A pipeline is a graph of nodes, which begins at the node called `first`."""

    name: str
    first: str | None = None
    nodes: list[PipelineNode] = field(default_factory=list)


@dataclass
class TransitionCase:
    """A case of a transition leads to a state. Its `kind` is hexstr, default or parse_vset; the
    values of its keys are padded to bytes and put together."""

    kind: str
    next_state: str | None
    value: int | str = 0
    mask: int | None = None


@dataclass
class ParseState:
    """A state of BMv2's parser has operations, a key to select on with widths in bits, and
    cases."""

    name: str
    operations: list[Do] = field(default_factory=list)
    key: list[tuple[LoweredExpression, int]] = field(default_factory=list)
    cases: list[TransitionCase] = field(default_factory=list)


@dataclass
class LoweredParser:
    """A parser, whose first state is the one that it begins with."""

    name: str
    states: list[ParseState] = field(default_factory=list)


@dataclass
class LoweredDeparser:
    """A deparser emits headers in an order, and then runs its code."""

    name: str
    order: list[str] = field(default_factory=list)
    code: list[Do] = field(default_factory=list)


@dataclass
class Calculation:
    """A calculation hashes its inputs, given with their widths in bits."""

    name: str
    algorithm: str
    inputs: Sequence[tuple[LoweredExpression, int]]
    with_payload: bool = False
    span: Span = NOWHERE


@dataclass
class Checksum:
    """A checksum verifies a field by a calculation, or updates it."""

    name: str
    target: HeaderField
    calculation: str
    condition: LoweredExpression
    verify: bool
    update: bool
    span: Span = NOWHERE


@dataclass
class LoweredProgram:
    """A whole program for BMv2, of an architecture that P4Info names."""

    architecture: str = ""
    document_parts: dict[str, Any] = field(default_factory=dict)
    """Parts of the JSON that the architecture gives a value of its own, by their names."""
    header_types: list[HeaderType] = field(default_factory=list)
    headers: list[HeaderInstance] = field(default_factory=list)
    stacks: list[HeaderStack] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[HeaderUnion] = field(default_factory=list)
    aliases: list[tuple[str, HeaderField]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    enums: list[tuple[str, list[str]]] = field(default_factory=list)
    parsers: list[LoweredParser] = field(default_factory=list)
    value_sets: list[LoweredValueSet] = field(default_factory=list)
    deparsers: list[LoweredDeparser] = field(default_factory=list)
    counters: list[LoweredCounter] = field(default_factory=list)
    meters: list[LoweredMeter] = field(default_factory=list)
    registers: list[LoweredRegister] = field(default_factory=list)
    profiles: list[ActionProfile] = field(default_factory=list)
    digests: list[LoweredDigest] = field(default_factory=list)
    field_lists: list[tuple[int, list[HeaderField]]] = field(default_factory=list)
    calculations: list[Calculation] = field(default_factory=list)
    checksums: list[Checksum] = field(default_factory=list)
    actions: list[LoweredAction] = field(default_factory=list)
    called_actions: list[LoweredAction] = field(default_factory=list)  # called directly, so in line
    pipelines: list[LoweredPipeline] = field(default_factory=list)
    calls_extern_functions: bool = False  # in a control
    controller_headers: list[Any] = field(default_factory=list)
    package_annotations: list[Any] = field(default_factory=list)
