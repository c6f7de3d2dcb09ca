"""Random programs are the same in plain and in compiled form, and what they found stays mended.

``python -m tests.support.random_programs N SEED`` runs as many as one likes, also against p4c and
BMv2.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.support.bmv2_support import require_bmv2
from tests.support.compiler_support import compiled, document
from tests.support.random_programs import Forms, checked
from tests.support.random_source import Generator

HEADER = "header h_t { bit<8> a; int<8> b; bit<16> c; } header s_t { bit<8> k; }"


@pytest.mark.slow
def test_a_random_program_is_the_same_in_plain_and_compiled_form() -> None:
    assert checked(Generator(2026, 16).program(), Forms(compiled=True)) == ""


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_a_random_program_is_the_same_to_the_interpreter(seed: int) -> None:
    assert checked(Generator(seed, 16).program(), Forms()) == ""


@pytest.mark.parametrize("seed", [3, 9, 12, 14])
def test_a_random_program_is_the_same_from_our_compiler_and_from_p4c(seed: int) -> None:
    if shutil.which("p4c-bm2-ss") is None:
        pytest.skip("p4c (p4c-bm2-ss) is not installed")
    assert checked(Generator(seed, tame=True).program(), Forms(p4c=True)) == ""


@pytest.mark.parametrize("seed", range(1, 11))
def test_a_random_program_does_what_it_does_on_bmv2(seed: int) -> None:
    require_bmv2()
    forms = Forms(p4c=seed % 3 == 0 and shutil.which("p4c-bm2-ss") is not None, bmv2=True)
    assert checked(Generator(seed, 9, tame=True).program(), forms) == ""


def test_a_field_cast_to_a_greater_width_has_that_width_in_keys_and_hashes(tmp_path: Path) -> None:
    made = document(
        tmp_path,
        types=HEADER,
        headers="h_t h; s_t[3] s;",
        parser="""state start { packet.extract(hdr.h);
            transition select((bit<24>)hdr.h.a, hdr.h.c) { (1, 2): more; default: accept; } }
            state more { packet.extract(hdr.s.next);
            transition select((bit<16>)hdr.s.last.k) { 1: more; default: accept; } }""",
        ingress="""hash(hdr.h.c, HashAlgorithm.crc16, 16w0,
            { (bit<24>)hdr.h.a, (int<16>)hdr.h.b, hdr.h.c }, 16w100);""",
    )
    widths = {
        (header["name"], name): width
        for header in made["headers"]
        for kind in made["header_types"] if kind["name"] == header["header_type"]
        for name, width, _ in kind["fields"]
    }  # fmt: skip
    states = made["parsers"][0]["parse_states"]
    assert [[widths[tuple(item["value"])] for item in state["transition_key"]]
            for state in states] == [[24, 16], [16]]  # fmt: skip
    inputs = [widths[tuple(item["value"])] for item in made["calculations"][0]["input"]]
    assert inputs == [24, 16, 16]


def test_a_constant_condition_of_a_checksum_is_written_bare(tmp_path: Path) -> None:
    """BMv2 takes such a condition only as a bool, not as an expression with a bool in it."""
    for text, bare in (("true", True), ("1w1 == 0", False), ("!false", True)):
        made = document(tmp_path, types=HEADER, update=f"""update_checksum({text},
            {{ hdr.h.a }}, hdr.h.c, HashAlgorithm.csum16);""")  # fmt: skip
        conditions = [one["if_cond"] for one in made["checksums"]]
        assert conditions == [{"type": "bool", "value": bare}]


def test_what_belongs_to_a_table_that_no_packet_comes_to_is_left_out(tmp_path: Path) -> None:
    made = compiled(
        tmp_path,
        types=HEADER,
        locals="""direct_counter(CounterType.packets) counted;
            direct_meter<bit<8>>(MeterType.packets) metered;
            action_profile(4) profile;
            action read() { metered.read(meta.x); }
            table one { key = { hdr.h.a: exact; } actions = { NoAction; } counters = counted; }
            table two { key = { hdr.h.a: exact; } actions = { read; } meters = metered; }
            table three { key = { hdr.h.a: exact; } actions = { NoAction; }
                          implementation = profile; }""",
        ingress="""if (hdr.h.a == 1) { return; } else { exit; }
            one.apply(); two.apply(); three.apply();""",
    )
    assert not made.p4info.tables and not made.p4info.direct_counters
    assert not made.p4info.direct_meters
    assert not made.p4info.action_profiles or not made.p4info.action_profiles[0].table_ids
