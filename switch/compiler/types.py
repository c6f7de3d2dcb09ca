"""The types of P4_16 (specification, chapter "P4 data types")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Type:
    def __str__(self) -> str:
        return "?"


@dataclass(frozen=True)
class BoolType(Type):
    def __str__(self) -> str:
        return "bool"


@dataclass(frozen=True)
class StringType(Type):
    def __str__(self) -> str:
        return "string"


@dataclass(frozen=True)
class VoidType(Type):
    def __str__(self) -> str:
        return "void"


@dataclass(frozen=True)
class ErrorType(Type):
    def __str__(self) -> str:
        return "error"


@dataclass(frozen=True)
class MatchKindType(Type):
    def __str__(self) -> str:
        return "match_kind"


@dataclass(frozen=True)
class IntegerType(Type):
    """``int``: a number of any size, known at compile time."""

    def __str__(self) -> str:
        return "int"


@dataclass(frozen=True)
class BitType(Type):
    width: int

    def __str__(self) -> str:
        return f"bit<{self.width}>"


@dataclass(frozen=True)
class IntType(Type):
    width: int

    def __str__(self) -> str:
        return f"int<{self.width}>"


@dataclass(frozen=True)
class VarbitType(Type):
    width: int

    def __str__(self) -> str:
        return f"varbit<{self.width}>"


@dataclass(frozen=True)
class DontCareType(Type):
    """``_`` as a type argument, and the type of ``_`` as an argument."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True)
class TypeVariable(Type):
    """A type parameter; `scope` tells apart those of different declarations."""

    name: str
    scope: int

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class EnumType(Type):
    name: str
    members: tuple[str, ...] = field(compare=False)
    declaration: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class SerializableEnumType(Type):
    name: str
    underlying: Type
    members: Mapping[str, int] = field(compare=False, hash=False)
    declaration: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class NewType(Type):
    """A type declared with ``type``."""

    name: str
    underlying: Type
    declaration: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class StructType(Type):
    """A struct, header or header union (`kind` tells which)."""

    name: str
    kind: str
    arguments: tuple[Type, ...]
    fields: Mapping[str, Type] = field(compare=False, hash=False, repr=False)
    declaration: Any = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        arguments = ", ".join(str(item) for item in self.arguments)
        return f"{self.kind.replace('_', ' ')} {self.name}" + (
            f"<{arguments}>" if arguments else ""
        )


@dataclass(frozen=True)
class StackType(Type):
    element: Type
    size: int

    def __str__(self) -> str:
        return f"{self.element}[{self.size}]"


@dataclass(frozen=True)
class TupleType(Type):
    elements: tuple[Type, ...]

    def __str__(self) -> str:
        return "tuple<" + ", ".join(str(item) for item in self.elements) + ">"


@dataclass(frozen=True)
class ListType(Type):
    element: Type

    def __str__(self) -> str:
        return f"list<{self.element}>"


@dataclass(frozen=True)
class RecordType(Type):
    """The type of a structure-valued expression that is not yet that of a struct."""

    fields: tuple[tuple[str, Type], ...]

    def __str__(self) -> str:
        return "{" + ", ".join(f"{name} = {kind}" for name, kind in self.fields) + "}"


@dataclass(frozen=True)
class SetType(Type):
    element: Type

    def __str__(self) -> str:
        return f"set of {self.element}"


@dataclass(frozen=True)
class ExternType(Type):
    name: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        arguments = ", ".join(str(item) for item in self.arguments)
        return self.name + (f"<{arguments}>" if arguments else "")


@dataclass(frozen=True)
class BlockTypeType(Type):
    """A parser or control type, or the type of a parser's or control's instances."""

    name: str
    kind: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class PackageTypeType(Type):
    name: str
    arguments: tuple[Type, ...]
    declaration: Any = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"package {self.name}"


@dataclass(frozen=True)
class TableType(Type):
    declaration: Any = field(repr=False)

    def __str__(self) -> str:
        return f"table {self.declaration.name}"


@dataclass(frozen=True)
class ApplyResultType(Type):
    """What ``table.apply()`` gives: hit, miss and action_run."""

    declaration: Any = field(repr=False)

    def __str__(self) -> str:
        return f"result of {self.declaration.name}.apply()"


@dataclass(frozen=True)
class ActionEnumType(Type):
    """The type of ``table.apply().action_run``."""

    declaration: Any = field(repr=False)

    def __str__(self) -> str:
        return f"action of table {self.declaration.name}"


