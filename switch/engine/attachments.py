"""Meters and digests of a program, as BMv2 JSON has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.switch.engine.control import ProgramError

if TYPE_CHECKING:
    from weft.switch.engine.program import Field

Json = Any

TWO_RATES = 2


@dataclass(frozen=True)
class Meter:
    """A meter array; ``base`` is its first cell. It counts packets, or bytes.

    Of a direct meter ``target`` is the field that gets the colour, and the cells are the entries',
    the default entry's first.
    """

    name: str
    base: int
    size: int
    packets: bool
    target: Field | None = None


@dataclass(frozen=True)
class LearnList:
    """A digest: what of a packet it tells the controller, fields or constants in their order."""

    identifier: int
    name: str
    elements: tuple[Field | int, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        """Its elements without the constants."""
        return tuple(element for element in self.elements if not isinstance(element, int))

    @property
    def words(self) -> int:
        """Words of a sample."""
        return sum(field.data_words for field in self.fields)

    def values(self, words: list[int]) -> tuple[int, ...]:
        """The values of a sample, without sign."""
        values = []
        at = 0
        for element in self.elements:
            if isinstance(element, int):
                values.append(element)
                continue
            value = 0
            for word in words[at : at + element.data_words]:
                value = value << 64 | word & ((1 << 64) - 1)
            values.append(value & ((1 << element.width) - 1))
            at += element.data_words
        return tuple(values)


def read_meter(entry: Json, base: int, size: int, target: Field | None) -> Meter:
    """A meter array; raises ``ProgramError``."""
    name, kind = entry["name"], entry.get("type")
    if kind not in ("packets", "bytes"):
        raise ProgramError(f"meter {name!r} counts {kind!r}: packets and bytes can be counted")
    if entry.get("rate_count", TWO_RATES) != TWO_RATES:
        raise ProgramError(f"meter {name!r} has {entry['rate_count']} rates: v1model's have two")
    if not 0 <= size < 1 << 32:
        raise ProgramError(f"meter {name!r} has {size} cells")
    return Meter(name, base, size, kind == "packets", target)


def read_learn_lists(
    document: Json, resolve: Callable[[Json], Field], number: Callable[[str], int]
) -> dict[int, LearnList]:
    """The digests by their id; raises ``ProgramError``."""
    lists = {}
    for item in document.get("learn_lists") or []:
        elements: list[Field | int] = []
        for element in item["elements"]:
            if element["type"] == "hexstr":
                elements.append(number(element["value"]))
                continue
            if element["type"] != "field":
                raise ProgramError(
                    f"digest {item['name']!r} has a {element['type']!r}, "
                    "neither a field nor a constant"
                )
            field = resolve(element["value"])
            if field.varbit:
                raise ProgramError(f"digest {item['name']!r} has a varbit field, {field.name!r}")
            elements.append(field)
        identifier = int(item["id"])
        if not 0 < identifier < 1 << 16:
            raise ProgramError(f"digest {item['name']!r} has the id {identifier}: 1 to 65535")
        lists[identifier] = LearnList(identifier, item["name"], tuple(elements))
    return lists
