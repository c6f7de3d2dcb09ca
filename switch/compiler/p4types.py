"""Types in P4Info: widths, names, and the descriptions in p4types.proto."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from p4.config.v1 import p4types_pb2

from switch.compiler import syntax
from switch.compiler.types import (
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
    scalar_width,
)


def type_name(kind: Type) -> str | None:
    """The name that P4Info gives for the type of a key, parameter or field, as p4c does."""
    if isinstance(kind, (NewType, EnumType)):
        return kind.name
    return None


class TypeInfo:
    """Fills a P4TypeInfo message with the types that are named."""

    def __init__(
        self, message: Any, parse_annotation: Callable[[syntax.Annotation], list[syntax.Expression]]
    ) -> None:
        self.message = message
        self.parse_annotation = parse_annotation
        self.used = (
            False  # whether any type was looked at: p4c then writes the message, even if empty
        )

    def width(self, kind: Type) -> int | None:
        """The width in P4Runtime, which ``@p4runtime_translation`` may change; None for strings."""
        if isinstance(kind, NewType):
            translation = self._translation(kind)
            if translation is not None:
                return translation[1]
        if isinstance(base_type(kind), EnumType):
            return None
        return scalar_width(kind)

    def _translation(self, kind: NewType) -> tuple[str, int | None] | None:
        """The URI and width of ``@p4runtime_translation(uri, width)``."""
        for annotation in getattr(kind.declaration, "annotations", ()):
            if annotation.name != "p4runtime_translation" or len(annotation.body) < 3:
                continue
            uri = annotation.body[0].text.strip('"')
            rest = annotation.body[2:]
            if rest[0].text == "string":
                return uri, None
            numbers = [token.text for token in rest if token.kind == "INTEGER"]
            return uri, int(numbers[0], 0) if numbers else None
        return None

    def add(self, kind: Type) -> None:
        """Describe a named type, once."""
        self.used = True
        if isinstance(kind, NewType):
            if kind.name in self.message.new_types:
                return
            entry = self.message.new_types[kind.name]
            translation = self._translation(kind)
            if translation is None:
                entry.original_type.CopyFrom(self.specification(kind.underlying))
            else:
                entry.translated_type.uri = translation[0]
                if translation[1] is None:
                    entry.translated_type.sdn_string.SetInParent()
                else:
                    entry.translated_type.sdn_bitwidth = translation[1]
        elif isinstance(kind, SerializableEnumType):
            if kind.name in self.message.serializable_enums:
                return
            entry = self.message.serializable_enums[kind.name]
            width = scalar_width(kind) or 0
            entry.underlying_type.bitwidth = width
            for name, value in kind.members.items():
                member = entry.members.add()
                member.name = name
                member.value = (value & ((1 << width) - 1)).to_bytes((width + 7) // 8, "big")
        elif isinstance(kind, EnumType):
            if kind.name not in self.message.enums:
                entry = self.message.enums[kind.name]
                for name in kind.members:
                    entry.members.add().name = name
        elif isinstance(kind, StructType):
            self._add_struct(kind)

    def _add_struct(self, kind: StructType) -> None:
        registry = {
            "struct": self.message.structs, "header": self.message.headers,
            "header_union": self.message.header_unions,
        }[kind.kind]  # fmt: skip
        if kind.name in registry:
            return
        entry = registry[kind.name]
        for name, item in kind.fields.items():
            member = entry.members.add()
            member.name = name
            specification = self.specification(item)
            if kind.kind == "header":
                member.type_spec.CopyFrom(specification.bitstring)
            elif kind.kind == "struct":
                member.type_spec.CopyFrom(specification)
            else:
                member.header.name = str(getattr(item, "name", item))

    def specification(self, kind: Type) -> Any:
        """A P4DataTypeSpec."""
        self.used = True
        result = p4types_pb2.P4DataTypeSpec()
        if isinstance(kind, BitType):
            result.bitstring.bit.bitwidth = kind.width
        elif isinstance(kind, IntType):
            result.bitstring.int.bitwidth = kind.width
        elif isinstance(kind, VarbitType):
            result.bitstring.varbit.max_bitwidth = kind.width
        elif isinstance(kind, BoolType):
            result.bool.SetInParent()
        elif isinstance(kind, ErrorType):
            result.error.SetInParent()
        elif isinstance(kind, TupleType):
            for item in kind.elements:
                result.tuple.members.add().CopyFrom(self.specification(item))
        elif isinstance(kind, NewType):
            result.new_type.name = kind.name
            self.add(kind)
        elif isinstance(kind, SerializableEnumType):
            result.serializable_enum.name = kind.name
            self.add(kind)
        elif isinstance(kind, EnumType):
            result.enum.name = kind.name
            self.add(kind)
        elif isinstance(kind, StructType):
            getattr(result, kind.kind).name = kind.name
            self.add(kind)
        elif isinstance(kind, StackType):
            result.header_stack.header.name = str(getattr(kind.element, "name", ""))
            result.header_stack.size = kind.size
        return result
