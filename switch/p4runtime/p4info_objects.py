"""The objects that a P4Info describes, as the server needs them, and values as clients write them.

Names are P4Info's ``preamble.name``, which the BMv2 JSON uses too. A value is a bytestring, or a
string of a translated type (P4Runtime specification, sections "Bytestrings", "User-defined types"
and "PSA Metadata Translation"). A type with ``@p4runtime_translation(uri, string)`` is a string
towards clients and a number in the data plane. No mapping comes from outside, so the server makes
one, for each type:

- what ``@p4runtime_translation_mappings({{"name", number}, ...})`` at the type says;
- a decimal number stands for itself, as long as nothing else has that number;
- any other string gets the greatest number that is free and was free of use so far.

A number without string reads back as its decimal digits. A type with a numeric translation
(``@p4runtime_translation(uri, bit<W>)``) keeps its values; only the width differs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar

from weft.base.errors import refuse
from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime import bytestrings
from weft.switch.p4runtime.refusals import exhausted, invalid, listed, out_of_range

MOST_BITS = 1 << 16
"""The most bits of one value: no program that a switch runs has more."""

MOST_STRING_BYTES = 1024
"""The most bytes of one translated string: all strings of a device are kept."""

MOST_STRINGS = 1 << 17
"""The most strings of one type."""

MOST_TYPES = 1 << 12
"""The most types of a device that are translated to strings, in all programs that it was given."""

_MAPPINGS = re.compile(r"@p4runtime_translation_mappings\s*\((.*)\)\s*$", re.DOTALL)
_MAPPING = re.compile(r'\{\s*"((?:[^"\\]|\\.)*)"\s*,\s*(?:\d+w)?(0[xX][0-9a-fA-F]+|\d+)\s*,?\s*\}')


class StringMap:
    """A map has the strings of one translated type and their numbers, both ways."""

    def __init__(self, type_name: str, width: int, known: Mapping[str, int]) -> None:
        self.type_name = type_name
        self.width = width
        self._numbers: dict[str, int] = {}
        self._strings: dict[int, str] = {}
        self._next = max((1 << width) - 2, 0)
        for text, number in known.items():
            refuse(
                number >> width or number in self._strings,
                f"P4Info: type {type_name} maps {text!r} to {number}, which does not fit "
                f"bit<{width}> or is given twice",
                invalid,
            )
            self._add(text, number)

    def _add(self, text: str, number: int) -> int:
        self._numbers[text] = number
        self._strings[number] = text
        return number

    def number(self, data: bytes, what: str) -> int:
        """Return the number of a string, and give it one if it has none.

        Raises Refusal for a string that is not UTF-8 or is too long, or if no number is left.
        """
        try:
            text = data.decode()
        except UnicodeDecodeError:
            raise invalid(
                f"{what}: {data!r} is no UTF-8, type {self.type_name} is a string"
            ) from None
        if text in self._numbers:
            return self._numbers[text]
        refuse(
            not text or len(data) > MOST_STRING_BYTES,
            f"{what}: a string of {len(data)} bytes; type {self.type_name} takes 1 to "
            f"{MOST_STRING_BYTES}",
            out_of_range,
        )
        refuse(
            len(self._numbers) >= MOST_STRINGS,
            f"{what}: type {self.type_name} has {MOST_STRINGS} strings, which is the limit",
            exhausted,
        )
        own = int(text) if text.isascii() and text.isdecimal() and len(text) < 40 else -1
        if str(own) == text and not own >> self.width and own not in self._strings:
            return self._add(text, own)
        while self._next >= 0 and self._next in self._strings:
            self._next -= 1
        refuse(
            self._next < 0,
            f"{what}: all {1 << self.width} values of type {self.type_name} have strings",
            exhausted,
        )
        return self._add(text, self._next)

    def string(self, number: int) -> bytes:
        """Return the string of a number, which is its decimal digits if no client has named it."""
        return self._strings.get(number, str(number)).encode()


@dataclass(frozen=True)
class ValueType:
    """A value type is that of a match field, action parameter or packet metadata towards
    clients."""

    width: int
    strings: StringMap | None = None

    def decode(self, data: bytes, what: str) -> int:
        """Return the number that a client means; ``what`` names the field in errors
        (OUT_OF_RANGE)."""
        if self.strings is not None:
            return self.strings.number(data, what)
        return bytestrings.decode(data, self.width, what)

    def encode(self, value: int) -> bytes:
        """Return what a client reads for a value."""
        return bytestrings.encode(value) if self.strings is None else self.strings.string(value)


@dataclass(eq=False)
class Translations:
    """The string maps of a device by type; they outlive programs, so that names stay."""

    _maps: dict[tuple[str, str, int], StringMap] = field(default_factory=dict, init=False)

    def value_type(self, what: str, message: Any, types: Any, data_width: int | None) -> ValueType:
        """Return the type of something that has ``bitwidth`` and ``type_name`` in a P4Info.

        ``types``: P4Info's ``type_info``; ``data_width``: its width in the BMv2 JSON, if known.
        Raises Refusal (INVALID_ARGUMENT).
        """
        name = message.type_name.name
        spec = types.new_types.get(name) if name else None
        if spec is not None and spec.WhichOneof("representation") == "translated_type":
            translated = spec.translated_type
            if translated.WhichOneof("sdn_type") == "sdn_string":
                if not data_width:
                    raise invalid(
                        f"P4Info: {what} has type {name}, translated to strings, but is not in "
                        "p4_device_config; compile both together"
                    )
                return ValueType(data_width, self._map(name, translated.uri, data_width, spec))
            if 0 < translated.sdn_bitwidth <= MOST_BITS:
                return ValueType(translated.sdn_bitwidth)
        if not 0 < message.bitwidth <= MOST_BITS:
            raise invalid(
                f"P4Info: {what} has bit width {message.bitwidth}; it is 1 to {MOST_BITS}"
            )
        return ValueType(message.bitwidth)

    def _map(self, name: str, uri: str, width: int, spec: Any) -> StringMap:
        found = self._maps.get((uri, name, width))
        if found is None:
            refuse(
                len(self._maps) >= MOST_TYPES,
                f"P4Info: type {name}: {MOST_TYPES} types were translated to strings, which "
                "is the limit; restart the switch",
                invalid,
            )
            known = {
                re.sub(r"\\(.)", r"\1", text): int(number, 0)
                for mappings in map(_MAPPINGS.match, spec.annotations)
                if mappings
                for text, number in _MAPPING.findall(mappings.group(1))
            }
            found = self._maps[uri, name, width] = StringMap(name, width, known)
        return found


class MatchKind(Enum):
    """These are the match kinds of P4Runtime; each value is the name of a field in
    ``FieldMatch``."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


