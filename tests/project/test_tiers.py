"""The tiers of tests: what their durations name is there."""

from __future__ import annotations

from tests.support.tiers import ROOT, durations


def test_every_file_whose_duration_was_recorded_is_there() -> None:
    gone = [file for file in durations() if not (ROOT / file).is_file()]
    assert not gone, "./weft test --all --record-durations"
