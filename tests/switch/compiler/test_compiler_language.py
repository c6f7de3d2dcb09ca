"""What P4's constructs become in BMv2 JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.compiler_support import compiled, document, primitives, program

from weft.switch.compiler import compile_program


def the_action(json_document: dict[str, Any]) -> list[dict[str, Any]]:
    """The primitives of the only action that the control's own statements became."""
    hidden = [item for item in json_document["actions"] if item["name"].startswith("program")]
    assert len(hidden) == 1
    result: list[dict[str, Any]] = hidden[0]["primitives"]
    return result


def written(node: Any) -> str:
    """An expression of the JSON, in a readable form."""
    kind, value = node["type"], node["value"]
    if kind == "field":
        return ".".join(value)
    if kind == "hexstr":
        return str(int(value, 16))
    if kind in ("runtime_data", "local"):
        return f"data{value}"
    if kind == "expression" and "op" not in value:
        return written(value)
    if kind != "expression":
        return str(value)
    if value["op"] == "?":
        return f"({written(value['cond'])} ? {written(value['left'])} : {written(value['right'])})"
    left = "" if value["left"] is None else written(value["left"]) + " "
    right = value["right"] if isinstance(value["right"], int) else written(value["right"])
    return f"({left}{value['op']} {right})"


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("hdr.h.a = hdr.h.a + 1;", "((h.a + 1) & 255)"),
        ("hdr.h.a = hdr.h.a - hdr.h.b;", "((h.a - h.b) & 255)"),
        ("hdr.h.a = hdr.h.a |+| hdr.h.b;", "((h.a + h.b) usat_cast 8)"),
        ("hdr.h.a = (bit<8>)((int<8>)hdr.h.a |-| (int<8>)hdr.h.b);",
         "((((h.a two_comp_mod 8) - (h.b two_comp_mod 8)) sat_cast 8) & 255)"),
        ("hdr.h.c = (bit<16>)((int<8>)hdr.h.a ++ (int<8>)hdr.h.b);",
         "((((h.a two_comp_mod 8) << 8) | ((h.b two_comp_mod 8) & 255)) & 65535)"),
        ("hdr.h.a = -hdr.h.b;", "((0 - h.b) & 255)"),
        ("hdr.h.a = ~hdr.h.b;", "((~ h.b) & 255)"),
        ("hdr.h.a = hdr.h.b >> 2;", "(h.b >> 2)"),
        ("hdr.h.a = hdr.h.b << 9;", "0"),
        ("hdr.h.a = 3 + 4 * 5;", "23"),
        ("hdr.h.a = 8w200 + 100;", "44"),
        ("hdr.h.a = 8w200 |+| 100;", "255"),
        ("hdr.h.c = hdr.h.a ++ hdr.h.b;", "((h.a << 8) | h.b)"),
        ("hdr.h.a = hdr.h.c[11:4];", "((h.c >> 4) & 255)"),
        ("hdr.h.c[11:4] = hdr.h.a;", "((h.c & 61455) | (h.a << 4))"),
        ("hdr.h.a = (bit<8>)hdr.h.c;", "(h.c & 255)"),
        ("hdr.h.c = (bit<16>)hdr.h.a;", "h.a"),
        ("hdr.h.c = (bit<16>)(int<16>)(int<8>)hdr.h.a;", "((h.a two_comp_mod 8) & 65535)"),
        ("hdr.h.a = hdr.h.a < hdr.h.b ? hdr.h.a : 8w9;", "((h.a < h.b) ? h.a : 9)"),
        ("hdr.h.a = (bit<8>)(bit<1>)hdr.h.isValid();", "h.$valid$"),
        ("hdr.h.a = (bit<8>)(bit<1>)(hdr.h.a == 1 && !(hdr.h.b > 2));",
         "(b2d ((h.a == 1) and (not (h.b > 2))))"),
        ("hdr.h.a = hdr.h.b; hdr.h.a += 2;", "h.b"),
        ("hdr.h.c = 16w0xFFFF[7:0] ++ 8w1;", "65281"),
        ("hdr.h.a = error.NoMatch == sm.parser_error ? 8w1 : 2;",
         "((2 == standard_metadata.parser_error) ? 1 : 2)"),
    ],
)  # fmt: skip
def test_an_expression_becomes_bmv2_arithmetic(
    tmp_path: Path, statement: str, expected: str
) -> None:
    first = the_action(document(tmp_path, ingress=statement))[0]
    assert first["op"] == "assign"
    assert written(first["parameters"][1]) == expected


