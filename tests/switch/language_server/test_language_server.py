"""The language server for P4: what editors are told, by plain functions and over the protocol."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.support.compiler_support import program

from weft.base.errors import MachineError
from weft.switch.commands import command_line
from weft.switch.language_server.analysis import Analysis, analyse
from weft.switch.language_server.questions import completions, definition, hover

TYPES = """
enum bit<8> color_t { RED = 1, BLUE = 2 }
const bit<8> LIMIT = 4 + 1;
struct inner_t { bit<4> high; bit<4> low; }
header h_t { bit<8> a; inner_t inner; color_t color; }
bit<8> sum(in bit<8> left, in bit<8> right) { bit<8> both = left + right; return both; }
"""
PARSER = """
    state start { packet.extract(hdr.h); transition select(hdr.h.a) {
        1: more;
        default: accept;
    } }
    state more {
        packet.extract(hdr.s.next);
        transition accept;
    }
"""
LOCALS = """
    bit<8> seen = 0;
    action drop() { mark_to_drop(sm); }
    action set(bit<9> port) { sm.egress_spec = port; }
    table route {
        key = { hdr.h.a: exact; }
        actions = {
            drop;
            set;
        }
    }
"""
INGRESS = """
        bit<8> local = hdr.h.a;
        if (route.apply().hit) {
            hdr.h.inner.low = 3;
            local = sum(local, LIMIT);
        }
        hdr.h.color = color_t.BLUE;
        seen = local;
