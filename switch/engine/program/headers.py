"""The headers of a program and their fields, each at its place in the packet-header vector, and
what joins them: header unions, stacks of them, and value sets of the parser.

The format: docs/JSON_format.md of p4lang/behavioral-model.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from weft.base.errors import refuse
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.words import words_of

WIDE_WORDS = 64
"""A header of more words is wide: packets without it neither clear nor copy its fields."""

Item = TypeVar("Item")
Json = Any


def named(table: Mapping[str, Item], name: str, kind: str) -> Item:
    """Return what a program has by a name. Raises ``ProgramError``."""
    refuse(name not in table, f"the program has no {kind} {name!r}", ProgramError)
    return table[name]


@dataclass(frozen=True)
class Field:
    """A field of a header: its width in bits, and its first word in the PHV.

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
        """Return how many words of the PHV hold its bits."""
        return words_of(self.width)

    @property
    def words(self) -> int:
        """Return how many words of the PHV it takes, a varbit's length included."""
        return self.data_words + self.varbit

    @property
    def length_slot(self) -> int:
        """Return the word that holds a varbit's length in bits."""
        return self.slot + self.data_words

    @property
    def parts(self) -> "tuple[Field, ...]":
        """Return its words as fields of at most 64 bits: one behind the other they are the field.

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
    """A header, or metadata, which is always valid and has ``valid_slot`` -1."""

    name: str
    metadata: bool
    fields: tuple[Field, ...]
    valid_slot: int

    @property
    def bits(self) -> int:
        """Return its size in a packet, in bits, without its varbit field."""
        return sum(field.width for field in self.fields if not field.varbit)

    @property
    def most_bits(self) -> int:
        """Return the most bits that it may have in a packet."""
        return sum(field.width for field in self.fields)

    @property
    def words(self) -> int:
        """Return how many words its fields take; elements of a stack are as many apart."""
        return sum(field.words for field in self.fields)

    @property
    def parts(self) -> tuple[Field, ...]:
        """Return all words of its fields as fields of at most 64 bits, for copying."""
        return tuple(part for field in self.fields for part in field.parts)

    @property
    def varbit(self) -> Field | None:
        """Return its field of variable length, if it has one."""
        return next((field for field in self.fields if field.varbit), None)

    @property
    def wide(self) -> bool:
        """Return whether its fields are at the end of the PHV, in use only while it is valid."""
        return not self.metadata and self.words > WIDE_WORDS

    def field(self, name: str) -> Field:
        """Return a field by name. Raises ``ProgramError``."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise ProgramError(f"header {self.name!r} has no field {name!r}")


@dataclass(frozen=True)
class Union:
    """A header union: at most one of its headers is valid at a time."""

    name: str
    members: tuple[Header, ...]


@dataclass(frozen=True)
class UnionStack:
    """A stack of header unions; ``member_names`` are those of a union's headers in P4."""

    name: str
    unions: tuple[Union, ...]
    member_names: tuple[str, ...]
    next_slot: int

    def family(self, position: int) -> "Family":
        """Return the headers at one place of all its unions."""
        return Family(tuple(union.members[position] for union in self.unions))

    def member(self, name: str) -> int:
        """Return the place of a header in its unions by name. Raises ``ProgramError``."""
        refuse(
            name not in self.member_names,
            f"the unions of stack {self.name!r} have no header {name!r}",
            ProgramError,
        )
        return self.member_names.index(name)


@dataclass(frozen=True)
class Family:
    """Headers of one type, equally far apart in the PHV, so that a number can pick one."""

    headers: tuple[Header, ...]

    @property
    def valid_stride(self) -> int:
        """Return the words from one header's validity to the next one's."""
        if len(self.headers) < 2:
            return 0
        return self.headers[1].valid_slot - self.headers[0].valid_slot

    @property
    def field_stride(self) -> int:
        """Return the words from one header's fields to the next one's."""
        if len(self.headers) < 2 or not self.headers[0].fields:
            return 0
        return self.headers[1].fields[0].slot - self.headers[0].fields[0].slot

    def valid_place(self, number: str) -> str:
        """Return the PHV index of a header's validity."""
        return _place(self.headers[0].valid_slot, self.valid_stride, number)

    def field_place(self, one: Field, number: str) -> str:
        """Return the PHV index of the field at the place that ``one`` has in the first header."""
        return _place(one.slot, self.field_stride, number)

    def check(self, name: str) -> None:
        """Raise ``ProgramError`` if the headers are not alike and at equal distances."""
        first = self.headers[0]
        for number, header in enumerate(self.headers):
            same = [(part.name, part.width) for part in header.fields] == [
                (part.name, part.width) for part in first.fields
            ]
            refuse(
                not same or header.metadata,
                f"{name!r} has elements of different types",
                ProgramError,
            )
            refuse(
                header.valid_slot != first.valid_slot + number * self.valid_stride
                or any(
                    mine.slot != theirs.slot + number * self.field_stride
                    for mine, theirs in zip(header.fields, first.fields, strict=True)
                ),
                f"{name!r} has an element that is also in another stack",
                ProgramError,
            )