def test_if_in_an_action_becomes_jumps(tmp_path: Path) -> None:
    action = "action f() { if (hdr.h.a == 1) { hdr.h.b = 2; return; } hdr.h.b = 3; }"
    code = primitives(
        document(
            tmp_path,
            locals=action + "table t { actions = { f; } default_action = f; }",
            ingress="t.apply();",
        ),
        "I.f",
    )
    assert [item["op"] for item in code] == ["_jump_if_zero", "assign", "_jump", "assign"]
    assert [int(code[place]["parameters"][-1]["value"], 16) for place in (0, 2)] == [3, 4]


def test_exit_in_an_action_ends_the_action_too(tmp_path: Path) -> None:
    action = "action f() { if (hdr.h.a == 1) { exit; } hdr.h.b = 3; }"
    code = primitives(
        document(
            tmp_path,
            locals=action + "table t { actions = { f; } default_action = f; }",
            ingress="t.apply();",
        ),
        "I.f",
    )
    assert [item["op"] for item in code] == ["_jump_if_zero", "exit", "_jump", "assign"]


def test_return_and_exit_in_a_control_lead_on(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        declarations="control S(inout h_t h) { apply { if (h.a == 1) { return; } h.b = 1; } }",
        locals="S() s;",
        ingress="s.apply(hdr.h); if (hdr.h.a == 2) { exit; } hdr.h.c = 3;",
    )
    pipeline = result["pipelines"][0]
    first, second = pipeline["conditionals"]
    tables = {item["name"]: item for item in pipeline["tables"]}
    assert first["true_next"] == second["name"]
    assert tables[first["false_next"]]["base_default_next"] == second["name"]
    assert second["true_next"] is None
    assert tables[second["false_next"]]["base_default_next"] is None


def test_hit_and_miss_and_the_action_run_choose_what_comes_next(tmp_path: Path) -> None:
    tables = (
        "action f() {} action g() {}"
        "table t { key = { hdr.h.a: exact; } actions = { f; g; NoAction; } }"
        "table u { key = { hdr.h.b: exact; } actions = { f; g; NoAction; } }"
    )
    result = document(
        tmp_path,
        locals=tables,
        ingress="if (!t.apply().hit) { hdr.h.c = 1; }"
        "switch (u.apply().action_run) { f: { hdr.h.c = 2; } g: NoAction: { hdr.h.c = 3; } }",
    )
    found = {item["name"]: item for item in result["pipelines"][0]["tables"]}
    assert found["I.t"]["next_tables"]["__HIT__"] == "I.u"
    assert found["I.t"]["next_tables"]["__MISS__"].startswith("tbl_program")
    after = found["I.u"]["next_tables"]
    assert after["I.g"] == after["NoAction"] != after["I.f"]


def test_a_hit_inside_an_expression_keeps_short_circuits(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        locals="table t { key = { hdr.h.a: exact; } actions = { NoAction; } }",
        ingress="if (hdr.h.b == 1 && t.apply().hit) { hdr.h.c = 1; }",
    )
    pipeline = result["pipelines"][0]
    decision = pipeline["conditionals"][0]
    reached = {decision["true_next"], decision["false_next"]}
    assert "I.t" in reached and len(reached) == 2


