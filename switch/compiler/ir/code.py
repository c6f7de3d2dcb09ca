"""Code that actions, controls and parser states run, and the tables that it applies."""

from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.ir.expressions import HeaderField, LoweredExpression
from weft.switch.compiler.ir.objects import (
    ActionProfile,
    LoweredMeter,
    LoweredParameter,
    Object,
    Resource,
)
from weft.switch.compiler.types import Type


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
    counting: list[LoweredAction] | None = None  # those in which the counter counts; None: all
    meter: LoweredMeter | None = None
    support_timeout: bool = False
    hidden: bool = False

    @property
    def capacity(self) -> int:
        """Return the number of entries that BMv2 must have room for."""
        return max(self.size, len(self.entries))
