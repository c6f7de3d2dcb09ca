"""Declarations of types, of errors and of match kinds."""

from dataclasses import dataclass

from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.syntax.expressions import Expression, SyntaxNode, TypeReference
from weft.switch.compiler.syntax.variables import Declaration


@dataclass(eq=False)
class StructField(Declaration):
    """A field belongs to a struct, header or header union."""

    reference: TypeReference


@dataclass(eq=False)
class Struct(Declaration):
    """A struct, header or header union (`kind` tells which) is declared with its fields (sections
    "Struct types", "Header types" and "Header unions")."""

    kind: str
    type_parameters: list[str]
    fields: list[StructField]


@dataclass(eq=False)
class Enum(Declaration):
    """An enum is declared without values for its members (section "Enumeration types")."""

    members: list[tuple[str, Span]]


@dataclass(eq=False)
class SerializableEnum(Declaration):
    """An enum with an underlying type is declared with a value for each member (section
    "Enumeration types")."""

    reference: TypeReference
    members: list[tuple[str, Span, Expression]]


@dataclass(eq=False)
class Typedef(Declaration):
    """A type gets another name by ``typedef``, and a new type is made of it by ``type`` (sections
    "typedef" and "Introducing new types")."""

    reference: TypeReference | Struct | Enum | SerializableEnum
    is_new_type: bool


@dataclass(eq=False)
class ErrorDeclaration(SyntaxNode):
    """A declaration of errors, ``error { ... }`` (section "The error type")."""

    members: list[tuple[str, Span]]


@dataclass(eq=False)
class MatchKindDeclaration(SyntaxNode):
    """A declaration of match kinds, ``match_kind { ... }`` (section "The match kind type")."""

    members: list[tuple[str, Span]]
