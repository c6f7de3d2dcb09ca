"""What a program may say, and what the compiler refuses because no switch has it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.compiler_behaviour_support import send
from tests.support.compiler_support import compiled, errors, errors_of, program


@pytest.mark.parametrize(
    "declaration",
    [
        "@_my const bit<8> q = 1;",
        "@__d(1) const bit<8> q = 1;",
        "@_x[key = 1] const bit<8> q = 1;",
        "@doc(it's `x` $y \\ z # ?) const bit<8> q = 1;",
        "@doc((nested ' brackets)) const bit<8> q = 1;",
    ],
)
def test_annotations_have_any_name_and_any_text(declaration: str, tmp_path: Path) -> None:
    """Specification, section "Annotations": what is in the brackets is any sequence of tokens."""
    assert errors_of(tmp_path, declarations=declaration, ingress="hdr.h.a = q;") == []


def test_characters_outside_of_annotations_are_errors_still(tmp_path: Path) -> None:
    (found,) = errors_of(tmp_path, declarations="@doc(') const bit<8> q = 1 $;", ingress="")
    assert found == "unexpected character '$'"


def test_annotations_may_stand_before_the_body_of_a_control(tmp_path: Path) -> None:
    text = program(ingress="hdr.h.a = 1;")
    text = text.replace("    apply { hdr.h.a", '    apply @noWarn("unused") @a[x=1] { hdr.h.a')
    assert "apply @noWarn" in text and errors(tmp_path, text) == []


@pytest.mark.parametrize(
    ("written", "name"),
    [('"foo" ++ "bar"', "foobar"), ('("a" ++ "b") ++ "c"', "abc"), ('"x"', "x")],
)
def test_a_name_may_be_put_together(written: str, name: str, tmp_path: Path) -> None:
    """Specification, section "Concatenation": of strings known at compile time."""
    made = compiled(
        tmp_path,
        locals=f"@name({written}) action set() {{ hdr.h.a = 1; }}"
        " table t { key = { hdr.h.b: exact; } actions = { set; } }",
        ingress="t.apply();",
    )
    assert f"I.{name}" in [action.preamble.name for action in made.p4info.actions]
    assert f'"I.{name}"' in made.bmv2_json


@pytest.mark.parametrize(
    "value", ["(bit<8>)((int)1 + 2)", "(int)8w7 + 1", "hdr.h.b << (int)2", "(int)8w7"]
)
def test_a_number_may_be_cast_to_int(value: str, tmp_path: Path) -> None:
    """Specification, section "Explicit casts"."""
    assert errors_of(tmp_path, ingress=f"hdr.h.a = {value};") == []


@pytest.mark.parametrize("case", ["default", "_"])
def test_nothing_may_be_selected_on(case: str, tmp_path: Path) -> None:
    """Specification, appendix "P4 grammar": the list of expressions may be empty."""
    parser = f"""state start {{ packet.extract(hdr.h); transition select() {{ {case}: next; }} }}
        state next {{ meta.x = 7; transition accept; }}"""
    made = compiled(tmp_path, parser=parser, ingress="sm.egress_spec = 1; hdr.h.a = meta.x;")
    assert send(made.bmv2_json, [bytes(4)]) == [bytes([7, 0, 0, 0])]


def test_fields_may_be_called_like_types_and_hide_none(tmp_path: Path) -> None:
    """Specification, section "Name resolution": fields are names of their struct alone."""
    made = compiled(
        tmp_path,
        types="""typedef bit<8> T; header h_t { T a; T T; bit<16> c; }
            struct s_t { T T; T x; h_t h_t; }""",
        headers="h_t h_t; h_t h;",
        parser="state start { packet.extract(hdr.h); transition accept; }",
        ingress="""sm.egress_spec = 1; T one = 1; s_t s = { T = one, x = hdr.h.T, h_t = hdr.h };
            hdr.h.T = s.T + s.h_t.a; hdr.h.a = s.x;""",
    )
    assert send(made.bmv2_json, [bytes([5, 9, 0, 0])]) == [bytes([9, 6, 0, 0])]


def test_fields_of_a_checksum_may_be_cast_to_a_greater_width(tmp_path: Path) -> None:
    """As pseudo-headers have it. The zeros stand before the field."""
    made = compiled(
        tmp_path,
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; bit<16> sum; }",
        ingress="sm.egress_spec = 1;",
        update="""update_checksum(true, { hdr.h.a, (bit<24>)hdr.h.b, (bit<32>)hdr.h.c, 16w3 },
            hdr.h.sum, HashAlgorithm.csum16);""",
    )
    (sent,) = send(made.bmv2_json, [bytes([0x12, 0x34, 0xFE, 0xDC, 0, 0])])
    words = [0x1200, 0x0034, 0, 0xFEDC, 3]
    total = sum(words)
    assert int.from_bytes(sent[4:6], "big") == 0xFFFF - (total % 0xFFFF)


@pytest.mark.parametrize(
    "parts",
    [
        {"ingress": "hash(hdr.h.c, HashAlgorithm.random, 16w0, { hdr.h.a }, 32w9);"},
        {"update": "update_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.random);"},
        {
            "locals": """action n() { } action_selector(HashAlgorithm.random, 32w8, 32w8) sel;
            table t { key = { hdr.h.a: exact; hdr.h.b: selector; } actions = { n; }
                      implementation = sel; }""",
            "ingress": "t.apply();",
        },
    ],
)
def test_an_algorithm_that_no_switch_has_is_the_compilers_error(
    parts: dict[str, str], tmp_path: Path
) -> None:
    (found,) = errors_of(tmp_path, **parts)
    assert found.startswith("not supported: HashAlgorithm.random")


def test_a_match_kind_that_no_switch_has_is_the_compilers_error(tmp_path: Path) -> None:
    (found,) = errors_of(
        tmp_path,
        declarations="match_kind { mine }",
        locals="action n() { } table t { key = { hdr.h.a: mine; } actions = { n; } }",
        ingress="t.apply();",
    )
    assert found.startswith("not supported: match kind 'mine'; there are exact, ternary, lpm")


def test_a_value_set_has_no_match_kind_that_no_switch_has(tmp_path: Path) -> None:
    (found,) = errors_of(
        tmp_path,
        declarations="match_kind { mine } struct k_t { @match(mine) bit<8> a; }",
        parser="""value_set<k_t>(4) vs; state start { packet.extract(hdr.h);
            transition select(hdr.h.a) { vs: accept; default: reject; } }""",
    )
    assert found.startswith("not supported: match kind 'mine'; there are exact, ternary, lpm")


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("N", "foo"),
        ('N ++ "_" ++ M', "foo_foobar"),
        ('("a" ++ "b")', "ab"),
        ('"a" ++ ("b" ++ N)', "abfoo"),
    ],
)
def test_names_are_strings_known_at_compile_time(given: str, name: str, tmp_path: Path) -> None:
    found = compiled(
        tmp_path,
        declarations='const string N = "foo"; const string M = N ++ "bar";',
        locals=f"""@name({given}) action n() {{ }}
            @name({given}) table t {{ key = {{ hdr.h.a: exact @name({given}); }}
                                     actions = {{ n; }} }}""",
        ingress="t.apply();",
    )
    (table,) = found.p4info.tables
    assert (table.preamble.name, table.match_fields[0].name) == (f"I.{name}", name)
    assert f"I.{name}" in [item.preamble.name for item in found.p4info.actions]


@pytest.mark.parametrize("given", ["", "3", "N", '"a" ++ N', '"a", "b"', '"a" "b"', '"a" ++'])
def test_a_name_is_a_string(given: str, tmp_path: Path) -> None:
    (found,) = errors_of(
        tmp_path,
        declarations="const bit<8> N = 3;",
        locals=f"@name({given}) action n() {{ }}",
        ingress="n();",
    )
    assert found == '@name takes one string in round brackets, like @name("text")'


@pytest.mark.parametrize(
    ("other", "right"),
    [
        ("bit<8> f(in bit<8> a) { return a; }", False),
        ("bit<16> f(in bit<16> a) { return a; }", False),
        ("bit<8> f(in bit<8> b) { return b; }", True),
        ("bit<8> f(in bit<8> a, in bit<8> b) { return b; }", True),
    ],
)
def test_functions_of_one_name_differ_in_their_parameters(
    other: str, right: bool, tmp_path: Path
) -> None:
    """Specification, section "Function declarations": calls tell them apart by number and names."""
    found = errors_of(tmp_path, declarations=f"bit<8> f(in bit<8> a) {{ return a; }} {other}")
    assert found == [] if right else "no call could tell them apart" in found[0]


@pytest.mark.parametrize(
    ("declarations", "message"),
    [
        ("bit<8> f(in bit<8> a) { return a; } const bit<8> f = 1;", "'f' is declared twice"),
        ("const bit<8> f = 1; bit<8> f(in bit<8> a) { return a; }", "'f' is declared twice"),
        (
            "extern X { X(); bit<8> f(in bit<8> a); bit<16> f(in bit<16> a); }",
            "'f' is declared twice in extern 'X' with parameters of the same names",
        ),
        ("extern X { X(bit<8> a); X(bit<16> a); }", "'X' is declared twice in extern 'X'"),
    ],
)
def test_what_no_call_could_tell_apart_is_refused(
    declarations: str, message: str, tmp_path: Path
) -> None:
    (found,) = errors_of(tmp_path, declarations=declarations)
    assert found.startswith(message)


def test_objects_of_a_control_that_is_applied_twice_by_its_type_have_one_name(
    tmp_path: Path,
) -> None:
    sub = (
        "control A(inout headers_t hdr) { counter(8, CounterType.bytes) c; apply { c.count(1); } }"
    )
    (found,) = errors_of(tmp_path, declarations=sub, ingress="A.apply(hdr); A.apply(hdr);")
    assert found.startswith("two counters have the name 'I.A.c'") and "instances" in found
    right = errors_of(
        tmp_path, declarations=sub, locals="A() a; A() b;", ingress="a.apply(hdr); b.apply(hdr);"
    )
    assert right == []
