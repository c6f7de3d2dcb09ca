"""Damaged results documents: an error that names the place, or a report all the same."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.results_samples import sample_results, summarize

from weft.base.errors import InputError
from weft.experiments.report.page import render
from weft.experiments.results.results import Results
from weft.experiments.results.table import summary_table

GOOD: dict[str, Any] = json.loads(json.dumps(sample_results(repeat=2).to_dict()))
Place = tuple[Any, ...]


def places(value: object, place: Place = ()) -> Iterator[Place]:
    """Every place in a document, by the keys and indices that lead there."""
    if place:
        yield place
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value[:2]):
            yield from places(inner, (*place, index))


PLACES = list(places(GOOD))
REMOVE = object()


def damaged(place: Place, value: object) -> dict[str, Any]:
    document = copy.deepcopy(GOOD)
    inner: Any = document
    for key in place[:-1]:
        inner = inner[key]
    if value is REMOVE:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        (("runs", 0, "tiers", "host_up"), REMOVE, "runs[0].tiers.host_up is missing"),
        (("runs", 0, "tiers"), [], "runs[0].tiers is [], not an object"),
        (("runs", 1, "scenario"), None, "runs[1].scenario is None, not an object"),
        (("runs", 0, "scenario", "mtu"), [1], "runs[0].scenario: mtu is [1], not a whole number"),
        (("runs", 0, "scenario", "loss"), "x", "runs[0].scenario: loss is 'x', not a number"),
        (("runs", 0, "scenario", "k"), 3, "runs[0].scenario: --k 3 means nothing"),
        (("runs", 0, "scenario", "rate_bps"), REMOVE, "runs[0].scenario: rate_bps is missing"),
        (("runs", 0, "completion_ns"), math.nan, "runs[0].completion_ns is nan, which no figure"),
        (("runs", 0, "goodput_bps"), math.inf, "runs[0].goodput_bps is inf, which no figure"),
        (("runs", 0, "bound_ns"), 10**400, "runs[0].bound_ns is 1000"),
        (("runs", 0, "ranks", 1, "phases_ns"), None, "runs[0].ranks[1].phases_ns is None"),
        (("runs", 0, "ranks", 1, "rank"), True, "ranks[1].rank is True, not a whole number"),
        (("runs", 0, "links", 3, "tx_bytes"), "7", "links[3].tx_bytes is '7', not a whole number"),
        (("runs", 0, "links", 3, "from"), REMOVE, "links[3].from is missing"),
        (("runs", 0, "links", 3, "tier"), "up", "links[3].tier is 'up', not one of host_up"),
        (("runs", 0, "links", 3, "extra"), 1, "links[3].extra means nothing"),
        (("runs", 0, "fidelity", "verdict"), 1, "runs[0].fidelity.verdict is 1, not text"),
        (("runs", 1, "algorithm"), "rang", "algorithm is 'rang', not one of the scenario's: multi"),
        (("runs", 0, "load_bin_ns"), -1, "runs[0].load_bin_ns is -1, which is no time"),
        (("runs", 0, "load_bin_ns"), 0, "not bins of the same times"),
        (("runs", 0, "links", 1, "load_bytes"), [1], "not bins of the same times"),
        (("runs", 0, "links", 1, "queue_depths"), [[1]], "queue_depths are pairs"),
        (("runs", 0, "queues", "host_down", "p50"), -3, "queues.host_down is not max, p50, p99"),
        (("runs",), REMOVE, "runs is missing"),
        (("started",), "\ud800", "started is '\\ud800', which is not Unicode"),
        (("environment", "python"), math.nan, "environment.python is nan"),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else None,
)
def test_the_place_of_the_damage_is_named(place: Place, value: object, words: str) -> None:
    with pytest.raises(InputError) as caught:
        Results.from_dict(damaged(place, value))
    assert str(caught.value).startswith("the results document is damaged: ")
    assert words in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("[" * 100_000)
    with pytest.raises(InputError, match="nested too deeply"):
        Results.read(tmp_path)


VALUES = st.one_of(
    st.just(REMOVE), st.none(), st.booleans(), st.integers(), st.integers(-(10**400), 10**400),
    st.floats(), st.text(max_size=5), st.just("\ud800"), st.just([]), st.just({}),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text(max_size=3), st.integers()),
    st.just("0001-01-01T00:00:00+23:00"), st.sampled_from([1 << 64, -(1 << 64), 1e-300]),
)  # fmt: skip


@given(st.sampled_from(PLACES), VALUES)
def test_any_damage_is_an_input_error_or_a_report(place: Place, value: object) -> None:
    try:
        results = Results.from_dict(damaged(place, value))
    except InputError:
        return
    assert render(results).encode()
    assert summary_table(results).row_count == len(summarize(results))
