"""What an engine's schedule comes to, against what can be said of it beforehand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.experiments.engines.schedule import makespan_s
from weft.tools.bench.engines import lines

TIMES = st.lists(st.integers(1, 100).map(float), max_size=40)


@given(points=TIMES, workers=st.integers(1, 10))
def test_a_schedule_is_between_the_least_possible_and_what_list_scheduling_may_cost(
    points: list[float], workers: int
) -> None:
    """Graham's bound for giving each job to whoever is free first."""
    least = max([sum(points) / workers, *points])
    found = makespan_s(points, workers)
    assert least <= found + 1e-9
    assert found <= sum(points) / workers + max(points, default=0) * (1 - 1 / workers) + 1e-9


@given(points=TIMES)
def test_one_worker_takes_the_sum_and_enough_of_them_the_longest(points: list[float]) -> None:
    assert makespan_s(points, 1) == sum(points)
    assert makespan_s(points, 40) == max(points, default=0)


def test_an_engine_that_is_slow_to_give_out_is_the_bottleneck() -> None:
    assert makespan_s([0.1] * 1000, 800, dispatch_s=0.01) == pytest.approx(10.1)
    assert makespan_s([1.0] * 4, 2, start_s=3, warm_s=4) == pytest.approx(9)
    # While a worker works the engine gets its next point ready.
    assert makespan_s([1.0] * 4, 1, dispatch_s=0.1) == pytest.approx(4.1, abs=0.4)


def test_figures_become_two_tables() -> None:
    row = dict.fromkeys(
        ("ratio", "balanced", "engine_s", "serial_s", "point_s", "least_point_s", "each_ms", "up_s",
         "warm_s", "worker_bytes", "simulated_over_measured", "planned_s", "planned_machines_s",
         "bound_s"),
        1.0,
    )  # fmt: skip
    figures = {"points": 4, "pairs": 1, "planned": 10_000, "machines": 100, "cores_planned": 8}
    text = "\n".join(lines({**figures, "rows": [{"engine": "local:2", **row}]}))
    assert "4 points on 2 workers" in text and "10000 such points on 100 machines" in text
