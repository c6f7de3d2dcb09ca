"""``weft p4c``: the options that builds give a compiler of P4, spelled as p4c has them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from google.protobuf import json_format, text_format
from tests.support.compiler_support import program
from typer.testing import CliRunner

from weft.base import VERSION
from weft.switch.commands import command_line
from weft.switch.commands.watching import files_of, watch
from weft.switch.compiler import CompileError, compile_program
from weft.switch.messages import p4info_pb2, p4runtime_pb2

ENTRIES = """
    action set(bit<9> port, bit<1> flag) { sm.egress_spec = port; meta.f = flag == 1; }
    action none() {}
    table exact_one {
        key = { hdr.h.a: exact; hdr.h.c: exact; }
        actions = { set; none; }
        const entries = { (1, 2): set(300, 1); (240, 5): none(); }
    }
    table ranked {
        key = { hdr.h.a: ternary; hdr.h.c: range; }
        actions = { set; none; }
        const entries = { (1 &&& 0xf, 3..5): set(2, 0); (_, _): none(); (3, 7): none(); }
    }
    table mixed {
        key = { hdr.h.a: ternary; hdr.h.c: lpm; hdr.h.b: optional; }
        actions = { none; }
        largest_priority_wins = false;
        priority_delta = 10;
        entries = {
            const priority = 10: (1 &&& 0xf, 0x1200 &&& 0xff00, 1): none();
            (_, _, _): none();
        }
    }
