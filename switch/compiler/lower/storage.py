"""Where values live, and what names and expressions stand for while a program is lowered.

BMv2 knows flat header instances only. A struct of headers becomes one instance for each header;
numbers in structs and variables become fields of one metadata instance, ``scalars``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from weft.switch.compiler import ir, syntax
from weft.switch.compiler.annotations import local_name
from weft.switch.compiler.types import (
    VOID,
    StackType,
    StructType,
    TupleType,
    Type,
    VarbitType,
    header_fields,
    inner_fields,
    is_header_stack,
    is_signed,
    is_union,
    is_varbit,
    member_types,
    resolved,
    scalar_width,
)

SCALARS = "scalars"


@dataclass(eq=False)
class FieldPlace:
    """A place that is one field of a header instance."""

    header: str
    name: str
    type: Type

    @property
    def field(self) -> ir.HeaderField:
        """Return the field as an expression."""
        return ir.HeaderField(self.header, self.name)


@dataclass(eq=False)
class HeaderPlace:
    """A place that is a header instance."""

    name: str
    type: StructType


@dataclass(eq=False)
class StackPlace:
    """A place that is a stack of headers or header unions."""

    name: str
    type: StackType
    elements: "list[Place]"


@dataclass(eq=False)
class UnionPlace:
    """A place that is a header union."""

    name: str
    type: StructType
    members: dict[str, HeaderPlace]


@dataclass(eq=False)
class StructPlace:
    """A place that is a struct, tuple or array, made of the places of its members."""

    type: Type
    members: "dict[str, Place]"


@dataclass(eq=False)
class ElementPlace:
    """A place that is a header of a stack at an index that is not known at compile time."""

    stack: StackPlace
    index: ir.LoweredExpression
    type: StructType


@dataclass(eq=False)
class NextPlace:
    """A place that is ``stack.next`` or, if `last`, ``stack.last``; or the `member` of such a
    union."""

    stack: StackPlace
    type: StructType
    last: bool
    member: str = ""


@dataclass(eq=False)
class OffsetPlace:
    """A place that is a field of an `ElementPlace`, or of ``stack.last`` (or a `member` of it)
    without `index`."""

    stack: StackPlace
    index: ir.LoweredExpression | None
    name: str
    type: Type
    member: str = ""


@dataclass(eq=False)
class SlicePlace:
    """A place that is the bits `high` to `low` of another."""

    base: "Place"
    high: int
    low: int
    type: Type


@dataclass(eq=False)
class MovingSlicePlace:
    """A place that is `width` bits of another, from bit `index` on, which is not known at compile
    time; it is at most the number of bits of the whole."""

    base: "Place"
    index: ir.LoweredExpression
    width: int
    type: Type


@dataclass(eq=False)
class ChosenPlace:
    """A place that is an array's element at an index that is not known at compile time: one of
    `choices`."""

    choices: "list[Place]"
    index: ir.LoweredExpression
    type: Type


Place = (
    FieldPlace
    | HeaderPlace
    | StackPlace
    | UnionPlace
    | StructPlace
    | ElementPlace
    | NextPlace
    | OffsetPlace
    | SlicePlace
    | MovingSlicePlace
    | ChosenPlace
)


PLACES = (
    FieldPlace, HeaderPlace, StackPlace, UnionPlace, StructPlace, ElementPlace, NextPlace,
    OffsetPlace, SlicePlace, MovingSlicePlace, ChosenPlace,
)  # fmt: skip

_PARTS: dict[type, Callable[[Any], Iterable[Place]]] = {
    StackPlace: lambda place: place.elements,
    UnionPlace: lambda place: place.members.values(),
    StructPlace: lambda place: place.members.values(),
    ElementPlace: lambda place: [place.stack],
    NextPlace: lambda place: [place.stack],
    OffsetPlace: lambda place: [place.stack],
    SlicePlace: lambda place: [place.base],
    MovingSlicePlace: lambda place: [place.base],
    ChosenPlace: lambda place: place.choices,
}
"""The places that other places are made of; fields and headers are made of none."""


def inside(place: Place) -> Iterable[Place]:
    """Return the places that a place is made of; it is neither a field nor a header."""
    return _PARTS[type(place)](place)


def atoms(place: Place) -> set[str]:
    """Return the header instances and fields that a place is made of, to find out whether two
    overlap."""
    match place:
        case FieldPlace():
            return {place.header if place.header != SCALARS else f"{place.header}.{place.name}"}
        case HeaderPlace():
            return {place.name}
    return set().union(*map(atoms, inside(place)))


def header_field(header: str, name: str, kind: Type) -> Place:
    """Return the place of a header's field, which may be a struct or an array."""
    return _field(partial(FieldPlace, header), name, kind)


