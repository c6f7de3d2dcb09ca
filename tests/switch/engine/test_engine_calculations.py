"""Every hash and checksum that BMv2 has, of every kind of input, gives what it gives there."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.bmv2_support import assert_same, bmv2, require_bmv2, weft
from tests.support.engine_programs import Document, assign, call, extract, field, hexstr

from weft.base.deferred import numba
from weft.switch.engine.codegen.calculations import FUNCTIONS
from weft.switch.engine.dataplane import hashes
from weft.switch.engine.native.plain import word64
from weft.switch.engine.program.algorithms import CRCS, custom_crc

Json = Any

ALGORITHMS = sorted(
    [
        *FUNCTIONS,
        *("cksum16", "bmv2_hash", "toeplitz"),
        *("crc8_custom", "crc16_custom", "crc32_custom", "crc64_custom"),
    ]
)
"""What BMv2 takes in a calculation; it knows the names of CRCS too, but ends when they are used."""

FIELDS: list[Any] = [("a", 8), ("b", 3), ("c", 13), ("d", 32), ("e", 64)]


def inputs(number: int) -> list[Json]:
    """A different kind of input for each number: whole and broken bytes, headers, payload."""
    part = [field("in", "a"), field("in", "b"), hexstr(0x155, 9), field("in", "c"), hexstr(5, 7)]
    whole: list[Json] = [{"type": "header", "value": "in"}]
    payload: list[Json] = [{"type": "payload"}]
    kinds = [
        part,
        [*whole, *payload],
        [field("in", "b"), field("in", "c"), field("absent", "x")],
        [*whole, field("meta", "m"), {"type": "header", "value": "absent"}],
        [*payload, field("in", "a"), field("in", "b")],
        [],
    ]
    return kinds[number % len(kinds)]


def program(way: int) -> str:
    """All algorithms, each of one kind of input, into a header of 64-bit results; checksums.

    BMv2 ends if headers become more than 512 bytes longer: so there are two ways.
    """
    document = Document()
    document.header("meta", [("m", 16)], metadata=True)
    document.header("in", FIELDS)
    document.header("absent", [("x", 16)])
    results = [(f"r{number}", 64) for number in range(len(ALGORITHMS))]
    document.header("out", [*results, ("low", 8), ("offset", 16), ("all", 64), ("none", 64)])
    document.header("sum", [("good", 16), ("bad", 16), ("skipped", 16), ("wide", 16)])
    document.state("start", [extract("in"), extract("sum")])
    calculations = [
        {
            "name": f"calc{number}",
            "id": number,
            "algo": name,
            "input": inputs(number + 3 * way),
        }
        for number, name in enumerate(ALGORITHMS)
    ]
    count = len(ALGORITHMS)
    calculations += [
        {"name": "sum", "id": count, "algo": "csum16", "input": [field("in", "d")]},
        {"name": "crc", "id": count + 1, "algo": "crc32", "input": [field("in", "d")]},
    ]

    def hashed(target: str, base: int, calculation: str, most: int) -> Json:
        return call(
            "modify_field_with_hash_based_offset",
            field("out", target),
            hexstr(base),
            {"type": "calculation", "value": calculation},
            hexstr(most),
        )

    crc32 = f"calc{ALGORITHMS.index('crc32')}"
    compute = document.action(
        "compute",
        [],
        [
            assign(field("meta", "m"), hexstr(0xBEEF)),
            call("add_header", {"type": "header", "value": "out"}),
            *(hashed(f"r{number}", 0, f"calc{number}", (1 << 64) - 1) for number in range(count)),
            hashed("low", 7, crc32, 1000),
            hashed("offset", 0xFFF0, crc32, 100),
            hashed("all", 5, crc32, 1 << 32),
            hashed("none", 5, crc32, 0),
            assign(field("standard_metadata", "egress_spec"), hexstr(2)),
        ],
    )
    error = field("standard_metadata", "checksum_error")
    show = document.action("show", [], [assign(field("sum", "skipped"), error)])
    document.table("ingress", "compute", [], [compute], "show", default=(compute, []))
    document.table("ingress", "show", [], [show], None, default=(show, []))
    document.start["ingress"] = "compute"

    def checksum(number: int, target: str, calculation: str, **more: Json) -> Json:
        return {
            "name": f"checksum{number}",
            "id": number,
            "source_info": {},
            "type": "generic",
            "target": ["sum", target],
            "calculation": calculation,
            **more,
        }

    is_odd = {
        "type": "expression",
        "value": {
            "op": "==",
            "left": field("in", "b"),
            "right": hexstr(3),
        },
    }
    document.more = {
        "calculations": calculations,
        "checksums": [
            checksum(0, "good", "sum", verify=True, update=False),
            checksum(1, "wide", "crc", verify=True, update=False, if_cond=is_odd),
            checksum(2, "bad", "sum", verify=False, update=True),
            checksum(3, "wide", "crc", verify=False, update=True, if_cond=is_odd),
        ],
    }
    return document.text


def ones_complement(data: bytes) -> int:
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    return ~(total + (total >> 16)) & 0xFFFF


def frames() -> list[bytes]:
    rng = random.Random(11)
    found = []
    for size in [*range(40), 63, 64, 65, 200]:
        head = rng.randbytes(15)
        if size & 1:
            head = head[:1] + bytes([head[1] & 0x1F | 0x60]) + head[2:]  # b == 3
        good = ones_complement(head[3:7]) if rng.random() < 0.7 else rng.getrandbits(16)
        found.append(head + good.to_bytes(2, "big") + rng.randbytes(6) + rng.randbytes(size))
    return found


@pytest.mark.parametrize("way", [0, 1])
def test_every_calculation_gives_what_it_gives_on_bmv2(tmp_path: Path, way: int) -> None:
    require_bmv2()
    text = program(way)
    ours = weft(text, frames())
    assert len(ours[2]) == len(frames())
    theirs = bmv2(tmp_path, text, frames(), len(frames()))
    assert_same(ours, theirs)


CHECKS = {
    "crc_8": 0xF4, "crc_8_rohc": 0xD0, "crc_16_dnp": 0xEA82, "crc_16_genibus": 0xD64E,
    "crc_16_maxim": 0x44C2, "x_25": 0x906E, "xmodem": 0x31C3, "modbus": 0x4B37,
    "kermit": 0x2189, "crc_32_bzip2": 0xFC891918, "crc_32c": 0xE3069283,
    "crc_32_mpeg": 0x0376E6E7, "crc_32q": 0x3010BF7F, "jamcrc": 0x340BC6D9, "xfer": 0xBD0BE338,
    "crc_64_we": 0x62EC59E3F1A4F00A,
}  # fmt: skip
"""CRCs of the digits 1 to 9, from the catalogue of parametrised CRC algorithms."""


def digits_crc(width: int, polynomial: int, initial: int, final: int, reflected: bool) -> int:
    """The CRC of the digits 1 to 9 by the run-time library, compiled."""

    def run(data: Any, one: int, two: int, three: int) -> Any:
        return hashes.crc_bits(data, 0, 9, width, one, two, three, reflected, reflected)

    words = [word64(value) for value in (polynomial, initial, final)]
    result = int(numba.njit(run)(np.frombuffer(b"123456789", np.uint8), *words))
    return result & ((1 << width) - 1)


@pytest.mark.parametrize("name", CHECKS)
def test_the_crcs_by_name_are_those_of_the_catalogue(name: str) -> None:
    assert digits_crc(*CRCS[name]) == CHECKS[name]


def test_a_crc_can_be_named_by_its_parameters() -> None:
    assert custom_crc("poly_0x11021_init_0xffff_not_rev_xout_0x1") == (
        16,
        0x1021,
        0xFFFF,
        1,
        False,
    )
    assert custom_crc("poly_0x18005") == (16, 0x8005, 0, 0, True)
    for wrong in ("poly", "poly_0x8005", "poly_0x1111", "init_0x1", "poly_0x18005_lsb"):
        assert custom_crc(wrong) is None


def test_a_custom_crc_with_the_parameters_of_another_is_that_one() -> None:
    def run(data: Any, width: int) -> Any:
        return hashes.crc_set(data, 0, 9, width, 16)

    compiled = numba.njit(run)
    for name, (width, *words, reflected) in CRCS.items():
        if width in (16, 32):
            row = np.array([1 + 6 * reflected, *words], ">u8").tobytes()
            data = np.frombuffer(b"123456789".ljust(16) + row, np.uint8)
            assert int(compiled(data, width)) == CHECKS.get(name, digits_crc(*CRCS[name])), name
