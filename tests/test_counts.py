"""What was counted between two moments."""

from __future__ import annotations

from experiments.run.measured import Counts


def counts(unplanned: dict[str, int]) -> Counts:
    return Counts({}, {}, {}, unplanned, {}, {}, {})


def test_packets_that_were_lost_meanwhile_are_told_by_where() -> None:
    before = counts({"leaf0": 3, "leaf1": 2, "spine0": 0})
    after = counts({"leaf0": 3, "leaf1": 7, "spine0": 1, "spine1": 1, "spine2": 0})
    assert after.unplanned_since(before) == {"leaf1": 5, "spine0": 1, "spine1": 1}
