"""Protobuf's wire format, as far as bytes are looked through before messages are made of them.

So is the program in a pipeline config's ``p4_device_config``, whose form is the target's
(specification, section "ForwardingPipelineConfig"). BMv2 takes its JSON as it is, and its JSON in a
``p4.tmp.P4DeviceConfig`` (p4lang/PI, proto/p4/tmp/p4config.proto), which older controllers send,
those of p4lang's tutorials among them.
"""

from collections.abc import Iterator

VARINT, FIXED64, DELIMITED, FIXED32 = 0, 1, 2, 5
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


def fields(data: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the number of each field of a message, its wire type, and where its content begins and
    ends.

    What is nested in a field is not looked at. Raises ValueError where the bytes are no message, or
    have groups, which only old messages have.
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
    """Return a number in protobuf's variable length, and the place after it."""
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


_FORMS = {1: VARINT, 2: DELIMITED, 3: DELIMITED}  # reassign, extras, device_data
_DEVICE_DATA = 3

_MOST_FIELDS = 64
"""The most fields of a ``P4DeviceConfig``, which has three: bytes with more are something else."""


def bmv2_json(device_config: bytes) -> bytes:
    """Return the BMv2 JSON in a device config, which is the config itself unless that is a
    ``P4DeviceConfig``."""
    found = b""
    try:
        for count, (number, form, start, end) in enumerate(fields(device_config)):
            if _FORMS.get(number) != form or count == _MOST_FIELDS:
                return device_config
            if number == _DEVICE_DATA:
                found = device_config[start:end]
    except ValueError:
        return device_config
    return found
