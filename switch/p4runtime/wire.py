"""Protobuf's wire format, as far as bytes are looked through before messages are made of them."""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message one by one: number, wire type, and where the content begins and ends.

    What is nested in them is not looked at. Raises ValueError where the bytes are no message;
    groups, which only messages of old have, count as that.
    """
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, form = key >> 3, key & 7
        if form == DELIMITED:
            size, at = _varint(data, at)
        elif form == VARINT:
            size = _varint(data, at)[1] - at
        else:
            size = _FIXED_BYTES.get(form, -1)
        if not number or size < 0 or at + size > end:
            raise ValueError(f"no field of a message at byte {at}")
        yield number, form, at, at + size
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in protobuf's variable length and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(f"a number that does not end before byte {at}")
