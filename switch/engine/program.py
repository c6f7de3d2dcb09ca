"""A BMv2 JSON program as typed data, each field at its place in the packet-header vector.

The format: docs/JSON_format.md of p4lang/behavioral-model, versions 2.18 to 2.24.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from weft.switch.engine.amounts import check_counts, check_sizes, check_text
from weft.switch.engine.attachments import LearnList, Meter, read_learn_lists, read_meter
from weft.switch.engine.control import ProgramError
from weft.switch.engine.groups import Family, Groups, in_order, read_groups
from weft.switch.engine.layout import FIRST_FIELD, PRIORITY, STANDARD_FIELDS

Json = Any

MOST_KEY_WORDS = 256

MOST_BITS = 16384
"""Of one field, parameter or register."""

WIDE_WORDS = 64
"""A header of more words is wide: packets without it neither clear nor copy its fields."""


def words_of(width: int) -> int:
    """How many words of 64 bits hold so many bits; one for none."""
    return max((width + 63) // 64, 1)


@dataclass(frozen=True)
class Field:
    """A field of a header: its width in bits, and the first word of the PHV that holds its value.

    A field of more than 64 bits takes several words, most significant first; of a signed one the
    first word is sign-extended. A varbit field's ``width`` is the most that it may have: its bits
    are in the first words, first bit most significant, the rest 0; the last word is its length.
    """

    name: str
    width: int
    signed: bool
    slot: int
    varbit: bool = False

    @property
    def data_words(self) -> int:
        """Words of the PHV that hold its bits."""
        return words_of(self.width)

    @property
    def words(self) -> int:
        """Words of the PHV that it takes, a varbit's length included."""
        return self.data_words + self.varbit

    @property
    def length_slot(self) -> int:
        """The word that holds a varbit's length in bits."""
        return self.slot + self.data_words

    @property
    def parts(self) -> tuple[Field, ...]:
        """Its words as fields of at most 64 bits: one behind the other they are the field.

        A varbit's length comes last, as a part of its own.
        """
        if self.words == 1:
            return (self,)
        if self.varbit:
            data = [Field(self.name, 64, False, self.slot + i) for i in range(self.data_words)]
            return (*data, Field(f"{self.name} length", 32, False, self.length_slot))
        first = self.width - 64 * (self.words - 1)
        rest = [Field(self.name, 64, False, self.slot + i) for i in range(1, self.words)]
        return (Field(self.name, first, self.signed, self.slot), *rest)


@dataclass(frozen=True)
class Header:
    """A header or metadata instance. ``valid_slot`` is -1 for metadata, which is always valid."""

    name: str
    metadata: bool
    fields: tuple[Field, ...]
    valid_slot: int

    @property
    def bits(self) -> int:
        """Its size in a packet, in bits, without its varbit field."""
        return sum(field.width for field in self.fields if not field.varbit)

    @property
    def most_bits(self) -> int:
        """The most bits that it may have in a packet."""
        return sum(field.width for field in self.fields)

    @property
    def words(self) -> int:
        """Words of the PHV that its fields take; elements of a stack are as many apart."""
        return sum(field.words for field in self.fields)

    @property
    def parts(self) -> tuple[Field, ...]:
        """All words of its fields as fields of at most 64 bits, for copying."""
        return tuple(part for field in self.fields for part in field.parts)

    @property
    def varbit(self) -> Field | None:
        """Its field of variable length, if it has one."""
        return next((field for field in self.fields if field.varbit), None)

    @property
    def wide(self) -> bool:
        """Whether its fields are at the end of the PHV, in use only while it is valid."""
        return not self.metadata and self.words > WIDE_WORDS

    def field(self, name: str) -> Field:
        """A field by name; raises ``ProgramError``."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise ProgramError(f"header {self.name!r} has no field {name!r}")


@dataclass(frozen=True)
class Stack:
    """A header stack; ``next_slot`` holds the number of elements extracted so far."""

    name: str
    headers: tuple[Header, ...]
    next_slot: int


@dataclass(frozen=True)
class Action:
    """An action. ``code`` (its place in the program) is what table records hold."""

    code: int
    identifier: int
    name: str
    widths: tuple[int, ...]
    parameters: tuple[str, ...]
    primitives: tuple[Json, ...]

    def place(self, parameter: int) -> int:
        """Where a parameter's words begin in a record, behind the action's code."""
        return 1 + sum(words_of(width) for width in self.widths[:parameter])


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
    action: Action
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
    actions: tuple[Action, ...]
    profile: Profile | None
    next_nodes: dict[str, str | None]
    miss_next: str | None
    default_action: Action | None
    default_params: tuple[int, ...]
    default_const: bool
    entries: tuple[ConstEntry, ...]
    immutable: bool
    counter_base: int | None  # first cell of its direct counter: of the default entry
    hit_base: int | None = None  # first word of its entries' times, if it supports timeouts
    meter: Meter | None = None
    default_entry_const: bool = False  # parameters of the default action included

    @property
    def most_entries(self) -> int:
        """How many entries it may have."""
        return max(self.size, len(self.entries))

    @property
    def needs_priority(self) -> bool:
        """Whether its entries have priorities of their own."""
        return any(key.kind in ("ternary", "range", "optional") for key in self.keys)

    @property
    def has_range(self) -> bool:
        """Whether a key field is a range."""
        return any(key.kind == "range" for key in self.keys)

    def action(self, name: str) -> Action | None:
        """One of its actions by name."""
        return next((action for action in self.actions if action.name == name), None)


@dataclass(frozen=True)
class Cells:
    """A counter or register array: ``base`` is its first cell in the switch's own array."""

    name: str
    base: int
    size: int
    width: int = 64
    signed: bool = False

    @property
    def words(self) -> int:
        """Words of a register; cell ``i`` begins at ``base + i * words``."""
        return words_of(self.width)

    def place(self, index: str) -> str:
        """Source of where the cell of an index (source) begins."""
        return f"{self.base} + {index}" + (f" * {self.words}" if self.words > 1 else "")


