"""The objects that a P4Info describes, as the server needs them.

Names are P4Info's ``preamble.name``, which the BMv2 JSON uses too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Literal, TypeVar

from weft.base.errors import refuse
from weft.switch.messages import p4info_pb2
from weft.switch.p4runtime.refusals import invalid, listed
from weft.switch.p4runtime.translation import ValueType


class MatchKind(Enum):
    """The match kinds of P4Runtime; each value is the name of a field in ``FieldMatch``."""

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
    """A parameter of an action, or a field of a controller header."""

    id: int
    name: str
    type: ValueType


@dataclass(frozen=True)
class Field(Param):
    """A key field of a table or value set."""

    kind: MatchKind

    @property
    def width(self) -> int:
        """The bits of a value."""
        return self.type.width


@dataclass(frozen=True)
class Action:
    """An action, with its parameters in the order of the source."""

    id: int
    name: str
    params: tuple[Param, ...]


@dataclass(frozen=True)
class Resource:
    """Something that clients write or read by its id; with an empty ``role`` every role may."""

    kind: ClassVar[str]
    """What error messages call an object of this kind."""

    id: int
    name: str
    role: str

    @property
    def label(self) -> str:
        """What error messages call this object."""
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class Table(Resource):
    """A table."""

    kind = "table"
    fields: tuple[Field, ...]
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
    direct_meter: Meter | None

    @property
    def by_priority(self) -> bool:
        """Whether its entries have a priority."""
        return any(field.kind in _BY_PRIORITY for field in self.fields)

    def has(self, what: Literal["counter", "meter"]) -> bool:
        """Return whether its entries have a direct counter or meter."""
        return bool(getattr(self, f"direct_{what}"))

    def check_has(self, what: Literal["counter", "meter"]) -> None:
        """Raise Refusal (INVALID_ARGUMENT) unless its entries have a direct counter or meter."""
        if not self.has(what):
            raise invalid(f"{self.label} has no direct {what}")


@dataclass(frozen=True)
class Profile(Resource):
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
class Array(Resource):
    """An indirect counter, with cells from 0 to ``size - 1``."""

    kind = "counter"
    size: int


@dataclass(frozen=True)
class Meter(Array):
    """An indirect meter, or with ``size`` 0 a direct one; ``type`` is a ``MeterSpec.Type``."""

    kind = "meter"
    type: int


@dataclass(frozen=True)
class Register(Array):
    """A register; ``type_spec`` is the ``P4DataTypeSpec`` of a cell."""

    kind = "register"
    type_spec: Any


@dataclass(frozen=True)
class ValueSet(Resource):
    """A parser value set, which has at most ``size`` members of these fields."""

    kind = "value set"
    fields: tuple[Field, ...]
    size: int


@dataclass(frozen=True)
class Digest(Resource):
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
        """The bytes of the header in front of the payload."""
        return (sum(self.widths) + 7) // 8


_T = TypeVar("_T", Action, Table, Profile, Array, Meter, Register, ValueSet, Digest)


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
        """Return the object with an id; INVALID_ARGUMENT if there is none."""
        if wanted not in self:
            names = listed((f"{thing.name} ({thing.id})" for thing in self.values()), self)
            raise invalid(f"no {self._kind} has id {wanted}; there are {names}")
        return self[wanted]

    def chosen(self, wanted: int) -> list[_T]:
        """Return what a query means by an id: the object with that id, or for 0 all objects."""
        return [self.find(wanted)] if wanted else list(self.values())
