"""``weft bench balance``: what it measures and says."""

from __future__ import annotations

import pytest

from weft.base.errors import RunError
from weft.experiments.families.resharding.exact import Solution, solve
from weft.experiments.families.resharding.jobs import Job
from weft.tools.bench import balance as bench
from weft.tools.bench import benchmarks


def test_balancers_are_beside_the_exact_solution() -> None:
    figures = bench.measure(problems=3)
    rows = {row["balance"]: row for row in figures["rows"]}
    assert {*rows} == {"none", "least-loaded", "greedy", "dfs", "best"}
    for row in rows.values():
        assert 1 <= row["least"] <= row["mean"] <= row["greatest"]
        assert (row["as_short"] == 3) == (row["greatest"] == 1)
    assert rows["best"]["mean"] <= min(rows["greedy"]["mean"], rows["dfs"]["mean"])
    assert figures == bench.measure(problems=3)
    text = "\n".join(benchmarks.lines("balance", figures))
    assert "3 random problems" in text and "least-loaded" in text


def test_a_problem_that_is_not_solved_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def given_up(jobs: list[Job]) -> Solution:
        return solve(jobs)._replace(optimal=False)

    monkeypatch.setattr(bench, "solve", given_up)
    with pytest.raises(RunError, match="problem 0 was not solved to the end"):
        bench.measure(problems=1)
