"""What a command writes is shown by the terminal, and not obeyed by it."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from rich.text import Text
from tests.support.cli_support import WEFT, start

from weft.base import streams
from weft.base.console import ShowingConsole
from weft.base.streams import escaped
from weft.switch.compiler.diagnostics import Diagnostic

CLEAR = "\x1b[2J\x1b]0;title\x07\x9b31m"
"""Clears a terminal, names its window, and turns its text red by a C1 code."""
PROGRAM = f"""#include <core.p4>
#include <v1model.p4>
nothing {CLEAR} = 1;
"""


def is_harmless(text: str) -> bool:
    return all(character.isprintable() or character in "\n\t" for character in text)


@given(st.text(alphabet=st.characters()))
def test_no_control_character_is_left_and_nothing_else_changes(text: str) -> None:
    shown = escaped(text)
    assert not any(ord(each) < 32 and each not in "\n\t" for each in shown)
    assert not any(0x7F <= ord(each) < 0xA0 or 0xD800 <= ord(each) < 0xE000 for each in shown)
    assert escaped(shown) == shown
    kept = "".join(each for each in text if escaped(each) == each)
    if kept == text:
        assert shown == text
    assert "\n" not in escaped(text, one_line=True)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[31mb", "a\\x1b[31mb"),
        ("\r\x7f\x9b", "\\r\\x7f\\x9b"),
        ("a\tb\nc", "a\tb\nc"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udcff.p4", "\\xff.p4"),
        ("\ud800", "\\ud800"),
        ("grüße ✓ 日本", "grüße ✓ 日本"),
    ],
)
def test_control_characters_are_written_as_in_python(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_a_guarded_stream_shows_and_its_raw_form_obeys(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as file:
        shown = streams._stream(file, "it", must_be_written=False)
        print("one\x1b", file=shown)
        streams.raw(shown).writelines(["two\x1b\n"])
        print("three\x1b", file=shown)
        shown.flush()
    assert (tmp_path / "out").read_text() == "one\\x1b\ntwo\x1b\nthree\\x1b\n"
    plain = io.StringIO()
    assert streams.raw(plain) is plain


def test_a_console_escapes_texts_and_cells_and_keeps_its_own_colours() -> None:
    table = Table("name\x1b[1m", title="title\x1b[1m")
    table.add_row("cell\x1b[1m")
    table.add_row(Text("styled\x1b[1m"))
    written = io.StringIO()
    console = ShowingConsole(file=written, force_terminal=True, width=60, color_system="standard")
    console.print(table)
    console.print("line\x1b[1m", style="red", markup=False, highlight=False)
    text = written.getvalue()
    for word in ("name", "title", "cell", "line"):
        assert f"{word}\\x1b[1m" in text
    assert "styled\\x1b[" in text
    assert "\x1b[31mline" in text  # red is rich's own
    # A cell is as wide as what is shown of it.
    rows = [line for line in text.splitlines() if "cell" in line or "styled" in line]
    assert len({len(row) for row in rows}) == 1


def commands(folder: Path) -> dict[str, list[str]]:
    """Commands that have something to say of names and contents that others chose."""
    (folder / f"na{CLEAR}me.p4").write_text(PROGRAM)
    (folder / "good.stf").write_text(f"packet {CLEAR} 0 00\nexp{CLEAR} 1\n")
    (folder / "lab.toml").write_text('hosts = ["a\\u001b[2J"]\nswitches = ["s"]\n')
    (folder / "run.toml").write_text('collective = "all\\u001b[2Jgather"\n')
    return {
        "compile errors": ["p4c", f"na{CLEAR}me.p4"],
        "no such program": ["p4c", f"no{CLEAR}thing.p4"],
        "STF": ["stf", f"{Path(__file__).resolve().parents[1] / 'stf' / 'basic.p4'}", "good.stf"],
        "networks": ["topology", "--topology", "lab.toml"],
        "scenarios": ["run", "run.toml"],
        "drawings": ["topology", "--topology", "single", "-o", f"draw{CLEAR}ing.svg"],
        "bytes": ["topology", "--topology", "single", "-o", "draw\udcffing.svg"],
        "paths": ["paths", f"no{CLEAR}ne"],
        "paths' plots": ["paths", "alltoall", "--leaves", "2", "--plot", f"plot{CLEAR}.svg"],
        "usage": ["p4c", f"--no{CLEAR}"],
        "results": ["report", f"no{CLEAR}ne"],
    }


CASES = (
    "STF", "bytes", "compile errors", "drawings", "networks", "no such program", "paths",
    "paths' plots", "results", "scenarios", "usage",
)  # fmt: skip


@pytest.mark.parametrize("which", CASES)
def test_what_others_chose_is_escaped(tmp_path: Path, which: str) -> None:
    done = start(*WEFT, *commands(tmp_path)[which], cwd=tmp_path)
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert is_harmless(said), repr(said)
    assert "\\x1b" in said or "\\xff" in said or "\\u001b" in said


def test_an_export_that_is_printed_is_escaped(tmp_path: Path) -> None:
    options = ("--world", "simulated", "--topology", "single", "--size", "1KiB", "--out", "out")
    assert start(*WEFT, "run", "allgather", *options, cwd=tmp_path).returncode == 0
    file = tmp_path / "out" / "results.json"
    document = json.loads(file.read_text())
    document["runs"][0]["ranks"][0]["host"] = f"h{CLEAR}"
    file.write_text(json.dumps(document))
    done = start(*WEFT, "export", "out", "--table", "ranks", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert is_harmless(done.stdout)
    assert "h\\x1b[2J" in done.stdout


def test_the_mark_under_a_line_stands_below_what_is_wrong() -> None:
    said = str(Diagnostic("a\nb.p4", 1, 3, "no", "\x1b\x1bwrong", length=5)).splitlines()
    assert said == [
        "a\\nb.p4:1:3: error: no",
        "     1 | \\x1b\\x1bwrong",
        "       |         ^~~~~",
    ]
