"""From BMv2's JSON to a program as typed data.

The format: docs/JSON_format.md of p4lang/behavioral-model, versions 2.18 to 2.24.
"""

from dataclasses import replace
from typing import Any

from weft.base import documents
from weft.base.errors import refuse
from weft.switch.engine.architectures.registry import architecture_of
from weft.switch.engine.dataplane.layout import FIRST_FIELD, HEAD_PLACES, STANDARD_FIELDS
from weft.switch.engine.program.algorithms import CUSTOM
from weft.switch.engine.program.amounts import check_counts, check_sizes, check_text
from weft.switch.engine.program.attachments import LearnList, Meter
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.headers import (
    WIDE_WORDS,
    Family,
    Field,
    Header,
    in_order,
    read_groups,
)
from weft.switch.engine.program.program import (
    Cells,
    ConstEntry,
    KeyField,
    Profile,
    Program,
    ProgramAction,
    Stack,
    Table,
    number,
)
from weft.switch.engine.program.words import words_of

Json = Any

MOST_KEY_WORDS = 256

MOST_BITS = 16384
"""The most bits of one field, parameter or register."""

TWO_RATES = 2


def read_program(text: str) -> Program:
    """Read BMv2 JSON; raises ``ProgramError`` for what is not that, or not supported."""
    check_text(text)
    document = documents.parsed(text, "the program is not JSON", error=ProgramError)
    refuse(
        not isinstance(document, dict) or "pipelines" not in document,
        "the program is not BMv2 JSON: it has no 'pipelines'",
        ProgramError,
    )
    try:
        return _read(document)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        wrong = f"{error} is missing" if isinstance(error, KeyError) else repr(error)
        raise ProgramError(f"the program is not complete BMv2 JSON: {wrong}") from error
    except (StopIteration, OverflowError, MemoryError) as error:
        raise ProgramError(f"the program is no BMv2 JSON that can be run: {error!r}") from error


def _read(document: Json) -> Program:
    version = document.get("__meta__", {}).get("version", [2, 0])
    refuse(
        version[0] != 2,
        f"BMv2 JSON version {version[0]}.{version[1]}: only 2.x is supported",
        ProgramError,
    )
    architecture = architecture_of(document)
    architecture.prepare(document)
    externs = [str(item.get("name")) for item in document.get("extern_instances") or ()]
    if externs:
        raise ProgramError(f"v1model has no extern instances in BMv2 JSON: {', '.join(externs)}")
    check_counts(document)
    program = Program(document, architecture)
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
    places = {
        (header, name): slot
        for header in ("standard_metadata", "intrinsic_metadata", "queueing_metadata")
        for name, slot in STANDARD_FIELDS.items()
    }
    for alias, (header, name) in document.get("field_aliases", []):
        standard = alias.split(".")[-1]
        if alias == "intrinsic_metadata.priority":
            places[header, name] = HEAD_PLACES["priority"]
        if standard in STANDARD_FIELDS:
            places[header, name] = STANDARD_FIELDS[standard]
    return places


def _check_bits(what: str, bits: int) -> None:
    refuse(bits > MOST_BITS, f"{what} {bits} bits: at most {MOST_BITS} are supported", ProgramError)


def _layout(type_name: str, entry: Json) -> list[Field]:
    """Return the fields of a header type, without places."""
    fields = []
    for parts in entry["fields"]:
        name, width = parts[0], parts[1]
        where = f"field {name!r} of {type_name!r}"
        refuse(
            width != "*" and (not isinstance(width, int) or width < 0),
            f"{where}: width {width!r} is no number of bits",
            ProgramError,
        )
        bits = 0 if width == "*" else width
        _check_bits(f"{where} has", bits)
        fields.append(Field(name, bits, len(parts) > 2 and bool(parts[2]), 0, width == "*"))
    refuse(
        sum(field.varbit for field in fields) > 1,
        f"header type {type_name!r} has more than one varbit field",
        ProgramError,
    )
    most = 8 * (entry.get("max_length") or 0) - sum(field.width for field in fields)
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
    valid = {entry["name"]: slot for slot, entry in enumerate(packet_headers, FIRST_FIELD)}
    stacks = [
        entry["name"]
        for kind in ("header_stacks", "header_union_stacks")
        for entry in document.get(kind) or []
    ]
    next_slots = {name: slot for slot, name in enumerate(stacks, FIRST_FIELD + len(packet_headers))}
    slot = FIRST_FIELD + len(packet_headers) + len(stacks)
    program.valid_slots, program.metadata_slots = range(FIRST_FIELD, slot), range(slot, slot)
    by_id: dict[int, Header] = {}
    metadata = [entry for entry in document["headers"] if entry["metadata"]]
    for entry in metadata + packet_headers:
        fields = []
        for part in layouts[entry["header_type"]]:
            place = places.get((entry["name"], part.name)) if entry["metadata"] else None
            if place is None or part.words > 1:
                place, slot = slot, slot + part.words
            fields.append(replace(part, slot=place))
        header = Header(
            entry["name"], entry["metadata"], tuple(fields), valid.get(entry["name"], -1)
        )
        refuse(
            not header.metadata and header.bits % 8,
            f"header {header.name!r} has {header.bits} bits, not whole bytes",
            ProgramError,
        )
        program.headers[header.name] = header
        if not header.wide:
            program.common_fields = slot
        if header.metadata:
            program.metadata_slots = range(program.valid_slots.stop, slot)
        by_id[entry["id"]] = header
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
            _check_bits(
                f"parameter {item['name']!r} of action {entry['name']!r} has", item["bitwidth"]
            )
        program.actions.append(
            ProgramAction(
                code,
                entry["id"],
                entry["name"],
                tuple(item["bitwidth"] for item in data),
                tuple(item["name"] for item in data),
                tuple(entry["primitives"]),
            )
        )