@dataclass
class Program:
    """A whole program. ``document`` is the JSON itself, for what the generator reads from it."""

    document: Json
    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    tables: dict[str, Table] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    counters: dict[str, Cells] = field(default_factory=dict)
    registers: dict[str, Cells] = field(default_factory=dict)
    meters: dict[str, Meter] = field(default_factory=dict)
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

    def error(self, name: str) -> int:
        """The number of a core parser error."""
        core = (
            "NoError",
            "PacketTooShort",
            "NoMatch",
            "StackOutOfBounds",
            "HeaderTooShort",
            "ParserTimeout",
            "ParserInvalidArgument",
        )
        return self.errors.get(name, core.index(name))

    def header(self, name: str) -> Header:
        """A header by name; raises ``ProgramError``."""
        if name not in self.headers:
            raise ProgramError(f"the program has no header {name!r}")
        return self.headers[name]

    def stack(self, name: str) -> Stack:
        """A header stack by name; raises ``ProgramError``."""
        if name not in self.stacks:
            raise ProgramError(f"the program has no header stack {name!r}")
        return self.stacks[name]

    def resolve(self, reference: Json) -> Field:
        """The field of a reference [header, field]; ``$valid$`` is a field of 1 bit."""
        header = self.header(reference[0])
        if reference[1] == "$valid$":
            return Field("$valid$", 1, False, header.valid_slot)
        return header.field(reference[1])

    @property
    def header_bytes(self) -> int:
        """The most bytes that the deparser writes."""
        order = self.document["deparsers"][0]["order"]
        return sum(self.header(name).most_bits + 7 for name in order) // 8


def number(text: str) -> int:
    """A hexstr: ``0x0800``, ``-0x1``; raises ``ProgramError``."""
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        raise ProgramError(f"{text!r} is no hexadecimal string such as '0x0800'") from None


def read_program(text: str) -> Program:
    """Read BMv2 JSON; raises ``ProgramError`` for what is not that, or not supported."""
    check_text(text)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"the program is not JSON: {error}") from None
    if not isinstance(document, dict) or "pipelines" not in document:
        raise ProgramError("the program is not BMv2 JSON: it has no 'pipelines'")
    try:
        return _read(document)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        wrong = f"{error} is missing" if isinstance(error, KeyError) else repr(error)
        raise ProgramError(f"the program is not complete BMv2 JSON: {wrong}") from error
    except (StopIteration, OverflowError, MemoryError) as error:
        raise ProgramError(f"the program is no BMv2 JSON that can be run: {error!r}") from error


def _read(document: Json) -> Program:
    version = document.get("__meta__", {}).get("version", [2, 0])
    if version[0] != 2:
        raise ProgramError(f"BMv2 JSON version {version[0]}.{version[1]}: only 2.x is supported")
    if document.get("extern_instances"):
        names = ", ".join(str(item.get("name")) for item in document["extern_instances"])
        raise ProgramError(f"v1model has no extern instances in BMv2 JSON: {names}")
    check_counts(document)
    program = Program(document)
    for name, code in document.get("errors", []):
        if not isinstance(code, int):
            raise ProgramError(f"parser error {name!r} has the code {code!r}, which is no number")
        program.errors[name] = code
    _read_headers(program)
    _read_actions(program)
    _read_cells(program)
    for pipeline in document["pipelines"]:
        for entry in pipeline.get("action_profiles", []):
            selector = entry.get("selector")
            program.profiles[entry["name"]] = Profile(
                entry["name"],
                entry.get("max_size", 1024),
                selector["algo"] if selector else None,
                tuple(selector["input"]) if selector else (),
            )
        for entry in pipeline["tables"]:
            table = _read_table(program, entry)
            program.tables[table.name] = table
    check_sizes(program)
    return program