KINDS = {p4info_pb2.MatchField.MatchType.Value(kind.name): kind for kind in MatchKind}
"""The match kinds by their numbers in a P4Info."""

_BY_PRIORITY = {MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL}


@dataclass(frozen=True)
class Param:
    """A param is a parameter of an action, or a field of a controller header."""

    id: int
    name: str
    type: ValueType


@dataclass(frozen=True)
class MatchField(Param):
    """A match field is a key field of a table or value set."""

    kind: MatchKind

    @property
    def width(self) -> int:
        """Return the bits of a value."""
        return self.type.width


@dataclass(frozen=True)
class ActionInfo:
    """An action, with its parameters in the order of the source."""

    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class ObjectInfo:
    """Something that clients write or read by its id; with an empty ``role`` every role may."""

    kind: ClassVar[str]
    """What error messages call an object of this kind."""

    id: int
    name: str
    role: str

    @property
    def label(self) -> str:
        """Return what error messages call this object."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class TableInfo(ObjectInfo):
    """A table."""

    kind = "table"
    fields: tuple[MatchField, ...]
    scopes: Mapping[int, int]
    """P4Info's ActionRef.Scope of each of its actions, by the action's id."""
    profile_id: int
    const_default: bool
    is_const: bool
    preinitialised: bool
    """Whether the program gives it entries that clients may change."""
    ages: bool
    direct_counter: int
    """The id of its direct counter, 0 if it has none."""
    direct_meter: "MeterInfo | None"

    @property
    def by_priority(self) -> bool:
        """Return whether its entries have a priority."""
        return any(field.kind in _BY_PRIORITY for field in self.fields)

    def has(self, what: Literal["counter", "meter"]) -> bool:
        """Return whether its entries have a direct counter or meter."""
        return bool(getattr(self, f"direct_{what}"))

    def check_has(self, what: Literal["counter", "meter"]) -> None:
        """Raise Refusal (INVALID_ARGUMENT) unless its entries have a direct counter or meter."""
        if not self.has(what):
            raise invalid(f"{self.label} has no direct {what}")


@dataclass(frozen=True)
class ProfileInfo(ObjectInfo):
    """An action profile, or with ``selector`` an action selector.

    A ``max_group_size`` of 0 is unset. With ``by_members`` sizes count members, each of a weight up
    to ``max_member_weight`` (0 allows any weight); otherwise they count weights.
    """

    kind = "action profile"
    selector: bool
    max_group_size: int
    by_members: bool
    max_member_weight: int


@dataclass(frozen=True)
class ArrayInfo(ObjectInfo):
    """An indirect counter, with cells from 0 to ``size - 1``."""

    kind = "counter"
    size: int


@dataclass(frozen=True)
class MeterInfo(ArrayInfo):
    """An indirect meter, or with ``size`` 0 a direct one; ``type`` is a ``MeterSpec.Type``."""

    kind = "meter"
    type: int


@dataclass(frozen=True)
class RegisterInfo(ArrayInfo):
    """A register; ``type_spec`` is the ``P4DataTypeSpec`` of a cell."""

    kind = "register"
    type_spec: Any


@dataclass(frozen=True)
class ValueSetInfo(ObjectInfo):
    """A parser value set, which has at most ``size`` members of these fields."""

    kind = "value set"
    fields: tuple[MatchField, ...]
    size: int


@dataclass(frozen=True)
class DigestInfo(ObjectInfo):
    """A digest; ``type_spec`` is the ``P4DataTypeSpec`` of one message."""

    kind = "digest"
    type_spec: Any


@dataclass(frozen=True)
class PacketHeader:
    """A controller header, ``packet_in`` or ``packet_out``, with its fields in their order.

    ``widths`` are the bits of the fields in the data plane.
    """

    name: str
    fields: tuple[Param, ...]
    widths: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Return the bytes of the header in front of the payload."""
        return (sum(self.widths) + 7) // 8


