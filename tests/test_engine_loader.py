"""The loader of BMv2 JSON: whatever it is given, a program, or an error that says why not."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switch.engine.build import build
from switch.engine.control import ProgramError
from switch.engine.generate import generate
from switch.engine.program import read_program
from tests.engine_programs import Document, expression, extract, features, field, router

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


DOCUMENTS = [json.loads(router()), json.loads(features())]
PLACES = [places(document) for document in DOCUMENTS]


def load(text: str) -> str | None:
    """The generated source, or None if the program was refused."""
    try:
        return generate(read_program(text))
    except ProgramError as error:
        assert str(error)
        return None


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_program_is_refused_or_still_is_python(data: st.DataObject) -> None:
    which = data.draw(st.integers(0, 1))
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
    document.header("p", [("frame", 8), ("payload", 8)])
    document.header("egress", [("spec", 8)])
    document.state("start", [extract("p"), extract("egress")])
    source = load(document.text)
    assert source is not None
    assert "P_FRAME_2 = " in source and "EGRESS_SPEC_2 = " in source


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["header_types"][3]["fields"].append(["wide", 128, False]), "128 bits"),
        (lambda d: d["header_types"][3]["fields"].append(["odd", 3, False]), "not whole bytes"),
        (lambda d: d["actions"][0]["primitives"].append({"op": "x", "parameters": []}), "'x'"),
        (lambda d: d["calculations"][0].update(algo="md5"), "supported: crc16"),
        (
            lambda d: d["calculations"][0]["input"].append(
                {"type": "hexstr", "value": "0x0", "bitwidth": 1 << 36}
            ),
            "68719476736 bits",
        ),
        (lambda d: d.update(parse_vsets=[{"name": "vs"}]), "parse vsets .* vs"),
        (lambda d: d.pop("pipelines"), "no 'pipelines'"),
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
