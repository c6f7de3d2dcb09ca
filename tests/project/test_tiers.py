"""The tiers of tests: what their durations name is there, and stays where tests are skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import pytest
from tests.support import tiers
from tests.support.tiers import ROOT, Durations, durations


def test_every_file_whose_duration_was_recorded_is_there() -> None:
    gone = [file for file in durations() if not (ROOT / file).is_file()]
    assert not gone, "./weft test --all --record-durations"


def test_files_whose_tests_are_skipped_keep_the_duration_that_was_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skipped, ran = "tests/conftest.py", "tests/project/test_tiers.py"
    known = {file: {"all": 7.0, "quick": 3.0} for file in (skipped, ran)}
    monkeypatch.setattr(tiers, "durations", lambda: known)
    monkeypatch.setattr(tiers, "RECORDED", tmp_path / "durations.json")
    plugin = Durations()

    def report(
        file: str, when: Literal["setup", "call"], outcome: Literal["passed", "skipped"]
    ) -> None:
        keywords: dict[str, Literal[1]] = {"slow": 1} if when == "call" else {}
        plugin.pytest_runtest_logreport(
            pytest.TestReport(
                f"{file}::test", (file, 1, "test"), keywords, outcome, None, when, duration=0.26
            )
        )

    report(skipped, "setup", "skipped")
    report(ran, "setup", "passed")
    report(ran, "call", "passed")
    plugin.pytest_sessionfinish()
    found = json.loads((tmp_path / "durations.json").read_text())
    assert found == {skipped: known[skipped], ran: {"all": 0.5, "quick": 0.3}}