"""
TEXT = program(
    types=TYPES, headers="h_t h; h_t[2] s;", parser=PARSER, locals=LOCALS, ingress=INGRESS
)
PATH = Path("/nowhere/program.p4")


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    """The program that is asked about."""
    return analyse(PATH, TEXT)


def place(text: str, marked: str) -> tuple[int, int]:
    """The line and column, from 1, of the ``|`` in a part of a text that is there once without."""
    plain = marked.replace("|", "")
    assert text.count(plain) == 1, plain
    before = text[: text.index(plain) + marked.index("|")]
    return before.count("\n") + 1, len(before) - before.rfind("\n")


def test_what_is_wrong_is_told_while_it_is_written(analysis: Analysis) -> None:
    assert analysis.diagnostics == ()
    broken = TEXT.replace("local = sum(local, LIMIT);", "local = sum(local);")
    (error,) = analyse(PATH, broken).diagnostics
    assert (error.line, error.severity) == (place(broken, "sum(loc|al);")[0], "error")
    unused = TEXT.replace("seen = local;", "bit<8> idle;")
    assert {item.kind for item in analyse(PATH, unused).diagnostics} == {"unused"}
    unfinished = TEXT.replace("seen = local;", "seen = ")
    (syntax,) = analyse(PATH, unfinished).diagnostics
    assert syntax.message.startswith("syntax error at")
    (missing,) = analyse(PATH, '#include "gone.p4"\n').diagnostics
    assert "'gone.p4' not found" in missing.message
    assert analyse(PATH, "").diagnostics == ()


def test_errors_of_the_back_end_are_told_too() -> None:
    found = analyse(PATH, TEXT.replace("hdr.h.a: exact", "hdr.h.a: mine").replace(
        "enum bit", "match_kind { mine }\nenum bit"
    )).diagnostics  # fmt: skip
    assert any("mine" in item.message for item in found)


@pytest.mark.parametrize(
    ("asked", "declared"),
    [
        ("local = su|m(local", "bit<8> |sum(in"),
        ("sum(local, LIM|IT)", "bit<8> |LIMIT = 4"),
        ("hdr.h.inner.lo|w = 3", "bit<4> |low; }"),
        ("hdr.h.in|ner.low = 3", "inner_t |inner; color_t"),
        ("1: mo|re;", "state |more {"),
        ("            se|t;", "action |set(bit<9>"),
        ("if (rou|te.apply()", "table |route {"),
        ("if (route.app|ly()", "table |route {"),
        ("color_t.BL|UE;", "enum bit<8> |color_t {"),
        ("inner_t inn|er; color_t", None),
        ("header h_t { bit<8> a; inn|er_t inner", "struct |inner_t {"),
        ("both = le|ft + right", "in bit<8> |left, in"),
        ("return bo|th;", "bit<8> |both = left"),
        ("se|en = local;", "bit<8> |seen = 0"),
        ("sm.egress_spec = po|rt;", "bit<9> |port) {"),
    ],
)
def test_a_name_leads_to_its_declaration(
    analysis: Analysis, asked: str, declared: str | None
) -> None:
    found = definition(analysis, *place(TEXT, asked))
    if declared is None:
        assert found is None
    else:
        assert found is not None and analysis.is_of(found.file)
        assert (found.line, found.column) == place(TEXT, declared)


def test_what_is_included_leads_to_its_file(analysis: Analysis) -> None:
    extract = definition(analysis, *place(TEXT, "packet.ext|ract(hdr.h)"))
    drop = definition(analysis, *place(TEXT, "mark_to_|drop(sm)"))
    assert extract is not None and Path(extract.file).name == "core.p4"
    assert drop is not None and Path(drop.file).name == "v1model.p4"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("hdr.h.inner.lo|w = 3", "bit<4> low"),
        ("hd|r.h.inner.low = 3", "inout headers_t hdr"),
        ("sum(local, LIM|IT)", "= 5"),
        ("local = su|m(local", "bit<8> sum(in bit<8> left, in bit<8> right)"),
        ("header h_t { bit<8> a; inn|er_t inner", "struct inner_t { bit<4> high; bit<4> low; }"),
        ("            se|t;", "action set(bit<9> port)"),
        ("packet.ext|ract(hdr.h)", "void extract<T>(out T hdr)"),
        ("packet.extract(hdr.s.ne|xt)", "header h_t next"),
    ],
)
def test_a_name_is_explained(analysis: Analysis, asked: str, shown: str) -> None:
    text = hover(analysis, *place(TEXT, asked))
    assert text is not None and shown in text


def test_nothing_is_said_of_what_is_no_name(analysis: Analysis) -> None:
    assert hover(analysis, *place(TEXT, "4 |+ 1;")) is None
    assert definition(analysis, *place(TEXT, "4 |+ 1;")) is None


def offered(after: str, written: str) -> dict[str, str]:
    """The words, with their kinds, that are offered behind what is written on a new line after a
    part of the program."""
    assert TEXT.count(after) == 1
    text = TEXT.replace(after, f"{after}\n{written}")
    end = text.index(f"{after}\n{written}") + len(after) + 1 + len(written)
    line, column = text.count("\n", 0, end) + 1, len(written) + 1
    return {item.word: item.kind for item in completions(PATH, text, line, column)}


@pytest.mark.parametrize(
    ("after", "written", "expected", "absent"),
    [
        ("seen = local;", "hdr.", {"h": "field", "s": "field"}, "local"),
        ("seen = local;", "x = hdr.h.inner.l", {"low": "field", "high": "field"}, "a"),
        ("seen = local;", "hdr.s[seen].", {"a": "field", "setValid": "method"}, "next"),
        ("seen = local;", "route.", {"apply": "table"}, "hit"),
        ("seen = local;", "if (route.apply().", {"hit": "field", "action_run": "field"}, "apply"),
        ("seen = local;", "hdr.h.color = color_t.", {"RED": "type", "BLUE": "type"}, "a"),
        ("seen = local;", "lo", {"local": "variable", "route": "table", "sum": "function"}, "left"),
        ("packet.extract(hdr.s.next);", "packet.", {"extract": "method"}, "emit"),
        ("packet.extract(hdr.s.next);", "hdr.s.", {"next": "field", "lastIndex": "field"}, "a"),
        ("packet.extract(hdr.s.next);", "transition m", {"more": "state", "accept": "state"}, "h"),
        ("        1: more;", "        2: ", {"more": "state", "start": "state"}, "seen"),
        ("            drop;", "            ", {"drop": "action", "set": "action"}, "seen"),
    ],
)
def test_what_can_be_written_is_offered(
    after: str, written: str, expected: dict[str, str], absent: str
) -> None:
    found = offered(after, written)
    assert {word: found.get(word) for word in expected} == expected
    assert absent not in found


def test_without_pygls_the_command_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"needs the package pygls.*pip install pygls=="):
        command_line.lsp()


needs_pygls = pytest.mark.skipif(find_spec("pygls") is None, reason="pygls is not installed")


class Editor:
    """An editor that speaks to a server of its own in this process."""

    def __init__(self) -> None:
        from weft.switch.language_server.server import make_server

        self.protocol = make_server().protocol
        self.protocol.set_writer(self)
        self.received: list[dict[str, Any]] = []

    def write(self, data: bytes) -> None:
        self.received.append(json.loads(data.split(b"\r\n\r\n", 1)[1]))

    def close(self) -> None:
        """There is nothing to close."""

    def send(self, method: str, params: dict[str, Any], number: int | None = None) -> Any:
        """Send a notification, or a request by its number; return the result."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if number is not None:
            message["id"] = number
        self.protocol.handle_message(self.protocol.structure_message(message))
        answers = [item for item in self.received if item.get("id") == number is not None]
        return answers[-1].get("result") if answers else None

    def diagnostics(self) -> list[dict[str, Any]]:
        """What the editor was told last to be wrong."""
        told = [item for item in self.received if item.get("method", "").endswith("Diagnostics")]
        return list(told[-1]["params"]["diagnostics"])


