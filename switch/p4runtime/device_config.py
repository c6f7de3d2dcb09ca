"""The program in a pipeline config's ``p4_device_config``.

Specification, section "ForwardingPipelineConfig": its form is the target's. BMv2 takes its JSON as
it is, and its JSON in a ``p4.tmp.P4DeviceConfig`` (p4lang/PI, proto/p4/tmp/p4config.proto), which
older controllers send, those of p4lang's tutorials among them.
"""

from __future__ import annotations

from weft.switch.p4runtime.wire import DELIMITED, VARINT, fields

_FORMS = {1: VARINT, 2: DELIMITED, 3: DELIMITED}  # reassign, extras, device_data
_DEVICE_DATA = 3

_MOST_FIELDS = 64
"""Of a ``P4DeviceConfig``, which has three: bytes that have more are something else."""


def bmv2_json(device_config: bytes) -> bytes:
    """The BMv2 JSON in a device config, which is it itself unless it is a ``P4DeviceConfig``."""
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