def element_field(element: "ElementPlace | NextPlace", name: str, kind: Type) -> Place:
    """Return the place of a field, which may be a struct or an array, of a stack's element."""

    def make(own: str, item: Type) -> Place:
        if isinstance(element, NextPlace):
            return OffsetPlace(element.stack, None, own, item, element.member)
        return OffsetPlace(element.stack, element.index, own, item)

    return _field(make, name, kind)


def _field(make: Callable[[str, Type], Place], name: str, kind: Type) -> Place:
    inner = inner_fields(name, kind)
    if inner is None:
        return make(name, kind)
    return StructPlace(kind, {key: _field(make, *item) for key, item in inner.items()})


def header_members(header: HeaderPlace | ElementPlace) -> dict[str, Place]:
    """Return the places of a header's fields."""
    if isinstance(header, HeaderPlace):
        return {
            name: header_field(header.name, name, item) for name, item in header.type.fields.items()
        }
    return {name: element_field(header, name, item) for name, item in header.type.fields.items()}


def unique(name: str, taken: set[str]) -> str:
    """Return a name that is not taken yet, this one or one with a number, and take it."""
    candidate, count = name, 0
    while candidate in taken:
        candidate, count = f"{name}_{count}", count + 1
    taken.add(candidate)
    return candidate


