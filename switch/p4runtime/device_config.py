"""The program in a pipeline config's ``p4_device_config``.

Specification, section "ForwardingPipelineConfig": its form is the target's. BMv2 takes its JSON as
it is, and its JSON in a ``p4.tmp.P4DeviceConfig`` (p4lang/PI, proto/p4/tmp/p4config.proto), which
older controllers send, those of p4lang's tutorials among them.
"""

from __future__ import annotations

_VARINT, _DELIMITED = 0, 2
_FORMS = {1: _VARINT, 2: _DELIMITED, 3: _DELIMITED}  # reassign, extras, device_data
_DEVICE_DATA = 3


def bmv2_json(device_config: bytes) -> bytes:
    """The BMv2 JSON in a device config, which is it itself unless it is a ``P4DeviceConfig``."""
    found = b""
    at = 0
    while at < len(device_config):
        key, at = _varint(device_config, at)
        number, form = key >> 3, key & 7
        if at < 0 or _FORMS.get(number) != form:
            return device_config
        size, at = _varint(device_config, at)
        if at < 0:
            return device_config
        if form == _DELIMITED:
            content = device_config[at : at + size]
            at += size
            if len(content) != size:
                return device_config
            if number == _DEVICE_DATA:
                found = content
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number in protobuf's variable length and the place after it; -1 if it does not end."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    return value, -1