"""
APPLIED = "exact_one.apply(); ranked.apply(); mixed.apply();"
TYPES = "header h_t { bit<8> a; bit<8> b; bit<16> c; }"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A program with entries, an include of its own, macros and a warning."""
    (tmp_path / "parts.p4").write_text("#define ONE 1\n/* a\n comment */\nconst bit<8> K = ONE;\n")
    path = tmp_path / "program.p4"
    path.write_text(
        program(
            types=f'#include "parts.p4"\n{TYPES}',
            headers="h_t h;",
            metadata="bool f;",
            parser="state start { packet.extract(hdr.h); transition accept; }",
            locals=ENTRIES,
            ingress="bit<8> unset; hdr.h.b = unset + WIDTH + K;\n"
            f"#ifdef EXTRA\n{APPLIED}\n#endif\n",
            deparser="packet.emit(hdr.h);",
        )
    )
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """Run the command; return its status and what it printed."""
    app = typer.Typer()
    app.command(cls=command_line.P4cCommand)(command_line.p4c)
    result = CliRunner().invoke(app, [str(item) for item in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


GIVEN = ("-D", "WIDTH=8", "-DEXTRA")


def test_entries_are_written_as_p4runtime_has_them(source: Path, tmp_path: Path) -> None:
    names = [tmp_path / f"entries{ending}" for ending in (".txt", ".bin", ".json")]
    listed = ",".join(map(str, names[:2]))
    run(
        source, *GIVEN, "-o", tmp_path / "x.json", "--p4runtime-entries-files", listed,
        "--p4runtime-entries-files", names[2],
    )  # fmt: skip
    request = text_format.Parse(names[0].read_text(), p4runtime_pb2.WriteRequest())
    assert p4runtime_pb2.WriteRequest.FromString(names[1].read_bytes()) == request
    assert json_format.Parse(names[2].read_text(), p4runtime_pb2.WriteRequest()) == request
    entries = [update.entity.table_entry for update in request.updates]
    assert {update.type for update in request.updates} == {p4runtime_pb2.Update.INSERT}
    assert [entry.priority for entry in entries] == [0, 0, 3, 2, 1, 10, 20]
    assert [entry.is_const for entry in entries] == [True] * 6 + [False]
    assert [item.value for item in entries[0].action.action.params] == [b"\x01\x2c", b"\x01"]
    assert entries[2].match[0].ternary.mask == b"\x0f" and entries[2].match[1].range.high == b"\0\5"
    assert not entries[3].match and entries[4].match[0].ternary.mask == b"\xff"
    kinds = [field.WhichOneof("field_match_type") for field in entries[5].match]
    assert kinds == ["ternary", "lpm", "optional"] and entries[5].match[1].lpm.prefix_len == 8
    info = compile_program(source, defines={"WIDTH": "8", "EXTRA": None}).p4info
    assert {entry.table_id for entry in entries} == {table.preamble.id for table in info.tables}


@pytest.mark.skipif(not os.environ.get("WEFT_P4C"), reason="p4c is not installed")
def test_p4c_writes_the_same_entries(source: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.txt", tmp_path / "theirs.txt"
    run(source, *GIVEN, "-o", tmp_path / "x.json", "--p4runtime-entries-files", ours)
    compiler = os.environ["WEFT_P4C"]
    asked = ["-o", str(tmp_path / "y.json"), "--p4runtime-entries-files", str(theirs)]
    subprocess.run([compiler, source, *GIVEN, *asked], check=True, timeout=60, capture_output=True)
    first, second = (
        text_format.Parse(path.read_text(), p4runtime_pb2.WriteRequest()) for path in (ours, theirs)
    )
    assert first == second


def test_p4info_is_written_in_the_format_that_is_named(source: Path, tmp_path: Path) -> None:
    expected = compile_program(source, defines={"WIDTH": "8"}).p4info
    for name, read in (
        ("binary", p4info_pb2.P4Info.FromString),
        ("text", lambda data: text_format.Parse(data.decode(), p4info_pb2.P4Info())),
        ("json", lambda data: json_format.Parse(data, p4info_pb2.P4Info())),
    ):
        asked = "--p4runtime-file", tmp_path / "info", "--p4runtime-format", name
        _, out, _ = run(source, "-DWIDTH=8", "-o", tmp_path / "x.json", *asked)
        assert out.split() == [str(tmp_path / "x.json"), str(tmp_path / "info")]
        assert read((tmp_path / "info").read_bytes()) == expected


def test_the_preprocessed_program_is_printed_and_nothing_written(
    source: Path, tmp_path: Path
) -> None:
    before = set(tmp_path.iterdir())
    status, out, _ = run(source, *GIVEN, "-E")
    assert status == 0 and set(tmp_path.iterdir()) == before
    assert "const bit<8> K = 1;" in out and "unset + 8 + K" in out and "comment" not in out
    line = out.split("\n").index("const bit<8> K = 1;")
    marker = re.fullmatch(r'# (\d+) "(.*)"', out.split("\n")[line - 1])
    assert marker is not None and marker.groups() == ("4", str(tmp_path / "parts.p4"))


def test_a_macro_can_be_undefined(source: Path) -> None:
    assert "exact_one.apply()" in run(source, *GIVEN, "-E")[1]
    assert "exact_one.apply()" not in run(source, *GIVEN, "-UEXTRA", "-E")[1]


def test_the_program_in_one_file_compiles_to_the_same(source: Path, tmp_path: Path) -> None:
    pretty = tmp_path / "elsewhere" / "pretty.p4"
    run(source, *GIVEN, "-o", tmp_path / "x.json", "--pp", pretty)
    text = pretty.read_text()
    assert "#include <v1model.p4>" in text and "WIDTH +" not in text and "comment" not in text
    again = compile_program(pretty)
    first = compile_program(source, defines={"WIDTH": "8", "EXTRA": None})
    assert again.p4info_text == first.p4info_text

    def bare(text: str) -> object:
        def hook(item: dict[str, object]) -> dict[str, object]:
            return {key: value for key, value in item.items() if not key.endswith("source_info")}

        # Actions between tables are named by file and line.
        return json.loads(re.sub(r"(program|pretty)\d+", "action", text), object_hook=hook)

    one, other = bare(again.bmv2_json), bare(first.bmv2_json)
    assert isinstance(one, dict) and isinstance(other, dict)
    del one["program"], other["program"]
    assert one == other


def test_the_syntax_tree_is_written_as_json(source: Path, tmp_path: Path) -> None:
    run(source, *GIVEN, "-o", tmp_path / "x.json", "--toJSON", tmp_path / "tree.json")
    nodes = json.loads((tmp_path / "tree.json").read_text())
    (constant,) = (node for node in nodes if node["node"] == "Constant" and node["name"] == "K")
    assert constant["place"] == f"{tmp_path / 'parts.p4'}:4:1"
    assert constant["value"]["constant"] == 1 and constant["value"]["type"] == "bit<8>"


@pytest.mark.parametrize(
    ("options", "status", "shown"),
    [
        ([], 0, 2),
        (["--Wdisable"], 0, 0),
        (["--Wdisable=unused"], 0, 1),
        (["--Wdisable", "unused"], 0, 1),
        (["--Wdisable", "--Wwarn=unused"], 0, 1),
        (["--Wdisable=legacy", "--Wwarn"], 0, 2),
        (["--Wdisable=uninitialized_use"], 0, 1),
        (["--Werror"], 2, 0),
        (["--Werror=unused"], 2, 1),
        (["--Werror", "--Wwarn=unused,uninitialized-use"], 0, 2),
    ],
)
def test_warnings_by_kind(
    source: Path, tmp_path: Path, options: list[str], status: int, shown: int
) -> None:
    source.write_text(source.read_text().replace("bit<8> unset;", "bit<8> unset; bit<8> idle;"))
    asked = [*options, *GIVEN, "-o", str(tmp_path / "x.json"), str(source)]
    if status:
        with pytest.raises(CompileError, match=r"error: .*\[--Wwarn="):
            run(*asked)
    else:
        assert run(*asked)[2].count("warning:") == shown
    assert (tmp_path / "x.json").exists() == (status == 0)


def test_diagnostics_are_lines_of_json(source: Path, tmp_path: Path) -> None:
    asked = "-o", tmp_path / "x.json", "--diagnostics", "json"
    status, _, err = run(source, *GIVEN, *asked)
    (warning,) = map(json.loads, err.splitlines())
    assert status == 0 and warning["severity"] == "warning"
    assert (warning["kind"], warning["length"]) == ("uninitialized-use", len("unset"))
    status, out, err = run(source, *asked)
    (error,) = map(json.loads, err.splitlines())
    assert status == 2 and out == "" and error["file"] == str(source)
    assert "'WIDTH'" in error["message"] and error["severity"] == "error"


def test_the_version_is_told_without_a_program() -> None:
    assert run("--version")[:2] == (0, f"weft p4c {VERSION}, P4_16 1.2.5\n")


def test_as_build_files_call_p4c(source: Path, tmp_path: Path) -> None:
    made = tmp_path / "build"
    asked = "--target", "bmv2", "--arch", "v1model", "--std", "p4-16", "--Wdisable=unsupported"
    status, out, _ = run(
        *asked, *GIVEN, "-I", tmp_path, "--p4runtime-files", f"{made}/p.txt,{made}/p.json",
        "-o", made, source,
    )  # fmt: skip
    assert status == 0
    assert out.split() == [f"{made}/{name}" for name in ("program.json", "p.txt", "p.json")]


def _changes(steps: list[Callable[[], object]]) -> Callable[[float], None]:
    """What stands for waiting: each time the next change, and Ctrl-C at the end."""
    remaining = iter(steps)

    def wait(seconds: float) -> None:
        step = next(remaining, None)
        if step is None:
            raise KeyboardInterrupt
        step()

    return wait


def test_a_program_is_compiled_anew_whenever_a_file_of_it_changes(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    compiled: list[str] = []
    shutil.move(tmp_path / "parts.p4", tmp_path / "hidden")
    watch(
        lambda: compiled.append("K" if (tmp_path / "parts.p4").exists() else "no K"),
        lambda: files_of(source, (), {"WIDTH": "8"}),
        _changes(
            [
                lambda: None,
                lambda: shutil.move(tmp_path / "hidden", tmp_path / "parts.p4"),
                lambda: (tmp_path / "unrelated.txt").write_text("x"),
                lambda: source.write_text(source.read_text() + "\n"),
            ]
        ),
    )
    assert compiled == ["no K", "K", "K"]
    assert capsys.readouterr().err.count("waiting for a change") == 3