def _standard_slots(document: Json) -> dict[tuple[str, str], int]:
    places: dict[tuple[str, str], int] = {}
    for header in ("standard_metadata", "intrinsic_metadata", "queueing_metadata"):
        for slot, name in enumerate(STANDARD_FIELDS):
            places[header, name] = slot
    for alias, (header, name) in document.get("field_aliases", []):
        standard = alias.split(".")[-1]
        if alias == "intrinsic_metadata.priority":
            places[header, name] = PRIORITY
        if standard in STANDARD_FIELDS:
            places[header, name] = STANDARD_FIELDS.index(standard)
    return places


def _layout(type_name: str, entry: Json) -> list[Field]:
    """The fields of a header type, without places."""
    fields = []
    for parts in entry["fields"]:
        name, width = parts[0], parts[1]
        where = f"field {name!r} of {type_name!r}"
        if width != "*" and (not isinstance(width, int) or width < 0):
            raise ProgramError(f"{where}: width {width!r} is no number of bits")
        if width != "*" and width > MOST_BITS:
            raise ProgramError(f"{where} has {width} bits: at most {MOST_BITS} are supported")
        signed = bool(parts[2]) if len(parts) > 2 else False
        fields.append(Field(name, 0 if width == "*" else width, signed, 0, width == "*"))
    if sum(field.varbit for field in fields) > 1:
        raise ProgramError(f"header type {type_name!r} has more than one varbit field")
    most = 8 * entry.get("max_length", 0) - sum(field.width for field in fields)
    if any(field.varbit for field in fields) and not 0 <= most <= MOST_BITS:
        raise ProgramError(
            f"header type {type_name!r} has a varbit field, "
            f"and a max_length of {entry.get('max_length')!r} bytes for it"
        )
    return [replace(field, width=most) if field.varbit else field for field in fields]


def _read_headers(program: Program) -> None:
    document = program.document
    types = {entry["name"]: entry for entry in document["header_types"]}
    places = _standard_slots(document)
    packet_headers = [entry for entry in document["headers"] if not entry["metadata"]]
    packet_headers = in_order(document, packet_headers)
    layouts = {name: _layout(name, entry) for name, entry in types.items()}
    packet_headers.sort(
        key=lambda entry: sum(part.words for part in layouts[entry["header_type"]]) > WIDE_WORDS
    )
    slot = FIRST_FIELD
    valid: dict[str, int] = {}
    for entry in packet_headers:
        valid[entry["name"]] = slot
        slot += 1
    next_slots: dict[str, int] = {}
    for kind in ("header_stacks", "header_union_stacks"):
        for entry in document.get(kind) or []:
            next_slots[entry["name"]] = slot
            slot += 1
    program.valid_slots = range(FIRST_FIELD, slot)
    by_id: dict[int, Header] = {}
    metadata = [entry for entry in document["headers"] if entry["metadata"]]
    for entry in metadata + packet_headers:
        if entry is (packet_headers[0] if packet_headers else None):
            program.metadata_slots = range(program.valid_slots.stop, slot)
        fields = []
        for part in layouts[entry["header_type"]]:
            place = places.get((entry["name"], part.name)) if entry["metadata"] else None
            if place is None or part.words > 1:
                place, slot = slot, slot + part.words
            fields.append(replace(part, slot=place))
        header = Header(
            entry["name"], entry["metadata"], tuple(fields), valid.get(entry["name"], -1)
        )
        if not header.metadata and header.bits % 8:
            raise ProgramError(f"header {header.name!r} has {header.bits} bits, not whole bytes")
        program.headers[header.name] = header
        if not header.wide:
            program.common_fields = slot
        by_id[entry["id"]] = header
    if not packet_headers:
        program.metadata_slots = range(program.valid_slots.stop, slot)
    for entry in document.get("header_stacks", []):
        elements = tuple(by_id[identifier] for identifier in entry["header_ids"])
        Family(elements).check(entry["name"])
        program.stacks[entry["name"]] = Stack(entry["name"], elements, next_slots[entry["name"]])
    program.groups = read_groups(document, by_id, next_slots)
    program.field_count = slot


def _read_actions(program: Program) -> None:
    for code, entry in enumerate(program.document["actions"]):
        data = entry["runtime_data"]
        for item in data:
            if item["bitwidth"] > MOST_BITS:
                raise ProgramError(
                    f"parameter {item['name']!r} of action {entry['name']!r} has "
                    f"{item['bitwidth']} bits: at most {MOST_BITS} are supported"
                )
        program.actions.append(
            Action(
                code,
                entry["id"],
                entry["name"],
                tuple(item["bitwidth"] for item in data),
                tuple(item["name"] for item in data),
                tuple(entry["primitives"]),
            )
        )


