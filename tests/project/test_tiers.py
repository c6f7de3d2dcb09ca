"""The tiers of tests: what they name is there."""

from __future__ import annotations

from pathlib import Path

from tests.support.tiers import LONG


def test_every_file_that_is_left_out_of_the_fast_tier_is_there() -> None:
    files = {path.stem for path in Path(__file__).resolve().parents[1].rglob("test_*.py")}
    assert files >= LONG
