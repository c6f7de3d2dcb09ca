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
    """What a value is computed from; its operands are expressions, too."""


@dataclass(frozen=True)
class Number(LoweredExpression):
    value: int


@dataclass(frozen=True)
class Truth(LoweredExpression):
    value: bool


@dataclass(frozen=True)
class HeaderField(LoweredExpression):
    """A field of a header instance; its name may be ``$valid$``."""

    header: str
    name: str


@dataclass(frozen=True)
class LastField(LoweredExpression):
    """A field of the last valid header of a stack."""

    stack: str
    name: str


@dataclass(frozen=True)
class LastUnionField(LoweredExpression):
    """A field of a member of the last valid union of a stack."""

    stack: str
    member: str
    name: str


@dataclass(frozen=True)
class NextUnion(LoweredExpression):
    """A member of the next union of a stack, to extract to."""

    stack: str
    member: str


@dataclass(frozen=True)
class ElementField(LoweredExpression):
    """A field, by its offset, of a header that is only known when the packet is there."""

    header: LoweredExpression
    offset: int


@dataclass(frozen=True)
class ActionParameter(LoweredExpression):
    index: int


@dataclass(frozen=True)
class Lookahead(LoweredExpression):
    """Bits of the packet not yet parsed (parsers only)."""

    offset: int
    width: int


@dataclass(frozen=True)
class Reference(LoweredExpression):
    """A named object: `kind` is header, header_stack, header_union, counter_array and so on."""

    kind: str
    name: str


@dataclass(frozen=True)
class OperatorCall(LoweredExpression):
    operator: str
    left: LoweredExpression | None
    right: LoweredExpression


@dataclass(frozen=True)
class Choice(LoweredExpression):
    condition: LoweredExpression
    then: LoweredExpression
    otherwise: LoweredExpression


@dataclass(frozen=True)
class Text(LoweredExpression):
    value: str


@dataclass(frozen=True)
class Vector(LoweredExpression):
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
    """A primitive of BMv2 (or, in a parser, an operation)."""

    operation: str
    operands: tuple[LoweredExpression, ...]
    span: Span = NOWHERE


@dataclass
class Branch:
    condition: LoweredExpression
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
class HeaderInstance:
    name: str
    header_type: str
    metadata: bool = False


@dataclass
class HeaderStack:
    name: str
    element_type: str
    elements: list[str]
    of_unions: bool = False


@dataclass
class HeaderUnion:
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
class LoweredCounter(Resource):
    """Counters, as many as its size says."""


@dataclass
class LoweredMeter(Resource):
    """Meters, as many as its size says."""

    result: HeaderField | None = None
    """The field into which a direct meter is read."""


@dataclass
class LoweredRegister(Object):
    size: int = 0
    type: Type | None = None


@dataclass
class ActionProfile(Object):
    size: int = 0
    algorithm: str | None = None  # selectors
    inputs: list[HeaderField] | None = None
    tables: list[str] = field(default_factory=list)
    pipeline: str = ""


@dataclass
class LoweredValueSet(Object):
    size: int = 0
    fields: "list[LoweredParameter]" = field(default_factory=list)
    is_used: bool = False  # by a state that packets may reach


@dataclass
class LoweredDigest(Object):
    id: int = 0
    type: Type | None = None
    fields: list[HeaderField] = field(default_factory=list)


@dataclass
class LoweredParameter:
    name: str
    type: Type
    width: int
    annotations: list[Any] = field(default_factory=list)


@dataclass
class LoweredAction(Object):
    parameters: list[LoweredParameter] = field(default_factory=list)
    body: list[Code] = field(default_factory=list)
    hidden: bool = False
    is_global: bool = False  # declared outside of controls
    id: int = -1


@dataclass
class LoweredKey:
    name: str
    match_kind: str
    target: HeaderField
    width: int
    type: Type
    annotations: list[Any] = field(default_factory=list)


@dataclass
class ActionChoice:
    """One of a table's actions."""

    action: LoweredAction
    annotations: list[Any] = field(default_factory=list)
    implicit: bool = False  # NoAction, of a table that names no default action


@dataclass
class LoweredEntry:
    """An entry of a table. Each of its `keys` is, by match kind, a value or a pair of value and
    prefix length, value and mask, or low and high."""

    keys: list[Any]
    action: LoweredAction
    arguments: list[int]
    priority: int
    constant: bool
    span: Span = NOWHERE
    rank: int | None = None  # in BMv2's numbers; its place among the entries if None


@dataclass
class LoweredTable(Object):
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
    condition: LoweredExpression
    true_next: str | None
    false_next: str | None
    span: Span = NOWHERE


PipelineNode = TableNode | ConditionNode


@dataclass
class LoweredPipeline:
    name: str
    first: str | None = None
    nodes: list[PipelineNode] = field(default_factory=list)


@dataclass
class TransitionCase:
    """A case of a transition. Its `kind` is hexstr, default or parse_vset; the values of its keys
    are padded to bytes and put together."""

    kind: str
    next_state: str | None
    value: int | str = 0
    mask: int | None = None


@dataclass
class ParseState:
    name: str
    operations: list[Do] = field(default_factory=list)
    key: list[tuple[LoweredExpression, int]] = field(default_factory=list)
    cases: list[TransitionCase] = field(default_factory=list)


@dataclass
class Calculation:
    name: str
    algorithm: str
    inputs: Sequence[tuple[LoweredExpression, int]]
    with_payload: bool = False
    span: Span = NOWHERE


@dataclass
class Checksum:
    name: str
    target: HeaderField
    calculation: str
    condition: LoweredExpression
    verify: bool
    update: bool
    span: Span = NOWHERE


@dataclass
class LoweredProgram:
    """A whole program for BMv2's simple_switch."""

    header_types: list[HeaderType] = field(default_factory=list)
    headers: list[HeaderInstance] = field(default_factory=list)
    stacks: list[HeaderStack] = field(default_factory=list)
    union_types: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    unions: list[HeaderUnion] = field(default_factory=list)
    aliases: list[tuple[str, HeaderField]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    enums: list[tuple[str, list[str]]] = field(default_factory=list)
    states: list[ParseState] = field(default_factory=list)
    value_sets: list[LoweredValueSet] = field(default_factory=list)
    deparser: list[str] = field(default_factory=list)
    deparser_code: list[Do] = field(default_factory=list)
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