def _read_cells(program: Program) -> None:
    for entry in program.document.get("counter_arrays", []):
        if entry.get("is_direct"):
            continue
        size = int(entry["size"])
        program.counters[entry["name"]] = Cells(entry["name"], program.counter_cells, size)
        program.counter_cells += size
    for entry in program.document.get("register_arrays", []):
        size, width = int(entry["size"]), int(entry["bitwidth"])
        if width > MOST_BITS:
            raise ProgramError(
                f"register {entry['name']!r} has cells of {width} bits: "
                f"at most {MOST_BITS} are supported"
            )
        program.registers[entry["name"]] = Cells(
            entry["name"], program.register_cells, size, width, bool(entry.get("signed", False))
        )
        program.register_cells += size * words_of(width)
    for entry in program.document.get("meter_arrays", []):
        if entry.get("is_direct"):
            continue
        meter = read_meter(entry, program.meter_cells, int(entry["size"]), None)
        program.meters[meter.name] = meter
        program.meter_cells += meter.size
    program.learn_lists = read_learn_lists(program.document, program.resolve, number)


def _read_table(program: Program, entry: Json) -> Table:
    name = entry["name"]
    by_id = {action.identifier: action for action in program.actions}
    if "action_ids" in entry:
        actions = tuple(by_id[identifier] for identifier in entry["action_ids"])
    else:
        actions = tuple(
            next(action for action in program.actions if action.name == wanted)
            for wanted in entry["actions"]
        )
    keys = []
    for key in entry["key"]:
        kind = key["match_type"]
        if kind == "valid":
            target: Json = [key["target"], "$valid$"]
            kind = "exact"
        else:
            target = key["target"]
        if kind not in ("exact", "lpm", "ternary", "range", "optional"):
            raise ProgramError(f"table {name!r}: match kind {kind!r} is not supported")
        keys.append(
            KeyField(
                key.get("name") or f"{target[0]}.{target[1]}",
                kind,
                program.resolve(target).width,
                target,
                number(key["mask"]) if key.get("mask") else None,
            )
        )
    key_words = sum(words_of(key.width) for key in keys)
    if key_words > MOST_KEY_WORDS:
        raise ProgramError(
            f"the key of table {name!r} has {key_words} words of 64 bits, each field a new one: "
            f"{MOST_KEY_WORDS} are most"
        )
    if sum(key.kind == "lpm" for key in keys) > 1:
        raise ProgramError(f"table {name!r} has more than one lpm field")
    profile = None
    if entry.get("type", "simple") != "simple":
        wanted = entry["action_profile"]
        if wanted not in program.profiles:
            raise ProgramError(f"table {name!r} names an action profile {wanted!r} that is missing")
        profile = program.profiles[wanted]
    default = entry.get("default_entry")
    default_action = by_id[default["action_id"]] if default else None
    data = tuple(number(value) for value in default.get("action_data", ())) if default else ()
    if default_action is not None and len(data) != len(default_action.widths):
        data = (0,) * len(default_action.widths)
    entries = tuple(
        ConstEntry(
            tuple(item["match_key"]),
            by_id[item["action_entry"]["action_id"]],
            tuple(number(value) for value in item["action_entry"]["action_data"]),
            int(item.get("priority", 0)),
            bool(item.get("is_const", False)),
            int(item["p4runtime_priority"]) if "p4runtime_priority" in item else None,
        )
        for item in entry.get("entries", ())
    )
    size = int(entry.get("max_size", 1024))
    cells = max(size, len(entries)) + 1
    counter_base = None
    if entry.get("with_counters"):
        counter_base = program.counter_cells
        program.counter_cells += cells
    hit_base = None
    if entry.get("support_timeout"):
        hit_base = program.hit_words
        program.hit_words += cells
    return Table(
        len(program.tables),
        name,
        tuple(keys),
        size,
        actions,
        profile,
        dict(entry.get("next_tables", {})),
        entry.get("base_default_next"),
        default_action,
        data,
        bool(default and default.get("action_const")),
        entries,
        "entries" in entry and bool(entry["entries"]),
        counter_base,
        hit_base,
        _direct_meter(program, entry, cells),
        bool(default and default.get("action_entry_const")),
    )


def _direct_meter(program: Program, entry: Json, cells: int) -> Meter | None:
    """The direct meter of a table."""
    wanted = entry.get("direct_meters")
    if not wanted:
        return None
    for item in program.document.get("meter_arrays", []):
        if item["name"] == wanted and item.get("is_direct"):
            target = program.resolve(item["result_target"])
            meter = read_meter(item, program.meter_cells, cells, target)
            program.meter_cells += cells
            return meter
    raise ProgramError(f"table {entry['name']!r} has a direct meter {wanted!r} that is missing")