class Storage:
    """The allocation of header types, header instances and fields of a program."""

    def __init__(self, program: ir.LoweredProgram) -> None:
        self.program = program
        self.scalars = ir.HeaderType("scalars_0")
        program.header_types.append(self.scalars)
        program.headers.append(ir.HeaderInstance(SCALARS, "scalars_0", metadata=True))
        self._types: dict[StructType, str] = {}
        self._type_names = {"scalars_0"}
        self._names = {SCALARS}
        self._fields: set[str] = set()
        self._empty: HeaderPlace | None = None
        self.uneven: list[tuple[StructType, int]] = []
        """The headers that are not of whole bytes, with their sizes in bits."""
        self.in_packets: set[StructType] = set()
        """The headers that are extracted or emitted."""

    def header_type(self, kind: StructType) -> str:
        """Return the name of the BMv2 header type of a P4 header, or of a struct as metadata."""
        if (known := self._types.get(kind)) is not None:
            return known
        declared = kind.name if kind.declaration is None else local_name(kind.declaration)
        name = self._types[kind] = unique(declared, self._type_names)
        fields = [(key, item, scalar_width(item) or 0) for key, item in header_fields(kind)]
        model = ir.HeaderType(name, [
            (key, "*" if is_varbit(item) else width, is_signed(item)) for key, item, width in fields
        ])  # fmt: skip
        bits = sum(width for _, _, width in fields)
        if any(is_varbit(item) for _, item, _ in fields):
            model.max_length = (bits + 7) // 8
        if kind.kind == "header" and bits % 8:
            self.uneven.append((kind, bits))
        self.pad(model, bits)
        self.program.header_types.append(model)
        return name

    def pad(self, model: ir.HeaderType, bits: int) -> None:
        """Fill a header type up to whole bytes, as BMv2 takes no others."""
        if bits % 8:
            model.fields.append(("_padding", 8 - bits % 8, False))

    def scalar(self, name: str, kind: Type) -> FieldPlace:
        """Return a new field of `scalars`."""
        own = unique(name, self._fields)
        self.scalars.fields.append((own, scalar_width(kind) or 1, is_signed(kind)))
        return FieldPlace(SCALARS, own, kind)

    def stored_width(self, node: ir.LoweredExpression) -> int | None:
        """Return the width in bits with which a field is stored; None for what is no field."""
        match node:
            case ir.HeaderField():
                kinds = (
                    item.header_type for item in self.program.headers if item.name == node.header
                )
            case ir.LastField():
                kinds = (
                    item.element_type for item in self.program.stacks if item.name == node.stack
                )
            case _:
                return None
        kind = next(kinds, None)
        fields = next((item.fields for item in self.program.header_types if item.name == kind), [])
        width = next((field[1] for field in fields if field[0] == node.name), None)
        return width if isinstance(width, int) else None

    def header(self, name: str, kind: StructType) -> HeaderPlace:
        """Return a new header instance."""
        own = unique(name, self._names)
        self.program.headers.append(ir.HeaderInstance(own, self.header_type(kind)))
        return HeaderPlace(own, kind)

    def empty_varbit(self, kind: Type) -> FieldPlace:
        """Return a varbit of no bits: the field of a header that is never valid."""
        if self._empty is None:
            fields: dict[str, Type] = {"bits": VarbitType(8)}
            self._empty = self.header("empty", StructType("empty_t", "header", (), fields))
        return FieldPlace(self._empty.name, "bits", kind)

    def allocate(self, name: str, kind: Type) -> Place:
        """Return a place for a value of any type that can be stored; raises KeyError if it
        cannot."""
        bare = resolved(kind)
        match bare:
            case StructType(kind="header"):
                return self.header(name, bare)
            case StructType(kind="header_union"):
                return self._union(name, bare)
            case StackType() if is_header_stack(bare):
                return self._stack(name, bare)
            case StructType() | TupleType() | StackType():
                pattern = "{}[{}]" if isinstance(bare, StackType) else "{}.{}" if name else "{}{}"
                return StructPlace(kind, {
                    key: self.allocate(pattern.format(name, key), item)
                    for key, item in member_types(bare).items()
                })  # fmt: skip
            case _ if scalar_width(bare) is None:
                raise KeyError(str(bare))
            case VarbitType():  # BMv2 has it in headers alone
                fields: dict[str, Type] = {"bits": bare}
                holder = StructType(f"varbit{bare.width}_t", "header", (), fields)
                return FieldPlace(self.header(name or "varbit", holder).name, "bits", kind)
        return self.scalar(name, kind)

    def _stack(self, name: str, kind: StackType) -> StackPlace:
        own = unique(name, self._names)
        element = resolved(kind.element)
        assert isinstance(element, StructType)
        elements = [self.allocate(f"{own}[{index}]", element) for index in range(kind.size)]
        of_unions = is_union(element)
        element_type = element.name if of_unions else self.header_type(element)
        names = [item.name for item in elements if isinstance(item, (HeaderPlace, UnionPlace))]
        self.program.stacks.append(ir.HeaderStack(own, element_type, names, of_unions))
        return StackPlace(own, kind, elements)

    def _union(self, name: str, kind: StructType) -> UnionPlace:
        own = unique(name, self._names)
        members: dict[str, HeaderPlace] = {}
        for key, item in kind.fields.items():
            bare = resolved(item)
            assert isinstance(bare, StructType)
            members[key] = self.header(f"{own}.{key}", bare)
        self.program.union_types.setdefault(
            kind.name, [(key, self.header_type(place.type)) for key, place in members.items()]
        )
        self.program.unions.append(
            ir.HeaderUnion(own, kind.name, [place.name for place in members.values()])
        )
        return UnionPlace(own, kind, members)

    def metadata_header(self, name: str, kind: StructType) -> StructPlace:
        """Return a place for a struct that is a metadata header of its own, as the standard
        metadata is."""
        self._names.add(name)
        self.program.headers.append(ir.HeaderInstance(name, self.header_type(kind), metadata=True))
        return StructPlace(
            kind, {key: FieldPlace(name, key, item) for key, item in kind.fields.items()}
        )

    def finish(self) -> None:
        """Round the scalars up to whole bytes."""
        bits = sum(width for _, width, _ in self.scalars.fields if isinstance(width, int))
        self.pad(self.scalars, bits)