def test_arguments_are_copied_in_and_out(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        locals="action f(inout bit<8> v, in bit<8> w) { v = v + 1; hdr.h.a = 9; v = v + w; }",
        ingress="f(hdr.h.a, hdr.h.a);",
    )
    targets = [written(item["parameters"][0]) for item in the_action(result)]
    # hdr.h.a is written under its own name once inside, and by the copy at the end.
    assert [name for name in targets if name == "h.a"] == ["h.a", "h.a"]
    assert targets[-1] == "h.a"
    assert targets.index("h.a") > 1


def test_values_of_a_list_are_read_before_any_is_written(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        types="struct pair_t { bit<8> l; bit<8> r; } header h_t { pair_t p; }",
        ingress="hdr.h.p = { hdr.h.p.r, hdr.h.p.l };",
    )
    code = [[written(side) for side in item["parameters"]] for item in the_action(result)]
    (saved_r, _), (saved_l, _), *copies = code
    assert copies == [["h.p.l", saved_r], ["h.p.r", saved_l]]


def test_a_select_becomes_values_and_masks_of_whole_bytes(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        types="header h_t { bit<4> a; bit<4> b; bit<16> c; }",
        parser="""state start { packet.extract(hdr.h);
            transition select(hdr.h.a, hdr.h.c) {
                (1, 0x0203): accept; (2 &&& 3, _): other; (_, 16 .. 19): other; default: other; } }
            state other { transition accept; }""",
    )
    cases = result["parsers"][0]["parse_states"][0]["transitions"]
    assert [(item["type"], item["value"], item["mask"]) for item in cases] == [
        ("hexstr", "0x010203", None),
        ("hexstr", "0x020000", "0x030000"),
        ("hexstr", "0x000010", "0x00fffc"),
        ("default", None, None),
    ]


def test_a_select_without_default_signals_no_match(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        parser="state start { packet.extract(hdr.h); transition select(hdr.h.a) { 1: accept; } }",
    )
    states = {item["name"]: item for item in result["parsers"][0]["parse_states"]}
    assert states["start"]["transitions"][-1]["next_state"] == "no_match"
    operation = states["no_match"]["parser_ops"][0]
    assert operation["op"] == "verify"
    assert int(operation["parameters"][1]["value"], 16) == 2


def test_entries_get_priorities_in_bmv2s_sense(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        locals="""action f(bit<8> v) {} table t { key = { hdr.h.c: ternary; }
            actions = { f; NoAction; } largest_priority_wins = false; priority_delta = 10;
            entries = { priority=10: 1: f(1); 2 &&& 3: f(2); priority=15: _: f(3); } }""",
        ingress="t.apply();",
    )
    table = next(item for item in result["pipelines"][0]["tables"] if item["name"] == "I.t")
    assert table["match_type"] == "ternary"
    assert [item["priority"] for item in table["entries"]] == [1, 2, 3]
    assert table["entries"][2]["match_key"] == [
        {"match_type": "ternary", "key": "0x0002", "mask": "0x0003"}
    ]


def test_constructor_parameters_make_different_instances(tmp_path: Path) -> None:
    info = compiled(
        tmp_path,
        declarations="""control C(in bit<8> v)(bit<32> size, bit<8> step) {
            counter(size, CounterType.bytes) c;
            apply { c.count((bit<32>)(v + step)); } }""",
        locals="C(8, 1) small; C(64, 2) large;",
        ingress="small.apply(hdr.h.a); large.apply(hdr.h.b);",
    ).p4info
    assert {(item.preamble.name, item.size) for item in info.counters} == {
        ("I.small.c", 8),
        ("I.large.c", 64),
    }


def test_a_field_list_holds_the_annotated_fields(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        declarations="const bit<8> KEEP = 3;",
        metadata="@field_list(1, 3) bit<8> x; @field_list(2) bit<32> y; bit<8> z;",
        ingress="clone_preserving_field_list(CloneType.I2E, 7, 3);",
    )
    assert [item["op"] for item in the_action(result)] == ["clone_ingress_pkt_to_egress"]
    fields = [item["value"] for item in result["field_lists"][0]["elements"]]
    assert fields == [["scalars", "userMetadata.x"]]


