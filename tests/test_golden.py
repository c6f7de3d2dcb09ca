"""Nothing of the golden set has changed: digests, results, plans, help and error texts."""

from __future__ import annotations

import pytest

from tests.golden import recording

KINDS = [kind for kind in recording.ENTRIES if kind != "traces"]
"""Traces have a file of tests of their own, which imports no world (test_transport_traces.py)."""


def _entries(kind: str) -> list[object]:
    return [pytest.param(kind, line, id=f"{kind}: {line}") for line in recording.lines_of(kind)]


@pytest.mark.parametrize("kind", recording.ENTRIES)
def test_every_line_has_an_entry_and_every_entry_a_line(kind: str) -> None:
    lines = recording.lines_of(kind)
    assert len(lines) == len(set(lines))
    assert list(recording.read(kind)) == lines


@pytest.mark.parametrize(("kind", "line"), [each for kind in KINDS for each in _entries(kind)])
def test_what_comes_of_a_line_is_what_came_of_it(kind: str, line: str) -> None:
    assert recording.entry_of(kind, line) == recording.read(kind)[line]
