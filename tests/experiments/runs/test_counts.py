"""What was counted between two moments."""

from __future__ import annotations

from weft.experiments.runs.measured import Counts, assemble
from weft.experiments.runs.switch_statistics import SwitchProcessStatistics
from weft.experiments.runs.verdict import IN_VIRTUAL_TIME
from weft.experiments.scenario.options import from_options


def counts(unplanned: dict[str, int]) -> Counts:
    return Counts({}, {}, {}, unplanned, SwitchProcessStatistics([], 0.0), {}, {}, {}, {})


def test_packets_that_were_lost_meanwhile_are_told_by_where() -> None:
    before = counts({"leaf0": 3, "leaf1": 2, "spine0": 0})
    after = counts({"leaf0": 3, "leaf1": 7, "spine0": 1, "spine1": 1, "spine2": 0})
    assert after.unplanned_since(before) == {"leaf1": 5, "spine0": 1, "spine1": 1}


def test_a_run_that_ended_before_any_rank_reported_has_all_ranks_as_failed() -> None:
    scenario = from_options({"collective": "allgather", "world": "simulated", "leaves": 2})
    run = assemble(scenario, "ring", 0, [], [], IN_VIRTUAL_TIME, error="the switches are gone")
    assert (run.verified, run.completion_ns, run.error) == (False, None, "the switches are gone")
    assert [(rank.rank, rank.host) for rank in run.ranks] == [(n, f"h{n}") for n in range(4)]
    assert {rank.error for rank in run.ranks} == {"the switches are gone"}
    assert run.fidelity.verdict == "failed"


def test_a_run_of_which_nothing_was_reported_is_not_verified() -> None:
    scenario = from_options({"collective": "allgather", "world": "simulated", "leaves": 2})
    run = assemble(scenario, "ring", 0, [], [], IN_VIRTUAL_TIME)
    assert (run.verified, run.ranks, run.error) == (False, [], None)
