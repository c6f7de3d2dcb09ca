"""The types of P4_16 (specification, chapter "P4 data types")."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeGuard


@dataclass(frozen=True)
class Type:
    """A type is one of those that P4_16 has. `shown` is the text that messages show for a class,
    with the names of fields in braces."""

    _shown: ClassVar[str]

    def __init_subclass__(cls, shown: str = "") -> None:
        cls._shown = shown

    def __str__(self) -> str:
        return self._shown.format(**vars(self))


@dataclass(frozen=True)
class BoolType(Type, shown="bool"):
    """The type ``bool`` has the values true and false."""


@dataclass(frozen=True)
class StringType(Type, shown="string"):
    """The type ``string`` is only for texts that people read."""


@dataclass(frozen=True)
class VoidType(Type, shown="void"):
    """The type ``void`` is that of what is returned where nothing is."""


@dataclass(frozen=True)
class ErrorType(Type, shown="error"):
    """The type ``error`` has all declared errors as its values."""


@dataclass(frozen=True)
class MatchKindType(Type, shown="match_kind"):
    """The type ``match_kind`` has the declared match kinds as its values."""


@dataclass(frozen=True)
class IntegerType(Type, shown="int"):
    """The type ``int`` has numbers of any size, known at compile time."""


@dataclass(frozen=True)
class BitType(Type, shown="bit<{width}>"):
    """The type ``bit<width>`` has unsigned numbers."""

    width: int


@dataclass(frozen=True)
class IntType(Type, shown="int<{width}>"):
    """The type ``int<width>`` has signed numbers in two's complement."""

    width: int


@dataclass(frozen=True)
class VarbitType(Type, shown="varbit<{width}>"):
    """The type ``varbit<width>`` has strings of up to that many bits."""

    width: int


@dataclass(frozen=True)
class DontCareType(Type, shown="_"):
    """The type ``_`` is one as a type argument, and is the type of ``_`` as an argument."""


@dataclass(frozen=True)
class TypeVariable(Type, shown="{name}"):
    """A type variable is a type parameter. `scope` tells those of different declarations apart."""

    name: str
    scope: int


@dataclass(frozen=True)
class EnumType(Type, shown="{name}"):
    """An enum type has members without values."""

    name: str
    members: tuple[str, ...] = field(compare=False)
    declaration: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class SerializableEnumType(Type, shown="{name}"):
    """A serializable enum type has members with values of an underlying type."""

    name: str
    underlying: Type
    members: Mapping[str, int] = field(compare=False, hash=False)
    declaration: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class NewType(Type, shown="{name}"):
    """A new type is one declared with ``type``."""

    name: str
    underlying: Type
    declaration: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class StructType(Type):
    """A struct type is that of a struct, header or header union (`kind` tells which)."""

    name: str
    kind: str
    arguments: tuple[Type, ...]
    fields: Mapping[str, Type] = field(compare=False, hash=False, repr=False)
    declaration: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind.replace('_', ' ')} {self.name}{_bracketed(self.arguments)}"


@dataclass(frozen=True)
class StackType(Type, shown="{element}[{size}]"):
    """A stack type is that of a header stack or of an array."""

    element: Type
    size: int


@dataclass(frozen=True)
class TupleType(Type):
    """A tuple type has an element for each of some types."""

    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return "tuple<" + ", ".join(str(item) for item in self.elements) + ">"


@dataclass(frozen=True)
class ListType(Type, shown="list<{element}>"):
    """A list type has any number of elements of one type."""

    element: Type


@dataclass(frozen=True)
class RecordType(Type):
    """A record type is that of a structure-valued expression that is not yet that of a struct."""

    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name} = {kind}" for name, kind in self.fields) + "}"


@dataclass(frozen=True)
class SetType(Type, shown="set of {element}"):
    """A set type is that of key sets and value sets."""

    element: Type


@dataclass(frozen=True)
class ExternType(Type):
    """An extern type is that of an extern object, with its type arguments."""

    name: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.name + _bracketed(self.arguments)


@dataclass(frozen=True)
class BlockTypeType(Type, shown="{kind} {name}"):
    """A block type is a parser or control type, or the type of a parser's or control's
    instances."""

    name: str
    kind: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)