@needs_pygls
def test_an_editor_is_served() -> None:
    editor = Editor()
    uri = PATH.as_uri()
    capabilities: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}
    known = editor.send("initialize", capabilities, 1)["capabilities"]
    assert known["hoverProvider"] and known["definitionProvider"]
    assert known["completionProvider"]["triggerCharacters"] == ["."]
    editor.send("initialized", {})
    document = {"uri": uri, "languageId": "p4", "version": 1, "text": TEXT}
    editor.send("textDocument/didOpen", {"textDocument": document})
    assert editor.diagnostics() == []

    def at(marked: str) -> dict[str, Any]:
        line, column = place(TEXT, marked)
        position = {"line": line - 1, "character": column - 1}
        return {"textDocument": {"uri": uri}, "position": position}

    found = editor.send("textDocument/definition", at("local = su|m(local"), 2)
    line, column = place(TEXT, "bit<8> |sum(in")
    assert found["uri"] == uri
    assert found["range"]["start"] == {"line": line - 1, "character": column - 1}
    shown = editor.send("textDocument/hover", at("hdr.h.inner.lo|w = 3"), 3)
    assert "bit<4> low" in shown["contents"]["value"]
    broken = TEXT.replace("seen = local;", "seen = hdr.h.")
    editor.send(
        "textDocument/didChange",
        {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": broken}]},
    )
    (error,) = editor.diagnostics()
    assert error["severity"] == 1 and error["source"] == "weft"
    line, column = place(broken, "seen = hdr.h.|")
    position = {"line": line - 1, "character": column - 1}
    asked = {"textDocument": {"uri": uri}, "position": position}
    items = editor.send("textDocument/completion", asked, 4)["items"]
    assert {"a", "inner", "color"} <= {item["label"] for item in items}
    editor.send("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert editor.diagnostics() == []


@needs_pygls
def test_the_command_speaks_on_its_standard_streams() -> None:
    request = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    }  # fmt: skip
    messages = [request, {"jsonrpc": "2.0", "id": 2, "method": "shutdown"},
                {"jsonrpc": "2.0", "method": "exit"}]  # fmt: skip
    bodies = [json.dumps(item) for item in messages]
    text = "".join(f"Content-Length: {len(body)}\r\n\r\n{body}" for body in bodies)
    serve = "from weft.switch.commands.command_line import lsp; lsp()"
    done = subprocess.run(
        [sys.executable, "-c", serve], input=text.encode(), capture_output=True, check=False
    )
    assert b'"name": "weft-p4"' in done.stdout
