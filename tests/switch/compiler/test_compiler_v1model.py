"""The compiler's outputs for v1model: P4Info, names in JSON, warnings, options, wrong files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format, text_format
from tests.support.compiler_support import (
    PROGRAMS,
    check_document,
    compiled,
    document,
    errors_of,
    primitives,
    program,
)

from weft.base.errors import InputError
from weft.switch.commands.p4c import compile_to_files
from weft.switch.compiler import CompileError, compile_program
from weft.switch.messages import p4info_pb2

CONTROL_PLANE = PROGRAMS / "control_plane.p4"


@pytest.fixture(scope="module")
def info() -> Any:
    return compile_program(CONTROL_PLANE).p4info


def by_name(items: Any, name: str) -> Any:
    found = [item for item in items if item.preamble.name == name]
    assert len(found) == 1, f"{name}: {[item.preamble.name for item in items]}"
    return found[0]


def as_text(message: Any) -> str:
    return str(text_format.MessageToString(message, as_one_line=True))


def test_p4info_of_a_table_has_its_keys_actions_and_resources(info: Any) -> None:
    table = by_name(info.tables, "I.main_table")
    assert table.preamble.id == 0x02000001
    assert list(table.preamble.annotations) == ["@foo"]
    assert [item.name for item in table.preamble.structured_annotations] == ["baz", "kv", "empty"]
    assert as_text(table.preamble.structured_annotations[1].kv_pair_list.kv_pairs[0]) == (
        'key: "k1" value { int64_value: 1 }'
    )
    keys = [(key.id, key.name, key.bitwidth, key.type_name.name) for key in table.match_fields]
    assert keys == [
        (7, "hdr.h.first", 8, ""),
        (2, "meta.port", 0, "port_id_t"),
        (3, "hdr.h.first & 0xf", 8, ""),
        (4, "present", 1, ""),
        (5, "hdr.h.c[15:8]", 8, ""),
        (6, "meta.kind", 8, ""),
    ]
    assert [key.match_type for key in table.match_fields] == [4, 6, 2, 2, 5, 2]
    forward = by_name(info.actions, "I.forward")
    assert forward.preamble.id == 0x01000005
    assert [(item.id, item.scope, list(item.annotations)) for item in table.action_refs][:2] == [
        (0x01000005, 0, []),
        (by_name(info.actions, "I.tell").preamble.id, 1, ["@tableonly"]),
    ]
    assert table.const_default_action_id == by_name(info.actions, "NoAction").preamble.id
    assert list(table.direct_resource_ids) == [
        by_name(info.direct_counters, "I.hits").preamble.id,
        by_name(info.direct_meters, "I.rates").preamble.id,
    ]
    assert (table.size, table.idle_timeout_behavior) == (99, p4info_pb2.Table.NOTIFY_CONTROL)
    types = by_name(info.tables, "I.types")
    assert types.size == 1024  # of 0
    values = [item.value for item in types.initial_default_action.arguments]
    assert values == [b"\0\0\0\3", b"\0\0\0\4", b"\0\5", b"\6"]
    fixed = by_name(info.tables, "I.fixed")
    assert fixed.is_const_table and fixed.has_initial_entries


def test_p4info_of_an_action_has_its_parameters(info: Any) -> None:
    action = by_name(info.actions, "I.forward")
    assert [(item.id, item.name, item.bitwidth) for item in action.params] == [
        (3, "port", 0),
        (2, "vlan", 12),
        (4, "kind", 8),
    ]
    assert action.params[0].doc.brief == "Where to."
    assert action.preamble.doc.brief == "Forwards."
    assert not by_name(info.actions, "I.called").params  # nothing is given to it from outside
    assert "I.unseen" not in [item.preamble.name for item in info.actions]


def test_p4info_types_are_described(info: Any) -> None:
    types = info.type_info
    port = types.new_types["port_id_t"].translated_type
    assert port.uri == "example.org/port" and port.HasField("sdn_string")
    assert types.new_types["vrf_t"].translated_type.sdn_bitwidth == 32
    assert list(types.new_types["vrf_t"].annotations) == ["@origin(routing , 7)"]
    assert types.new_types["twice_t"].original_type.bitstring.bit.bitwidth == 12
    assert [item.value for item in types.serializable_enums["renamed_kind"].members] == [
        b"\0\2",
        b"\x01\x2c",
    ]
    assert "PacketTooShort" in types.error.members
    report = by_name(info.digests, "report")
    assert report.type_spec.struct.name == "report"
    assert [item.name for item in types.structs["report"].members] == [
        "a", "kind", "port", "flag", "problem", "pair",
    ]  # fmt: skip


def test_p4info_of_other_objects(info: Any) -> None:
    assert info.pkg_info.name == "control_plane.p4" and info.pkg_info.arch == "v1model"
    assert info.pkg_info.platform_properties.multicast_group_table_total_replicas == 20
    assert info.pkg_info.doc.brief == "All that a controller sees."
    packet_in = by_name(info.controller_packet_metadata, "packet_in")
    assert [(item.id, item.name) for item in packet_in.metadata] == [
        (2, "ingress_port"),
        (4, "target"),
        (5, "pad"),
    ]
    members = by_name(info.action_profiles, "I.members")
    assert (members.max_group_size, members.sum_of_members.max_member_weight) == (64, 4095)
    assert by_name(info.action_profiles, "I.weights").HasField("sum_of_weights")
    assert by_name(info.action_profiles, "placed").size == 9
    many = by_name(info.value_sets, "P.many")
    assert [(item.id, item.name) for item in many.match] == [
        (1, "first"),
        (9, "second"),
        (2, "last"),
    ]
    assert by_name(info.value_sets, "P.one").preamble.id == 0x03000055
    assert by_name(info.registers, "top.kinds").type_spec.serializable_enum.name == "kind_t"
    assert by_name(info.registers, "I.ports").preamble.doc.description == 'Long, with \\"quotes\\".'
    assert list(by_name(info.counters, "I.bytes_seen").preamble.annotations) == [
        '@note(a . b , 8w0xff , "s" , { 1 , 2 } , - 3)'
    ]
    assert by_name(info.tables, "I.second_part.part").preamble.alias == "second_part.part"
    order = [item.preamble.name for item in info.actions]
    assert order.index("global_two") < order.index("I.forward")


def test_json_has_the_names_that_the_control_plane_knows() -> None:
    found = json.loads(compile_program(CONTROL_PLANE).bmv2_json)
    check_document(found)
    ingress = found["pipelines"][0]
    assert {item["name"] for item in ingress["action_profiles"]} == {
        "I.members", "I.weights", "placed",
    }  # fmt: skip
    fixed = next(item for item in ingress["tables"] if item["name"] == "I.fixed")
    assert [item["priority"] for item in fixed["entries"]] == [1, 1, 3]
    assert "packet_h" in [item["name"] for item in found["header_types"]]
    assert [item["name"] for item in found["learn_lists"]] == ["report"]
    assert [item["op"] for item in found["deparsers"][0]["primitives"]] == ["log_msg", "assert"]


def test_comments_in_strings_of_several_lines_stay(tmp_path: Path) -> None:
    locals_ = (
        '@restrict("\n // kept\n") table t { key = { hdr.h.a: exact; } actions = { NoAction; } }'
    )
    found = compiled(tmp_path, locals=locals_, ingress="t.apply();  // dropped\n")
    assert list(found.p4info.tables[0].preamble.annotations) == ['@restrict("\n // kept\n")']


def test_actions_are_listed_as_they_are_first_used_in_a_pipeline() -> None:
    info = compile_program(PROGRAMS / "shared_actions.p4").p4info
    assert [item.preamble.name for item in info.actions] == [
        "note", "nothing", "First.inner.send", "First.give_up", "First.high", "NoAction",
        "Second.put",
    ]  # fmt: skip
    (kept,) = info.tables[0].preamble.annotations
    lines = [line.strip() for line in kept.split("\n")]
    assert lines == ['@entry_restriction("', "// Kept.", *[""] * 7, "kind != 5;", '")']


def test_older_externs_preserve_the_fields_that_they_are_given(tmp_path: Path) -> None:
    found = compiled(
        tmp_path,
        ingress="clone3(CloneType.I2E, 5, { meta.x, sm.ingress_port }); mark_to_drop();",
        egress="recirculate({ meta.x });",
    )
    lists = json.loads(found.bmv2_json)["field_lists"]
    assert [len(item["elements"]) for item in lists] == [2, 1]
    assert [item.kind for item in found.warnings] == ["deprecated"] * 3


def test_a_header_in_metadata_is_preserved_with_its_validity(tmp_path: Path) -> None:
    found = document(
        tmp_path,
        metadata="@field_list(1) h_t kept; @field_list(1, 2) bit<8> x;",
        ingress="resubmit_preserving_field_list(1);",
    )
    names = [item["value"][1] for item in found["field_lists"][0]["elements"]]
    assert names == ["a", "b", "c", "$valid$", "userMetadata.x"]


def test_a_direct_meter_can_be_read_into_a_slice(tmp_path: Path) -> None:
    found = document(
        tmp_path,
        locals="direct_meter<bit<2>>(MeterType.bytes) m; action a() { m.read(meta.x[1:0]); }"
        "table t { key = { hdr.h.a: exact; } actions = { a; } meters = m; }",
        ingress="t.apply();",
    )
    assert found["meter_arrays"][0]["result_target"][0] == "scalars"
    assert [item["op"] for item in primitives(found, "I.a")] == ["assign"]


def test_checksum_controls_may_have_variables(tmp_path: Path) -> None:
    found = document(
        tmp_path,
        update="bit<8> low = hdr.h.a; low = hdr.h.b; if (true) {"
        "update_checksum(true, { low, 8w3 }, hdr.h.c, HashAlgorithm.csum16); }",
    )
    assert found["calculations"][0]["input"][0] == {"type": "field", "value": ["h", "b"]}


TABLE = "table t {{ key = {{ hdr.h.a: exact; }} actions = {{ {0} }} }}"


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"ingress": "bit<8> q; hdr.h.a = q;"}, ["uninitialized-use"]),
        ({"ingress": "bit<8> q; if (hdr.h.b == 1) q = 2; hdr.h.a = q;"}, ["uninitialized-use"]),
        ({"ingress": "bit<8> q; if (hdr.h.b == 1) q = 2; else return; hdr.h.a = q;"}, []),
        (
            {
                "locals": "bit<8> q; action a() { q = 1; }" + TABLE.format("a;"),
                "ingress": "t.apply(); hdr.h.a = q;",
            },
            ["uninitialized-use"],
        ),
        (
            {
                "locals": "bit<8> q; action a() { q = 1; }" + TABLE.format("a;"),
                "ingress": "switch (t.apply().action_run) { a: { hdr.h.a = q; } }",
            },
            [],
        ),
        (
            {"ingress": "h_t x; x.setValid(); x.a = 1; if (x.isValid()) hdr.h.b = x.a;"},
            [],
        ),
        (
            {"ingress": "h_t x; if (hdr.h.a == 1) x.setValid(); hdr.h.b = x.a;"},
            ["invalid-header"],
        ),
        (
            {"ingress": "h_t x; if (hdr.h.a == 1) x.setValid();if (x.isValid() && x.a == 2) exit;"},
            [],
        ),
        (
            {
                "parser": "state start { transition select(hdr.h.a) { 1: more; default: accept; } }"
                "state more { packet.extract(hdr.h); meta.x = hdr.h.a; transition accept; }"
                "state dead { transition accept; }",
            },
            ["invalid-header", "unreachable"],
        ),
        (
            {
                "locals": "action o(out bit<8> v) { if (meta.x == 1) v = 1; }",
                "ingress": "o(meta.x);",
            },
            ["uninitialized-out-param"],
        ),
        (
            {
                "declarations": "struct s_t { bit<8> a; bit<8> b; }",
                "ingress": "s_t s; s.a = 1; s_t r = s; hdr.h.a = r.a;",
            },
            ["uninitialized-use"],
        ),
        (
            {"ingress": "bit<8> q; for (bit<8> i = 0; i < 3; i = i + 1) { q = i; } hdr.h.a = q;"},
            ["uninitialized-use"],
        ),
        ({"ingress": "return; hdr.h.a = 1;"}, ["unreachable"]),
        (
            {
                "locals": 'action n(bit<8> v) { } action m() { } @noWarn("unused") action k() { }'
                "counter(3, CounterType.packets) c; bit<8> u;" + TABLE.format("n;"),
                "ingress": "t.apply();",
            },
            ["unused"] * 4,
        ),
        (
            {
                "locals": "table t { actions = { NoAction; } colour = 3; }",
                "ingress": "t.apply();",
            },
            ["ignore"],
        ),
        (
            {"ingress": "digest<tuple<bit<8>, bit<8>>>(1, { hdr.h.a, hdr.h.b });"},
            ["mismatch"],
        ),
        (
            {
                "parser": "state start { packet.extract(hdr.h); packet.advance(3); "
                "transition accept; }",
                "ingress": "hdr.h.a = 1 | 2;",
            },
            ["mismatch"] * 2,
        ),
    ],
)
def test_what_is_doubtful_is_warned_of(
    tmp_path: Path, parts: dict[str, str], expected: list[str]
) -> None:
    assert sorted(item.kind for item in compiled(tmp_path, **parts).warnings) == expected


def test_a_warning_says_where_and_what(tmp_path: Path) -> None:
    source = tmp_path / "program.p4"
    source.write_text(program(ingress="\nbit<8> q;\nhdr.h.a = q;\n"))
    (warning,) = compile_program(source).warnings
    assert str(warning).splitlines() == [
        f"{source}:16:11: warning: 'q' may be read before it has a value "
        "[--Wwarn=uninitialized-use]",
        "    16 | hdr.h.a = q;",
        "       |           ^",
    ]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {
                "locals": "table t { key = { hdr.h.a: lpm; hdr.h.c: lpm; }"
                " actions = { NoAction; } }",
                "ingress": "t.apply();",
            },
            "not supported: table 't' has several keys of kind lpm (BMv2)",
        ),
        (
            {
                "locals": "action a(@id(2) bit<8> v, @id(2) bit<8> w) { hdr.h.a = v + w; }"
                + TABLE.format("a;"),
                "ingress": "t.apply();",
            },
            "@id(2) is given twice",
        ),
        (
            {"locals": "@brief(7) counter(2, CounterType.bytes) c;", "ingress": "c.count(0);"},
            "@brief takes one string",
        ),
        (
            {"locals": "register<h_t>(4) r;", "ingress": "r.write(0, hdr.h);"},
            "not supported: a register of header h_t; it holds numbers, bool, enums, and structs, "
            "tuples and arrays of those",
        ),
    ],
)
def test_what_p4info_or_bmv2_cannot_have_is_explained(
    tmp_path: Path, parts: dict[str, str], message: str
) -> None:
    assert errors_of(tmp_path, **parts) == [message]


def test_p4info_is_written_in_every_form(tmp_path: Path) -> None:
    source = tmp_path / "program.p4"
    source.write_text(program(ingress="random(hdr.h.a, 0, 3);"))
    names = [str(tmp_path / "out" / f"info{ending}") for ending in (".txt", ".bin", ".pb", ".json")]
    written = compile_to_files(
        source, out=str(tmp_path / "out" / "x.json"), p4info=[names[0], ",".join(names[1:])]
    )
    assert [str(path) for path in written] == [str(tmp_path / "out" / "x.json"), *names]
    text, first, second, as_json = (Path(name).read_bytes() for name in names)
    expected = compile_program(source).p4info
    assert text_format.Parse(text.decode(), p4info_pb2.P4Info()) == expected
    assert first == second and p4info_pb2.P4Info.FromString(first) == expected
    assert json_format.Parse(as_json, p4info_pb2.P4Info()) == expected
    beside = compile_to_files(source, out=str(tmp_path / "folder"))
    assert [path.name for path in beside] == ["program.json", "program.p4info.txtpb"]


def test_warnings_can_be_errors_or_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "program.p4"
    source.write_text(program(locals="bit<8> u;", ingress="bit<8> q; hdr.h.a = q;"))
    folder = tmp_path / "out"
    with pytest.raises(CompileError, match="error: 'q' may be read") as caught:
        compile_to_files(source, out=str(folder), fatal=["all"], disabled=["unused"])
    assert len(caught.value.diagnostics) == 1 and not folder.exists()
    compile_to_files(source, out=str(folder), disabled=["unused"])
    assert capsys.readouterr().err.count("warning:") == 1
    with pytest.raises(InputError, match="'odd' is not a kind of warning: there are all, "):
        compile_to_files(source, disabled=["odd"])
    with pytest.raises(InputError, match="let it end in"):
        compile_to_files(source, out=str(folder), p4info=["info.p4"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot read: No such file or directory"),
        (b"", "this file is empty"),
        (b"\x7fELF\0\0\1\2", "this is not a P4 program but a binary file"),
        (b"header_type h_t {\n fields { a : 8; }\n}\n", "this is P4_14, and only P4_16 can be"),
        (b"const bit<8> x = 1;\n", "there is no 'main'"),
    ],
)
def test_what_is_no_program_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    source = tmp_path / "program.p4"
    if content is not None:
        source.write_bytes(content)
    with pytest.raises(CompileError, match=message):
        compile_program(source)
    with pytest.raises(CompileError, match="cannot read: Is a directory"):
        compile_program(tmp_path)


def _names(found: Any) -> dict[str, list[str]]:
    kinds = ("tables", "actions", "counters", "registers", "value_sets", "digests")
    return {kind: [each.preamble.name for each in getattr(found.p4info, kind)] for kind in kinds}


def test_names_in_the_control_plane_have_those_of_types_and_instances(tmp_path: Path) -> None:
    """As p4c has it: a ``@name`` of a control or parser says nothing, that of an instance does, and
    controls that nothing applies have no part there."""
    text = program(
        declarations="""@name("inner") control Sub(inout headers_t hdr) {
            counter(8, CounterType.packets) n; register<bit<8>>(2) idle;
            action count() { n.count(1); }
            table t { key = { hdr.h.a: exact; } actions = { count; } }
            apply { t.apply(); } }""",
        parser="""value_set<bit<8>>(4) vs; state start { packet.extract(hdr.h);
            transition select(hdr.h.a) { vs: accept; default: accept; } }""",
        locals="""Sub() one; @name("two") Sub() second; @name(".three") Sub() third; Sub() never;
            @name("r") register<bit<8>>(3) unused;""",
        ingress="one.apply(hdr); second.apply(hdr); third.apply(hdr); Sub.apply(hdr);",
    )
    text = text.replace("parser P(", '@name("other") parser P(')
    source = tmp_path / "program.p4"
    source.write_text(text.replace("control I(", '@name("another") control I('))
    names = _names(compile_program(source))
    paths = ("I.one", "I.two", "three", "I.Sub")
    assert sorted(names["tables"]) == sorted(f"{path}.t" for path in paths)
    assert sorted(names["counters"]) == sorted(f"{path}.n" for path in paths)
    assert sorted(names["registers"]) == sorted(["I.r", *(f"{path}.idle" for path in paths)])
    assert {f"{path}.count" for path in paths} <= set(names["actions"])
    assert names["value_sets"] == ["P.vs"]


def test_generic_types_are_told_apart_in_the_control_plane(tmp_path: Path) -> None:
    found = compiled(
        tmp_path,
        types="""header h_t { bit<8> a; bit<8> b; bit<16> c; }
            struct two_t<T, U> { T one; @name("other") U two; } struct in_t<T> { T v; }""",
        metadata="two_t<bit<8>, bool> x; two_t<int<16>, in_t<bit<4>>> y;",
        locals="""table t { key = { meta.x.one: exact; meta.y.two.v: exact; }
                            actions = { NoAction; } }""",
        ingress="t.apply(); if (hdr.h.a == 1) { digest(1, meta.x); } else { digest(1, meta.y); }",
    )
    assert _names(found)["digests"] == ["two_t_bit8_bool", "two_t_int16_in_t_bit4"]
    assert set(found.p4info.type_info.structs) == {
        "two_t_bit8_bool", "two_t_int16_in_t_bit4", "in_t_bit4",
    }  # fmt: skip
    keys = [field.name for field in found.p4info.tables[0].match_fields]
    assert keys == ["meta.x.one", "meta.y.other.v"]
    lists = json.loads(found.bmv2_json)["learn_lists"]
    assert [each["name"] for each in lists] == _names(found)["digests"]
