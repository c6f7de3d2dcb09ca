"""What compiled statements do to packets, in the plain form of the engine, against Python."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.compiler_behaviour_support import send
from tests.support.compiler_support import compiled

TYPES = """
header h_t { bit<8> a; bit<8> b; bit<16> c; }
header k_t { bit<8> v; bit<8> w; }
header_union union_t { h_t one; k_t other; }
struct pair_t { bit<8> x; bit<8> y; }
struct both_t<T> { T one; T other; }
enum bit<8> E1 { e1 = 1, e2 = 2 }
enum bit<8> E2 { f1 = 10, f2 = 0xF0 }
type bit<8> own_t;
const int W = 4;
"""
FUNCTIONS = """
bit<8> bump(inout bit<8> x) { x = x + 1; return x; }
bit<8> minus(in bit<8> x, in bit<8> y) { return x - y; }
T pick<T>(in bool c, in T x, in T y) { T r = x; if (!c) { r = y; } return r; }
void swap<T>(inout T x, inout T y) { T t = x; x = y; y = t; }
void swap_twice<T>(inout T x, inout T y) { swap(x, y); swap(x, y); }
bit<8> below(in bit<8> x) {
    bit<8> r = 0;
    for (bit<8> i = 0; i < 5; i = i + 1) { if (x == i) { return r; } r = r + i; }
    return r;
}
"""
SELECTOR = "action_selector(HashAlgorithm.crc16, 32w8, 32w8)"
ACTION = "action set(in bit<8> v, inout bit<8> w) { hdr.h.b = v; w = w + v; }"


def run(folder: Path, ingress: str, frames: list[bytes]) -> list[bytes]:
    """What comes out of port 1."""
    program = compiled(
        folder,
        types=TYPES,
        headers="h_t h; k_t[4] k;",
        declarations=FUNCTIONS,
        parser="""state start { packet.extract(hdr.h); packet.extract(hdr.k.next);
            packet.extract(hdr.k.next); transition accept; }""",
        locals=ACTION,
        ingress=f"sm.egress_spec = 1; {ingress}",
    )
    return send(program.bmv2_json, frames)


def _until(a: int, b: int, c: int) -> tuple[int, int, int]:
    return a + min(b, 5), b, c


def _with_a_moving_slice(a: int, begin: int, c: int) -> tuple[int, int, int]:
    return a & ~(7 << begin) | 5 << begin, begin, c


STATEMENTS: list[tuple[str, Callable[[int, int, int], tuple[int, int, int]]]] = [
    # Loops
    ("for (bit<8> i = 0; i < 5; i = i + 1) { hdr.h.a = hdr.h.a + i; }",
     lambda a, b, c: (a + 10, b, c)),
    ("for (bit<8> i = 0; i < 5; i += 1) { if (hdr.h.b == i) { break; } hdr.h.a = hdr.h.a + 1; }",
     _until),
    ("for (bit<8> i in 0 .. 4) { if (hdr.h.b == i) { continue; } hdr.h.a = hdr.h.a + i; }",
     lambda a, b, c: (a + 10 - (b if b < 5 else 0), b, c)),
    ("for (bit<8> i = 0; i < 5; i = i + 1) { if (hdr.h.b == i) { return; } hdr.h.a += 1; }",
     _until),
    ("for (bit<8> i = 0; i < 5; i = i + 1) { if (hdr.h.b == i) { exit; } hdr.h.a += 1; }",
     _until),
    ("for (bit<8> i in (list<bit<8>>){ 1, hdr.h.b, 9 }) { hdr.h.b = 0; hdr.h.a = hdr.h.a + i; }",
     lambda a, b, c: (a + 10 + b, 0, c)),
    ("for (bit<8> i = 0, bit<8> j = 10; i < j; i = i + 1, j = j - 1)"
     " { for (bit<8> k = 0; k < i; k = k + 1) { hdr.h.a = hdr.h.a + k; } }",
     lambda a, b, c: (a + 10, b, c)),
    ("bit<8> i; for (i = 1; i != 0; i = i << 1) { if (i > hdr.h.b) { break; } } hdr.h.a = i;",
     lambda a, b, c: ((1 << b.bit_length()) & 0xFF, b, c)),
    ("for (bit<8> i in 250 .. 255) { hdr.h.a = hdr.h.a + i; } for (bit<8> i in 5 .. 1) { exit; }",
     lambda a, b, c: (a + sum(range(250, 256)), b, c)),
    ("for (bit<8> i in 0 .. 7) { if (i[0:0] == 1) { hdr.h.c[i +: 1] = 1; } }",
     lambda a, b, c: (a, b, c | 0xAA)),
    ("for (bit<8> i = 0; i < hdr.h.b; i = i + 1) { if (i == 7) { break; } hdr.h.a += i; }"
     " for (bit<8> i in hdr.h.b .. 255) { if (i == 0) { continue; } hdr.h.c = hdr.h.c + 1; }",
     lambda a, b, c: (a + sum(range(min(b, 7))), b, c + 256 - max(b, 1))),
    ("for (;false;) { hdr.h.a = 1; } hdr.h.b = below(hdr.h.b);",
     lambda a, b, c: (a, [0, 0, 1, 3, 6][b] if b < 5 else 10, c)),
    # Order of evaluation, copies in and out
    ("hdr.h.b = hdr.h.a + bump(hdr.h.a) + hdr.h.a;", lambda a, b, c: (a + 1, a * 3 + 2, c)),
    ("hdr.h.b = minus(hdr.h.a, bump(hdr.h.a));", lambda a, b, c: (a + 1, -1, c)),
    ("set(bump(hdr.h.a), hdr.h.a);", lambda a, b, c: (2 * a + 2, a + 1, c)),
    ("pair_t p = { hdr.h.a, bump(hdr.h.a) }; hdr.h.b = p.x; hdr.h.a = p.y + bump(hdr.h.a);",
     lambda a, b, c: (2 * a + 3, a, c)),
    ("bit<8>[4] n = { 0, 0, 0, 0 }; bit<8> i = 0; n[bump(i)] += 5; n[bump(i)] = bump(i);"
     " hdr.h.a = i; hdr.h.b = n[1] + n[2];", lambda a, b, c: (3, 8, c)),
    ("bit<8>[4] n = { 1, 2, 3, 4 }; n[hdr.h.a & 3] = 9; hdr.h.b = n[hdr.h.b & 3];"
     " hdr.h.c[7:0] = n[0] + n[1] + n[2] + n[3];",
     lambda a, b, c: (a, 9 if (a & 3) == (b & 3) else (b & 3) + 1,
                      (c & 0xFF00) | (18 - (a & 3)))),
    ("hdr.k[(hdr.h.b & 1)].v = 7; hdr.k[hdr.k[0].v - hdr.k[0].v + 1].w += 1;"
     " hdr.k[(hdr.h.b & 1) + 0].v += 2; hdr.h.a = hdr.k[hdr.h.b & 1].v; hdr.h.c[7 - 4:0] |= 3;",
     lambda a, b, c: (9, b, c | 3)),
    ("if (bump(hdr.h.a) > 4 && bump(hdr.h.a) > 9 || bump(hdr.h.b) == 0) { hdr.h.c = 1; }",
     lambda a, b, c: _shorted(a, b, c)),
    # Generic functions and structs
    ("hdr.h.a = pick(hdr.h.b > 4, hdr.h.a, hdr.h.b); hdr.h.c = pick<bit<16>>(false, 3, hdr.h.c);",
     lambda a, b, c: (a if b > 4 else b, b, c)),
    ("swap(hdr.h.a, hdr.h.b); swap_twice(hdr.h.a, hdr.h.b); both_t<pair_t> s = { { 1, 2 }, ... };"
     " swap(s.one, s.other); hdr.h.c = s.one.x ++ s.other.y;", lambda a, b, c: (b, a, 2)),
    # Enums with values, types of their own, comparison with what is written out
    ("E1 e = (E1)(E2.f1 + E2.f2); if (e > E2.f1) { hdr.h.a = e; } hdr.h.b = E1.e2 + E2.f1;"
     " hdr.h.c = hdr.h.c[E1.e2 + 5:0] ++ E2.f2;",
     lambda a, b, c: (250, 12, (c & 0xFF) << 8 | 0xF0)),
    ("hdr.h.a = hdr.h.c[hdr.h.b +: 8]; bit<4> i = hdr.h.b[3:0]; hdr.h.c[i +: 6][4:1] = 9;",
     lambda a, b, c: (c >> b, b, c & ~(15 << ((b & 15) + 1)) | 9 << ((b & 15) + 1))),
    ("int<8> s = (int<8>)hdr.h.a; hdr.h.b = s[hdr.h.b +: 4] ++ hdr.h.a[(hdr.h.b & 3) +: 4];"
     " s[hdr.h.b +: 3] = 5; hdr.h.a = (bit<8>)s;",
     lambda a, b, c: _with_a_moving_slice(a, (a >> b & 15) * 16 + (a >> (b & 3) & 15), c)),
    ("own_t o = 3; if (o == (own_t)3) { hdr.h.a = (bit<8>)o; }"
     " tuple<bit<8>, bool> t = { hdr.h.b, true };"
     " if (t == { 5, true }) { hdr.h.b = 0; } pair_t p = { hdr.h.a, 1 };"
     " if (p == { y = 1, x = 3 }) { hdr.h.c = 7; }", lambda a, b, c: (3, 0 if b == 5 else b, 7)),
    ("union_t u; if (u == {#}) { hdr.h.a = 1; } u.one = { hdr.h.b, 2, 3 }; union_t v = u;"
     " v.one.a = 9; if (u != v && u.isValid()) { hdr.h.b = v.one.a; } v.other = { 1, 2 };"
     " if (!v.one.isValid() && v != {#}) { hdr.h.c = 4; }",
     lambda a, b, c: (1, b if b == 9 else 9, 4)),
    ("union_t u; union_t v; if (u == v) { hdr.h.a = 1; } v.one = { 1, 2, 3 };"
     " if (u != v) { hdr.h.b = 2; } u.other = { 1, 2 }; if (u == v) { hdr.h.c = 0; }",
     lambda a, b, c: (1, 2, c)),
    ("union_t u; u.other = { 1, 2 }; u.one.setInvalid(); if (!u.isValid()) { hdr.h.a = 1; }"
     " u.other = { 1, 2 }; h_t none; u.one = none; if (!u.isValid()) { hdr.h.b = 2; }"
     " u.other = { 1, 2 }; u.one = (h_t){#}; if (!u.isValid()) { hdr.h.c = 3; }",
     lambda a, b, c: (1, 2, 3)),
    ("union_t[3] s; s[0].one = { 7, 0, 0 }; s[1].other = { 8, 0 }; s[2].one = { 9, 0, 0 };"
     " s.push_front(1); if (!s[0].isValid() && !s[1].other.isValid()) { hdr.h.a = s[1].one.a; }"
     " hdr.h.b = s[2].other.v; s.pop_front(2); hdr.h.c[7:0] = s[0].other.v;"
     " if (!s[1].isValid() && !s[2].isValid()) { hdr.h.c[15:8] = 1; }",
     lambda a, b, c: (7, 8, 0x0108)),
    # Widths may be expressions, numbers without a width have bits
    ("bit<(W)> n = hdr.h.a[W-1:0];"
     " bit<(W*2)> m = pick<bit<(W+W)>>(n < W, (bit<(W << 1)>)hdr.h.a, W | 3);"
     " hdr.h.b = n ++ m[W-1:0]; hdr.h.c = (bit<(W*4)>)m;",
     lambda a, b, c: (a, (a & 15) << 4 | (a & 15 if a & 15 < 4 else 7), a if a & 15 < 4 else 7)),
    ("hdr.h = { hdr.h.b + 1, hdr.h.a, hdr.h.c };", lambda a, b, c: (b + 1, a, c)),
    ("hdr.h.a = (bit<8>)pair_t.minSizeInBits() + (bit<8>)hdr.k.maxSizeInBytes();",
     lambda a, b, c: (24, b, c)),
]  # fmt: skip


def _shorted(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = (a + 1) & 0xFF
    if a > 4:
        a = (a + 1) & 0xFF
        if a > 9:
            return a, b, 1
    b = (b + 1) & 0xFF
    return a, b, 1 if b == 0 else c


@pytest.mark.parametrize(("ingress", "expected"), STATEMENTS)
def test_statements_do_what_the_specification_says(
    tmp_path: Path, ingress: str, expected: Callable[[int, int, int], tuple[int, int, int]]
) -> None:
    generator = random.Random(5)
    values = [
        (generator.choice([0, 1, 2, 3, 4, 5, 7, 8, 9, 255, generator.randrange(256)]),
         generator.choice([0, 1, 2, 3, 4, 5, 6, 128, 255, generator.randrange(256)]),
         generator.randrange(65536))
        for _ in range(24)
    ]  # fmt: skip
    frames = [struct.pack(">BBH", *item) + bytes(4) for item in values]
    sent = [struct.unpack(">BBH", frame[:4]) for frame in run(tmp_path, ingress, frames)]
    wanted = [
        (left & 0xFF, middle & 0xFF, right & 0xFFFF)
        for left, middle, right in (expected(*item) for item in values)
    ]
    assert sent == wanted


def test_a_word_may_go_on_in_the_next_line_and_a_control_be_known_by_its_type(
    tmp_path: Path,
) -> None:
    declarations = """control Step(inout bit<8> x);
