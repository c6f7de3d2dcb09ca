"""What there is in a program by itself: headers, and objects that the control plane knows."""

from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.diagnostics import NOWHERE, Span
from weft.switch.compiler.ir.expressions import HeaderField
from weft.switch.compiler.types import Type


@dataclass
class HeaderType:
    """A header type lists its fields: name, width in bits (``*`` for a varbit), whether signed."""

    name: str
    fields: list[tuple[str, int | str, bool]] = field(default_factory=list)
    max_length: int | None = None  # bytes, where there is a varbit field


@dataclass
class HeaderInstance:
    """A header instance has a name and a header type; metadata are no part of the packet."""

    name: str
    header_type: str
    metadata: bool = False


@dataclass
class HeaderStack:
    """A header stack names the headers, or unions, that are its elements."""

    name: str
    element_type: str
    elements: list[str]
    of_unions: bool = False


@dataclass
class HeaderUnion:
    """A header union names the headers that are its members."""

    name: str
    union_type: str
    members: list[str]


@dataclass
class Object:
    """An object has a name in the control plane."""

    name: str
    annotations: list[Any] = field(default_factory=list)
    span: Span = NOWHERE
    order: tuple[int, ...] = field(default=(), init=False)
    """The place where the object is declared. P4Info lists objects in this order."""


@dataclass
class Resource(Object):
    """A resource is a counter or a meter, an array of them or the direct one of a table."""

    size: int = 0
    unit: str = "packets"
    is_direct: bool = False
    table: str | None = None
    """The name of the table that a direct counter or meter belongs to."""


@dataclass
class LoweredCounter(Resource):
    """A counter has as many cells as its size says."""


@dataclass
class LoweredMeter(Resource):
    """A meter has as many cells as its size says."""

    result: HeaderField | None = None
    """The field into which a direct meter is read."""


@dataclass
class LoweredRegister(Object):
    """A register has as many cells of a type as its size says."""

    size: int = 0
    type: Type | None = None


@dataclass
class ActionProfile(Object):
    """An action profile belongs to tables; with an `algorithm` it is an action selector."""

    size: int = 0
    algorithm: str | None = None  # selectors
    inputs: list[HeaderField] | None = None
    tables: list[str] = field(default_factory=list)
    pipeline: str = ""


@dataclass
class LoweredValueSet(Object):
    """A value set of a parser has room for members of these fields."""

    size: int = 0
    fields: "list[LoweredParameter]" = field(default_factory=list)
    is_used: bool = False  # by a state that packets may reach


@dataclass
class LoweredDigest(Object):
    """A digest sends the values of fields to the controller."""

    id: int = 0
    type: Type | None = None
    fields: list[HeaderField] = field(default_factory=list)


@dataclass
class LoweredParameter:
    """A parameter of an action, or a field of a value set, gets its value from the control
    plane."""

    name: str
    type: Type
    width: int
    annotations: list[Any] = field(default_factory=list)
