"""Every datagram of random exchanges is what it was: the golden set's part that needs no world."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden.traces import trace_entry

FOLDER = Path(__file__).resolve().parents[2] / "golden"
LINES = [
    line
    for line in (FOLDER / "traces.txt").read_text("utf-8").splitlines()
    if line and not line.startswith("#")
]


@pytest.mark.parametrize("line", LINES)
def test_an_exchange_is_what_it_was(line: str) -> None:
    kept = json.loads((FOLDER / "traces.json").read_text("utf-8"))
    assert json.loads(json.dumps(trace_entry(line))) == kept[line]