control Add(inout bit<8> y)(bit<8> n) { apply { y = y + n; } }
control Twice(inout bit<8> x)(Step one, Step other) { apply { one.apply(x); other.apply(x); } }
#define THE_VA\\
LUE \\
  3
#line 7 "elsewhere.p4"
const pair_t PAIR = { y = THE_VALUE, x = 5 };
const bit<8> SUM = PAIR.x + PAIR.y;
"""
    program = compiled(
        tmp_path,
        types=TYPES,
        headers="h_t h;",
        declarations=declarations,
        locals="Twice(Add(SUM), Add(2)) twice; table none { actions = { } }",
        ingress="sm.egress_spec = 1; twice.apply(hdr.h.a); none.apply();",
    )
    assert send(program.bmv2_json, [bytes(4)]) == [bytes([10, 0, 0, 0])]


@pytest.mark.parametrize(
    ("ingress", "expected"),
    [
        ("hdr.k = { { 1, 2 }, { 3, hdr.h.a }, ... };", "0102 0309"),
        ("hdr.k = (k_t[4]){ { 1, 2 }, (k_t){#}, { 5, 6 }, {#} };", "0102 0506"),
        ("k_t[4] s = hdr.k; hdr.k = { s[1], s[0], s[1], ... };", "0506 0708 0506"),
        ("hdr.k = { hdr.k[1], hdr.k[0], ... };", "0506 0708"),
        ("for (k_t k in hdr.k) { if (k.isValid()) { hdr.k[3].setValid(); hdr.k[3].v = k.v;"
         " hdr.k[3].w = k.w; } }", "0708 0506 0506"),
        ("for (bit<8> i in 0 .. 3) { hdr.k[i] = { i, i + 1 }; }", "0001 0102 0203 0304"),
        ("if (hdr.k[0] == { v = 7, w = 8 } && hdr.k[2] == {#} && hdr.k[0] != hdr.k[1]"
         " && hdr.k[2] == hdr.k[3]) { hdr.k[1].setInvalid(); }", "0708"),
        ("swap(hdr.k[0], hdr.k[1]);", "0506 0708"),
    ],
)  # fmt: skip
def test_stacks_take_lists_of_headers(tmp_path: Path, ingress: str, expected: str) -> None:
    frame = bytes.fromhex("09000000 0708 0506")
    assert run(tmp_path, ingress, [frame]) == [frame[:4] + bytes.fromhex(expected)]


def test_numbers_without_widths_names_of_types_and_a_noaction_of_ones_own(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        types=TYPES,
        headers="h_t h;",
        declarations="""control Shifted(inout bit<8> x)(bit<8> n) {
            apply { x = x + (1 << n) + (bit<8>)(300 >> (n + 1)); } }""",
        parser="""value_set<bit<8>>(4) unused;
            bit<8> hdr2; bit<8> meta;
            state start { packet.extract(hdr.h); meta = 1;
                transition select(hdr.h.a, hdr.h.b) { { 9, 9 }: reject; default: accept; } }""",
        locals="""Shifted(2) Shifted; register<bit<8>>(2) own_t; k_t[2] union_t;
            action NoAction() { hdr.h.c[15:8] = 8; }
            action low(bit<8> n) { hdr.h.c[7:0] = 1 << n; bit<16> w = 0xFF00;
                w = w >> (bit<8>)((2 << n) - n); hdr.h.c = hdr.h.c + w; }
            table first { actions = { low; } default_action = low(3); }
            table second { actions = { low; } }
            table third { key = { hdr.h.a: exact; } actions = { low; } const entries = { } }""",
        ingress="""sm.egress_spec = 1; Shifted.apply(hdr.h.a); own_t.write(0, hdr.h.b / 4);
            own_t.read(hdr.h.b, 0); hdr.h.b %= 16; union_t[0].setInvalid(); h_t.minSizeInBits();
            if ({ hdr.h.a, 8w1 } == { 50, 1 }) { first.apply(); } second.apply();
            switch (third.apply().action_run) { NoAction: { hdr.h.a = hdr.h.a + 1; } }""",
    )
    assert "unused" not in program.p4info_text
    # 300 becomes a number of 8 bits before it is shifted.
    sent = send(program.bmv2_json, [bytes([9, 0x1D, 0, 0]), bytes([41, 0xFF, 0, 0])])
    assert sent == [bytes([19, 7, 8, 0]), bytes([51, 15, 8, 15])]


def test_varbits_are_equal_if_their_lengths_are_too(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        types="""header h_t { bit<8> one; bit<8> other; bit<8> same; bit<8> equal; }
            header v_t { bit<8> l; varbit<128> v; }""",
        headers="h_t h; v_t a; v_t b;",
        parser="""state start { packet.extract(hdr.h); packet.extract(hdr.a, (bit<32>)hdr.h.one);
            packet.extract(hdr.b, (bit<32>)hdr.h.other); transition accept; }""",
        ingress="""sm.egress_spec = 1; if (hdr.a == hdr.b) { hdr.h.same = 1; }
            if (hdr.a.v == hdr.b.v) { hdr.h.equal = 1; }
            if (hdr.a.v != hdr.b.v) { hdr.h.equal = 2; }""",
    )
    long = bytes(range(1, 10))
    frames = {
        bytes.fromhex("0808 0000 0711 0711"): "0101",
        bytes.fromhex("0810 0000 0711 070011"): "0002",
        bytes.fromhex("0000 0000 07 07"): "0101",
        bytes.fromhex("0808 0000 0611 0711"): "0001",
        bytes([72, 72, 0, 0, 7, *long, 7, *long]): "0101",
        bytes([72, 72, 0, 0, 7, *long, 7, *long[:-1], 0]): "0002",
    }
    sent = send(program.bmv2_json, list(frames))
    assert [frame[2:4].hex() for frame in sent] == list(frames.values())


def test_dots_give_a_varbit_without_bits(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        types="header v_t { bit<8> l; varbit<64> v; }",
        headers="v_t v;",
        parser="state start { packet.extract(hdr.v, 16); transition accept; }",
        ingress="sm.egress_spec = 1; hdr.v = { 5, ... };",
    )
    assert send(program.bmv2_json, [bytes([1, 2, 3, 4])]) == [bytes([5, 4])]


def test_parameters_of_constructors_are_known_at_compile_time(tmp_path: Path) -> None:
    program = compiled(
        tmp_path,
        types=TYPES + "struct settings_t { bit<8> a; bit<32> n; }",
        headers="h_t h; k_t[3] k;",
        declarations="""
        parser Start(packet_in packet, out h_t h)(bit<32> n, bit<8> v) {
            value_set<bit<8>>(n) vs;
            state start { packet.extract(h); transition select(h.a) {
                vs: accept; v + 1: one; v &&& 0xF0: accept; default: accept; } }
            state one { h.b = v; transition accept; }
        }
        control Use(inout h_t h, inout k_t[3] k)(settings_t c, tuple<bit<8>, bit<8>> t, bit<8> y) {
            action set(bit<8> z) { h.c[15:8] = z; }
            table first { key = { h.a: exact; } actions = { set; NoAction; }
                default_action = NoAction; size = c.n + 1;
                const entries = { c.a: set(c.a + 1); c.a + 1: set(y); } }
            table second { key = { h.a: ternary; } actions = { set; NoAction; }
                default_action = NoAction; size = (bit<32>)c.a;
                entries = { priority = (y): t[1]: set(t[1]); priority = 7: 0 &&& 0: NoAction(); } }
            apply {
                k.push_front(t[0]);
                if (first.apply().miss) { second.apply(); }
                switch (h.b) { c.a: { h.c[7:0] = 1; } c.a + 1: { h.c[7:0] = 2; } default: { } }
            }
        }""",
        parser="""Start(3, 4) begin; state start { begin.apply(packet, hdr.h);
            packet.extract(hdr.k.next); transition accept; }""",
        locals="Use({ 4, 8 }, { 2, 9 }, 60) use;",
        ingress="sm.egress_spec = 1; use.apply(hdr.h, hdr.k); hdr.k[1].setInvalid();",
    )
    assert "size: 3" in program.p4info_text.split("value_sets", 1)[1]
    assert "size: 9" in program.p4info_text and "size: 4" in program.p4info_text
    sent = send(program.bmv2_json, [bytes([a, b, 0, 0, 1, 2]) for a, b in ((4, 5), (5, 0), (9, 9))])
    assert [item.hex() for item in sent] == ["040505020102", "05043c010102", "090909000102"]


@pytest.mark.parametrize(
    ("state", "frame", "expected"),
    [
        ("packet.extract(hdr.u[1].m); packet.extract(hdr.u[0].n);", "00 1122 33", "00 33 1122"),
        (
            "packet.extract(hdr.s.next); packet.extract(hdr.s.next); hdr.s.push_front(1);"
            " hdr.s[0] = { 0xAA }; hdr.h.a = (bit<8>)hdr.s.lastIndex;",
            "00 11 22",
            "02 AA 11 22",
        ),
        (
            "packet.extract(hdr.s.next); packet.extract(hdr.s.next); hdr.s.pop_front(1);"
            " packet.extract(hdr.s.next); hdr.h.a = (bit<8>)hdr.s.lastIndex;",
            "00 11 22 33",
            "01 22 33",
        ),
        (
            "packet.extract(hdr.u.next.n); packet.extract(hdr.u.next.m); hdr.u.pop_front(1);",
            "00 11 2233",
            "00 2233",
        ),
        (
            "tuple<bit<8>, bit<16>> t = packet.lookahead<tuple<bit<8>, bit<16>>>();"
            " hdr.h.a = t[0] + t[1][7:0];",
            "00 11 2233",
            "44 11 2233",
        ),
    ],
)
def test_stacks_and_tuples_in_parsers(
    tmp_path: Path, state: str, frame: str, expected: str
) -> None:
    program = compiled(
        tmp_path,
        types="""header h_t { bit<8> a; } header m_t { bit<16> a; }
            header_union u_t { h_t n; m_t m; }""",
        headers="h_t h; u_t[2] u; h_t[3] s;",
        parser=f"state start {{ packet.extract(hdr.h); {state} transition accept; }}",
        ingress="sm.egress_spec = 1;",
    )
    assert send(program.bmv2_json, [bytes.fromhex(frame)]) == [bytes.fromhex(expected)]


@pytest.mark.parametrize("implementation", ["action_profile(4)", SELECTOR])
@pytest.mark.parametrize("constant", ["", "const "])
def test_a_table_with_an_action_profile_does_its_default_action(
    tmp_path: Path, implementation: str, constant: str
) -> None:
    """Specification, section "Match-action table execution semantics": on a miss, whatever the
    implementation of the table is."""
    key = "hdr.h.b: selector;" if "selector" in implementation else ""
    program = compiled(
        tmp_path,
        types="header h_t { bit<8> a; bit<8> b; bit<16> c; }",
        headers="h_t h;",
        locals=f"""action mark(bit<8> v) {{ hdr.h.b = v; }} action other() {{ hdr.h.b = 1; }}
            table t {{ key = {{ hdr.h.a: exact; {key} }} actions = {{ mark; other; }}
                      implementation = {implementation};
                      {constant}default_action = mark(7); }}
            table u {{ key = {{ hdr.h.a: exact; {key} }} actions = {{ mark; NoAction; }}
                      implementation = {implementation}; }}""",
        ingress="""sm.egress_spec = 1;
            switch (t.apply().action_run) { mark: { hdr.h.a = 9; } default: { hdr.h.a = 8; } }
            if (u.apply().miss) { hdr.h.c = 3; }""",
    )
    assert not program.warnings
    assert send(program.bmv2_json, [bytes(4)]) == [bytes.fromhex("09070003")]
