"""Nothing of the golden set has changed: digests, results, plans, help and error texts."""

from __future__ import annotations

import multiprocessing
import time

import pytest
from tests.golden import recording
from tests.golden.__main__ import main

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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show"], "usage: python -m tests.golden"),
        (["shwo"], "usage: python -m tests.golden"),
        (["show", "allgather", "--algorithm"], "write a collective, and options as --name value"),
        (["show", "allgather", "ring", "4"], "write a collective, and options as --name value"),
        (["show", "allgather", "--algorithm", "ring,linear"], "'ring,linear' is unknown"),
        (["show", "allgather", "--nothing", "4"], "nothing"),
        (["show", "allgather", "--algorithm", "it's"], "it's"),
    ],
)
def test_what_cannot_be_shown_is_said(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_command_that_does_not_end_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recording, "LONGEST_S", 0.2)
    monkeypatch.setattr(recording, "_command", lambda *_: time.sleep(60))
    monkeypatch.setattr(recording, "ENTRIES", {"errors": recording.text_entry})
    assert main([]) == 1
    assert "has not ended after 0.2 s" in capsys.readouterr().err
    assert multiprocessing.active_children() == []
