"""What BMv2 has no word for: more than calls in deparsers and controls of checksums, registers of
structs, tables asked for two things. In the plain form of the engine, and on BMv2."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.bmv2_support import bmv2, require_bmv2, weft
from tests.support.compiler_behaviour_support import send
from tests.support.compiler_support import compiled, document, errors_of

from weft.switch.engine.control.entities import Exact
from weft.switch.engine.control.state import SwitchControl

TYPES = "header h_t { bit<8> a; bit<8> b; bit<16> c; } header k_t { bit<8> v; }"
SENT = [bytes([a, 2, 0, 0, 9, 0xEE, 0xFF]) for a in range(3)]
SUM = "hdr.h.c, HashAlgorithm.csum16);"
EXITS = """action leave() { exit; } action stay() { hdr.h.b = 7; }
    table t { key = { hdr.h.a: exact; } actions = { leave; stay; } default_action = stay();
              const entries = { 1: leave(); } }"""

CASES: dict[str, tuple[dict[str, str], list[str]]] = {
    "emit under a condition": (
        {"deparser": "packet.emit(hdr.h); if (hdr.h.a == 1) { packet.emit(hdr.k); }"},
        ["00020000eeff", "0102000009eeff", "02020000eeff"],
    ),
    "another order": (
        {
            "deparser": """if (hdr.h.a == 1) { packet.emit(hdr.k); packet.emit(hdr.h); return; }
            packet.emit(hdr); packet.emit(hdr.k);"""
        },
        ["000200000909eeff", "0901020000eeff", "020200000909eeff"],
    ),
    "a header of the deparser's own, in a loop": (
        {
            "deparser": """packet.emit(hdr.h); k_t x = { hdr.h.a + 1 }; packet.emit(x);
            for (bit<8> i in 8w0 .. 8w2) { x.v = i; if (i != hdr.h.a) { packet.emit(x); } }"""
        },
        ["00020000010102eeff", "01020000020002eeff", "02020000030001eeff"],
    ),
    "nothing": (
        {"deparser": "return; packet.emit(hdr);"},
        ["eeff", "eeff", "eeff"],
    ),
    "a table of the deparser": (
        {
            "deparser_locals": """bit<8> z = 0; action a(bit<8> v) { z = v; }
            table t { key = { hdr.h.a: exact; } actions = { a; NoAction; }
                      const entries = { 1: a(5); 2: NoAction(); } }""",
            "deparser": """if (t.apply().hit) { packet.emit(hdr.h); }
            if (z == 5) { packet.emit(hdr.k); }""",
        },
        ["eeff", "0102000009eeff", "02020000eeff"],
    ),
    "a table beside checksums": (
        {
            "verify_locals": """action a(bit<16> v) { hdr.h.c = v; }
            table t { key = { hdr.h.a: exact; } actions = { a; NoAction; }
                      const entries = { 2: a(0x1234); } }""",
            "verify": """log_msg("seen"); static_assert(true, "known"); t.apply();
            verify_checksum(hdr.h.a == 9, { hdr.h.a }, hdr.h.c, HashAlgorithm.csum16);""",
            "deparser": "packet.emit(hdr);",
        },
        ["0002000009eeff", "0102000009eeff", "0202123409eeff"],
    ),
    "a value without a place": (
        {"deparser": "packet.emit(hdr.h); packet.emit((k_t){ hdr.h.a ^ 5 });"},
        ["0002000005eeff", "0102000004eeff", "0202000007eeff"],
    ),
    "a checksum of what a cast leaves": (
        {
            "update": f"update_checksum(true, {{ hdr.h.a, (bit<8>)(hdr.h.b ++ hdr.h.a) }}, {SUM}",
            "deparser": "packet.emit(hdr.h);",
        },
        ["0002ffffeeff", "0102fefeeeff", "0202fdfdeeff"],
    ),
    "checksums before what is emitted": (
        {
            "update": f"""if (hdr.h.a == 1) {{
                update_checksum(true, {{ hdr.h.a + 1, hdr.h.b }}, {SUM}
            }} else {{ update_checksum_with_payload(hdr.h.a == 2, {{ hdr.h.a }}, {SUM} }}""",
            "deparser": "packet.emit(hdr.h); if (hdr.h.c != 0) packet.emit(hdr.k);",
        },
        ["00020000eeff", "0102fdfd09eeff", "0202fe1009eeff"],
    ),
    "a checksum of a list that is moved with the deparser": (
        {
            "update": f"update_checksum(hdr.h.a > 0, {{ hdr.h.a, hdr.h.b }}, {SUM}",
            "deparser": "if (hdr.h.c == 0xFEFD) { packet.emit(hdr.k); } packet.emit(hdr.h);",
        },
        ["00020000eeff", "090102fefdeeff", "0202fdfdeeff"],
    ),
    "a checksum of what was computed": (
        {
            "update": f"""bit<16> old = hdr.h.c; bit<8> low = hdr.h.a; low = low + 3;
            update_checksum(true, {{ old, low, (bit<8>)(old + 9) }}, {SUM}"""
        },
        ["0002fcf609eeff", "0102fbf609eeff", "0202faf609eeff"],
    ),
    "verified under a condition": (
        {
            "verify": f"""bit<8> s = hdr.h.a; s = s << 1;
            if (s < 3) {{ verify_checksum(true, {{ s, hdr.h.b }}, {SUM} }}
            else {{ verify_checksum(hdr.k.isValid() && hdr.l.isValid(), {{ s }}, {SUM} }}""",
            "ingress": "sm.egress_spec = 1; hdr.h.b = (bit<8>)sm.checksum_error;",
        },
        ["0001000009eeff", "0101000009eeff", "0200000009eeff"],
    ),
    "after exit": (
        {
            "egress": "if (hdr.h.a == 1) { exit; } hdr.h.b = 7;",
            "deparser": "if (hdr.h.a != 0) { packet.emit(hdr.h); } packet.emit(hdr.k);",
        },
        ["09eeff", "0102000009eeff", "0207000009eeff"],
    ),
    "after exit in an action": (
        {
            "egress_locals": EXITS,
            "egress": "switch (t.apply().action_run) { stay: { hdr.k.v = 1; } } hdr.h.c = 5;",
            "deparser": "if (hdr.h.a != 0) { packet.emit(hdr.h); } packet.emit(hdr.k);",
        },
        ["01eeff", "0102000009eeff", "0207000501eeff"],
    ),
    "after exit in an action that misses": (
        {
            "egress_locals": EXITS,
            "egress": "if (t.apply().miss) { hdr.k.v = 1; } t.apply(); hdr.h.c = 5;",
            "update": f"if (hdr.h.a != 0) {{ update_checksum(true, {{ hdr.h.a }}, {SUM} }}",
        },
        ["0007000501eeff", "0102feff09eeff", "0207fdff01eeff"],
    ),
}
REGISTERS = """s_t s; r.read(s, 0); bool known; q.read(known, 1);
    if (known) {
        hdr.k.v = s.x; hdr.h.b = (bit<8>)(bit<1>)s.y << 7; hdr.h.b[3:0] = s.t[0] ++ 1w0;
        if (s.i.n == -3 && s.t[1] == -2 && s.f == F.y && s.a[1] == 77 && s.i.y) { hdr.h.c = 1; }
    }
    r.write(0, { hdr.h.a + 5, hdr.h.a == 1, { -3, true }, F.y, { hdr.h.a, 77 }, { 5, -2 } });
    q.write(1, true); tuple<bit<8>> t = { 4 }; o.write(2, t); o.read(t, 2);
    hdr.h.c[10:8] = t[0][2:0];
"""
CASES["registers of structs, tuples and bool"] = (
    {
        "types": f"""{TYPES} enum bit<8> F {{ x = 1, y = 200 }} struct i_t {{ int<5> n; bool y; }}
        struct s_t {{ bit<8> x; bool y; i_t i; F f; bit<8>[2] a; tuple<bit<3>, int<4>> t; }}""",
        "locals": "register<s_t>(4) r; register<bool>(2) q; register<tuple<bit<8>>>(3) o;",
        "ingress": f"sm.egress_spec = 1; {REGISTERS}",
    },
    ["0002040009eeff", "010a040105eeff", "028a040106eeff"],
)
CASES["a table asked for its hit, and for its action"] = (
    {
        "locals": """action a(bit<8> v) { hdr.h.b = v; } action b() { }
        table t { key = { hdr.h.a: exact; } actions = { a; b; NoAction; }
                  const entries = { 0: a(5); 1: b(); } }
        action z() { hdr.k.v = hdr.k.v + 1; }
        table u { actions = { z; } default_action = z(); }""",
        "ingress": """sm.egress_spec = 1; if (t.apply().hit) { hdr.h.c = 1; } u.apply();
        switch (t.apply().action_run) {
            a: { hdr.h.c = hdr.h.c + 16; } b: { hdr.h.c[15:8] = 2; } default: { hdr.h.c = 7; }
        }
        u.apply(); t.apply(); switch (t.apply().action_run) { NoAction: { u.apply(); } }""",
    },
    ["000500110beeff", "010202010beeff", "020200070ceeff"],
)


def parts_of(name: str) -> dict[str, str]:
    parts = {
        "types": TYPES,
        "headers": "h_t h; k_t k; k_t l;",
        "parser": """state start { packet.extract(hdr.h); packet.extract(hdr.k);
                     transition accept; }""",
        "ingress": "sm.egress_spec = 1;",
    }
    return {**parts, **CASES[name][0]}


@pytest.mark.parametrize("name", CASES)
def test_lists_that_are_more_than_calls_are_code(tmp_path: Path, name: str) -> None:
    document(tmp_path, **parts_of(name))
    program = compiled(tmp_path, **parts_of(name)).bmv2_json
    assert [frame.hex() for frame in send(program, SENT)] == CASES[name][1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["another order", "after exit in an action", *list(CASES)[-2:]])
def test_bmv2_sends_the_same(tmp_path: Path, name: str) -> None:
    require_bmv2()
    program = compiled(tmp_path, **parts_of(name)).bmv2_json
    sent = bmv2(tmp_path, program, SENT, len(SENT))
    assert [frame.hex() for frame in sent[1]] == CASES[name][1]


def test_what_such_code_cannot_do_is_said(tmp_path: Path) -> None:
    problems = {
        "emit() in a loop whose number": {
            "deparser": "for (bit<8> i = 0; i < hdr.h.a; i = i + 1) { packet.emit(hdr.h); }"
        },
        "emit() in an action that a table runs": {
            "deparser_locals": """action a() { packet.emit(hdr.h); }
            table t { actions = { a; } default_action = a(); }""",
            "deparser": "t.apply();",
        },
        "'random'": {"deparser": "bit<8> x; random(x, 8w1, 8w9);"},
        "a checksum of bit<64>": {
            "types": "header h_t { bit<8> a; bit<64> b; }",
            "update": "update_checksum(true, { hdr.h.a + 1 }, hdr.h.b, HashAlgorithm.identity);",
        },
        "a register of header h_t": {"locals": "register<h_t>(1) r;"},
        "a value set of error": {
            "parser": "value_set<error>(4) vs; state start { transition accept; }"
        },
        "a register of error": {"locals": "register<error>(1) r;"},
        "outside of all controls": {
            "declarations": "action leave() { exit; }",
            "egress_locals": "table t { actions = { leave; } }",
            "egress": "t.apply();",
            "deparser": "if (true == (hdr.h.a == 1)) { packet.emit(hdr); }",
        },
    }
    for message, parts in problems.items():
        (found,) = errors_of(tmp_path, **parts)
        assert found.startswith("not supported") and message in found


def test_a_value_set_holds_tuples_and_bool(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        **{
            **parts_of("emit under a condition"),
            "parser": """value_set<tuple<bit<8>, tuple<bool, bit<4>>>>(4) vs;
            state start {
                packet.extract(hdr.h);
                transition select(hdr.h.a, hdr.h.b == 2, hdr.h.c[3:0]) {
                    vs: more; default: accept; }
            }
            state more { packet.extract(hdr.k); transition accept; }""",
            "deparser": "packet.emit(hdr.k); packet.emit(hdr.h);",
        },
    )
    members = [(Exact(1), Exact(1), Exact(4)), (Exact(2), Exact(0), Exact(5))]
    frames = [bytes([a, b, 0, c, 9]) for a in (1, 2) for b in (2, 3) for c in (4, 5)]
    sent = weft(program.bmv2_json, frames, lambda control: control.set_value_set("P.vs", members))
    found = [frame[0] == 9 for frame in sent[1]]
    assert found == [True, False, False, False, False, False, False, True]


def test_a_value_set_holds_enums_by_their_members_numbers(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        **{
            **parts_of("emit under a condition"),
            "declarations": "enum suit_t { clubs, hearts } struct key_t { suit_t s; bit<8> b; }",
            "parser": """value_set<suit_t>(4) vs; value_set<key_t>(4) ks;
            state start {
                packet.extract(hdr.h);
                suit_t s = hdr.h.a == 1 ? suit_t.clubs : suit_t.hearts;
                transition select(s) { vs: more; default: other; }
            }
            state other {
                suit_t s = hdr.h.a == 1 ? suit_t.clubs : suit_t.hearts;
                transition select(s, hdr.h.b) { ks: more; default: accept; }
            }
            state more { packet.extract(hdr.k); transition accept; }""",
            "deparser": "packet.emit(hdr.k); packet.emit(hdr.h);",
        },
    )
    assert program.p4info.value_sets[0].match[0].type_name.name == "suit_t"
    assert program.p4info.value_sets[0].match[0].bitwidth == 32

    def fill(control: SwitchControl) -> None:
        control.set_value_set("P.vs", [(Exact(1),)])
        control.set_value_set("P.ks", [(Exact(0), Exact(3))])

    frames = [bytes([a, b, 0, 4, 9]) for a in (1, 2) for b in (2, 3)]
    found = [frame[0] == 9 for frame in weft(program.bmv2_json, frames, fill)[1]]
    assert found == [False, True, True, True]
