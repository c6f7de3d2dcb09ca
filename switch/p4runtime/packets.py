"""Packets to and from the controller: metadata as messages, and as a header in front of the frame.

P4Runtime specification, sections "ControllerPacketMetadata" and "Packet I/O". The header is packed
bit by bit in the order of the P4Info, and filled with zeros to a whole byte, as BMv2's server does.
"""

from typing import Any

from weft.switch.messages import p4runtime_pb2
from weft.switch.p4runtime.keys import by_id
from weft.switch.p4runtime.p4info_objects import PacketHeader
from weft.switch.p4runtime.refusals import Refusal, invalid

PADDING = ("_pad", "pad")
"""The beginnings of the names of fields that only fill a header to whole bytes."""


def pack(header: PacketHeader | None, message: Any) -> bytes:
    """Return the frame of a ``PacketOut``.

    Raises Refusal (INVALID_ARGUMENT) unless each field of the header is given once, and nothing
    else; the specification wants such packets dropped. Only padding may be left out, as clients
    written for BMv2 do it.
    """
    fields = header.fields if header is not None else ()
    given = by_id("packet_out", "metadata", fields, message.metadata, "metadata_id")
    if header is None:
        return bytes(message.payload)
    bits = 0
    for field, width in zip(header.fields, header.widths, strict=True):
        what = f"packet_out, {field.name} ({field.id})"
        if field.id not in given:
            if field.name.lower().startswith(PADDING):
                bits <<= width
                continue
            raise invalid(f"{what} is missing")
        try:
            value = field.type.decode(given[field.id].value, what)
        except Refusal as refusal:
            raise invalid(refusal.message) from None
        if value >> width:
            raise invalid(f"{what}: {value:#x} does not fit the data plane's bit<{width}>")
        bits = bits << width | value
    size = header.size_bytes
    bits <<= 8 * size - sum(header.widths)
    return bits.to_bytes(size, "big") + bytes(message.payload)


def unpack(header: PacketHeader | None, frame: bytes) -> Any | None:
    """Return the ``PacketIn`` of a frame, or None if the frame is too short for its header."""
    message = p4runtime_pb2.PacketIn()
    if header is None:
        message.payload = frame
        return message
    size = header.size_bytes
    if len(frame) < size:
        return None
    message.payload = frame[size:]
    bits = int.from_bytes(frame[:size], "big")
    left = 8 * size
    for field, width in zip(header.fields, header.widths, strict=True):
        left -= width
        value = bits >> left & ((1 << width) - 1)
        message.metadata.add(metadata_id=field.id, value=field.type.encode(value))
    return message