@dataclass(frozen=True)
class PackageTypeType(Type, shown="package {name}"):
    """A package type is that of a package, with its type arguments."""

    name: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)


@dataclass(frozen=True)
class TableType(Type, shown="table {declaration.name}"):
    """A table type is that of one table, which can only be applied."""

    declaration: Any = field(repr=False)


@dataclass(frozen=True)
class ApplyResultType(Type, shown="result of {declaration.name}.apply()"):
    """An apply result is what ``table.apply()`` gives: hit, miss and action_run."""

    declaration: Any = field(repr=False)


@dataclass(frozen=True)
class ActionEnumType(Type, shown="action of table {declaration.name}"):
    """An action enum is the type of ``table.apply().action_run``."""

    declaration: Any = field(repr=False)


@dataclass(frozen=True)
class CallableType(Type, shown="{kind} {name}"):
    """A callable type is that of an action or a function, which can only be called."""

    kind: str
    name: str


@dataclass(frozen=True)
class UnknownType(Type, shown="unknown"):
    """An unknown type is that of something whose declaration has an error that was reported."""


@dataclass(frozen=True)
class InvalidHeaderType(Type, shown="invalid header"):
    """An invalid header is the type of ``{#}``."""


def _bracketed(arguments: tuple[Type, ...]) -> str:
    return f"<{', '.join(map(str, arguments))}>" if arguments else ""


BOOL = BoolType()
STRING = StringType()
VOID = VoidType()
ERROR = ErrorType()
MATCH_KIND = MatchKindType()
INTEGER = IntegerType()
DONT_CARE = DontCareType()
UNKNOWN = UnknownType()

ENUM_BITS = 32
"""Enums without values and errors are held in fields of this width, as BMv2 programs have it."""


def resolved(kind: Type) -> Type:
    """Return the type beneath ``type`` declarations."""
    while isinstance(kind, NewType):
        kind = kind.underlying
    return kind


def base_type(kind: Type) -> Type:
    """Return the type beneath ``type`` declarations and serializable enums."""
    while isinstance(kind, (NewType, SerializableEnumType)):
        kind = kind.underlying
    return kind


def is_header(kind: Type | None) -> TypeGuard[StructType]:
    """Return whether a type is a header."""
    return isinstance(kind, StructType) and kind.kind == "header"


def is_union(kind: Type | None) -> TypeGuard[StructType]:
    """Return whether a type is a header union."""
    return isinstance(kind, StructType) and kind.kind == "header_union"


def is_header_stack(kind: Type | None) -> TypeGuard[StackType]:
    """Return whether a type is a stack of headers or unions, rather than an array of something
    else."""
    element = resolved(kind.element) if isinstance(kind, StackType) else None
    return is_header(element) or is_union(element)


def is_varbit(kind: Type) -> bool:
    """Return whether a type is a varbit."""
    return isinstance(base_type(kind), VarbitType)


def scalar_width(kind: Type) -> int | None:
    """Return the width in bits of a value that one field holds; None if the type is not of that
    sort."""
    kind = base_type(kind)
    match kind:
        case BitType() | IntType() | VarbitType():
            return kind.width
        case BoolType():
            return 1
    return ENUM_BITS if isinstance(kind, (EnumType, ErrorType)) else None


def is_signed(kind: Type) -> bool:
    """Return whether a type is a signed number with a width."""
    return isinstance(base_type(kind), IntType)


def is_flag(kind: Type) -> bool:
    """Return whether a field of this type holds a truth value."""
    return isinstance(base_type(kind), BoolType)


def member_types(kind: Type, count: int = 0) -> dict[str, Type]:
    """Return the members of a struct, header, union, tuple or stack, or of a list of `count`
    values."""
    bare = resolved(kind)
    match bare:
        case ListType():
            return {str(index): bare.element for index in range(count)}
        case StructType():
            return dict(bare.fields)
        case TupleType():
            return {str(index): item for index, item in enumerate(bare.elements)}
        case StackType():
            return {str(index): bare.element for index in range(bare.size)}
    return {}


def written_types(kind: Type, count: int) -> list[Type] | None:
    """Return the types of the `count` values in a list that is a value of a type; None if none
    is."""
    composite = isinstance(kind, (ListType, StructType, TupleType, StackType))
    return list(member_types(kind, count).values()) if composite and not is_union(kind) else None


