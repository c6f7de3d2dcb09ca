"""Documents that are not as declared: the place, the value and what it should be are said."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from weft.base.documents import Damage, read


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
