"""The loader of BMv2 JSON: whatever it is given, a program, or an error that says why not."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.compiler_support import compiled
from tests.support.engine_programs import Document, expression, extract, features, field, router

from weft.switch.compiler import compile_program
from weft.switch.engine.build import build
from weft.switch.engine.codegen.generate import generate
from weft.switch.engine.codegen.loading import write_source
from weft.switch.engine.dataplane.layout import DROP_PORT
from weft.switch.engine.program.amounts import MOST_OBJECTS, MOST_TEXT_BYTES
from weft.switch.engine.program.errors import ProgramError
from weft.switch.engine.program.reader import read_program

Json = Any

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False),
    st.sampled_from(["", "0x10", "-0x1", "start", "cmd", '"""', "\n", "x\\", "*", "ipv4"]),
    st.lists(st.integers(0, 3), max_size=3),
    st.dictionaries(st.sampled_from(["type", "value", "op"]), st.text(max_size=3), max_size=2),
)


def places(node: Json, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to everything in a document."""
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node)
    for key, child in items:
        if isinstance(child, (dict, list)):
            found += places(child, (*path, key))
        else:
            found.append((*path, key))
    return found


UNIONS = Path(__file__).resolve().parents[2] / "bmv2_programs" / "unions_and_stacks.p4"
DOCUMENTS = [
    json.loads(router()),
    json.loads(features()),
    json.loads(compile_program(UNIONS).bmv2_json),
]
PLACES = [places(document) for document in DOCUMENTS]


def load(text: str) -> str | None:
    """The generated source, or None if the program was refused."""
    try:
        return generate(read_program(text))
    except ProgramError as error:
        assert str(error)
        return None


@given(st.data())
def test_a_damaged_program_is_refused_or_still_is_python(data: st.DataObject) -> None:
    which = data.draw(st.integers(0, len(DOCUMENTS) - 1))
    document = json.loads(json.dumps(DOCUMENTS[which]))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(PLACES[which]))
        node = document
        try:
            for key in path[:-1]:
                node = node[key]
            if data.draw(st.booleans()):
                node[path[-1]] = data.draw(SCALARS)
            else:
                del node[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
    source = load(json.dumps(document))
    if source is not None:
        ast.parse(source)


@given(st.text(max_size=50))
def test_text_that_is_no_program_is_refused(text: str) -> None:
    assert load(text) is None


def test_a_length_that_p4cs_older_json_leaves_open_is_none() -> None:
    document = json.loads(router())
    for each in document["header_types"]:
        each.update(length_exp=None, max_length=None)
    assert load(json.dumps(document)) == load(router())


def test_a_programs_names_cannot_become_code() -> None:
    evil = '"""\nraise SystemExit\n"""#\\'
    text = router()
    for name in ("forward", "route", "parse_ipv4", "parser", "calc", "ethernet", "port_ingress"):
        text = text.replace(json.dumps(name), json.dumps(name + evil))
    source = load(text)
    assert source is not None
    assert not any(isinstance(node, ast.Raise) for node in ast.walk(ast.parse(source)))


def test_field_names_that_are_the_engines_own_do_not_clash() -> None:
    document = Document()
    document.header("r", [("clone", 8), ("payload", 8)])
    document.header("egress", [("spec", 8)])
    document.state("start", [extract("r"), extract("egress")])
    source = load(document.text)
    assert source is not None
    assert "R_CLONE_2 = " in source and "EGRESS_SPEC_2 = " in source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["header_types"][3]["fields"].append(["wide", 20000, False]), "20000 bits"),
        (lambda d: d["header_types"][3]["fields"].append(["odd", 3, False]), "not whole bytes"),
        (lambda d: d["actions"][0]["primitives"].append({"op": "x", "parameters": []}), "'x'"),
        (lambda d: d["calculations"][0].update(algo="md5"), "'md5'.* crc16"),
        (
            lambda d: d["calculations"][0]["input"].append(
                {"type": "hexstr", "value": "0x0", "bitwidth": 1 << 36}
            ),
            "68719476736 bits",
        ),
        (lambda d: d.update(parse_vsets=[{"name": "vs"}]), "compressed_bitwidth"),
        (lambda d: d.update(extern_instances=[{"name": "x"}]), "extern instances .* x"),
        (lambda d: d.pop("pipelines"), "no 'pipelines'"),
        (
            lambda d: d.update(register_arrays=[{"name": "r", "size": 1 << 40, "bitwidth": 32}]),
            "registers take 8796093022208 bytes",
        ),
        (
            lambda d: d.update(
                meter_arrays=[
                    {"name": "m", "id": 0, "rate_count": 2, "type": "bytes", "size": 10**9}
                ]
            ),
            "meters take 128000000000 bytes",
        ),
        (
            lambda d: d["counter_arrays"].append({"name": "c", "id": 9, "size": 1 << 40}),
            "counters take .* fewer cells",
        ),
        (lambda d: d["counter_arrays"].append({"name": "c", "id": 9, "size": -3}), "-3 cells"),
        (lambda d: d["pipelines"][0]["tables"][0].update(max_size=-5), "for -5 entries"),
        (
            lambda d: d["parsers"][0].update(
                parse_states=d["parsers"][0]["parse_states"] * (1 << 14)
            ),
            "parser states: at most 16384",
        ),
        (lambda d: d["__meta__"].update(version=[3, 0]), "version 3.0"),
    ],
)
def test_what_is_not_supported_is_named(change: Any, message: str) -> None:
    document = json.loads(router())
    change(document)
    with pytest.raises(ProgramError, match=message):
        generate(read_program(json.dumps(document)))


def test_an_expression_that_nests_too_deeply_is_refused() -> None:
    node = field("meta", "salt")
    for _ in range(400):
        node = expression("~", None, node)
    document = json.loads(router())
    document["pipelines"][0]["conditionals"][0]["expression"] = node
    for plain in (False, True):
        with pytest.raises(ProgramError):
            build(json.dumps(document), plain=plain)


def many(key: str, count: int) -> Callable[[Any], None]:
    """A change that makes a list of a program as long."""

    def change(document: Any) -> None:
        document[key] = [document[key][0] if document[key] else {}] * count

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (many("headers", 10**5), "100000 headers: at most 16384"),
        (many("actions", 10**5), f"100000 actions: at most {MOST_OBJECTS}"),
        (many("learn_lists", 10**5), f"100000 learn lists: at most {MOST_OBJECTS}"),
        (lambda d: d["errors"].extend([["x", 1]] * 10**5), "parser errors: at most"),
        (
            lambda d: d["header_types"][3]["fields"].extend(["f", 8, False] for _ in range(10**5)),
            f"fields: at most {MOST_OBJECTS}",
        ),
        (
            lambda d: d["pipelines"][0].update(tables=[{}] * 10**5),
            f"100001 tables: at most {MOST_OBJECTS}",
        ),
        (
            lambda d: d["header_stacks"].append({"name": "s", "header_ids": [0] * 10**5}),
            "100000 headers in stacks: at most",
        ),
        (
            lambda d: d["deparsers"][0].update(order=["ipv4"] * 10**5),
            "100000 headers to deparse: at most",
        ),
        (
            lambda d: d["pipelines"][0]["tables"][0].update(entries=[{}] * 10**6),
            "1000000 const entries: at most",
        ),
    ],
)
def test_a_json_with_too_much_of_something_is_refused(
    change: Callable[[Any], None], said: str
) -> None:
    document = json.loads(router())
    change(document)
    with pytest.raises(ProgramError, match=said):
        read_program(json.dumps(document))


def test_a_json_that_is_too_long_is_not_read() -> None:
    with pytest.raises(ProgramError, match=f"{MOST_TEXT_BYTES + 1} bytes: at most"):
        read_program(" " * (MOST_TEXT_BYTES + 1))


def test_what_was_translated_is_found_again_and_what_is_broken_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    text = features()
    program, path = write_source(text)
    (kept,) = (tmp_path / "cache").rglob("*.pickle")
    whole = kept.read_bytes()
    for broken in (whole, whole[:-10], b"", b"nonsense"):
        kept.write_bytes(broken)
        again, same = write_source(text)
        assert same == path
        assert again.document == program.document
        assert again.groups.uses == program.groups.uses
    assert kept.read_bytes() == whole
    path.unlink()
    assert write_source(text)[1].is_file()


def test_a_line_more_leaves_the_code_of_a_program_as_it_was(tmp_path: Path) -> None:
    """So what is kept of its functions is of use."""
    parts = {
        "types": "header h_t { bit<8> a; bit<8> b; }",
        "ingress": "hdr.h.a = 3;\nif (hdr.h.b == 1) { hdr.h.b = 2; }",
    }

    def functions(ingress: str) -> list[str]:
        made = generate(
            read_program(compiled(tmp_path, **{**parts, "ingress": ingress}).bmv2_json), DROP_PORT
        )
        bodies = [each for each in ast.parse(made).body if isinstance(each, ast.FunctionDef)]
        assert sum(each.name.startswith("action_") for each in bodies) == 2
        for each in bodies:
            del each.body[0]  # what it says of itself has the lines' numbers
        return [ast.dump(each) for each in bodies]

    assert functions(parts["ingress"]) == functions(f"\n\n{parts['ingress']}")
