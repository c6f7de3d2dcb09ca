"""From references to types, as written, to types."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weft.switch.compiler import syntax
from weft.switch.compiler.check.scope import Context, Scope, TypeEntry, closest
from weft.switch.compiler.constants import MAXIMUM_BITS
from weft.switch.compiler.diagnostics import Span
from weft.switch.compiler.types import (
    BOOL,
    DONT_CARE,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    BitType,
    BoolType,
    EnumType,
    ErrorType,
    IntType,
    ListType,
    StackType,
    StructType,
    TupleType,
    Type,
    TypeVariable,
    UnknownType,
    VarbitType,
    base_type,
    is_header,
    is_header_stack,
    resolved,
)

_SIMPLE = {
    "bool": BOOL, "error": ERROR, "string": STRING, "match_kind": MATCH_KIND, "void": VOID,
    "_": DONT_CARE, "int": INTEGER, "bit": BitType(1),
}  # fmt: skip


def _can_be_in_array(kind: Type) -> bool:
    """Specification, section "Type nesting rules"."""
    bare = base_type(kind)
    scalar = (BitType, IntType, BoolType, EnumType, ErrorType)
    if isinstance(bare, (*scalar, StructType, TypeVariable, UnknownType)):
        return True
    return isinstance(bare, StackType) and not is_header_stack(bare)


MOST_FIELDS = 1 << 16
"""Of a type, those of its fields' types counted."""


def _count_fields(kind: Type) -> int:
    """Fields of a type in all, or more than there may be; 1 if it has none."""
    bare = resolved(kind)
    if isinstance(bare, StackType):
        return bare.size * _count_fields(bare.element)
    inner: Iterable[Type] = ()
    match bare:
        case StructType():
            inner = bare.fields.values()
        case TupleType():
            inner = bare.elements
    count = 0
    for item in inner:
        count += _count_fields(item)
        if count > MOST_FIELDS:
            break
    return max(count, 1)


@dataclass(eq=False)
class TypeResolver:
    """Resolves references to types; `constant` evaluates widths and sizes."""

    context: Context
    constant: Callable[[syntax.Expression, Scope], int]

    def resolve(self, reference: syntax.TypeReference, scope: Scope) -> Type:
        """The type that `reference` names; reports an error and raises `Abandon` if none."""
        kind = self._resolve(reference, scope)
        if not isinstance(reference, syntax.BaseTypeReference):
            self.check_count(kind, reference.span)
        return kind

    def check_count(self, kind: Type, span: Span) -> None:
        """Whether a type has no more fields than can be compiled; `Abandon` if not."""
        self.context.reporter.fail_if(
            _count_fields(kind) > MOST_FIELDS,
            span,
            f"{kind} has more than {MOST_FIELDS} fields, those of its fields counted",
        )

    def _resolve(self, reference: syntax.TypeReference, scope: Scope) -> Type:
        match reference:
            case syntax.BaseTypeReference():
                return self._base(reference, scope)
            case syntax.StackTypeReference():
                return self._stack(reference, scope)
            case syntax.TupleTypeReference():
                if reference.is_list:
                    return ListType(self.resolve(reference.elements[0], scope))
                return TupleType(tuple(self.resolve(item, scope) for item in reference.elements))
        assert isinstance(reference, syntax.NamedTypeReference)
        return self._named(reference, scope)

    def _base(self, reference: syntax.BaseTypeReference, scope: Scope) -> Type:
        if reference.width is None:
            self.context.reporter.fail_if(
                reference.kind == "varbit", reference.span, "varbit needs a width: varbit<N>"
            )
            return _SIMPLE[reference.kind]
        width = self.constant(reference.width, scope)
        least = 1 if reference.kind == "int" else 0
        self.context.reporter.fail_if(
            not least <= width <= MAXIMUM_BITS,
            reference.width.span,
            f"width {width} of {reference.kind}<> is not within {least} to {MAXIMUM_BITS}",
        )
        return {"bit": BitType, "int": IntType, "varbit": VarbitType}[reference.kind](width)

    def _stack(self, reference: syntax.StackTypeReference, scope: Scope) -> Type:
        element = self.resolve(reference.element, scope)
        size = self.constant(reference.size, scope)
        self.context.reporter.fail_if(
            not _can_be_in_array(element), reference.span, f"there are no arrays of {element}"
        )
        if not 1 <= size <= 4096:
            what = "a header stack" if is_header_stack(StackType(element, size)) else "an array"
            raise self.context.reporter.fail(
                reference.size.span, f"{what}'s size must be 1 to 4096, not {size}"
            )
        return StackType(element, size)

    def _named(self, reference: syntax.NamedTypeReference, scope: Scope) -> Type:
        entry = scope.find(reference.name)
        if not isinstance(entry, TypeEntry):
            known = {name for name in scope.names() if isinstance(scope.find(name), TypeEntry)}
            message = f"'{reference.name}' is not a type{closest(reference.name, known)}"
            if reference.name in self.context.broken:
                return UNKNOWN
            raise self.context.reporter.fail(reference.span, message)
        arguments = [self.resolve(item, scope) for item in reference.arguments]
        if not entry.parameters and not arguments:
            return entry.type
        if not arguments:  # to be inferred
            return entry.type
        self.context.reporter.fail_if(
            len(arguments) != len(entry.parameters),
            reference.span,
            f"'{reference.name}' takes {len(entry.parameters)} type argument(s), "
            f"not {len(arguments)}",
        )
        return entry.instantiate(arguments)

    def check_field(self, kind: Type, owner: str, span: Span, name: str) -> None:
        """Whether a header, union or struct may have such a field ("Type nesting rules")."""
        bare = resolved(kind)
        match owner:
            case "header_union":
                allowed = is_header(bare) or bare == UNKNOWN
            case "header":
                allowed = (
                    isinstance(bare, (BitType, IntType, VarbitType))
                    or bare == BOOL
                    or (
                        type(bare).__name__
                        in ("SerializableEnumType", "TypeVariable", "UnknownType")
                        or (isinstance(bare, StructType) and bare.kind == "struct")
                    )
                )
            case _:
                allowed = bare not in (VOID, DONT_CARE, INTEGER, STRING, MATCH_KIND) and type(
                    bare
                ).__name__ not in ("ExternType", "BlockTypeType", "PackageTypeType", "ListType")
        if not allowed:
            what = owner.replace("_", " ")
            self.context.reporter.error(
                span, f"a {what} cannot have a field of type {kind}: '{name}'"
            )
