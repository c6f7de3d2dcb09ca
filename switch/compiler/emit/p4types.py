"""Types in P4Info: widths, names, and the descriptions in p4types.proto."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from weft.switch.compiler.annotations import AnnotationWriter, control_name, field_name, find
from weft.switch.compiler.types import (
    BitType,
    BoolType,
    EnumType,
    ErrorType,
    IntType,
    NewType,
    SerializableEnumType,
    StackType,
    StructType,
    TupleType,
    Type,
    VarbitType,
    base_type,
    header_fields,
    is_union,
    resolved,
    scalar_width,
)
from weft.switch.messages import p4types_pb2

_TRANSLATION = "p4runtime_translation"


def type_name(kind: Type) -> str | None:
    """Return the name that P4Info gives for the type of a key, parameter or field, as p4c does."""
    return kind.name if isinstance(kind, (NewType, EnumType)) else None


_NAMED = {
    NewType: "new_type", SerializableEnumType: "serializable_enum", EnumType: "enum",
}  # fmt: skip


def _field(kind: Type) -> str | None:
    """Return what P4Info's messages call the kind of a type that has a name; None if it has
    none."""
    return kind.kind if isinstance(kind, StructType) else _NAMED.get(type(kind))


@dataclass(eq=False)
class TypeInfo:
    """A P4TypeInfo message in the making, with the types that are named."""

    message: Any
    annotations: AnnotationWriter
    errors: Sequence[str]
    used: bool = field(default=False, init=False)
    """Whether any type was looked at: p4c then writes the message, even if it is empty."""

    def width(self, kind: Type) -> int | None:
        """Return the width in P4Runtime, which ``@p4runtime_translation`` may change; None for
        strings."""
        if isinstance(kind, NewType) and (translation := self._translation(kind)) is not None:
            return translation[1]
        return None if isinstance(base_type(kind), (EnumType, ErrorType)) else scalar_width(kind)

    def _translation(self, kind: NewType) -> tuple[str, int | None] | None:
        """Return the URI and width of ``@p4runtime_translation(uri, width)``."""
        annotation = find(getattr(kind.declaration, "annotations", []), _TRANSLATION)
        if annotation is None:
            return None
        body = annotation.body
        if len(body) >= 3 and body[0].kind == "STRING_LITERAL" and body[1].text == ",":
            uri = body[0].text[1:-1]
            if [token.text for token in body[2:]] == ["string"]:
                return uri, None
            numbers = [token.text for token in body[2:] if token.kind == "INTEGER"]
            if len(numbers) == 1:
                return uri, int(numbers[0], 0)
        raise self.annotations.reporter.fail(
            annotation.span, f'@{_TRANSLATION} takes ("URI", width in bits) or ("URI", string)'
        )

    def add(self, kind: Type) -> None:
        """Describe a named type, once."""
        self.used = True
        field = _field(kind)
        match kind:
            case StackType():
                self.add(kind.element)
            case ErrorType():
                if not self.message.HasField("error"):
                    self.message.error.members.extend(self.errors)
            case _ if field is not None:
                registry, name = getattr(self.message, f"{field}s"), control_name(kind)
                if name not in registry:
                    self._describe(registry[name], kind)

    def _describe(self, entry: Any, kind: Type) -> None:
        match kind:
            case NewType():
                self._describe_new_type(entry, kind)
            case StructType():
                self._describe_struct(entry, kind)
            case EnumType():
                for item in kind.members:
                    entry.members.add().name = item
            case SerializableEnumType():
                width = entry.underlying_type.bitwidth = scalar_width(kind) or 0
                for item, value in kind.members.items():
                    bits = (value & ((1 << width) - 1)).to_bytes((width + 7) // 8, "big")
                    entry.members.add(name=item, value=bits)

    def _describe_new_type(self, entry: Any, kind: NewType) -> None:
        bare = resolved(kind)
        self.annotations.write(
            entry, getattr(kind.declaration, "annotations", []), frozenset({_TRANSLATION})
        )
        translation = self._translation(kind)
        if translation is None:
            entry.original_type.CopyFrom(self.specification(bare))
            return
        self.annotations.reporter.error_if(
            not isinstance(bare, (BitType, IntType)),
            kind.declaration.name_span,
            f"@{_TRANSLATION} is for types that are bit<W>, not {bare}",
        )
        entry.translated_type.uri = translation[0]
        if translation[1] is None:
            entry.translated_type.sdn_string.SetInParent()
        else:
            entry.translated_type.sdn_bitwidth = translation[1]

    def _describe_struct(self, entry: Any, kind: StructType) -> None:
        for path, item in header_fields(kind) if kind.kind == "header" else kind.fields.items():
            member = entry.members.add(name=field_name(kind, path))
            match kind.kind:
                case "header":
                    member.type_spec.CopyFrom(self.specification(base_type(item)).bitstring)
                case "struct":
                    member.type_spec.CopyFrom(self.specification(item))
                case _:
                    member.header.CopyFrom(self.specification(item).header)

    def specification(self, kind: Type) -> Any:
        """Return the P4DataTypeSpec of a type."""
        self.used = True
        result = p4types_pb2.P4DataTypeSpec()
        field = _field(kind)
        match kind:
            case _ if field is not None:
                getattr(result, field).name = control_name(kind)
            case BitType():
                result.bitstring.bit.bitwidth = kind.width
            case IntType():
                result.bitstring.int.bitwidth = kind.width
            case VarbitType():
                result.bitstring.varbit.max_bitwidth = kind.width
            case BoolType():
                result.bool.SetInParent()
            case ErrorType():
                result.error.SetInParent()
            case TupleType():
                for item in kind.elements:
                    result.tuple.members.add().CopyFrom(self.specification(item))
            case StackType():
                kinds = "header_union" if is_union(kind.element) else "header"
                stack = getattr(result, f"{kinds}_stack")
                getattr(stack, kinds).name = control_name(kind.element)
                stack.size = kind.size
        self.add(kind)
        return result
