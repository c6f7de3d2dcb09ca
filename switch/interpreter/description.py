"""What BMv2 JSON declares, as the interpreter looks it up: headers, what joins them, and actions.

The format: docs/JSON_format.md of p4lang/behavioral-model.
"""

from dataclasses import dataclass
from typing import Any

from weft.switch.engine.program.errors import ProgramError

Json = Any

Place = tuple[str, str]
"""The names of a header and of a field of it."""

VALID = "$valid$"

STANDARD_HEADERS = ("standard_metadata", "intrinsic_metadata", "queueing_metadata")


@dataclass(frozen=True)
class FieldType:
    """A field of a header type; of a varbit field ``width`` is the most that it may have."""

    name: str
    width: int
    signed: bool = False
    varbit: bool = False

    def cut(self, value: int) -> int:
        """Return what the field holds once a number of any size has been stored in it."""
        value &= (1 << self.width) - 1
        negative = self.signed and value >> (self.width - 1)
        return value - (1 << self.width) if negative else value


def _fields(entry: Json) -> dict[str, FieldType]:
    fixed = sum(part[1] for part in entry["fields"] if part[1] != "*")
    return {
        name: FieldType(name, 8 * entry["max_length"] - fixed, varbit=True)
        if width == "*"
        else FieldType(name, width, bool(more and more[0]))
        for name, width, *more in entry["fields"]
    }


class Description:
    """A program's document with what its parts are called."""

    def __init__(self, document: Json) -> None:
        self.document = document
        kinds = {entry["name"]: _fields(entry) for entry in document["header_types"]}
        names = {entry["id"]: entry["name"] for entry in document["headers"]}
        self.headers: dict[str, dict[str, FieldType]] = {
            entry["name"]: kinds[entry["header_type"]] for entry in document["headers"]
        }
        self.metadata = {entry["name"] for entry in document["headers"] if entry["metadata"]}
        self.stacks: dict[str, list[list[str]]] = {}
        """Of each stack its elements, each the headers that it consists of."""
        for entry in document.get("header_stacks") or ():
            self.stacks[entry["name"]] = [[names[one]] for one in entry["header_ids"]]
        self.unions: dict[str, list[str]] = {}
        by_id = {}
        for entry in document.get("header_unions") or ():
            members = [names[one] for one in entry["header_ids"]]
            self.unions[entry["name"]] = by_id[entry["id"]] = members
        members_of = {
            entry["name"]: [name for name, _ in entry["headers"]]
            for entry in document.get("header_union_types") or ()
        }
        self.member_names: dict[str, list[str]] = {}
        """Of each stack of unions, what the headers of a union are called in P4."""
        for entry in document.get("header_union_stacks") or ():
            self.stacks[entry["name"]] = [by_id[one] for one in entry["header_union_ids"]]
            self.member_names[entry["name"]] = members_of[entry["union_type"]]
        self.peers = {
            name: [other for other in members if other != name]
            for members in self.unions.values()
            for name in members
        }
        """The other headers of the union that a header is in."""
        self.actions = {entry["id"]: entry for entry in document["actions"]}
        self.action_names = {entry["name"]: entry for entry in document["actions"]}
        self.calculations = {entry["name"]: entry for entry in document.get("calculations") or ()}
        self.registers = {entry["name"]: entry for entry in document.get("register_arrays") or ()}
        self.field_lists = {
            int(entry["id"]): [
                tuple(item["value"]) for item in entry["elements"] if item["type"] == "field"
            ]
            for entry in document.get("field_lists") or ()
        }
        self.errors = {name: number for name, number in document.get("errors") or ()}
        self.aliases = {
            alias.split(".")[-1]: (header, name)
            for alias, (header, name) in document.get("field_aliases") or ()
        }

    def standard(self, name: str) -> Place:
        """Return where a field of simple_switch's own is, such as ``egress_spec``."""
        if name in self.aliases:
            return self.aliases[name]
        for header in STANDARD_HEADERS:
            if name in self.headers.get(header, ()):
                return header, name
        return STANDARD_HEADERS[0], name  # the program has no such field: the switch has

    def field(self, place: Place) -> FieldType:
        """Return the type of a field; the switch's own has any width."""
        header, name = place
        if name == VALID:
            return FieldType(VALID, 1)
        if name in self.headers.get(header, ()):
            return self.headers[header][name]
        if header in STANDARD_HEADERS:
            return FieldType(name, 64)
        raise ProgramError(f"the program has no field {header}.{name}")

    def varbit(self, header: str) -> FieldType | None:
        """Return the field of variable length of a header, if it has one."""
        return next((one for one in self.headers[header].values() if one.varbit), None)

    def fixed_bits(self, header: str) -> int:
        """Return the bits of a header without its varbit field."""
        return sum(one.width for one in self.headers[header].values() if not one.varbit)
