"""How much a program may ask for: what would not fit the machine's memory is refused at once."""

from typing import Any

from weft.base.errors import refuse
from weft.base.jit import words_in
from weft.switch.engine.dataplane.layout import MOST_CUSTOM_CRCS, MeterCell
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.program import Program

MOST_WORDS = 1 << 28
"""Words of 8 bytes of all counters of a program, and as many of registers, meters and times."""

MOST_PHV_WORDS = 1 << 15
"""Words of all fields of a packet; each packet of the pool has them."""

MOST_TEXT_BYTES = 1 << 25
"""The most bytes of a program's JSON; reading takes ten to twenty times as much memory. fabric.p4's
has 3 MB."""

MOST_HEADERS = 1 << 14
MOST_STATES = 1 << 14
MOST_OBJECTS = 1 << 16
"""How many things of any other kind there may be."""
MOST_CONST_ENTRIES = 1 << 18

MOST_REPLICAS = 1 << 14
"""The most replicas of one multicast group or clone session: what one packet makes is made in one
go."""
MOST_REPLICAS_IN_ALL = 1 << 18
"""The most replicas of all groups and sessions of a switch: each new version of its tables holds
them anew."""

_LISTS = {
    "header_types": "header types",
    "header_stacks": "header stacks",
    "header_unions": "header unions",
    "header_union_stacks": "stacks of header unions",
    "errors": "parser errors",
    "field_lists": "field lists",
    "learn_lists": "learn lists",
    "calculations": "calculations",
    "checksums": "checksums",
    "counter_arrays": "counters",
    "register_arrays": "registers",
    "meter_arrays": "meters",
    "parse_vsets": "value sets",
    "actions": "actions",
}


def check_text(text: str | bytes) -> None:
    """Raise ProgramError where there is too much JSON; called before it is read at all."""
    refuse(
        len(text) > MOST_TEXT_BYTES,
        f"the program's JSON has {len(text)} bytes: at most {MOST_TEXT_BYTES} are supported",
        ProgramError,
    )


def _counts(document: dict[str, Any]) -> list[tuple[str, int, int]]:
    """Return of every kind of things in a program the name, how many there are, and may be."""
    types = {entry["name"]: len(entry["fields"]) for entry in document["header_types"]}
    pipelines = document["pipelines"]
    nodes = {
        "tables": "tables",
        "conditionals": "conditions",
        "action_profiles": "action profiles",
    }
    entries = [len(table.get("entries") or ()) for each in pipelines for table in each["tables"]]
    stacks = document.get("header_stacks") or ()
    parsers, deparsers = document["parsers"], document["deparsers"]
    return [
        ("headers", len(document["headers"]), MOST_HEADERS),
        ("headers in stacks", sum(len(each["header_ids"]) for each in stacks), MOST_HEADERS),
        ("headers to deparse", sum(len(each["order"]) for each in deparsers), MOST_HEADERS),
        ("parser states", sum(len(each["parse_states"]) for each in parsers), MOST_STATES),
        ("fields", sum(types.values()), MOST_OBJECTS),
        (
            "fields in all headers",
            sum(types[each["header_type"]] for each in document["headers"]),
            MOST_OBJECTS,
        ),
        *(
            (what, sum(len(each.get(kind) or ()) for each in pipelines), MOST_OBJECTS)
            for kind, what in nodes.items()
        ),
        ("const entries", sum(entries), MOST_CONST_ENTRIES),
        *((what, len(document.get(kind) or ()), MOST_OBJECTS) for kind, what in _LISTS.items()),
    ]


def check_counts(document: dict[str, Any]) -> None:
    """Raise ProgramError for lists that are too long and sizes that are none; called before
    anything is read."""
    for what, count, most in _counts(document):
        refuse(
            count > most,
            f"the program has {count} {what}: at most {most} are supported",
            ProgramError,
        )
    for kind in ("counter", "register", "meter"):
        for entry in document.get(f"{kind}_arrays", []):
            if not entry.get("is_direct") and int(entry["size"]) < 0:
                raise ProgramError(f"{kind} {entry['name']!r} has {entry['size']} cells")
    for pipeline in document["pipelines"]:
        for entry in pipeline["tables"]:
            if int(entry.get("max_size", 1024)) < 0:
                raise ProgramError(f"table {entry['name']!r} is for {entry['max_size']} entries")


def check_sizes(program: Program) -> None:
    """Raise ProgramError where packets and the control plane would need too much; called after all
    is read."""
    refuse(
        program.field_count > MOST_PHV_WORDS,
        f"a packet's fields take {program.field_count} words of 64 bits: "
        f"at most {MOST_PHV_WORDS} are supported",
        ProgramError,
    )
    refuse(
        len(program.custom_crcs) > MOST_CUSTOM_CRCS,
        f"the program has {len(program.custom_crcs)} custom CRCs: at most {MOST_CUSTOM_CRCS} are "
        "supported",
        ProgramError,
    )
    for what, words in (
        ("counters", 2 * program.counter_cells),
        ("registers", program.register_cells),
        ("meters", words_in(MeterCell) * program.meter_cells),
        ("tables with timeouts", program.hit_words),
    ):
        refuse(
            words > MOST_WORDS,
            f"the program's {what} take {8 * words} bytes: at most {8 * MOST_WORDS} are "
            "supported; give them fewer cells (with direct ones: their tables fewer entries)",
            ProgramError,
        )
