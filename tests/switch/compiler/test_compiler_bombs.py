"""Sources that are small to write and would be huge: an error that names the limit, at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.switch.compiler import compile_program
from weft.switch.compiler.diagnostics import CompileError
from weft.switch.compiler.parse.preprocess import preprocess

PROGRAM = """#include <core.p4>
#include <v1model.p4>
{top}
header h_t {{ bit<8> a; }}
struct H {{ h_t h; {fields} }}
struct M {{ bit<32> m; bit<32> n; }}
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.h); transition accept; }}
}}
control V(inout H h, inout M m) {{ apply {{ }} }}
control I(inout H h, inout M m, inout standard_metadata_t s) {{ {local} apply {{ {body} }} }}
control E(inout H h, inout M m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out p, in H h) {{ apply {{ p.emit(h.h); }} }}
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""

TABLE = "table t {{ key = {{ m.m: exact; }} actions = {{ NoAction; }} size = {}; }}"
DOUBLING = "#define A0 +1\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(40))
ARGUMENTS = "#define F(x) x x\n"
USES = "#define F(x) " + "x " * 5000 + "\n#define A " + "+1 " * 5000 + "\n"
STRUCTS = "struct S0 { bit<8> a; }\n" + "".join(
    f"struct S{i + 1} {{ S{i} a; S{i} b; }}\n" for i in range(40)
)
GENERIC = "struct T<X> { X a; X b; }\n"
ACTIONS = "action a0() { m.m = m.m + 1; }" + "".join(
    f"action a{i + 1}() {{ a{i}(); a{i}(); }}" for i in range(40)
)


def compile_parts(folder: Path, **parts: str) -> str:
    """The JSON of the program with such parts."""
    source = folder / "bomb.p4"
    source.write_text(PROGRAM.format(**{"top": "", "fields": "", "local": "", "body": "", **parts}))
    return compile_program(source).bmv2_json


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"top": DOUBLING, "body": "m.m = 0 A40;"}, r"bomb.p4:52:1: .* more than 524288 tokens"),
        ({"top": DOUBLING + "#if A40\n#endif"}, "more than 524288 tokens"),
        ({"top": ARGUMENTS, "body": "F(" * 40 + "1" + ")" * 40}, "more than 524288 tokens"),
        ({"top": USES, "body": "m.m = 0 F(A);"}, "more than 524288 tokens"),
        ({"top": STRUCTS}, "struct S17 has more than 65536 fields"),
        ({"top": GENERIC, "fields": "T<" * 40 + "h_t" + ">" * 40 + " t;"}, "more than 65536"),
        ({"local": "bit<8>[4096][4096][4096] b;"}, "more than 65536 fields"),
        ({"fields": "h_t[1000000000] b;"}, "1 to 4096, not 1000000000"),
        ({"local": ACTIONS, "body": "a40();"}, "more than 16384 calls"),
        ({"local": TABLE.format("1 << 70"), "body": "t.apply();"}, "size must be 0 to 2147483647"),
        ({"local": TABLE.format("-1"), "body": "t.apply();"}, "known at compile time"),
        ({"local": "register<bit<8>>(32w0xffffffff) r;", "body": "r.write(0, 1);"}, "2147483647"),
        ({"body": "m.m = (bit<32>) (1 << 2000000000);"}, "at most|too|large|width|shift"),
    ],
)
def test_a_source_that_would_be_huge_is_refused(
    tmp_path: Path, parts: dict[str, str], said: str
) -> None:
    with pytest.raises(CompileError, match=said):
        compile_parts(tmp_path, **parts)


def test_files_that_include_files_twice_each_are_refused(tmp_path: Path) -> None:
    for i in range(40):
        (tmp_path / f"i{i}.h").write_text(f'#include "i{i + 1}.h"\n' * 2)
    (tmp_path / "i40.h").write_text("\n")
    with pytest.raises(CompileError, match="more than 4096 files are included"):
        compile_parts(tmp_path, top='#include "i0.h"')


def test_what_is_merely_nested_compiles(tmp_path: Path) -> None:
    parentheses = "m.m = " + "(" * 1000 + "m.n" + ")" * 1000 + ";"
    assert compile_parts(tmp_path, body=parentheses + "{" * 1000 + "}" * 1000)


words = st.sampled_from(["A", "B", "C", "F(A)", "F(B B)", "G(A, F(C))", "x y", "x", "y", "## x"])


@given(
    st.lists(st.tuples(st.sampled_from(["A", "B", "C", "F(x)", "G(x, y)"]), st.lists(words))),
    st.lists(words),
)
def test_any_macros_are_expanded_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    macros: list[tuple[str, list[str]]],
    uses: list[str],
) -> None:
    source = tmp_path_factory.getbasetemp() / "macros.p4"
    lines = [f"#define {name} {' '.join(body)}" for name, body in macros]
    source.write_text("\n".join([*lines, "start", *uses]))
    try:
        assert preprocess(source).lines
    except CompileError as error:
        assert str(error)