@dataclass(frozen=True)
class CallableType(Type):
    """An action or a function, which can only be called."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True)
class UnknownType(Type):
    """The type of something whose declaration has an error, which was reported there."""

    def __str__(self) -> str:
        return "unknown"


@dataclass(frozen=True)
class InvalidHeaderType(Type):
    """The type of ``{#}``."""

    def __str__(self) -> str:
        return "invalid header"


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
    """The type beneath ``type`` declarations."""
    while isinstance(kind, NewType):
        kind = kind.underlying
    return kind


def base_type(kind: Type) -> Type:
    """The type beneath ``type`` declarations and serializable enums."""
    while isinstance(kind, (NewType, SerializableEnumType)):
        kind = kind.underlying
    return kind


def is_header(kind: Type | None) -> bool:
    return isinstance(kind, StructType) and kind.kind == "header"


def is_union(kind: Type | None) -> bool:
    return isinstance(kind, StructType) and kind.kind == "header_union"


def is_header_stack(kind: Type | None) -> bool:
    """Whether a type is a stack of headers or unions, rather than an array of something else."""
    if not isinstance(kind, StackType):
        return False
    element = resolved(kind.element)
    return is_header(element) or is_union(element)


def is_varbit(kind: Type) -> bool:
    return isinstance(base_type(kind), VarbitType)


def is_plain_struct(kind: Type | None) -> bool:
    return isinstance(kind, StructType) and kind.kind == "struct"


def scalar_width(kind: Type) -> int | None:
    """The width in bits of a value that one field holds; None if the type is not of that sort."""
    kind = base_type(kind)
    if isinstance(kind, (BitType, IntType, VarbitType)):
        return kind.width
    if isinstance(kind, BoolType):
        return 1
    if isinstance(kind, (EnumType, ErrorType)):
        return ENUM_BITS
    return None


def is_signed(kind: Type) -> bool:
    return isinstance(base_type(kind), IntType)


def size_in_bits(kind: Type) -> int | None:
    """The size of a header or struct or scalar; a varbit field counts with its maximum."""
    if isinstance(kind, (StructType, TupleType)):
        members = kind.fields.values() if isinstance(kind, StructType) else kind.elements
        sizes = [size_in_bits(item) for item in members]
        if any(size is None for size in sizes):
            return None
        known = [size for size in sizes if size is not None]
        return max(known, default=0) if is_union(kind) else sum(known)
    if isinstance(kind, StackType):
        size = size_in_bits(kind.element)
        return None if size is None else size * kind.size
    return scalar_width(kind)


Bindings = dict[TypeVariable, Type]


def substitute(kind: Type, bindings: Bindings) -> Type:
    """Replace type variables by what they are bound to."""
    if not bindings:
        return kind
    if isinstance(kind, TypeVariable):
        return bindings.get(kind, kind)
    if isinstance(kind, StructType):
        return replace(
            kind,
            arguments=tuple(substitute(item, bindings) for item in kind.arguments),
            fields={name: substitute(item, bindings) for name, item in kind.fields.items()},
        )
    if isinstance(kind, StackType):
        return StackType(substitute(kind.element, bindings), kind.size)
    if isinstance(kind, TupleType):
        return TupleType(tuple(substitute(item, bindings) for item in kind.elements))
    if isinstance(kind, ListType):
        return ListType(substitute(kind.element, bindings))
    if isinstance(kind, SetType):
        return SetType(substitute(kind.element, bindings))
    if isinstance(kind, (ExternType, BlockTypeType, PackageTypeType)):
        arguments = tuple(substitute(item, bindings) for item in kind.arguments)
        return replace(kind, arguments=arguments)
    return kind


def unify(formal: Type, actual: Type, bindings: Bindings) -> bool:
    """Bind the type variables of `formal` so that it becomes `actual`; False if that cannot be."""
    if isinstance(formal, TypeVariable):
        known = bindings.get(formal)
        if known is None or isinstance(known, (IntegerType, DontCareType)):
            bindings[formal] = actual
            return True
        return known == actual or isinstance(actual, (IntegerType, DontCareType))
    if isinstance(actual, (DontCareType, UnknownType)) or isinstance(formal, UnknownType):
        return True
    if isinstance(formal, TupleType) and isinstance(actual, TupleType):
        return len(formal.elements) == len(actual.elements) and all(
            unify(left, right, bindings)
            for left, right in zip(formal.elements, actual.elements, strict=True)
        )
    if isinstance(formal, ListType) and isinstance(actual, ListType):
        return unify(formal.element, actual.element, bindings)
    if isinstance(formal, StackType) and isinstance(actual, StackType):
        return formal.size == actual.size and unify(formal.element, actual.element, bindings)
    if type(formal) is type(actual) and isinstance(
        formal, (StructType, ExternType, BlockTypeType, PackageTypeType)
    ):
        other = actual
        assert isinstance(other, (StructType, ExternType, BlockTypeType, PackageTypeType))
        return (
            formal.name == other.name
            and len(formal.arguments) == len(other.arguments)
            and all(
                unify(left, right, bindings)
                for left, right in zip(formal.arguments, other.arguments, strict=True)
            )
        )
    return formal == actual
