"""The headers of a program and their fields, each at its place in the packet-header vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from weft.base.errors import refuse
from weft.switch.engine.control import ProgramError
from weft.switch.engine.words import words_of

WIDE_WORDS = 64
"""A header of more words is wide: packets without it neither clear nor copy its fields."""

Item = TypeVar("Item")


def named(table: Mapping[str, Item], name: str, kind: str) -> Item:
    """Return what a program has by a name. Raises ``ProgramError``."""
    refuse(name not in table, f"the program has no {kind} {name!r}", ProgramError)
    return table[name]


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
        """Return a field by name. Raises ``ProgramError``."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise ProgramError(f"header {self.name!r} has no field {name!r}")