def _place(slot: int, stride: int, number: str) -> str:
    return f"{slot} + {number}" if stride == 1 else f"{slot} + {stride} * {number}"


@dataclass(frozen=True)
class ValueSet:
    """A set that the control side fills; ``bits`` is the width of its whole key."""

    name: str
    index: int
    bits: int
    size: int


@dataclass(frozen=True)
class ValueSetUse:
    """How a transition key looks a value set up: the widths of the key's parts, and a mask of each.
    The word of the image after the tables' points to its directory, in the order of uses."""

    value_set: str
    widths: tuple[int, ...]
    masks: tuple[int, ...]


@dataclass
class Groups:
    """The unions, union stacks and value sets of a program, by name."""

    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    uses: list[ValueSetUse] = field(default_factory=list)
    """How the generated parser looks value sets up; known once it has been generated."""
    peers: dict[str, tuple[Header, ...]] = field(default_factory=dict)
    """The other headers of the union that a header is in."""

    def union(self, name: str) -> Union:
        """Return a union by name. Raises ``ProgramError``."""
        return named(self.unions, name, "header union")

    def union_stack(self, name: str) -> UnionStack:
        """Return a union stack by name. Raises ``ProgramError``."""
        return named(self.union_stacks, name, "header union stack")


def in_order(document: Json, headers: Iterable[Json]) -> list[Json]:
    """Return header instances so that the elements of each stack follow one another."""
    unions = {item["id"]: item["header_ids"] for item in document.get("header_unions") or []}
    together: dict[int, list[int]] = {
        member: item["header_ids"]
        for item in document.get("header_stacks") or []
        for member in item["header_ids"]
    }
    for item in document.get("header_union_stacks") or []:
        whole = [member for union in item["header_union_ids"] for member in unions[union]]
        together.update(dict.fromkeys(whole, whole))
    by_id = {entry["id"]: entry for entry in headers}
    order: dict[int, Json] = {
        member: by_id[member]
        for identifier in by_id
        for member in together.get(identifier, [identifier])
        if member in by_id
    }
    return list(order.values())


def read_groups(document: Json, headers: dict[int, Header], next_slots: dict[str, int]) -> Groups:
    """Return the groups of a program whose headers have been read; ``next_slots`` are the
    stacks'."""
    groups = Groups()
    types = {
        item["name"]: tuple(name for name, _ in item["headers"])
        for item in document.get("header_union_types") or []
    }
    by_id: dict[int, Union] = {}
    for item in document.get("header_unions") or []:
        members = tuple(headers[identifier] for identifier in item["header_ids"])
        union = by_id[item["id"]] = Union(item["name"], members)
        groups.unions[union.name] = union
        for member in members:
            refuse(member.metadata, f"metadata {member.name!r} is in a header union", ProgramError)
            groups.peers[member.name] = tuple(other for other in members if other is not member)
    for item in document.get("header_union_stacks") or []:
        name = item["name"]
        unions = tuple(by_id[identifier] for identifier in item["header_union_ids"])
        names = types.get(item["union_type"], ())
        refuse(
            not unions or any(len(union.members) != len(names) for union in unions),
            f"header union stack {name!r} has elements of different types",
            ProgramError,
        )
        stack = groups.union_stacks[name] = UnionStack(name, unions, names, next_slots[name])
        for position in range(len(names)):
            stack.family(position).check(name)
    for index, item in enumerate(document.get("parse_vsets") or []):
        groups.value_sets[item["name"]] = ValueSet(
            item["name"], index, int(item["compressed_bitwidth"]), int(item.get("max_size") or 1024)
        )
    return groups