def test_header_unions_and_stacks_are_listed_member_by_member(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; } header s_t { bit<8> v; }"
        " header_union u_t { h_t one; s_t other; }",
        headers="h_t h; s_t[2] s; u_t u;",
    )
    assert result["deparsers"][0]["order"] == ["h", "s[0]", "s[1]", "u.one", "u.other"]
    assert [item["name"] for item in result["header_unions"]] == ["u"]


def test_types_may_share_their_names_with_variables(tmp_path: Path) -> None:
    text = program(
        declarations="struct headers { bit<8> a; } typedef bit<8> T;"
        " bit<8> f(in T headers) { bit<8> T = headers; return T; }",
        ingress="hdr.h.a = f(hdr.h.b);",
    )
    (tmp_path / "program.p4").write_text(text)
    assert compiled(tmp_path, declarations="").bmv2_json


def test_actions_tables_and_loops_variables_may_have_names_of_types(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        declarations="header act_t { bit<8> a; } struct tab_t { bit<8> a; } struct var_t { }",
        locals="""action act_t(bit<8> q) { hdr.h.a = q; }
            table tab_t { actions = { act_t; } default_action = act_t(4); }""",
        ingress="tab_t.apply(); for (bit<8> var_t in 1 .. 3) { hdr.h.b = hdr.h.b + var_t; }",
    )
    assert result["pipelines"][0]["tables"][0]["name"] == "I.tab_t"


def test_a_type_may_be_declared_in_a_typedef(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        types="""header h_t { bit<8> a; } typedef struct s_t { bit<8> a; } other_s_t;
            typedef header g_t { bit<8> a; bit<8> b; } other_g_t;
            typedef enum e_t { one, two } other_e_t;
            typedef enum bit<8> v_t { three = 3 } other_v_t;""",
        metadata="other_s_t s; s_t t; bit<8> a;",
        headers="h_t h; other_g_t g;",
        ingress="""other_e_t e = other_e_t.two; meta.s.a = other_v_t.three; meta.t = meta.s;
            other_g_t g = { 1, 2 }; hdr.g = g; bit<8> a = 1; if (e == e_t.one) { hdr.h.a = a; }""",
    )
    assert result["deparsers"][0]["order"] == ["h", "g"]


def test_angle_brackets_compare_or_enclose_types(tmp_path: Path) -> None:
    result = document(
        tmp_path,
        declarations="const bit<(4 + 4)> N = 3;",
        locals="register<bit<32>>(16) r; tuple<bit<8>, bit<8>> pair;",
        ingress="pair = { 1, 2 }; r.write(0, 5);"
        " if (hdr.h.a < N && hdr.h.b > (hdr.h.a >> 2)) { hdr.h.c = (bit<16>)pair[1]; }",
    )
    assert result["register_arrays"][0]["bitwidth"] == 32


def test_words_lines_and_pragmas_that_p4c_takes(tmp_path: Path) -> None:
    text = program(
        declarations="""# 17 "foo.p4" 2
const bit<8> type = 8w_3; type bit<8> kind_t; @foo[1] type kind_t other_t;
enum bit<8> numbers_t { one = type, two = one + 1 }
struct apply { bit<8> key; bit<8> type; bit<8> priority; }
@pragma name "renamed" """,
        locals="""
@pragma foo "bar" 3
@pragma name "renamed"
table t { actions = { NoAction; } }""",
        ingress="t.apply(); bit<8> type = numbers_t.two; hdr.h.a = type;",
    )
    source = tmp_path / "program.p4"
    source.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    result = compile_program(source)
    assert 'name: "I.renamed"' in result.p4info_text
    assert 'annotations: "@foo(\\"bar\\" 3)"' in result.p4info_text
