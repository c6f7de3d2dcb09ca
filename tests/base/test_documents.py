"""Documents that are not as declared: the place, the value and what it should be are said."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pytest

from weft.base.documents import Damage, decoded, load, opened, read
from weft.base.errors import InputError, MachineError


class Inner(msgspec.Struct, forbid_unknown_fields=True, rename={"from_node": "from"}):
    from_node: str
    counts: dict[str, dict[str, int]] = {}
    rate: float | None = None


class Outer(msgspec.Struct, forbid_unknown_fields=True):
    inner: list[Inner]
    exact: list[int | float | None] = []


def test_what_is_as_declared_is_read() -> None:
    found = read(Outer, {"inner": ({"from": "h0", "rate": 1},), "exact": [1, 1.5, None]})
    assert found == Outer([Inner("h0", {}, 1.0)], [1, 1.5, None])
    assert [type(each) for each in found.exact] == [int, float, type(None)]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (5, "it is 5, not an object"),
        ({}, "inner is missing"),
        ({"exact": "none"}, "inner is missing"),
        ({"inner": None}, "inner is None, not a list"),
        ({"inner": [{}]}, "inner[0].from is missing"),
        ({"inner": [{"from": "h0"}, {"from": True}]}, "inner[1].from is True, not text"),
        ({"inner": [{"from": "h0", "to": 1}]}, "inner[0].to means nothing"),
        ({"inner": [], "outer": 1}, "outer means nothing"),
        ({"inner": [{"from": "", "rate": "1"}]}, "inner[0].rate is '1', not a number"),
        ({"inner": [{"from": "", "rate": math.nan}]}, "inner[0].rate is nan, which no figure"),
        ({"inner": [], "exact": [1, "x"]}, "exact[1] is 'x', not a number"),
        (
            {"inner": [{"from": "", "counts": {"a": {"b": 1}, "c": {"d": 2, "e": 2.5}}}]},
            "inner[0].counts.c.e is 2.5, not a whole number",
        ),
        (
            {"inner": [{"from": "", "counts": {"a": {}, "c": [1]}}]},
            "inner[0].counts.c is [1], not an object",
        ),
        ({"inner": [{"from": "", "counts": {"a": {5: 1}}}]}, "not as declared: Expected `str`"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(document: Any, message: str) -> None:
    with pytest.raises(Damage) as caught:
        read(Outer, document)
    assert message in str(caught.value)


def test_a_file_is_opened_parsed_and_typed(tmp_path: Path) -> None:
    file = tmp_path / "outer.json"
    file.write_text('{"inner": [{"from": "h0"}]}')
    assert load(Outer, file, 100, "outer") == Outer([Inner("h0")])
    (tmp_path / "outer.toml").write_text("[[inner]]\nfrom = 'h0'\n")
    assert opened(tmp_path / "outer.toml", 100, "outer", "TOML") == {"inner": [{"from": "h0"}]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "outer 'x' cannot be read: No such file or directory"),
        (b"\xff", "outer 'x' cannot be read: it is no text"),
        (b" " * 101, "outer 'x' cannot be read: it has 101 bytes, and at most 100 are read"),
        (b"{", "outer 'x' cannot be read: it is not valid JSON: Expecting property name"),
        (b'{"inner": 1}', "outer 'x' cannot be read: inner is 1, not a list"),
        (b'{"inner": [], "exact": [NaN]}', "outer 'x' cannot be read: exact[0] is nan, which no"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    tmp_path: Path, content: bytes | None, message: str
) -> None:
    if content is not None:
        (tmp_path / "x").write_bytes(content)
    with pytest.raises(InputError) as caught:
        load(Outer, tmp_path / "x", 100, "outer 'x'")
    assert str(caught.value).startswith(message)


def test_a_hint_says_what_to_do_about_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        opened(tmp_path / "x", 100, "results 'x'", hint="name a folder")
    said = "results 'x' cannot be read (No such file or directory): name a folder"
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "the answer: it is nested too deeply"),
        ("]", "the answer: Expecting value"),
        ("5", "the answer: it is 5, not an object"),
    ],
)
def test_text_that_is_no_file_s_ends_with_the_error_that_is_asked_for(
    text: str, message: str
) -> None:
    with pytest.raises(MachineError) as caught:
        decoded(Outer, text, "the answer", MachineError)
    assert str(caught.value).startswith(message)
