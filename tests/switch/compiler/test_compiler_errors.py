"""What the compiler says about programs that are wrong, and where."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from tests.support.compiler_support import errors, errors_of, program

from weft.base.errors import InputError
from weft.switch.compiler import CompileError, compile_program, driver, write_outputs
from weft.switch.compiler.check.flow import FlowChecker
from weft.switch.compiler.check.operations import OperationChecker
from weft.switch.compiler.check.statements import StatementChecker
from weft.switch.compiler.diagnostics import InternalError
from weft.switch.compiler.emit.bmv2_json import Emitter
from weft.switch.compiler.lower.expressions import ExpressionLowering
from weft.switch.compiler.parse.preprocess import preprocess


def test_an_error_shows_the_line_a_caret_and_what_was_expected(tmp_path: Path) -> None:
    source = tmp_path / "wrong.p4"
    source.write_text("#include <core.p4>\n\nheader h_t {\n    bit<8> a\n    bit<8> b;\n}\n")
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    assert isinstance(caught.value, InputError)
    first = caught.value.diagnostics[0]
    assert (first.file, first.line, first.column) == (str(source), 5, 5)
    assert str(first).splitlines() == [
        f"{source}:5:5: error: syntax error at 'bit': expected ';'; is a ';' missing at the end of "
        "line 4?",
        "     5 |     bit<8> b;",
        "       |     ^~~",
    ]


def test_several_errors_are_reported_in_one_go_in_the_order_of_the_text(tmp_path: Path) -> None:
    text = program(
        ingress="hdr.h.z = 1; meta.x = hdr.h.c; undeclared = 3; if (meta.x) {}",
        egress="hdr.h.a = ; meta.x = 1;",
    )
    lines = errors(tmp_path, text)
    assert [item.split(": ", 1)[1] for item in lines] == [
        "header h_t has no field 'z'; it has a, b, c",
        "this has type bit<16>, but bit<8> is expected",
        "'undeclared' is not declared",
        "the condition of 'if' has type bit<8>, but bool is expected",
        "syntax error at ';': expected an expression",
    ]


def test_an_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    (tmp_path / "part.p4").write_text("\nstruct s_t { nothing x; }\n")
    source = tmp_path / "program.p4"
    source.write_text('#include <core.p4>\n#include "part.p4"\n')
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    first = caught.value.diagnostics[0]
    assert (Path(first.file).name, first.line, first.column) == ("part.p4", 2, 14)
    assert first.source_line == "struct s_t { nothing x; }"


def test_an_error_in_a_macro_points_into_the_line_that_uses_it(tmp_path: Path) -> None:
    text = program(declarations="#define TARGET hdr.h.nowhere\n", ingress="\nTARGET = 1;\n")
    found = errors(tmp_path, text)
    number = next(
        index for index, line in enumerate(text.splitlines(), 1) if line.startswith("TARGET")
    )
    assert found == [f"{number}:1: header h_t has no field 'nowhere'; it has a, b, c"]


def test_one_mistake_in_a_declaration_is_one_error(tmp_path: Path) -> None:
    text = program(types="header h_t { bit<8> a; bit<8> b bit<16> c; }", ingress="hdr.h.a = 1;")
    assert len(errors(tmp_path, text)) == 1
    text = program(locals="action f( { }", ingress="f();")
    assert len(errors(tmp_path, text)) == 1


def test_a_missing_file_and_a_missing_include_are_named(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"nowhere\.p4: error: cannot read: No such file"):
        compile_program(tmp_path / "nowhere.p4")
    source = tmp_path / "program.p4"
    source.write_text('#include "gone.p4"\n')
    with pytest.raises(CompileError, match=r"'gone\.p4' not found; searched"):
        compile_program(source)


def test_an_error_directive_and_an_unfinished_condition_are_errors(tmp_path: Path) -> None:
    assert errors(tmp_path, "#error too old\n") == ["1:1: #error too old"]
    assert errors(tmp_path, "#if 1\nheader h_t {}\n") != []


def test_an_error_directive_in_a_branch_that_is_not_taken_is_none(tmp_path: Path) -> None:
    source = tmp_path / "program.p4"
    guard = "#define N 16\n#if N == 16\n{}\n#elif N == 32\n{}\n#else\n{}\n#endif\n"
    ignored = "#pragma once\n#warning this is one\n"
    source.write_text(ignored + guard.format("const bit<8> a = 1;", "#error two", "#error three"))
    assert "const bit<8> a = 1;" in preprocess(source).text
    source.write_text(guard.format("#error one", "", ""))
    with pytest.raises(CompileError, match="3:1: error: #error one"):
        preprocess(source)


@pytest.mark.parametrize(
    ("ingress", "message"),
    [
        (
            "hdr.h.a = hdr.h.b + hdr.h.c;",
            "the operands of '+' have different types, bit<8> and bit<16>; cast",
        ),
        ("hdr.h.a = hdr.h.b << -1;", "cannot shift by a negative number"),
        ("hdr.h.a = 8w1 / 8w0;", "division by zero"),
        ("hdr.h.a = hdr.h.c[8:0];", "this has type bit<9>, but bit<8> is expected"),
        ("hdr.h.a = hdr.h.c[17:10];", "slice [17:10] is not within the 16 bits of bit<16>"),
        ("hdr.h.a = (bit<8>)hdr.h;", "cannot cast header h_t to bit<8>"),
        ("hdr.h.a = ~1;", "'~' needs a number with a width, such as 8w1"),
        (
            "hdr.h.a = HashAlgorithm.crc99;",
            "enum HashAlgorithm has no member 'crc99'; did you mean 'crc",
        ),
        ("sm.parser_error = error.Wrong;", "no error is called 'Wrong'"),
        ("hdr.h.frob();", "header h_t has no method 'frob'; it has isValid"),
        ("hdr.g.a = 1;", "struct headers_t has no field 'g'; it has h"),
        ("truncate();", "'truncate' takes 1 argument(s), but 0 are given"),
        ("random(hdr.h.a, 8w0, 16w1);", "this has type bit<16>, but bit<8> is expected"),
        ("random(8w1, 8w0, 8w1);", "this cannot be assigned to"),
        (
            "hash(hdr.h.a, HashAlgorithm.crc16, 8w0, { 5 }, 8w10);",
            "a value of type int has no width here",
        ),
        ("return 3;", "nothing is returned here, but there is a value"),
        ("switch (hdr.h.a) { 1: {} 1: {} }", "there are two cases for 1"),
        ("switch (hdr.h.a) { default: {} 1: {} }", "'default' must be the last case"),
        ("for (bit<8> i in hdr.h.a) { }", "a loop runs over a range, a list, an array or a stack"),
        ("hdr.h.a = hdr.h.b > 1 ? 1 : 2;", "a number's width is needed here, such as 8w1"),
        ("hdr.h.a = hdr.h.a / 3;", "'/' needs values that are known at compile time"),
        ("switch (hdr.h.a > 1) { true: {} }", "'switch' takes an action_run, a number"),
        ("bit<8> v = 1; bit<8> v = 2;", "'v' is declared twice (first at"),
        ("verify(true, error.NoError);", "'verify' can only be called in a parser"),
        (
            "verify_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);",
            "'verify_checksum' can only be called in the control for checksums",
        ),
        (
            "resubmit_preserving_field_list(meta.x);",
            "'index' of 'resubmit_preserving_field_list' has no direction: its value must be known",
        ),
        ('static_assert(1 == 2, "no");', "static assertion: no"),
        ("break;", "'break' and 'continue' can only stand in a loop"),
        ("bit<8> meta = 1;", "'meta' has the name of a parameter"),
        ("hdr.h.a = hdr.h.a / 6;", "'/' needs values that are known at compile time"),
        ("hdr.h.a = 1 << hdr.h.b;", "the left operand needs a width"),
        ('log_msg("{}", { 1 });', "a value of type int has no width here"),
    ],
)
def test_a_wrong_statement_is_explained(tmp_path: Path, ingress: str, message: str) -> None:
    found = errors_of(tmp_path, ingress=ingress)
    assert len(found) == 1
    assert found[0].startswith(message)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {
                "locals": "table t { key = { hdr.h.a: exakt; } actions = { NoAction; } }",
                "ingress": "t.apply();",
            },
            "'exakt' is not a match kind; did you mean 'exact'?",
        ),
        (
            {"locals": "table t { actions = { nothing; } }", "ingress": "t.apply();"},
            "'nothing' is not an action",
        ),
        (
            {
                "locals": "action f() {} table t { actions = { NoAction; } default_action = f; }",
                "ingress": "t.apply();",
            },
            "'f' is not among the actions of table 't'; it has ",
        ),
        (
            {
                "locals": "table t { key = { hdr.h.a: lpm; } actions = { NoAction; }"
                " const entries = { 5 &&& 0xF1: NoAction(); } }",
                "ingress": "t.apply();",
            },
            "this cannot be matched by a key of kind lpm",
        ),
        ({"locals": "action f(bit<8> v) {}", "ingress": "f();"}, "no argument for 'v' of 'f'"),
        (
            {"locals": "action f(in bit<8> v) { v = 1; }", "ingress": "f(1);"},
            "'v' is an 'in' parameter and cannot be changed",
        ),
        ({"locals": "register<bit<8>>(0) r;"}, "the size must be 1 to 2147483647, not 0"),
        (
            {"locals": "counter(4, CounterType.bytes) c; counter(4, CounterType.bytes) c;"},
            "'c' is declared twice",
        ),
        ({"parser": "state start { transition nowhere; }"}, "there is no state 'nowhere'"),
        ({"parser": "state begin { transition accept; }"}, "parser 'P' has no state 'start'"),
        (
            {"parser": "state start { transition select(hdr.h.a) { (1, 2): accept; } }"},
            "2 value(s) to match 1 key(s)",
        ),
        (
            {"parser": "state start { packet.extract(hdr); transition accept; }"},
            "extract() takes a header, not struct headers_t",
        ),
        (
            {"egress": "resubmit_preserving_field_list(0);"},
            "'resubmit' can only be called in ingress",
        ),
        (
            {"ingress": "recirculate_preserving_field_list(0);"},
            "'recirculate' can only be called in egress",
        ),
        (
            {"metadata": '@field_list(1, "x") bit<8> x;'},
            "@field_list takes numbers of lists, at least 0",
        ),
        ({"metadata": "@field_list(true) bit<8> x;"}, "@field_list takes numbers"),
        (
            {
                "locals": "table t { key = { hdr.h.a & 7: exact; hdr.h.a[3:0]: exact; "
                "hdr.h.isValid(): exact; hdr.h.a + 1: exact; } actions = { NoAction; } }",
                "ingress": "t.apply();",
            },
            'a key that is computed needs a name: write @name("...") after its match kind',
        ),
        (
            {"verify": "truncate(9);"},
            "not supported: 'truncate' in VerifyChecksum, which takes verify_checksum",
        ),
        (
            {"update": "verify_checksum(true, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);"},
            "not supported: 'verify_checksum' in ComputeChecksum, which takes update_checksum",
        ),
        ({"deparser": "mark_to_drop(sm);"}, "'sm' is not declared"),
        (
            {
                "types": "header h_t { bit<8> a; string s; }",
                "parser": "state start { transition accept; }",
            },
            "a header cannot have a field of type string: 's'",
        ),
        (
            {"types": "header h_t { bit<8> a; bit<4> b; }"},
            "not supported: header h_t has 12 bits, not a multiple of 8 (BMv2)",
        ),
        (
            {"declarations": "extern Odd { Odd(); }", "locals": "Odd() odd;"},
            "not supported: instances of extern 'Odd'",
        ),
        (
            {
                "declarations": "void f(in bit<8> x) { } void f(in bit<16> y) { }",
                "ingress": "f(1);",
            },
            "which 'f' is meant? Those at",
        ),
        (
            {
                "declarations": "type bit<8> own_t;",
                "ingress": "own_t x = (own_t)hdr.h.a; if (x == 3) { }",
            },
            "'==' is not defined for own_t; cast it to bit<8>",
        ),
        (
            {
                "declarations": "enum bit<8> e_t { one = 1 }",
                "ingress": "hdr.h.c = (bit<16>)e_t.one;",
            },
            "cannot cast e_t to bit<16>",
        ),
        (
            {"locals": "table t { actions = { NoAction; } size = 1; size = 2; }"},
            "table 't' has two properties 'size'",
        ),
        (
            {
                "locals": "action f(inout bit<8> x) { } table t { actions = { f(hdr.h.a); }"
                " default_action = f(hdr.h.b); }",
            },
            "this argument is not the one that the table's list of actions gives",
        ),
        (
            {
                "locals": "action f(in bit<8> x, bit<8> y) { } table t { key = { hdr.h.a: exact; }"
                " actions = { f(hdr.h.a); NoAction; } default_action = NoAction;"
                " const entries = { 1: f(hdr.h.b, 2); } }",
            },
            "this argument is not the one that the table's list of actions gives",
        ),
        (
            {
                "locals": "action f(in bit<8> x, bit<8> y) { } table t { actions = { f(hdr.h.a); }"
                " default_action = f(5); }",
            },
            "no argument for 'y' of 'f', which takes 2, not 1",
        ),
        (
            {"declarations": "enum e_t { A } struct s_t { e_t e; } header g_t { s_t s; }"},
            "a header cannot have a field of type struct s_t: 's'",
        ),
        (
            {"declarations": "struct s_t { error e; } struct r_t { s_t s; } header g_t { r_t r; }"},
            "a header cannot have a field of type struct r_t: 'r'",
        ),
        (
            {"declarations": "struct s_t { varbit<8> v; } header g_t { s_t s; }"},
            "a header cannot have a field of type struct s_t: 's'",
        ),
        (
            {"declarations": "struct s_t { h_t[2] h; } header g_t { s_t s; }"},
            "a header cannot have a field of type struct s_t: 's'",
        ),
        (
            {
                "headers": "h_t[2] s;",
                "parser": "state start { transition accept; }",
                "ingress": "hdr.s.push_front(-1);",
            },
            "push_front takes a number of at least 1, not -1",
        ),
        (
            {
                "headers": "h_t[2] s;",
                "parser": "state start { transition accept; }",
                "declarations": "control C(inout h_t[2] s)(bit<8> n) { apply { s.pop_front(n); } }",
                "locals": "C(0) c;",
                "ingress": "c.apply(hdr.s);",
            },
            "pop_front takes a number of at least 1, not 0",
        ),
        (
            {
                "locals": "table t { key = { hdr.h.a: exact; } actions = { NoAction; }"
                " implementation = action_profile(4); const entries = { 1: NoAction(); } }",
                "ingress": "t.apply();",
            },
            "not supported: entries of table 't', whose actions are in an action profile",
        ),
        (
            {"ingress": "switch (hdr.h.a) { hdr.h.b: { } }"},
            "a case must be known at compile time",
        ),
        (
            {
                "locals": "action f(bit<8> n) { switch (hdr.h.a) { n: { } } }"
                " table t { actions = { f; } default_action = f(1); }",
                "ingress": "t.apply();",
            },
            "a case must be known at compile time",
        ),
        ({"declarations": "enum bit<8> e_t { A = 256 }"}, "256 does not fit in bit<8>"),
        ({"declarations": "enum int<8> e_t { A = 128 }"}, "128 does not fit in int<8>"),
        *(
            (
                {"declarations": f"enum e_t {{ A }} type {base} own_t;"},
                f"'type' makes a new type of bit<N>, int<N>, bool or such a type, not of {name}",
            )
            for base, name in (
                ("h_t", "header h_t"),
                ("varbit<8>", "varbit<8>"),
                ("int", "int"),
                ("error", "error"),
                ("tuple<bit<8>>", "tuple<bit<8>>"),
                ("e_t", "e_t"),
            )
        ),
        (
            {"declarations": "control C()(in bit<8> x) { apply { } }"},
            "a parameter of a constructor has no direction",
        ),
        (
            {"declarations": "void f(in bit<8> x, out bit<8> y = 4) { y = x; }"},
            "an 'out' parameter cannot have a default value",
        ),
        (
            {
                "declarations": "control C(in bit<8> x, bit<8> y) { apply { } }",
                "locals": "C() c;",
                "ingress": "c.apply(1, 2); c.apply(1, hdr.h.a);",
            },
            "'y' of 'C' has no direction: its value must be known at compile time",
        ),
        (
            {
                "declarations": "control C()(bit<8> x) { apply { } }",
                "locals": "C(meta.x) c;",
                "ingress": "c.apply();",
            },
            "'x' of 'C' has no direction: its value must be known at compile time",
        ),
        (
            {"locals": "table t { default_action = NoAction; actions = { NoAction; } }"},
            "the default action must stand behind the table's actions",
        ),
        (
            {
                "types": 'header h_t { bit<8> a; } @controller_header("packet_in") header i_t {'
                ' bit<8> x; } @controller_header("packet_in") header j_t { bit<8> x; }'
            },
            'two headers are @controller_header("packet_in")',
        ),
        (
            {"parser": "state start { error e = packet.lookahead<error>(); transition accept; }"},
            "error has no size in a packet, so it cannot be looked ahead at",
        ),
        ({"locals": "action f() { f(); }", "ingress": "f();"}, "action 'f' calls itself"),
        (
            {
                "locals": '@name("x") table t { actions = { NoAction; } }'
                ' @name("x") table u { actions = { NoAction; } }',
                "ingress": "t.apply(); u.apply(); hdr.h.a = 1;",
            },
            "two tables have the name 'I.x' (the first at line",
        ),
        (
            {
                "locals": "table t { key = { hdr.h.a: exact; hdr.h.a: ternary; }"
                " actions = { NoAction; } }",
                "ingress": "t.apply();",
            },
            "not supported: two keys of table 't' have the name 'hdr.h.a' (P4Runtime)",
        ),
        (
            {"ingress": "register<bit<8>>(2) r; r.write(0, 1);"},
            "syntax error at '(': expected '.', '[', a name or a type; an instance is declared in a"
            " control or parser, before its code",
        ),
        (
            {
                "locals": "action f(error e) { } table t { actions = { f; NoAction; }"
                " default_action = NoAction; }",
                "ingress": "t.apply();",
            },
            "not supported: a parameter of type error from the control plane",
        ),
        (
            {
                "locals": "direct_meter<bit<8>>(MeterType.bytes) m; action f() { m.read(hdr.h.a); }"
                " table t { actions = { f; NoAction; } default_action = f; }",
                "ingress": "t.apply();",
            },
            "direct meter 'I.m' is read, but is not the meter of any table",
        ),
        (
            {"declarations": "header v_t { varbit<8> v; varbit<8> w; }"},
            "header v_t has two varbit fields, 'v' and this",
        ),
        (
            {"ingress": "clone(CloneType.E2E, 1);"},
            "'clone' with CloneType.E2E can only be called in egress",
        ),
        (
            {"headers": "h_t h; h_t[2] s;", "ingress": "hdr.h = hdr.s.last;"},
            "'last' of a header stack can only be used in a parser",
        ),
        (
            {
                "declarations": "struct box_t<T> { T v; }",
                "ingress": "box_t<_> x;",
            },
            "'_' stands for a type only in what is instantiated or called",
        ),
        (
            {
                "locals": '@name("x") action f() { } @name("x") action g() { }',
                "ingress": "f(); g();",
            },
            "two actions have the name 'I.x'",
        ),
        (
            {
                "locals": '@name("x") counter(1, CounterType.bytes) f;'
                ' @name("x") counter(1, CounterType.bytes) g;'
            },
            "two counters have the name 'I.x'",
        ),
        ({"declarations": "bit<8> f() { }"}, "function 'f' does not return a value on every path"),
        (
            {"declarations": "bool f<T>(in T v, in T w) { return v > w; }"},
            "the left operand of '>' must be a number, not T",
        ),
    ],
)
def test_a_wrong_declaration_is_explained(
    tmp_path: Path, parts: dict[str, str], message: str
) -> None:
    found = errors_of(tmp_path, **parts)
    assert len(found) == 1
    assert found[0].startswith(message)


def test_a_program_without_main_or_of_another_architecture_is_refused(tmp_path: Path) -> None:
    assert "there is no 'main'" in errors(tmp_path, "#include <v1model.p4>\n")[0]
    other = (
        "#include <core.p4>\ncontrol C(); control M() { apply {} }\n"
        "package Other(C c);\nOther(M()) main;\n"
    )
    assert "not supported: the architecture of 'Other'" in errors(tmp_path, other)[0]


def test_a_block_with_the_wrong_parameters_is_explained(tmp_path: Path) -> None:
    text = program().replace("control E(inout headers_t hdr", "control E(in headers_t hdr")
    assert errors(tmp_path, text)[0].endswith(
        "control E does not fit control Egress: parameter 'hdr' is 'in struct headers_t', "
        "but 'inout struct headers_t' is expected"
    )


def _failure(tmp_path: Path, text: str) -> str:
    source = tmp_path / "x.p4"
    source.write_text(text)
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    return str(caught.value).replace(f"{tmp_path}/", "")


def test_at_most_twenty_errors_are_listed(tmp_path: Path) -> None:
    for text in (program(ingress="nothing = 1;" * 50), "#nothing\n" * 50):
        lines = _failure(tmp_path, text).splitlines()
        assert sum(": error: " in line for line in lines) == 20
        assert lines[-2:] == ["... and 30 more", "50 errors"]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", "x.p4: error: this file is empty"),
        ('{ "program": 1 }', "x.p4: error: this is not P4 but JSON"),
        ("#include <cor.p4>\nheader h {}\n", "x.p4:1:1: error: include file 'cor.p4' not found"),
        ("#error not this\n", "x.p4:1:1: error: #error not this"),
        ('#include "x.p4"\n', "x.p4:1:1: error: includes are nested too deeply"),
        ("#if FOO(\n#endif\n", "x.p4:1:1: error: this condition cannot be evaluated: write"),
        ("#if 1 / 0\n#endif\n", "x.p4:1:1: error: this condition divides by zero"),
    ],
)
def test_the_preprocessors_own_wording_stays_inside(tmp_path: Path, text: str, first: str) -> None:
    message = _failure(tmp_path, text)
    assert message.startswith(first)
    assert message.endswith("\n1 error")
    assert "Error" not in message and "pcpp" not in message and "preprocessor" not in message


@pytest.mark.parametrize("before", [0, 90, 5000])
@pytest.mark.parametrize("after", [0, 90, 5000])
def test_of_a_long_line_the_part_around_the_error_is_shown(
    tmp_path: Path, before: int, after: int
) -> None:
    text = program(ingress="\n/*" + "x" * before + "*/ nothing = 1; /*" + "y" * after + "*/\n")
    _, line, caret, _ = _failure(tmp_path, text).splitlines()
    assert len(line) < 180
    assert line[caret.index("^") :].startswith("nothing")
    assert caret.endswith("^~~~~~~") and not caret.endswith("^~~~~~~~")
    if after != 90:
        assert line.endswith("...") == (after == 5000)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("P(), V(), I(), E(), U()", "no argument for 'dep' of 'V1Switch', which takes 6, not 5"),
        ("P(), V(), I(), E(), U(), D(), D()", "'V1Switch' takes 6 argument(s), not 7"),
    ],
)
def test_the_number_of_blocks_is_said(tmp_path: Path, arguments: str, words: str) -> None:
    text = program().replace("V1Switch(P(), V(), I(), E(), U(), D())", f"V1Switch({arguments})")
    assert [item.split(": ", 1)[1] for item in errors(tmp_path, text)] == [words]


@pytest.mark.parametrize(
    "annotation", ["@name(.)", "@name", "@name()", '@name("a" "b")', '@name["a"]', "@deprecated(1)"]
)
def test_a_malformed_annotation_is_an_error(tmp_path: Path, annotation: str) -> None:
    text = program(locals=f"{annotation} action f() {{ }}", ingress="f();")
    (found,) = errors(tmp_path, text)
    assert "takes one string in round brackets, like @" in found


def test_a_name_is_not_empty(tmp_path: Path) -> None:
    found = errors_of(tmp_path, locals='@name("") action f() { }', ingress="f();")
    assert found == ["@name takes a name, not an empty string"]


@pytest.mark.parametrize("annotation", ['@id("x")', "@id", "@id(1, 2)", "@id[1]"])
def test_an_id_is_one_number(tmp_path: Path, annotation: str) -> None:
    (found,) = errors(tmp_path, program(locals=f"{annotation} action f() {{ }}", ingress="f();"))
    assert "@id takes one number in round brackets" in found


def test_an_annotation_that_is_never_closed_is_found_where_it_stands(tmp_path: Path) -> None:
    text = program(locals="@foo(( ) action f() { }")
    assert "syntax error at '@'" in errors(tmp_path, text)[0]


@pytest.mark.parametrize("place", ["/proc/x", "file/below"])
def test_a_place_that_takes_no_output_is_named(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    source = tmp_path / "x.p4"
    source.write_text(program())
    compiled = compile_program(source)
    with pytest.raises(InputError, match=rf"cannot write x\.json and .* to '.*{place}'"):
        write_outputs(compiled, "x", tmp_path / place)


def test_deep_nesting_is_an_error_not_a_crash(tmp_path: Path) -> None:
    deep = "(" * 20000 + "8w1" + ")" * 20000
    assert errors(tmp_path, program(ingress=f"hdr.h.a = {deep};")) == []
    deep = "-" * 5000 + "8w1"
    found = errors(tmp_path, program(ingress=f"hdr.h.a = {deep};"))
    assert found == [] or "nested too deeply" in found[0]


@pytest.mark.parametrize(
    ("home", "name", "place"),
    [
        (StatementChecker, "_if", (14, 13)),
        (OperationChecker, "conditional", (14, 43)),
        (FlowChecker, "_if", (14, 13)),
        (ExpressionLowering, "known_size", (13, 5)),
        (Emitter, "text", (0, 0)),
        (driver, "preprocess", (0, 0)),
    ],
)
@pytest.mark.parametrize("error", [KeyError, AssertionError, RecursionError])
def test_where_the_compiler_itself_fails_one_line_tells_the_place(
    home: Any, name: str, place: tuple[int, int], error: type[Exception], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    def fails(*_arguments: object, **_options: object) -> None:
        raise error("x")

    monkeypatch.setattr(home, name, fails)
    source = tmp_path / "program.p4"
    source.write_text(
        program(
            locals="register<bit<8>>(4) r;",
            ingress="if (hdr.h.a == 1) { hdr.h.a = hdr.h.b == 0 ? 8w1 : 2; }",
        )
    )
    with pytest.raises(InternalError) as caught:
        compile_program(source)
    (found,) = caught.value.diagnostics
    assert (found.file, found.line, found.column) == (str(source), *place)
    told = "nested too deeply" if error is RecursionError else "please report this"
    assert told in found.message and "\n" not in found.message
    assert capsys.readouterr().err == ""
    monkeypatch.setenv("WEFT_P4C_DEBUG", "1")
    with pytest.raises(InternalError):
        compile_program(source)
    assert error.__name__ in capsys.readouterr().err


def test_errors_that_were_found_before_the_compiler_fails_are_told_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(StatementChecker, "_if", fails)
    found = errors(tmp_path, program(ingress="hdr.h.z = 1; if (hdr.h.a == 1) { }"))
    assert len(found) == 2 and "no field 'z'" in found[0] and "please report" in found[1]


def test_a_package_that_is_not_v1models_is_refused(tmp_path: Path) -> None:
    own = "parser P1(); control C1(); package V1Switch(P1 p, C1 c);"
    blocks = "parser A() { state start { transition accept; } } control B() { apply { } }"
    (found,) = errors(tmp_path, f"{own}\n{blocks}\nV1Switch(A(), B()) main;")
    assert (
        found.startswith("3:1: not supported: this V1Switch is not v1model's")
        and "<v1model.p4>" in found
    )


def test_a_package_beside_main_is_not_run(tmp_path: Path) -> None:
    text = program()
    main = text[text.index("V1Switch(") :]
    both = text.replace(main, main.replace("main", "other") + main)
    assert errors(tmp_path, both) == []


@pytest.mark.parametrize(
    "value",
    [
        "tuple<> t = { 8w1, ... };", "tuple<bit<8>> t = { 8w1, 8w2, ... };",
        "hdr.h = { 8w1, 8w2, 16w3, 1, ... };",
    ],
)  # fmt: skip
def test_a_list_with_dots_must_not_hold_more_than_it_fills(value: str, tmp_path: Path) -> None:
    (found,) = errors_of(tmp_path, ingress=value)
    assert re.search(r"\d value\(s\) for the \d field\(s\)", found)


def test_a_value_set_must_fit_what_is_selected_on(tmp_path: Path) -> None:
    parser = """value_set<bit<16>>(4) numbers;
        state start { packet.extract(hdr.h);
            transition select(hdr.h.a) { numbers: accept; default: accept; } }"""
    assert errors_of(tmp_path, parser=parser) == [
        "a value set of bit<16> does not fit what is selected on"
    ]


def test_a_comment_without_an_end_is_told_at_once(tmp_path: Path) -> None:
    source, part = tmp_path / "wrong.p4", tmp_path / "part.p4"
    source.write_text("#include <core.p4>\n" + "/* " * 100_000)
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    assert (caught.value.diagnostics[0].line, len(caught.value.diagnostics)) == (2, 1)
    part.write_text("header h { }\n/* \n/* ")
    source.write_text('#include "part.p4"\n// /*\nheader g { }\n')
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    first = caught.value.diagnostics[0]
    assert (Path(first.file).name, first.line) == ("part.p4", 2)


@pytest.mark.parametrize("how", ["program", "link", "include", "linked include"])
def test_no_line_of_a_file_is_shown_that_is_no_p4_and_not_for_everybody(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.delenv("SUDO_UID", raising=False)
    (tmp_path / "shadow").write_text("root:$6$secret:1:0:99999:7:::\n")
    (tmp_path / "shadow").chmod(0o640)
    (tmp_path / "link.p4").symlink_to("shadow")
    named = tmp_path / ("link.p4" if "link" in how else "shadow")
    source = named
    if "include" in how:
        source = tmp_path / "mine.p4"
        source.write_text(f'#include "{named}"\n')
    with pytest.raises(CompileError) as caught:
        compile_program(source)
    assert "it is not for everybody to read, and its name does not end in .p4" in str(caught.value)
    assert "secret" not in str(caught.value) and "root" not in str(caught.value).replace(
        str(tmp_path), ""
    )
    # What everybody may read, and a private file that is P4 by name, are read as ever.
    (tmp_path / "shadow").chmod(0o644)
    with pytest.raises(CompileError, match=r"secret|root"):
        compile_program(source)
    private = tmp_path / "private.p4"
    private.write_text("nothing\n")
    private.chmod(0o600)
    with pytest.raises(CompileError, match="nothing"):
        compile_program(private)
