"""Graphs of pipelines, parsers and deparsers, and the whole program."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.ir.code import Do, LoweredAction, LoweredTable
from weft.switch.compiler.ir.expressions import HeaderField, LoweredExpression
from weft.switch.compiler.ir.objects import (
    ActionProfile,
    HeaderInstance,
    HeaderStack,
    HeaderType,
    HeaderUnion,
    LoweredCounter,
    LoweredDigest,
    LoweredMeter,
    LoweredRegister,
    LoweredValueSet,
)


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
    span: Span = NOWHERE
    transition_span: Span = NOWHERE


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
