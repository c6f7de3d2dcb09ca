"""P4Runtime's binary strings (specification section "Bytestrings").

Unsigned, big-endian. Canonical is the shortest string that holds the value, one byte at least; any
length is accepted as long as the value fits the width that the P4Info gives.
"""

from __future__ import annotations

from google.rpc import code_pb2

from switch.p4runtime.refusals import Refusal


def encode(value: int) -> bytes:
    """The canonical string of an unsigned value."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(data: bytes, width: int, what: str) -> int:
    """The value of a string for a ``bit<width>``; OUT_OF_RANGE if empty or too large.

    ``what`` names the field in the error message.
    """
    if not data:
        raise Refusal(code_pb2.OUT_OF_RANGE, f"{what}: empty bytestring; 0 is one byte \\x00")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise Refusal(
            code_pb2.OUT_OF_RANGE,
            f"{what}: {value:#x} does not fit bit<{width}>, whose greatest value is "
            f"{(1 << width) - 1:#x}",
        )
    return value
