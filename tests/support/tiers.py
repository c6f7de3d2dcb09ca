"""The tiers of tests: what ``./weft test --fast`` leaves out, and what only ``--all`` runs.

*fast* takes little more than a minute on two processors: no system test, and no file whose tests
take longer than `QUICK_S`. *whole* is what ``./weft test`` runs: all but the tests that are marked
``slow``, which are the tier *slow*. *all* is everything, as continuous integration runs it.

How long the tests of a file take was recorded: ``./weft test --all --record-durations``.
"""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

TIERS = ("fast", "whole", "slow", "all")
QUICK_S = 2.5
RECORDED = Path(__file__).with_name("durations.json")
ROOT = RECORDED.parents[2]


@cache
def durations() -> dict[str, dict[str, float]]:
    """Of each file, by its path from the root, how long its tests take in seconds: ``all`` of them,
    and the ``quick``, neither system tests nor slow ones."""
    known: dict[str, dict[str, float]] = json.loads(RECORDED.read_text())
    return known


def seconds_of(file: Path, which: str = "all") -> float:
    """How long the tests of a file take; 0 for a file that is new."""
    name = str(file.relative_to(ROOT)) if file.is_relative_to(ROOT) else ""
    return durations().get(name, {}).get(which, 0.0)


def has_none(tier: str, file: Path) -> bool:
    """Return whether a file is known to have no test of a tier, and need not be imported."""
    return tier == "fast" and seconds_of(file, "quick") > QUICK_S


def is_in(tier: str, item: pytest.Item) -> bool:
    """Return whether a test belongs to a tier."""
    if tier == "all":
        return True
    if item.get_closest_marker("slow") is not None:
        return tier == "slow"
    quick = item.get_closest_marker("system") is None and seconds_of(item.path, "quick") <= QUICK_S
    return tier == "whole" or (tier == "fast" and quick)


class Durations:
    """A plugin of pytest that records how long the tests of each file take."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, float]] = defaultdict(lambda: {"all": 0.0, "quick": 0.0})
        self._ran: set[str] = set()
        """The files of which not all tests were skipped for want of something."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = report.nodeid.partition("::")[0]
        if report.when == "call" and not report.skipped:
            self._ran.add(file)
        found = self._found[file]
        found["all"] += report.duration
        if not {"system", "slow"} & set(report.keywords):
            found["quick"] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Keep what is known of other files that are there, and of those that were skipped."""
        known = {file: kept for file, kept in durations().items() if (ROOT / file).is_file()}
        known |= {
            file: {which: round(seconds, 1) for which, seconds in found.items()}
            for file, found in self._found.items()
            if file in self._ran or file not in known
        }
        lines = (f"{json.dumps(file)}: {json.dumps(known[file])}" for file in sorted(known))
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
