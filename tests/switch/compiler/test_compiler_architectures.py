"""What another architecture takes: a folder. A toy one is added from outside."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from weft.switch.compiler import CompileError, architectures, compile_program
from weft.switch.compiler.architectures.registry import known

FOLDER = {
    "include/toy.p4": """
#include <core.p4>
struct toy_metadata_t { bit<9> port; bit<7> padding; }
extern Tally {
    Tally(bit<32> size);
    void add(in bit<32> index);
}
extern void vanish();
parser Parser<H>(packet_in packet, out H hdr, inout toy_metadata_t meta);
control Pipe<H>(inout H hdr, inout toy_metadata_t meta);
control Deparser<H>(packet_out packet, in H hdr);
package Toy<H>(Parser<H> p, Pipe<H> first, Pipe<H> second, Deparser<H> dep);
""",
    "__init__.py": '''
"""Toy: two pipelines that do not know what is an egress."""

from weft.switch.compiler import ir
from weft.switch.compiler.lower.externs import ExternLowering
from weft.switch.compiler.lower.lower import Architecture
from weft.switch.compiler.lower.storage import ExternInstance
from weft.switch.compiler.syntax import type_of


class ToyExterns(ExternLowering):
    def __init__(self, expressions):
        super().__init__(expressions)
        self.functions["vanish"] = lambda call: self.writer.do("drop")
        self.methods["Tally", "add"] = lambda call, base: self.writer.do(
            "count", ir.Reference("counter_array", base.name), call.number("index")
        )
        self.objects["Tally"] = self.tally

    def tally(self, made):
        counter = ir.LoweredCounter(*made.common, made.size(), "packets", False)
        self.program.counters.append(counter)
        return counter


class Toy(Architecture):
    name = "toy"
    package = "Toy"
    roles = {"p": ("parser", 3), "first": ("control", 2), "second": ("control", 2),
             "dep": ("control", 2)}
    roles_text = "a parser and three controls"

    def externs(self, expressions):
        return ToyExterns(expressions)

    def lower(self, package):
        headers, metadata = (
            package.shared.allocate(name, type_of(item), item.span, type_of(item))
            for name, item in zip(("", "meta"), package.parameters("p")[1:], strict=True)
        )
        packet = ExternInstance("packet_in", "packet")
        package.parsers.top_parser(package.blocks["p"], [packet, headers, metadata], "toy_parser")
        for role in ("first", "second"):
            package.pipeline(role, role, [headers, metadata])
        packet = ExternInstance("packet_out", "packet")
        package.lists.deparser(package.blocks["dep"], [packet, headers], (), "toy_deparser")
        package.result.document_parts["extern_instances"] = [{"name": "toy", "id": 0}]


ARCHITECTURE = Toy
''',
}

PROGRAM = """
#include <toy.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
struct headers_t { ethernet_t ethernet; }
parser P(packet_in packet, out headers_t hdr, inout toy_metadata_t meta) {
    state start { packet.extract(hdr.ethernet); transition accept; }
}
control First(inout headers_t hdr, inout toy_metadata_t meta) {
    Tally(8) seen;
    action forward(bit<9> port) { meta.port = port; }
    table ways { key = { hdr.ethernet.dst: exact; } actions = { forward; } }
    apply { seen.add(3); ways.apply(); }
}
control Second(inout headers_t hdr, inout toy_metadata_t meta) {
    apply { if (meta.port == 7) { vanish(); } }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }
Toy(P(), First(), Second(), D()) main;
"""


@pytest.fixture
def includes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the toy architecture beside Weft's own; returns where its P4 source is."""
    for name, text in FOLDER.items():
        (path := tmp_path / "architectures" / "toy" / name).parent.mkdir(
            parents=True, exist_ok=True
        )
        path.write_text(text)
    folders = [*architectures.__path__, str(tmp_path / "architectures")]
    monkeypatch.setattr(architectures, "__path__", folders)
    monkeypatch.delitem(sys.modules, f"{architectures.__name__}.toy", raising=False)
    return tmp_path / "architectures" / "toy" / "include"


def written(folder: Path, text: str) -> Path:
    (path := folder / "program.p4").write_text(text)
    return path


def test_an_architecture_is_a_folder_with_its_blocks_and_externs(
    includes: Path, tmp_path: Path
) -> None:
    done = compile_program(written(tmp_path, PROGRAM), include_dirs=[includes])
    document = json.loads(done.bmv2_json)
    assert [each["name"] for each in document["pipelines"]] == ["first", "second"]
    assert [each["name"] for each in document["parsers"]] == ["toy_parser"]
    (deparser,) = document["deparsers"]
    assert (deparser["name"], deparser["order"]) == ("toy_deparser", ["ethernet"])
    assert [each["name"] for each in document["counter_arrays"]] == ["First.seen"]
    assert document["extern_instances"] == [{"name": "toy", "id": 0}]
    operations = {
        primitive["op"] for action in document["actions"] for primitive in action["primitives"]
    }
    assert operations == {"assign", "count", "drop"}
    assert done.p4info.pkg_info.arch == "toy"
    assert [each.preamble.name for each in done.p4info.tables] == ["First.ways"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("vanish()", "verify(true, error.NoError)"), "'verify' can only be called in a parser"),
        (("transition", "vanish(); transition"), "not supported: 'vanish' in a parser"),
        (("Tally(8)", "Tally(0)"), "the size must be 1 to"),
    ],
)
def test_programs_for_it_are_checked_as_all_are(
    includes: Path, tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    source = written(tmp_path, PROGRAM.replace(*change))
    with pytest.raises(CompileError, match=message):
        compile_program(source, include_dirs=[includes])


def test_without_the_folder_the_message_says_which_architectures_there_are(
    includes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = written(tmp_path, PROGRAM)
    monkeypatch.undo()
    assert [each.name for each in known()] == ["psa", "v1model"]
    told = r"architecture of 'Toy'; only PSA_Switch \(psa\), V1Switch \(v1model\)"
    with pytest.raises(CompileError, match=told):
        compile_program(source, include_dirs=[includes])
