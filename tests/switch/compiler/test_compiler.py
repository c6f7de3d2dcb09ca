"""The compiler as a whole: its outputs, its names, its speed, its cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from google.protobuf import text_format
from tests.support.compiler_support import FABRIC, PROGRAMS, check_document, compiled, program

from weft.switch.compiler import compile_cached, compile_program, write_outputs
from weft.switch.compiler.emit.identifiers import Identifiers, one_at_a_time
from weft.switch.compiler.lower.parsers import prefixes
from weft.switch.messages import p4info_pb2

ALL_PROGRAMS = [FABRIC, *sorted(PROGRAMS.glob("*.p4"))]

compiled_once = lru_cache(compile_program)
"""For the tests that only look at what comes of a program."""


@pytest.mark.parametrize("source", ALL_PROGRAMS, ids=lambda path: path.stem)
def test_a_program_compiles_to_json_whose_references_all_resolve(source: Path) -> None:
    check_document(json.loads(compiled_once(source).bmv2_json))


@pytest.mark.parametrize("source", ALL_PROGRAMS, ids=lambda path: path.stem)
def test_p4info_reads_back_from_its_text(source: Path) -> None:
    result = compiled_once(source)
    assert text_format.Parse(result.p4info_text, p4info_pb2.P4Info()) == result.p4info


def test_the_same_source_gives_the_same_bytes_whatever_the_folder_and_the_hash_seed(
    tmp_path: Path,
) -> None:
    script = (
        "import sys; from pathlib import Path; from weft.switch.compiler import compile_program\n"
        "result = compile_program(Path(sys.argv[1])); print(result.bmv2_json, result.p4info_text)"
    )
    copy = tmp_path / "elsewhere" / "tables.p4"
    copy.parent.mkdir()
    copy.write_text((PROGRAMS / "tables.p4").read_text())
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, str(source)],
            check=True, capture_output=True, text=True, cwd=FABRIC.parent.parent,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for source, seed in [(PROGRAMS / "tables.p4", "1"), (copy, "2")]
    }  # fmt: skip
    assert len(outputs) == 1


def test_objects_have_the_names_and_ids_that_p4c_gives_them() -> None:
    info = compiled_once(FABRIC).p4info
    tables = {table.preamble.name: table.preamble for table in info.tables}
    assert tables["FabricIngress.fault.ingress_fault"].id == 47834849
    assert tables["FabricIngress.forwarding.ipv4_route"].id == 35494443
    assert tables["FabricIngress.forwarding.ipv4_route"].alias == "ipv4_route"
    actions = {action.preamble.name: action.preamble for action in info.actions}
    assert actions["NoAction"].id == 21257015
    assert actions["FabricIngress.forwarding.drop"].alias == "forwarding.drop"
    assert [profile.preamble.id for profile in info.action_profiles] == [289086301]


def test_colliding_and_given_ids_are_told_apart() -> None:
    assert one_at_a_time("NoAction") & 0xFFFFFF == 21257015 & 0xFFFFFF
    ids = Identifiers([("table", "a", 5), ("table", "b", None), ("action", "a", 5)])
    assert ids.of("table", "a") == 0x02000005
    assert ids.of("action", "a") == 0x01000005
    with pytest.raises(ValueError, match="given twice"):
        Identifiers([("table", "a", 5), ("table", "b", 5)])
    with pytest.raises(ValueError, match="prefix"):
        Identifiers([("table", "a", 0x01000005)])


def test_two_objects_with_one_given_id_are_an_error(tmp_path: Path) -> None:
    from tests.support.compiler_support import errors_of

    table = "@id(7) table {} {{ actions = {{ NoAction; }} }}"
    found = errors_of(
        tmp_path,
        locals=table.format("t") + table.format("u"),
        ingress="t.apply(); u.apply();",
    )
    assert found == ["@id(0x7) of 'I.u' is given twice"]


def test_a_hidden_table_is_not_in_p4info_nor_are_its_counters_and_profiles(tmp_path: Path) -> None:
    info = compiled(
        tmp_path,
        locals="direct_counter(CounterType.bytes) hits; action_profile(4) choices;"
        " @hidden table t { key = { hdr.h.a: exact; } actions = { NoAction; } counters = hits; }"
        " @hidden table u { actions = { NoAction; } key = { hdr.h.a: exact; }"
        " implementation = choices; }",
        ingress="t.apply(); u.apply();",
    ).p4info
    assert not info.tables
    assert not info.direct_counters
    assert [list(item.table_ids) for item in info.action_profiles] == [[]]


def test_no_entry_of_a_hidden_table_or_action_is_in_the_request_that_writes_them(
    tmp_path: Path,
) -> None:
    request = compiled(
        tmp_path,
        locals="action a() { } @hidden action b() { }"
        " @hidden table t { key = { hdr.h.a: exact; } actions = { a; NoAction; }"
        " entries = { 1: a(); } }"
        " table u { key = { hdr.h.a: exact; } actions = { a; b; NoAction; }"
        " entries = { 1: a(); 2: b(); } }",
        ingress="t.apply(); u.apply();",
    ).entries
    values = [each.entity.table_entry.match[0].exact.value for each in request.updates]
    assert values == [b"\1"]


def test_outputs_are_written_under_the_stem_that_is_given(tmp_path: Path) -> None:
    files = write_outputs(compiled(tmp_path), "some", tmp_path / "out")
    assert files.json == tmp_path / "out" / "some.json"
    assert files.p4info == tmp_path / "out" / "some.p4info.txtpb"
    assert json.loads(files.json.read_text())["__meta__"]["version"][0] == 2


def test_a_cached_program_is_not_compiled_again_until_something_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    included = tmp_path / "part.p4"
    included.write_text("const bit<8> VALUE = 1;\n")
    source = tmp_path / "program.p4"
    source.write_text(program(declarations='#include "part.p4"\n', ingress="hdr.h.a = VALUE;"))
    first = compile_cached(source)
    written = first.json.stat().st_ino
    assert compile_cached(source) == first
    assert first.json.stat().st_ino == written
    assert compile_cached(source, defines={"UNUSED": None}) == first
    included.write_text("const bit<8> VALUE = 2;\n")
    second = compile_cached(source)
    assert second != first
    assert second.json.read_text() != first.json.read_text()


def test_a_file_that_comes_before_another_in_the_include_folders_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the program was found in the cache before: what was looked for and was not there
    is part of what it is found by."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    (folders[1] / "part.p4").write_text("const bit<8> VALUE = 1;\n")
    source = tmp_path / "program.p4"
    source.write_text(program(declarations="#include <part.p4>\n", ingress="hdr.h.a = VALUE;"))
    first = compile_cached(source, include_dirs=folders)
    assert compile_cached(source, include_dirs=folders) == first
    (folders[0] / "part.p4").write_text("const bit<8> VALUE = 2;\n")
    assert compile_cached(source, include_dirs=folders) != first
    (folders[0] / "part.p4").unlink()
    assert compile_cached(source, include_dirs=folders) == first
    for note in (tmp_path / "cache").rglob("p4/*.json"):
        note.write_text("damaged")
    assert compile_cached(source, include_dirs=folders) == first


def test_macros_and_include_folders_are_given_by_the_caller(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "part.p4").write_text("const bit<8> VALUE = GIVEN;\n")
    source = tmp_path / "program.p4"
    source.write_text(program(declarations="#include <part.p4>\n", ingress="hdr.h.a = VALUE;"))
    result = compile_program(
        source, include_dirs=[tmp_path / "folder"], defines={"GIVEN": "0x5A", "OTHER": None}
    )
    assert '"0x5a"' in result.bmv2_json


def test_ranges_become_the_fewest_prefixes() -> None:
    assert prefixes(0, 255, 8) == [(0, 0)]
    assert prefixes(5, 5, 8) == [(5, 0xFF)]
    assert prefixes(1, 6, 3) == [(1, 7), (2, 6), (4, 6), (6, 7)]
    assert prefixes(7, 3, 8) == []
    for low in range(16):
        for high in range(low, 16):
            covered = {
                value
                for value in range(16)
                if any(value & mask == bits for bits, mask in prefixes(low, high, 4))
            }
            assert covered == set(range(low, high + 1))


def test_warnings_come_with_the_program(tmp_path: Path) -> None:
    result = compiled(
        tmp_path,
        parser="state start { transition accept; } state lonely { transition accept; }",
        ingress="hdr.h.a = 300;",
    )
    messages = [item.message for item in result.warnings]
    assert messages == [
        "state 'lonely' is never reached",
        "300 does not fit bit<8>: it becomes 44",
    ]
