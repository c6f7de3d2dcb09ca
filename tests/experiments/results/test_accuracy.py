"""How accurate a run's sums were is in its results, in the terminal's table and in the report."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs
from rich.console import Console
from tests.support.results_samples import sample_results

from weft import Scenario, run
from weft.agents.ranks import RankReport
from weft.experiments.report import render
from weft.experiments.results.accuracy import Accuracy
from weft.experiments.results.results import Results, Run
from weft.experiments.results.summary import Summary
from weft.experiments.results.table import summary_table
from weft.experiments.runs.measured import accuracy_of

SMALL: dict[str, Any] = {"world": "simulated", "topology": "single", "hosts_per_leaf": 4}
ERRORS = ("error, rms", "max of terms", "max relative", "of its bound")
"""Columns of the report for sums of data that are not exact."""
FIGURES = Accuracy(2.5, 5.6e-8, 3.1e-2, 0.87)


def printed(results: Results) -> str:
    with open("/dev/null", "w") as nowhere:
        console = Console(width=100, record=True, file=nowhere)
        console.print(summary_table(results))
        return console.export_text()


def test_a_run_on_gradients_says_how_far_its_sums_are_from_exact_ones() -> None:
    options = {**SMALL, "collective": "allreduce", "size_bytes": 8192, "data": "mixed"}
    results = run(Scenario(**options, algorithms=("ring", "optcast", "switch"), servers=2))
    assert results.verified
    ring, optcast, switch = (one.accuracy for one in results.runs)
    assert ring and optcast and switch
    for one in (ring, optcast):  # 3 additions in float32
        assert 0 < one.error_rms_relative < one.error_max_of_terms < 3 * 2.0**-24
        assert 0 < one.error_max_of_bound < 1
    assert ring != optcast  # they add in other orders
    # Small numbers lose digits beside large ones of their block, the whole does not.
    assert 1000 * 2.0**-24 < switch.error_max_of_terms < switch.error_max_relative
    assert switch.error_rms_relative < 2.0**-23
    assert 0 < switch.error_max_of_bound < 1
    again = Results.from_dict(json.loads(results.text()))
    assert [one.accuracy for one in again.runs] == [ring, optcast, switch]


def test_the_same_seed_gives_the_same_errors_and_another_others() -> None:
    options = {**SMALL, "collective": "reduce-scatter", "algorithms": ("switch",)}
    scenario = Scenario(**options, size_bytes=4096, data="normal", dtype="float16", op="average")
    one, again, other = (
        run(each).runs[0].accuracy for each in (scenario, scenario, replace(scenario, seed=2))
    )
    assert one is not None
    assert one == again != other


def test_gradients_of_fsdp_are_reduced_and_parameters_gathered_byte_by_byte() -> None:
    options = {**SMALL, "collective": "fsdp-interleave", "model": "", "size_bytes": 16_384}
    results = run(Scenario(**options, layers=2, data="heavy-tailed"))
    assert results.verified
    assert all(one.accuracy is not None for one in results.runs)


def test_exact_data_have_no_errors_to_tell() -> None:
    options = {**SMALL, "collective": "allreduce", "size_bytes": 4096}
    results = run(Scenario(**options, algorithms=("ring",)))
    assert results.verified
    assert results.runs[0].accuracy is None
    assert "error" not in printed(results)
    assert ERRORS[0] not in render(results)


def test_a_run_has_the_worst_of_its_ranks_figures() -> None:
    def report(rank: int, **figures: float) -> RankReport:
        return RankReport(rank, f"h{rank}", "ring", True, accuracy=figures)

    names = ("error_max_relative", "error_rms_relative", "error_max_of_terms", "error_max_of_bound")
    one = report(0, **dict(zip(names, (1.0, 2.0, 5.0, 0.5), strict=True)))
    other = report(1, **dict(zip(names, (2.0, 1.0, 4.0, 0.7), strict=True)))
    assert accuracy_of([one, other]) == Accuracy(2.0, 2.0, 5.0, 0.7)
    assert accuracy_of([one, report(1)]) is None  # a rank failed
    assert accuracy_of([]) is None


def with_accuracy(results: Results, *figures: Accuracy | None) -> Results:
    results.runs = [
        structs.replace(one, accuracy=each) for one, each in zip(results.runs, figures, strict=True)
    ]
    return results


def rounded_runs(repeat: int = 1, **options: Any) -> Results:
    return sample_results(
        repeat=repeat, collective="allreduce", algorithms=("ring", "switch"), data="mixed",
        **options,
    )  # fmt: skip


def test_the_table_tells_errors_under_the_runs_of_one_point() -> None:
    text = printed(with_accuracy(rounded_runs(), None, FIGURES))
    assert "errors of switch: rms 5.6e-08 of the exact sums', at most 3.1e-02 of what is" in text
    assert "added, 87 % of the bound" in " ".join(text.split())
    assert "errors of ring" not in text


def test_the_table_of_many_points_has_columns_of_errors() -> None:
    results = with_accuracy(rounded_runs(), None, FIGURES)
    others = with_accuracy(rounded_runs(dtype="float16"), FIGURES, None)
    results.runs += others.runs
    results.swept = ["dtype"]
    lines = printed(results).splitlines()
    assert any("rms      max" in line for line in lines)
    (switch,) = [line for line in lines if "float32  switch" in line]
    (ring,) = [line for line in lines if "float32  ring" in line]
    assert "5.6e-08  3.1e-02" in switch
    assert "5.6e-08" not in ring
    assert all(len(line) <= 100 for line in lines)


def test_the_report_has_columns_of_errors() -> None:
    markup = render(with_accuracy(rounded_runs(), None, FIGURES))
    for words in (*ERRORS, "5.6e-08", "3.1e-02", "2.5e+00", "87 %", "distances of the worst rank"):
        assert words in markup


def test_repetitions_have_the_median_of_rms_and_the_greatest_of_the_rest() -> None:
    runs: list[Run] = with_accuracy(
        sample_results(repeat=3, collective="allreduce", algorithms=("ring",), data="normal"),
        Accuracy(1.0, 3.0, 1.0, 0.3), Accuracy(5.0, 1.0, 4.0, 0.1), Accuracy(2.0, 2.0, 2.0, 0.2),
    ).runs  # fmt: skip
    assert Summary("ring", tuple(runs)).accuracy == Accuracy(5.0, 2.0, 4.0, 0.3)


@pytest.mark.parametrize("value", [None, {"error_max_relative": 1.0}, 3])
def test_a_document_with_half_an_accuracy_is_damaged(value: object) -> None:
    document = json.loads(with_accuracy(rounded_runs(), FIGURES, FIGURES).text())
    document["runs"][0]["accuracy"] = value
    if value is None:
        assert Results.from_dict(document).runs[0].accuracy is None
        return
    with pytest.raises(Exception, match=r"runs\[0\].accuracy"):
        Results.from_dict(document)