NO_HEADER = PacketHeader("", (), ())
"""The header of packets to or from the controller, where the program declares none."""

_T = TypeVar(
    "_T",
    ActionInfo,
    TableInfo,
    ProfileInfo,
    ArrayInfo,
    MeterInfo,
    RegisterInfo,
    ValueSetInfo,
    DigestInfo,
)


class Objects(dict[int, _T]):
    """The objects of one kind in a P4Info by id, in its order; ``by_name`` has them by name.

    Raises Refusal (INVALID_ARGUMENT) where an id or a name is missing or occurs twice.
    """

    def __init__(self, kind: str, objects: Iterable[_T]) -> None:
        super().__init__()
        self.by_name: dict[str, _T] = {}
        self._kind = kind
        for thing in objects:
            refuse(
                thing.id == 0 or not thing.name,
                f"P4Info: {kind} {thing.name!r} has id {thing.id}; both must be set",
                invalid,
            )
            refuse(
                thing.id in self or thing.name in self.by_name,
                f"P4Info: {kind} {thing.name} (id {thing.id}) occurs twice",
                invalid,
            )
            self[thing.id] = self.by_name[thing.name] = thing

    def find(self, wanted: int) -> _T:
        """Return the object with an id; raise INVALID_ARGUMENT if there is none."""
        if wanted not in self:
            names = listed((f"{thing.name} ({thing.id})" for thing in self.values()), self)
            raise invalid(f"no {self._kind} has id {wanted}; there are {names}")
        return self[wanted]

    def chosen(self, wanted: int) -> list[_T]:
        """Return what a query means by an id: the object with that id, or for 0 all objects."""
        return [self.find(wanted)] if wanted else list(self.values())
