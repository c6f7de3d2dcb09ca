"""Chakra's execution traces as protobuf messages: those parts of the schema that a workload needs.

Names and numbers of fields are those of MLCommons' ``schema/protobuf/et_def.proto``. The message
classes are made at run time, from descriptors in a pool of their own, so that no generated code is
needed, and generated code that is there does no harm. Fields that are not listed are skipped.
"""

from collections.abc import Iterator
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError, Message

from weft.base.errors import InputError

COMP, SEND, RECV, COLLECTIVE = 4, 5, 6, 7
"""The types of nodes that become tasks; others (metadata, memory, invalid) take no time."""
COLLECTIVES = {
    0: "allreduce", 2: "allgather", 5: "broadcast", 6: "alltoall", 7: "reduce-scatter",
    8: "reduce-scatter", 9: "barrier",
}  # fmt: skip
"""The collectives by CollectiveCommType."""
MAX_MESSAGE_BYTES = 1 << 26

_Field = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "ChakraProtoMsg"
_ONE, _MANY = _Field.LABEL_OPTIONAL, _Field.LABEL_REPEATED
_NUMBERS = {
    "int32_val": (7, _Field.TYPE_INT32), "int64_val": (9, _Field.TYPE_INT64),
    "uint32_val": (11, _Field.TYPE_UINT32), "uint64_val": (13, _Field.TYPE_UINT64),
    "sint32_val": (15, _Field.TYPE_SINT32), "sint64_val": (17, _Field.TYPE_SINT64),
    "fixed32_val": (19, _Field.TYPE_FIXED32), "fixed64_val": (21, _Field.TYPE_FIXED64),
    "sfixed32_val": (23, _Field.TYPE_SFIXED32), "sfixed64_val": (25, _Field.TYPE_SFIXED64),
    "bool_val": (27, _Field.TYPE_BOOL), "string_val": (29, _Field.TYPE_STRING),
}  # fmt: skip
"""The scalars that an attribute may have, each a member of the oneof ``value``."""


def _messages() -> dict[str, Any]:
    """Return the message classes, by name."""
    file = descriptor_pb2.FileDescriptorProto(
        name="weft/chakra.proto", package=_PACKAGE, syntax="proto3"
    )
    metadata = file.message_type.add(name="GlobalMetadata")
    metadata.field.add(name="version", number=1, label=_ONE, type=_Field.TYPE_STRING)
    attribute = file.message_type.add(name="AttributeProto")
    attribute.field.add(name="name", number=1, label=_ONE, type=_Field.TYPE_STRING)
    attribute.oneof_decl.add(name="value")
    for name, (number, kind) in _NUMBERS.items():
        attribute.field.add(name=name, number=number, label=_ONE, type=kind, oneof_index=0)
    node = file.message_type.add(name="Node")
    for name, number, label, kind in (
        ("id", 1, _ONE, _Field.TYPE_UINT64), ("name", 2, _ONE, _Field.TYPE_STRING),
        ("type", 3, _ONE, _Field.TYPE_INT32), ("ctrl_deps", 4, _MANY, _Field.TYPE_UINT64),
        ("data_deps", 5, _MANY, _Field.TYPE_UINT64),
        ("duration_micros", 7, _ONE, _Field.TYPE_UINT64),
    ):  # fmt: skip
        node.field.add(name=name, number=number, label=label, type=kind)
    node.field.add(
        name="attr", number=10, label=_MANY, type=_Field.TYPE_MESSAGE,
        type_name=f".{_PACKAGE}.AttributeProto",
    )  # fmt: skip
    described = descriptor_pool.DescriptorPool().AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(message)
        for name, message in described.message_types_by_name.items()
    }


MESSAGES = _messages()
"""GlobalMetadata, AttributeProto and Node."""


def read_nodes(data: bytes, name: str) -> Iterator[Any]:
    """Return the nodes of a trace, which are messages, each behind its length as a varint, after
    the metadata.

    Raises:
        InputError: the bytes are no trace; the message names the place in the file.
    """
    place, count = 0, 0
    while place < len(data):
        start = place
        length, place = _varint(data, place, name)
        if length > MAX_MESSAGE_BYTES or place + length > len(data):
            raise InputError(
                f"{name}: byte {start}: a message of {length} bytes, of which "
                f"{len(data) - place} are there"
            )
        message: Message = MESSAGES["Node" if count else "GlobalMetadata"]()
        try:
            message.ParseFromString(data[place : place + length])
        except (DecodeError, ValueError) as error:
            raise InputError(f"{name}: byte {start}: no message of Chakra: {error}") from None
        if count:
            yield message
        count += 1
        place += length


def _varint(data: bytes, place: int, name: str) -> tuple[int, int]:
    value = 0
    for index in range(10):
        if place + index >= len(data):
            break
        byte = data[place + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            return value, place + index + 1
    raise InputError(f"{name}: byte {place}: no length of a message")
