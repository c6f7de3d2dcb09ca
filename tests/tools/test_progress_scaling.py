"""How many workers a rate takes, against values that were computed by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.tools.bench.progress_scaling import OffloadedThread, Scaling, fitted


def test_the_contention_is_that_of_two_workers_where_no_more_have_cores() -> None:
    # 2 x 100 / 160 - 1 = 0.25; four workers on two cores say nothing.
    found = fitted({1: 100.0, 2: 160.0, 4: 161.0}, cores=2)
    assert found == Scaling(100.0, 0.25, (1, 2), 2)
    assert found.rate(1) == 100
    assert found.rate(2) == pytest.approx(160)
    assert found.rate(4) == pytest.approx(400 / 1.75)
    assert found.limit == 400


def test_more_counts_are_fitted_by_least_squares() -> None:
    # Lost: 2 x 100 / 160 - 1 = 0.25 at distance 1, 4 x 100 / 200 - 1 = 1 at distance 3.
    found = fitted({1: 100.0, 2: 160.0, 4: 200.0}, cores=4)
    assert found is not None
    assert found.contention == pytest.approx((1 * 0.25 + 3 * 1.0) / (1 + 9))
    assert found.counts == (1, 2, 4)


def test_workers_that_share_nothing_or_help_each_other_have_no_limit() -> None:
    for both in (200.0, 210.0):
        found = fitted({1: 100.0, 2: both}, cores=2)
        assert found is not None
        assert (found.contention, found.limit) == (0.0, None)
        assert found.needed(1000).least == found.needed(1000).most == 10


@pytest.mark.parametrize(
    ("rates", "cores"), [({}, 4), ({1: 1.0}, 4), ({2: 1.0, 4: 2.0}, 4), ({1: 1.0, 2: 1.9}, 1)]
)
def test_a_law_takes_one_worker_and_another_number_on_own_cores(
    rates: dict[int, float], cores: int
) -> None:
    assert fitted(rates, cores) is None


def test_the_interval_is_what_a_hand_computes() -> None:
    law = Scaling(100.0, 0.25, (1, 2), 2)
    # Linear 1.5 and 3; by the law W >= R (1 - s) / (1 - R s), R in workers alone.
    for rate, least, most, extrapolated in (
        (50, 1, 1, False),
        (100, 1, 1, False),
        (150, 2, 2, False),  # 1.5 x 0.75 / (1 - 0.375) = 1.8
        (160, 2, 2, False),  # exactly 2
        (161, 2, 3, True),
        (300, 3, 9, True),  # 3 x 0.75 / (1 - 0.75) = 9
        (399, 4, 1197, True),
        (400, 4, None, True),  # the limit is reached by no number
        (500, 5, None, True),
    ):
        found = law.needed(rate)
        assert (found.least, found.most, found.extrapolated) == (least, most, extrapolated), rate


def test_a_second_worker_that_only_slows_is_of_no_use() -> None:
    law = fitted({1: 100.0, 2: 90.0}, cores=2)
    assert law is not None
    assert law.contention > 1
    assert law.needed(100).most == 1
    assert law.needed(101).most is None


@given(
    st.floats(1, 1e9), st.floats(0, 1.5), st.floats(0.01, 50),
)  # fmt: skip
def test_the_most_is_the_fewest_workers_that_reach_the_rate_by_the_law(
    alone: float, contention: float, times: float
) -> None:
    law = Scaling(alone, contention, (1, 2), 2)
    found = law.needed(alone * times)
    assert found.least == math.ceil(alone * times / alone)
    if found.most is None:
        assert law.limit is not None
        assert law.limit <= alone * times * (1 + 1e-9)
        return
    assert found.most >= found.least
    assert law.rate(found.most) >= alone * times * (1 - 1e-9)
    if found.most > 1:
        assert law.rate(found.most - 1) < alone * times * (1 + 1e-6)


def test_a_smartnics_thread_takes_cycles_at_a_clock() -> None:
    thread = OffloadedThread(600, 1.5e9)
    assert thread.chunk_ns == 400
    assert [thread.threads(rate) for rate in (1, 2.5e6, 2.6e6, 25e6)] == [1, 1, 2, 10]
