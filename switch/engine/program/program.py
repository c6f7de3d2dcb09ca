"""A BMv2 JSON program as typed data, each field at its place in the packet-header vector.

``weft.switch.engine.program.reader`` makes it of the JSON.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from weft.switch.engine.architectures.architecture import EngineArchitecture
from weft.switch.engine.architectures.v1model import V1MODEL
from weft.switch.engine.dataplane.image_layout import ACTION_WORDS
from weft.switch.engine.program.attachments import LearnList, Meter
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import Field, Groups, Header, named
from weft.switch.engine.program.words import words_of

Json = Any

CORE_ERRORS = (
    "NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
    "ParserInvalidArgument",
)  # fmt: skip
"""The parser errors of core.p4, each in the place of its number."""


def number(text: str) -> int:
    """Return the number that a hexstr says, such as ``0x0800`` or ``-0x1``. Raises ProgramError."""
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        raise ProgramError(f"{text!r} is no hexadecimal string such as '0x0800'") from None


@dataclass(frozen=True)
class Stack:
    """A header stack; ``next_slot`` holds the number of elements extracted so far."""

    name: str
    headers: tuple[Header, ...]
    next_slot: int


@dataclass(frozen=True)
class ProgramAction:
    """An action; table records hold its ``code``, its place in the program."""

    code: int
    identifier: int
    name: str
    widths: tuple[int, ...]
    parameters: tuple[str, ...]
    primitives: tuple[Json, ...]

    def place(self, parameter: int) -> int:
        """Return where a parameter's words begin in a record, behind the action's code."""
        return ACTION_WORDS + sum(words_of(width) for width in self.widths[:parameter])


@dataclass(frozen=True)
class KeyField:
    """One field of a table's key."""

    name: str
    kind: str  # exact, lpm, ternary, range, optional
    width: int
    target: Json
    mask: int | None


@dataclass(frozen=True)
class Profile:
    """An action profile; with ``algorithm`` and ``inputs`` a selector."""

    name: str
    size: int
    algorithm: str | None
    inputs: tuple[Json, ...]


@dataclass(frozen=True)
class ConstEntry:
    """An entry that the program itself gives: keys and action as in the JSON."""

    keys: tuple[Json, ...]
    action: ProgramAction
    params: tuple[int, ...]
    priority: int
    const: bool  # whether it is const by itself, in a table whose other entries are not
    runtime_priority: int | None  # P4Runtime's, where the JSON tells it: the greatest wins


@dataclass(frozen=True)
class Table:
    """A match-action table of a pipeline."""

    index: int
    name: str
    keys: tuple[KeyField, ...]
    size: int
    actions: tuple[ProgramAction, ...]
    profile: Profile | None
    next_nodes: dict[str, str | None]
    miss_next: str | None
    default_action: ProgramAction | None
    default_params: tuple[int, ...]
    default_const: bool
    entries: tuple[ConstEntry, ...]
    immutable: bool
    counter_base: int | None  # first cell of its direct counter: of the default entry
    hit_base: int | None = None  # first word of its entries' times, if it supports timeouts
    meter: Meter | None = None
    default_entry_const: bool = False  # parameters of the default action included
    lookups_cell: int | None = None  # its cell of misses and hits among counters, if it has a key
    counting: tuple[ProgramAction, ...] | None = None  # with which its counter counts; None: all

    @property
    def most_entries(self) -> int:
        """Return how many entries it may have."""
        return max(self.size, len(self.entries))

    @property
    def needs_priority(self) -> bool:
        """Return whether its entries have priorities of their own."""
        return any(key.kind in ("ternary", "range", "optional") for key in self.keys)

    @property
    def has_range(self) -> bool:
        """Return whether a key field is a range."""
        return any(key.kind == "range" for key in self.keys)


@dataclass(frozen=True)
class Cells:
    """A counter or register array; ``base`` is its first cell in the switch's own."""

    name: str
    base: int
    size: int
    width: int = 64
    signed: bool = False

    @property
    def words(self) -> int:
        """Return the words of a register; cell ``i`` begins at ``base + i * words``."""
        return words_of(self.width)

    def place(self, index: str) -> str:
        """Return the source of where the cell of an index (source) begins."""
        return f"{self.base} + {index}" + (f" * {self.words}" if self.words > 1 else "")


@dataclass
class Program:
    """A whole program; the generator reads more from its JSON, ``document``."""

    document: Json
    architecture: EngineArchitecture = V1MODEL
    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    actions: list[ProgramAction] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    counters: dict[str, Cells] = field(default_factory=dict)
    registers: dict[str, Cells] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
    custom_crcs: dict[str, int] = field(default_factory=dict)
    """The calculations whose parameters a controller can set, each with its number among them."""
    learn_lists: dict[int, LearnList] = field(default_factory=dict)
    groups: Groups = field(default_factory=Groups)
    errors: dict[str, int] = field(default_factory=dict)
    valid_slots: range = range(0)
    metadata_slots: range = range(0)
    field_count: int = 0
    common_fields: int = 0  # words of the PHV before those of wide headers
    counter_cells: int = 0
    register_cells: int = 0
    meter_cells: int = 0
    hit_words: int = 0

    def take(
        self,
        what: Literal["counter_cells", "register_cells", "meter_cells", "hit_words"],
        size: int,
    ) -> int:
        """Set so many cells or words aside, behind those that are taken; return the first one."""
        first: int = getattr(self, what)
        setattr(self, what, first + size)
        return first

    def error(self, name: str) -> int:
        """Return the number of a core parser error."""
        return self.errors.get(name, CORE_ERRORS.index(name))

    def header(self, name: str) -> Header:
        """Return a header by name. Raises ``ProgramError``."""
        return named(self.headers, name, "header")

    def stack(self, name: str) -> Stack:
        """Return a header stack by name. Raises ``ProgramError``."""
        return named(self.stacks, name, "header stack")

    def resolve(self, reference: Json) -> Field:
        """Return the field of a reference [header, field]; ``$valid$`` is a field of 1 bit."""
        header = self.header(reference[0])
        if reference[1] == "$valid$":
            return Field("$valid$", 1, False, header.valid_slot)
        return header.field(reference[1])

    @property
    def header_bytes(self) -> int:
        """Return the most bytes that the deparser writes."""
        orders = [deparser["order"] for deparser in self.document["deparsers"]]
        return max(sum(self.header(name).most_bits + 7 for name in order) for order in orders) // 8
