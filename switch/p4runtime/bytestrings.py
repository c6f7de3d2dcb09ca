"""P4Runtime's binary strings (specification section "Bytestrings").

Big-endian, unsigned for ``bit<W>``, two's complement for ``int<W>``. Canonical is the shortest
string that holds the value, one byte at least; any length is accepted as long as the value fits the
width that the P4Info gives.
"""

from weft.switch.p4runtime.refusals import out_of_range


def encode(value: int) -> bytes:
    """Return the canonical string of an unsigned value."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def decode(data: bytes, width: int, what: str) -> int:
    """Return the value of a string for a ``bit<width>``; raise OUT_OF_RANGE if it is empty or too
    large.

    ``what`` names the field in the error message.
    """
    if not data:
        raise out_of_range(f"{what}: empty bytestring; 0 is one byte \\x00")
    value = int.from_bytes(data, "big")
    if value >> width:
        raise out_of_range(
            f"{what}: {value:#x} does not fit bit<{width}>, whose greatest value is "
            f"{(1 << width) - 1:#x}"
        )
    return value


def encode_signed(word: int, width: int) -> bytes:
    """Return the canonical string of an ``int<width>`` whose two's complement is ``word``."""
    value = word - (1 << width) if width and word >> (width - 1) else word
    bits = (value if value >= 0 else ~value).bit_length() + 1 if value else 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def decode_signed(data: bytes, width: int, what: str) -> int:
    """Return the two's complement, in ``width`` bits, of a string for an ``int<width>``; raise
    OUT_OF_RANGE if it is empty or too large."""
    if not data:
        raise out_of_range(f"{what}: empty bytestring; 0 is one byte \\x00")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << (width - 1)) <= value < 1 << (width - 1):
        raise out_of_range(f"{what}: {value} does not fit int<{width}>")
    return value & ((1 << width) - 1)
