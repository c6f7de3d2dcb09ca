"""Values and keys of table entries as people write them."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.controller.handles.values import read_key, read_value
from weft.switch.engine.control.entities import Exact, Lpm, Range, Ternary
from weft.switch.messages import p4info_pb2

KINDS = p4info_pb2.MatchField


def field(kind: str, width: int = 32) -> Any:
    return KINDS(id=1, name="hdr.ipv4.dst_addr", bitwidth=width, match_type=kind)


@pytest.mark.parametrize(
    ("value", "width", "number"),
    [
        (7, 9, 7),
        (True, 1, 1),
        ("511", 9, 511),
        ("0x1ff", 9, 511),
        ("0b101", 3, 5),
        ("1_000", 16, 1000),
        ("10.0.1.2", 32, 0x0A000102),
        ("02:00:0a:00:01:02", 48, 0x02000A000102),
        ("02-00-0a-00-01-02", 48, 0x02000A000102),
        ("fe80::1", 128, (0xFE80 << 112) + 1),
        (ipaddress.ip_address("10.0.1.2"), 32, 0x0A000102),
        (b"\x01\x00", 16, 256),
        (1 << 100, 0, 1 << 100),
    ],
)
def test_numbers_and_addresses_are_read(value: Any, width: int, number: int) -> None:
    assert read_value(value, width, "x") == number


@pytest.mark.parametrize(
    ("value", "width", "words"),
    [
        (512, 9, "does not fit 9 bits: 0 to 0x1ff"),
        (-1, 9, "does not fit"),
        ("-1", 9, "no value"),
        ("10.0.1.300", 32, "an address like 10.0.1.2"),
        ("10.0.1.2", 16, "no value: write a number"),
        ("02:00", 48, "an address like 02:00"),
        (None, 8, "None is no value"),
        (1.5, 8, "1.5 is no value"),
        (ipaddress.ip_address("::1"), 32, "no value"),
    ],
)
def test_what_is_no_value_is_named(value: Any, width: int, words: str) -> None:
    with pytest.raises(InputError, match="egress port: ") as raised:
        read_value(value, width, "egress port")
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("given_", "kind", "key"),
    [
        ("10.0.9.1", "EXACT", Exact(0x0A000901)),
        (5, "OPTIONAL", Exact(5)),
        (None, "OPTIONAL", None),
        ("10.0.9.0/24", "LPM", Lpm(0x0A000900, 24)),
        ("10.0.9.1", "LPM", Lpm(0x0A000901, 32)),
        (("10.0.9.0", 24), "LPM", Lpm(0x0A000900, 24)),
        (ipaddress.ip_network("10.0.9.0/24"), "LPM", Lpm(0x0A000900, 24)),
        ("0.0.0.0/0", "LPM", None),
        (None, "LPM", None),
        ("0x10 &&& 0xf0", "TERNARY", Ternary(0x10, 0xF0)),
        ((0x10, 0xF0), "TERNARY", Ternary(0x10, 0xF0)),
        ("10.0.0.0/8", "TERNARY", Ternary(0x0A000000, 0xFF000000)),
        (7, "TERNARY", Ternary(7, 0xFFFFFFFF)),
        ((0, 0), "TERNARY", None),
        ("1000..2000", "RANGE", Range(1000, 2000)),
        ((1000, 2000), "RANGE", Range(1000, 2000)),
        (80, "RANGE", Range(80, 80)),
        ((0, (1 << 32) - 1), "RANGE", None),
    ],
)
def test_keys_are_read_by_their_kind(given_: Any, kind: str, key: Any) -> None:
    assert read_key(given_, field(kind), "x") == key


@pytest.mark.parametrize(
    ("given_", "kind", "words"),
    [
        (None, "EXACT", "is exact: it needs a value"),
        ("10.0.9.1/24", "LPM", "bits behind its prefix of 24: write 0xa000900"),
        ("10.0.9.0/33", "LPM", "no prefix length from 0 to 32"),
        ("10.0.9.0/x", "LPM", "no prefix length"),
        ((1, 2, 3), "LPM", "has 3 parts: 2 are needed"),
        ("0xff &&& 0xf0", "TERNARY", "bits outside its mask: write 0xf0"),
        ("2000..1000", "RANGE", "its ends are the wrong way round"),
        ("1000..", "RANGE", "no value"),
    ],
)
def test_wrong_keys_are_named(given_: Any, kind: str, words: str) -> None:
    with pytest.raises(InputError, match="dst_addr") as raised:
        read_key(given_, field(kind), "ipv4_route, dst_addr")
    assert words in str(raised.value)


ANYTHING = st.one_of(
    st.none(), st.integers(), st.text(max_size=20), st.binary(max_size=20), st.floats(),
    st.tuples(st.integers(), st.integers()), st.ip_addresses(),
)  # fmt: skip


@given(ANYTHING, st.sampled_from(["EXACT", "LPM", "TERNARY", "RANGE", "OPTIONAL"]),
       st.sampled_from([1, 9, 32, 48, 128]))  # fmt: skip
def test_anything_is_a_key_that_fits_or_an_input_error(value: Any, kind: str, width: int) -> None:
    try:
        key = read_key(value, field(kind, width), "x")
    except InputError:
        return
    for number in vars(key).values() if key is not None else ():
        assert 0 <= number < 1 << max(width, 8)