def header_fields(kind: StructType, prefix: str = "") -> Iterator[tuple[str, Type]]:
    """Yield a header's fields; those of structs inside it have dotted names, and elements of arrays
    their numbers in brackets."""
    for name, item in kind.fields.items():
        yield from fields_of(prefix + name, item)


def fields_of(name: str, kind: Type) -> Iterator[tuple[str, Type]]:
    """Yield the fields that a header has for one of a type, which may be a struct or an array."""
    inner = inner_fields(name, kind)
    if inner is None:
        yield name, kind
    else:
        for key, item in inner.values():
            yield from fields_of(key, item)


def inner_fields(name: str, kind: Type) -> dict[str, tuple[str, Type]] | None:
    """Return the parts of a header's field, with their names in the header; None if it has none."""
    bare = resolved(kind)
    match bare:
        case StructType():
            pattern = "{}.{}"
        case StackType():
            pattern = "{}[{}]"
        case _:
            return None
    return {key: (pattern.format(name, key), item) for key, item in member_types(bare).items()}


def size_in_bits(kind: Type) -> int | None:
    """Return the size of a header or struct or scalar; a varbit field counts with its maximum."""
    if isinstance(kind, (StructType, TupleType, StackType)):
        sizes = [size_in_bits(item) for item in member_types(kind).values()]
        known = [size for size in sizes if size is not None]
        if len(known) < len(sizes):
            return None
        return max(known, default=0) if is_union(kind) else sum(known)
    return scalar_width(kind)


Bindings = dict[TypeVariable, Type]


def type_arguments(kind: Type) -> tuple[Type, ...] | None:
    """Return the types that a type is made of, as it is written; None if it is made of none."""
    match kind:
        case ListType() | StackType():
            return (kind.element,)
        case TupleType():
            return kind.elements
        case StructType() | ExternType() | BlockTypeType() | PackageTypeType():
            return kind.arguments
    return None


def has_variables(kind: Type) -> bool:
    """Return whether a type is, or is made of, type variables."""
    return isinstance(kind, TypeVariable) or any(map(has_variables, type_arguments(kind) or ()))


_NESTED: dict[type[Type], tuple[str, ...]] = {
    StackType: ("element",), ListType: ("element",), SetType: ("element",),
    TupleType: ("elements",), StructType: ("arguments", "fields"), ExternType: ("arguments",),
    BlockTypeType: ("arguments",), PackageTypeType: ("arguments",),
}  # fmt: skip
"""The attributes in which types have other types."""


def substitute(kind: Type, bindings: Bindings) -> Type:
    """Replace type variables by what they are bound to."""
    if isinstance(kind, TypeVariable):
        return bindings.get(kind, kind)
    nested = _NESTED.get(type(kind)) if bindings else None
    if nested is None:
        return kind

    def substituted(value: Any) -> Any:
        match value:
            case Type():
                return substitute(value, bindings)
            case tuple():
                return tuple(substitute(item, bindings) for item in value)
        return {name: substitute(item, bindings) for name, item in value.items()}

    changes: dict[str, Any] = {name: substituted(getattr(kind, name)) for name in nested}
    return replace(kind, **changes)


def unify(formal: Type, actual: Type, bindings: Bindings) -> bool:
    """Bind the type variables of `formal` so that it becomes `actual`; return False if they
    cannot."""
    if isinstance(formal, TypeVariable):
        known = bindings.get(formal)
        if known is None or isinstance(known, (IntegerType, DontCareType)):
            bindings[formal] = actual
            return True
        return known == actual or isinstance(actual, (IntegerType, DontCareType))
    unchecked = (DontCareType, UnknownType)
    if isinstance(actual, unchecked) or isinstance(formal, unchecked):
        return True
    left, right = type_arguments(formal), type_arguments(actual)
    if type(formal) is not type(actual) or left is None or right is None:
        return formal == actual
    same = all(getattr(formal, key, 0) == getattr(actual, key, 0) for key in ("name", "size"))
    return (
        same
        and len(left) == len(right)
        and all(unify(one, other, bindings) for one, other in zip(left, right, strict=True))
    )
