"""Shared by the tests of the P4 compiler: programs to compile, and checks of what comes out."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weft.switch.compiler import CompiledProgram, CompileError, compile_program

PROGRAMS = Path(__file__).resolve().parents[1] / "compiler_programs"
FABRIC = Path(__file__).resolve().parents[2] / "p4" / "fabric.p4"

TEMPLATE = """#include <core.p4>
#include <v1model.p4>
{types}
struct headers_t {{ {headers} }}
struct metadata_t {{ {metadata} }}
{declarations}
parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t sm) {{
    {parser}
}}
control V(inout headers_t hdr, inout metadata_t meta) {{ {verify_locals} apply {{ {verify} }} }}
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {locals}
    apply {{ {ingress} }}
}}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {{
    {egress_locals}
    apply {{ {egress} }}
}}
control U(inout headers_t hdr, inout metadata_t meta) {{ apply {{ {update} }} }}
control D(packet_out packet, in headers_t hdr) {{ {deparser_locals} apply {{ {deparser} }} }}
V1Switch(P(), V(), I(), E(), U(), D()) main;
"""


def program(**parts: str) -> str:
    """A whole program; the parts that are not given are the simplest possible."""
    defaults = {
        "types": "header h_t { bit<8> a; bit<8> b; bit<16> c; }",
        "headers": "h_t h;",
        "metadata": "bit<8> x; bit<32> y;",
        "declarations": "",
        "parser": "state start { packet.extract(hdr.h); transition accept; }",
        "verify_locals": "",
        "verify": "",
        "locals": "",
        "ingress": "",
        "egress_locals": "",
        "egress": "",
        "update": "",
        "deparser_locals": "",
        "deparser": "packet.emit(hdr);",
    }
    return TEMPLATE.format(**{**defaults, **parts})


def compiled(folder: Path, **parts: str) -> CompiledProgram:
    """Compile a program made of parts."""
    source = folder / "program.p4"
    source.write_text(program(**parts))
    return compile_program(source)


def document(folder: Path, **parts: str) -> dict[str, Any]:
    """The BMv2 JSON of a program made of parts, checked for broken references."""
    result: dict[str, Any] = json.loads(compiled(folder, **parts).bmv2_json)
    check_document(result)
    return result


def errors(folder: Path, text: str) -> list[str]:
    """What the compiler says about a program: ``line:column: message`` for each error."""
    source = folder / "program.p4"
    source.write_text(text)
    try:
        compile_program(source)
    except CompileError as problem:
        return [f"{item.line}:{item.column}: {item.message}" for item in problem.diagnostics]
    return []


def errors_of(folder: Path, **parts: str) -> list[str]:
    """The messages alone, for a program made of parts."""
    return [item.split(": ", 1)[1] for item in errors(folder, program(**parts))]


def primitives(json_document: dict[str, Any], action: str) -> list[dict[str, Any]]:
    """The primitives of an action, by its name."""
    found = [item for item in json_document["actions"] if item["name"] == action]
    assert found, f"no action {action} in {[item['name'] for item in json_document['actions']]}"
    result: list[dict[str, Any]] = found[0]["primitives"]
    return result


def _walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from _walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from _walk(value)


def check_document(json_document: dict[str, Any]) -> None:
    """Every name that the document refers to exists, identifiers are unique, jumps land inside."""
    types = {item["name"]: item for item in json_document["header_types"]}
    for item in types.values():
        widths = [field[1] for field in item["fields"] if field[1] != "*"]
        assert sum(widths) % 8 == 0, f"header type {item['name']} is not of whole bytes"
    fields = {
        (header["name"], field[0])
        for header in json_document["headers"]
        for field in types[header["header_type"]]["fields"]
    }
    headers = {header["name"] for header in json_document["headers"]}
    named = {
        "header": headers,
        "regular": headers,
        "header_stack": {item["name"] for item in json_document["header_stacks"]},
        "stack": {item["name"] for item in json_document["header_stacks"]},
        "header_union": {item["name"] for item in json_document["header_unions"]},
        "calculation": {item["name"] for item in json_document["calculations"]},
        "counter_array": {item["name"] for item in json_document["counter_arrays"]},
        "meter_array": {item["name"] for item in json_document["meter_arrays"]},
        "register_array": {item["name"] for item in json_document["register_arrays"]},
    }
    for node in _walk({key: value for key, value in json_document.items() if key != "enums"}):
        kind, value = node.get("type"), node.get("value")
        if kind == "field":
            header, field = value  # type: ignore[misc]
            assert (header, field) in fields or (field == "$valid$" and header in headers), value
        elif kind in named and isinstance(value, str):
            assert value in named[kind], f"{kind} {value} does not exist"
    for action in json_document["actions"]:
        for primitive in action["primitives"]:
            if primitive["op"].startswith("_jump"):
                destination = int(primitive["parameters"][-1]["value"], 16)
                assert 0 <= destination <= len(action["primitives"])
    for section in ("headers", "header_types", "actions", "calculations", "counter_arrays"):
        identifiers = [item["id"] for item in json_document[section]]
        assert len(set(identifiers)) == len(identifiers)
    _check_pipelines(json_document)
    states = {state["name"] for state in json_document["parsers"][0]["parse_states"]}
    for state in json_document["parsers"][0]["parse_states"]:
        for transition in state["transitions"]:
            assert transition["next_state"] is None or transition["next_state"] in states


def _check_pipelines(json_document: dict[str, Any]) -> None:
    actions = {item["id"]: item for item in json_document["actions"]}
    for pipeline in json_document["pipelines"]:
        nodes = {item["name"] for item in [*pipeline["tables"], *pipeline["conditionals"]]}
        for table in pipeline["tables"]:
            names = [actions[number]["name"] for number in table["action_ids"]]
            assert names == table["actions"]
            successors = table["next_tables"]
            assert set(successors) in ({"__HIT__", "__MISS__"}, set(names))
            assert all(name is None or name in nodes for name in successors.values())
            entry = table.get("default_entry")
            if entry is not None:
                parameters = actions[entry["action_id"]]["runtime_data"]
                assert len(entry["action_data"]) == len(parameters)
        for condition in pipeline["conditionals"]:
            for key in ("true_next", "false_next"):
                assert condition[key] is None or condition[key] in nodes
        assert pipeline["init_table"] is None or pipeline["init_table"] in nodes


def p4c() -> str | None:
    """p4c for BMv2, if it is installed: ``$WEFT_P4C``, else ``p4c-bm2-ss`` on the path."""
    return os.environ.get("WEFT_P4C") or shutil.which("p4c-bm2-ss")


def bmv2() -> str | None:
    """BMv2's simple_switch, if it is installed."""
    return shutil.which("simple_switch")
