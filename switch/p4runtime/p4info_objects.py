"""The objects that a P4Info describes, as the server needs them.

Names are P4Info's ``preamble.name``, which the BMv2 JSON uses too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime.translation import ValueType


class MatchKind(Enum):
    """The match kinds of P4Runtime; the value is the name of the field in ``FieldMatch``."""

    EXACT = "exact"
    LPM = "lpm"
    TERNARY = "ternary"
    RANGE = "range"
    OPTIONAL = "optional"


KINDS = {
    p4info_pb2.MatchField.EXACT: MatchKind.EXACT,
    p4info_pb2.MatchField.LPM: MatchKind.LPM,
    p4info_pb2.MatchField.TERNARY: MatchKind.TERNARY,
    p4info_pb2.MatchField.RANGE: MatchKind.RANGE,
    p4info_pb2.MatchField.OPTIONAL: MatchKind.OPTIONAL,
}

_BY_PRIORITY = {MatchKind.TERNARY, MatchKind.RANGE, MatchKind.OPTIONAL}


@dataclass(frozen=True)
class Field:
    """A key field of a table or value set."""

    id: int
    name: str
    type: ValueType
    kind: MatchKind

    @property
    def width(self) -> int:
        """Bits of a value."""
        return self.type.width


@dataclass(frozen=True)
class Param:
    """A parameter of an action, or a field of a controller header."""

    id: int
    name: str
    type: ValueType


@dataclass(frozen=True)
class Action:
    """An action; parameters in the order of the source."""

    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Resource:
    """Something that clients write or read by its id; ``role`` empty: all roles may."""

    id: int
    name: str
    role: str


@dataclass(frozen=True)
class Table(Resource):
    """A table."""

    fields: tuple[Field, ...]
    scopes: Mapping[int, int]
    """Its actions by id, each with P4Info's ActionRef.Scope."""
    profile_id: int
    const_default: bool
    is_const: bool
    preinitialised: bool
    """Whether the program gives entries that clients may change."""
    ages: bool
    direct_counter_id: int
    direct_meter: Meter | None

    @property
    def by_priority(self) -> bool:
        """Whether its entries have a priority."""
        return any(field.kind in _BY_PRIORITY for field in self.fields)

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"table {self.name}"


@dataclass(frozen=True)
class Profile(Resource):
    """An action profile, or with ``selector`` an action selector; ``max_group_size`` 0 = unset.

    ``by_members``: sizes count members, each of any weight up to ``max_member_weight`` (0 = any);
    otherwise they count weights.
    """

    selector: bool
    max_group_size: int
    by_members: bool
    max_member_weight: int


@dataclass(frozen=True)
class Array(Resource):
    """An indirect counter: cells from 0 to ``size - 1``."""

    size: int


@dataclass(frozen=True)
class Meter(Array):
    """A meter, indirect or (size 0) direct; ``type`` is a ``MeterSpec.Type``."""

    type: int


@dataclass(frozen=True)
class Register(Array):
    """A register; ``type_spec`` is the ``P4DataTypeSpec`` of a cell."""

    type_spec: Any


@dataclass(frozen=True)
class ValueSet(Resource):
    """A parser value set: at most ``size`` members of these fields."""

    fields: tuple[Field, ...]
    size: int

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"value set {self.name}"


@dataclass(frozen=True)
class Digest(Resource):
    """A digest; ``type_spec`` is the ``P4DataTypeSpec`` of one message."""

    type_spec: Any


@dataclass(frozen=True)
class PacketHeader:
    """A controller header, ``packet_in`` or ``packet_out``, with its fields in their order.

    ``widths`` are those of the data plane.
    """

    name: str
    fields: tuple[Param, ...]
    widths: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes in front of the payload."""
        return (sum(self.widths) + 7) // 8