@dataclass(eq=False)
class Composite:
    """A composite is a struct, header or tuple value that has no place; `valid` is False for
    ``{#}``."""

    type: Type
    members: "dict[str, LoweredValue]"
    valid: bool = True


@dataclass(eq=False)
class ExternInstance:
    """An instance of an extern object has the `object` that BMv2 has for it, if any."""

    kind: str
    name: str
    object: ir.Object | None = None


@dataclass(eq=False)
class BlockInstance:
    """An instance of a parser or control has a `path`, its name in the control plane."""

    declaration: syntax.ParserDeclaration | syntax.ControlDeclaration
    path: str
    environment: "Environment"
    applications: "list[Environment]" = field(default_factory=list)
    """The environments of its applications. They are kept, as tables and actions are known by them.
    """


def parts(value: "LoweredValue") -> "list[LoweredValue]":
    """Return the members of a struct or tuple, the elements of a stack or array."""
    match value:
        case StackPlace():
            return list(value.elements)
        case StructPlace() | Composite():
            return list(value.members.values())
    return []


def reads(value: "LoweredValue") -> set[str]:
    """Return the header instances and fields that a value is computed from."""
    if isinstance(value, PLACES):
        index = getattr(value, "index", None)
        return atoms(value) | (reads(index) if isinstance(index, ir.LoweredExpression) else set())
    match value:
        case Composite():
            return set().union(*map(reads, value.members.values()))
        case ir.HeaderField():
            return atoms(FieldPlace(value.header, value.name, VOID))
        case ir.LastField() | ir.LastUnionField():
            return {f"{value.stack}[]"}
        case ir.Reference():
            return {value.name, f"{value.name}[]"}
    operands = ir.operands(value) if isinstance(value, ir.LoweredExpression) else []
    return set().union(*map(reads, operands))


LoweredValue = (
    ir.LoweredExpression | Place | Composite | ExternInstance | BlockInstance | ir.LoweredValueSet
)


@dataclass(eq=False)
class Environment:
    """An environment tells what declarations stand for, in one instance of a block or one call."""

    parent: "Environment | None" = None
    path: str = ""
    owns_actions: bool = False  # of an applied control: its actions see this environment
    order: tuple[int, ...] = ()  # place of the instance among all declarations
    values: dict[int, LoweredValue] = field(default_factory=dict)

    def bind(self, declaration: syntax.SyntaxNode, value: LoweredValue) -> None:
        """Let a declaration stand for a value."""
        self.values[id(declaration)] = value

    def find(self, declaration: syntax.SyntaxNode) -> LoweredValue | None:
        """Return what a declaration stands for here; None if it stands for nothing."""
        if id(declaration) in self.values:
            return self.values[id(declaration)]
        return None if self.parent is None else self.parent.find(declaration)

    def inner(self, values: Mapping[syntax.Variable, LoweredValue] | None = None) -> "Environment":
        """Return an environment inside this one, in which variables stand for the values given."""
        return Environment(
            self, self.path, values={id(item): value for item, value in (values or {}).items()}
        )

    def owner(self) -> "Environment":
        """Return the environment of the applied control that this one is inside of."""
        return self if self.owns_actions or self.parent is None else self.parent.owner()


def applied(instance: BlockInstance, arguments: Sequence[LoweredValue] = ()) -> Environment:
    """Return the environment for one application of a parser's or control's instance.

    The arguments, if there are any, are those of all its parameters.
    """
    environment = instance.environment
    result = Environment(environment, instance.path, owns_actions=True, order=environment.order)
    instance.applications.append(result)
    if arguments:
        for parameter, argument in zip(instance.declaration.parameters, arguments, strict=True):
            result.bind(parameter, argument)
    return result


def full_name(path: str, declaration: syntax.Declaration) -> str:
    """Return the control-plane name of something declared at `path` (section "Control plane
    names")."""
    name = local_name(declaration)
    return name[1:] if name.startswith(".") else inner_name(path, name)


def inner_name(path: str, name: str) -> str:
    """Return the control-plane name of what has a name of its own at `path`."""
    return f"{path}.{name}" if path else name
