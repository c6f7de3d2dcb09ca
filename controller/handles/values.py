"""Values and keys of table entries as people write them: numbers, addresses, prefixes, masks."""

import ipaddress
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

from weft.base.errors import InputError, refuse
from weft.base.units import shown
from weft.switch.engine.control.entities import Exact, Key, Lpm, Range, Ternary
from weft.switch.messages import p4info_pb2

Value: TypeAlias = (
    int | str | bytes | ipaddress.IPv4Address | ipaddress.IPv6Address | ipaddress.IPv4Network
)
"""A number; or one in text, decimal or with ``0x``; an IPv4, IPv6 or MAC address in text, or of the
module ipaddress; or bytes, the most significant first."""

_KINDS = p4info_pb2.MatchField
_NUMBER = re.compile(r"\s*(0[xX][0-9a-fA-F_]{1,600}|0[bB][01_]{1,2400}|[0-9][0-9_]{0,700})\s*")
_MAC = re.compile(r"\s*[0-9a-fA-F]{1,2}([:-])[0-9a-fA-F]{1,2}(\1[0-9a-fA-F]{1,2}){4}\s*")
_EXAMPLES = {32: ", an address like 10.0.1.2", 48: ", an address like 02:00:0a:00:01:02",
             128: ", an address like fe80::1"}  # fmt: skip


def read_value(value: Any, width: int, what: str) -> int:
    """Return a value of ``width`` bits (0: of any) as a number.

    ``what`` names the field or parameter in messages. Raises InputError for what is no `Value`, or
    does not fit.
    """
    number = _number(value, width)
    if number is None:
        example = _EXAMPLES.get(width, "")
        raise InputError(f"{what}: {shown(value)} is no value: write a number{example}")
    if number < 0 or (width and number >> width):
        raise InputError(
            f"{what}: {shown(value)} does not fit {width} bits: 0 to {(1 << width) - 1:#x} do"
        )
    return number


def _number(value: Any, width: int) -> int | None:
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, bytes):
        return int.from_bytes(value, "big")
    if isinstance(value, (ipaddress.IPv4Address, ipaddress.IPv6Address)):
        return int(value) if value.max_prefixlen == width else None
    if not isinstance(value, str):
        return None
    if found := _NUMBER.fullmatch(value):
        digits = found[1].replace("_", "")
        return int(digits, 10 if digits.isdecimal() else 0)
    if width == 48 and _MAC.fullmatch(value):
        return int.from_bytes(bytes(int(byte, 16) for byte in re.split("[:-]", value)), "big")
    if width in (32, 128):
        try:
            return int((ipaddress.IPv4Address if width == 32 else ipaddress.IPv6Address)(value))
        except ValueError:
            return None
    return None


def read_key(given: Any, field: Any, what: str) -> Key | None:
    """Return what a key field shall match, or None for anything.

    Args:
        given: a `Value`; for lpm also a prefix, ``10.0.9.0/24`` or (value, prefix length); for
            ternary also ``VALUE &&& MASK`` or (value, mask), and a prefix; for range also
            ``LOW..HIGH`` or (low, high). None stands for anything, where the kind of field allows
            it.
        field: the ``p4.config.v1.MatchField``.
        what: names the field in messages.

    Raises:
        InputError: that is no such thing, or does not fit the field.
    """
    width, kind = field.bitwidth, field.match_type
    if given is None:
        refuse(kind == _KINDS.EXACT, f"{what} is exact: it needs a value")
        return None
    if kind in (_KINDS.EXACT, _KINDS.OPTIONAL):
        return Exact(read_value(given, width, what))
    if kind == _KINDS.RANGE:
        low, high = _two(given, "..", what) or (given, given)
        key = Range(read_value(low, width, what), read_value(high, width, what))
        refuse(
            key.low > key.high, f"{what}: {key} is empty, since its ends are the wrong way round"
        )
        return None if (key.low, key.high) == (0, (1 << width) - 1) else key
    ones = (1 << width) - 1
    masked = _two(given, "&&&", what) if kind == _KINDS.TERNARY else None
    if masked is not None:
        value, mask = (read_value(each, width, what) for each in masked)
        if value & ~mask:
            raise InputError(
                f"{what}: {shown(given)} has bits outside its mask: write {value & mask:#x}"
            )
        return Ternary(value, mask) if mask else None
    value, length = _prefix(given, width, what, may_be_pair=kind == _KINDS.LPM)
    mask = ones ^ (ones >> length)
    if value & ~mask:
        raise InputError(
            f"{what}: {shown(given)} has bits behind its prefix of {length}: write "
            f"{value & mask:#x}"
        )
    if kind == _KINDS.TERNARY:
        return Ternary(value, mask) if mask else None
    return Lpm(value, length) if length else None


def _two(given: Any, between: str, what: str) -> Sequence[Any] | None:
    """Return the two parts of a pair, or of a text with a word between them; None if it is
    neither."""
    if isinstance(given, tuple):
        if len(given) != 2:
            raise InputError(f"{what}: {shown(given)} has {len(given)} parts: 2 are needed")
        return given
    if isinstance(given, str) and between in given:
        return given.split(between, 1)
    return None


def _prefix(given: Any, width: int, what: str, *, may_be_pair: bool) -> tuple[int, int]:
    """Return the value and the length of a prefix; a value alone is one of full length."""
    if isinstance(given, (ipaddress.IPv4Network, ipaddress.IPv6Network)):
        given = str(given)
    parts = _two(given, "/", what) if may_be_pair or isinstance(given, str) else None
    if parts is None:
        return read_value(given, width, what), width
    length = _number(parts[1], 0)
    if length is None or not 0 <= length <= width:
        raise InputError(f"{what}: {shown(given)} has no prefix length from 0 to {width}")
    return read_value(parts[0], width, what), length
