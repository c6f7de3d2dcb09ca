"""Times are compared where they can be believed; elsewhere predictions are, and said to be."""

from __future__ import annotations

import pytest
from msgspec import structs
from rich.console import Console
from tests.support.results_samples import sample_results, summarize

from weft.experiments.plots.draw import svg_of
from weft.experiments.plots.series import lines_of
from weft.experiments.report import render
from weft.experiments.report.words import headline
from weft.experiments.results.comparison import compare, why_not_measured
from weft.experiments.results.results import Results
from weft.experiments.results.summary import by_point
from weft.experiments.results.table import summary_table
from weft.experiments.scenario.plot_spec import PlotSpec


def judged(
    verdict: str, *, predicted: bool = True, collective: str = "allreduce", repeat: int = 1
) -> Results:
    """Switch and ring; the ring's runs have the verdict. Measured, the switch is 4 times as fast;
    predicted, 2 times."""
    results = sample_results(
        repeat=repeat, collective=collective, algorithms=("switch", "ring"), rate_bps=100_000_000
    )
    for index, run in enumerate(results.runs):
        ring = run.algorithm == "ring"
        results.runs[index] = structs.replace(
            run,
            completion_ns=400_000_000 if ring else 100_000_000,
            predicted_ns=(180_000_000 if ring else 90_000_000) if predicted else None,
            fidelity=structs.replace(
                run.fidelity,
                verdict=verdict if ring else "ok",
                reasons=["it was busy"] if ring else [],
            ),
        )
    return results


def caption(results: Results) -> str:
    console = Console(width=300, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(summary_table(results))
    return " ".join(console.export_text().split())


def test_two_runs_that_are_ok_are_compared_as_measured() -> None:
    results = judged("ok")
    assert "switch: 4.00 times as fast as ring" in caption(results)
    assert (headline(by_point(results)) or "").startswith("Switch was 4 times as fast as ring; ")


@pytest.mark.parametrize("verdict", ["strained", "invalid"])
def test_where_one_is_not_ok_the_predicted_ratio_stands_and_what_to_lower(verdict: str) -> None:
    results = judged(verdict)
    why = (
        f"measured times are not compared, since the fidelity of ring is {verdict}; to measure "
        "it, lower the rate (100 Mbit/s) or the number of hosts (8)"
    )
    for text in (caption(results), headline(by_point(results)) or "", render(results)):
        assert why in text
        assert "4.00 times" not in text and "4 times" not in text
    assert "switch: predicted to be 2.00 times as fast as ring" in caption(results)
    assert (headline(by_point(results)) or "").startswith(
        "The simulated world predicts that switch will be 2 times as fast as ring; measured"
    )


def test_without_a_prediction_nothing_is_compared() -> None:
    results = judged("invalid", predicted=False)
    text = caption(results)
    assert "as fast as ring" not in text
    assert "switch: measured times are not compared, since the fidelity of ring is" in text
    assert "as fast as" not in (headline(by_point(results)) or "")


def test_one_failed_run_of_several_is_enough_and_says_so() -> None:
    results = judged("ok", repeat=2)
    last = results.runs[-1]
    results.runs[-1] = structs.replace(
        last, verified=False, completion_ns=None, fidelity=last.fidelity.of_failed()
    )
    switch, ring = summarize(results)
    found = compare(switch, ring)
    assert found is not None and not found.measured
    assert why_not_measured([found]) == "runs of ring failed"


def test_points_that_can_be_believed_are_compared_apart_from_the_others() -> None:
    good, bad = judged("ok"), judged("invalid")
    scenario = {**bad.runs[0].scenario, "size_bytes": 65536}
    runs = [structs.replace(run, scenario=scenario) for run in bad.runs]
    both = structs.replace(good, runs=[*good.runs, *runs], swept=["size"])
    text = headline(by_point(both)) or ""
    assert text.startswith(
        "Switch was 4 times as fast as ring; the simulated world predicts that switch will be 2 "
        "times as fast as ring; measured times are not compared at 1 of 2 points, since"
    )
    (line,) = lines_of(both, PlotSpec(x="size", y="speed-up")).lines
    assert line.x == (65536, 1048576)
    assert line.y == (2, 4)
    assert line.predicted == (True, False)
    assert line.doubtful == (False, False)
    assert b"svg" in svg_of(both, PlotSpec(x="size", y="speed-up"))


def test_a_speed_up_that_nothing_predicts_is_not_drawn() -> None:
    assert (
        lines_of(judged("invalid", predicted=False), PlotSpec(x="ranks", y="speed-up")).lines == ()
    )