def _indirect(program: Program, kind: str) -> list[Json]:
    return [entry for entry in program.document.get(kind, []) if not entry.get("is_direct")]


def _read_cells(program: Program) -> None:
    for entry in _indirect(program, "counter_arrays"):
        size = int(entry["size"])
        base = program.take("counter_cells", size)
        program.counters[entry["name"]] = Cells(entry["name"], base, size)
    for entry in program.document.get("register_arrays", []):
        size, width = int(entry["size"]), int(entry["bitwidth"])
        _check_bits(f"register {entry['name']!r} has cells of", width)
        base = program.take("register_cells", size * words_of(width))
        program.registers[entry["name"]] = Cells(
            entry["name"], base, size, width, bool(entry.get("signed", False))
        )
    for entry in _indirect(program, "meter_arrays"):
        program.meters[entry["name"]] = _meter(program, entry, int(entry["size"]), None)
    program.learn_lists = _learn_lists(program)
    custom = [
        each["name"] for each in program.document.get("calculations", []) if each["algo"] in CUSTOM
    ]
    program.custom_crcs = {name: number for number, name in enumerate(custom)}


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
        kind, target = key["match_type"], key["target"]
        if kind == "valid":
            kind, target = "exact", [target, "$valid$"]
        refuse(
            kind not in ("exact", "lpm", "ternary", "range", "optional"),
            f"table {name!r}: match kind {kind!r} is not supported",
            ProgramError,
        )
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
    refuse(
        key_words > MOST_KEY_WORDS,
        f"the key of table {name!r} has {key_words} words of 64 bits, each field a new one: "
        f"{MOST_KEY_WORDS} are most",
        ProgramError,
    )
    refuse(
        sum(key.kind == "lpm" for key in keys) > 1,
        f"table {name!r} has more than one lpm field",
        ProgramError,
    )
    profile = None
    if entry.get("type", "simple") != "simple":
        wanted = entry["action_profile"]
        refuse(
            wanted not in program.profiles,
            f"table {name!r} names an action profile {wanted!r} that is missing",
            ProgramError,
        )
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
    counter_base = program.take("counter_cells", cells) if entry.get("with_counters") else None
    counting = entry.get("counting_actions")
    hit_base = program.take("hit_words", cells) if entry.get("support_timeout") else None
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
        program.take("counter_cells", 1) if keys else None,
        tuple(by_id[item] for item in counting) if counting is not None else None,
    )


def _direct_meter(program: Program, entry: Json, cells: int) -> Meter | None:
    """Return the direct meter of a table."""
    wanted = entry.get("direct_meters")
    if not wanted:
        return None
    for item in program.document.get("meter_arrays", []):
        if item["name"] == wanted and item.get("is_direct"):
            return _meter(program, item, cells, program.resolve(item["result_target"]))
    raise ProgramError(f"table {entry['name']!r} has a direct meter {wanted!r} that is missing")


def _meter(program: Program, entry: Json, size: int, target: Field | None) -> Meter:
    """Return a meter array. Raises ``ProgramError``."""
    name, kind = entry["name"], entry.get("type")
    refuse(
        kind not in ("packets", "bytes"),
        f"meter {name!r} counts {kind!r}: packets and bytes can be counted",
        ProgramError,
    )
    if entry.get("rate_count", TWO_RATES) != TWO_RATES:
        raise ProgramError(f"meter {name!r} has {entry['rate_count']} rates: v1model's have two")
    if not 0 <= size < 1 << 32:
        raise ProgramError(f"meter {name!r} has {size} cells")
    return Meter(name, program.take("meter_cells", size), size, kind == "packets", target)


def _learn_lists(program: Program) -> dict[int, LearnList]:
    """Return the digests by their id."""
    lists = {}
    for item in program.document.get("learn_lists") or []:
        elements: list[Field | int] = []
        for element in item["elements"]:
            if element["type"] == "hexstr":
                elements.append(number(element["value"]))
            else:
                refuse(
                    element["type"] != "field",
                    f"digest {item['name']!r} has a {element['type']!r}, "
                    "neither a field nor a constant",
                    ProgramError,
                )
                field = program.resolve(element["value"])
                refuse(
                    field.varbit,
                    f"digest {item['name']!r} has a varbit field, {field.name!r}",
                    ProgramError,
                )
                elements.append(field)
        identifier = int(item["id"])
        if not 0 < identifier < 1 << 16:
            raise ProgramError(f"digest {item['name']!r} has the id {identifier}: 1 to 65535")
        lists[identifier] = LearnList(identifier, item["name"], tuple(elements))
    return lists
