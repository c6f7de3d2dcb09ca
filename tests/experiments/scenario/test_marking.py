"""From which queue on switches mark where nobody says: the formula, its bounds, and where it is
told."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.experiments.report.scenarios import command_line
from weft.experiments.runner import run
from weft.experiments.scenario.longest_path import Marking
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.scenario import Scenario

FAST: dict[str, Any] = {"world": "simulated", "rate_bps": 10**11, "delay_ns": 1000}


def of(scenario: Scenario) -> Marking:
    return Marking.of(scenario.network(), scenario.mtu)


@given(
    bdp=st.floats(1, 500), flows=st.integers(1, 64), paths=st.integers(0, 64),
    queue=st.integers(4, 4000), senders=st.integers(1, 1000),
)  # fmt: skip
def test_a_threshold_fits_its_queue_and_is_no_less_than_dctcps(
    bdp: float, flows: int, paths: int, queue: int, senders: int
) -> None:
    marking = Marking(bdp, flows, paths, queue, senders)
    threshold = marking.threshold_packets
    assert 1 <= threshold <= max(queue // 2, queue - senders)
    if threshold < marking.most_packets:
        assert threshold >= bdp / 7 + flows


@given(bdp=st.floats(1, 500), paths=st.integers(2, 64))
def test_a_burst_is_two_standard_deviations_of_sixteen_rounds(bdp: float, paths: int) -> None:
    burst = Marking(bdp, 1, paths, 100, 1).burst_packets
    packets = 16 * (bdp + burst)
    assert burst == pytest.approx(2 * math.sqrt(packets * (1 - 1 / paths)))


def test_bursts_have_the_spread_of_packets_that_choose_at_random() -> None:
    paths, packets = 4, 16 * 60
    random = np.random.default_rng(1)
    # As many choose as all paths carry together.
    chosen = (random.integers(0, paths, (2000, packets * paths)) == 0).sum(axis=1)
    assert chosen.std() == pytest.approx(math.sqrt(packets * (1 - 1 / paths)), rel=0.05)


def test_the_default_follows_rate_delay_and_size() -> None:
    square: dict[str, Any] = {"leaves": 4, "spines": 4, "hosts_per_leaf": 4}
    slow = Scenario("alltoall", world="simulated", **square)
    fast = Scenario("alltoall", **FAST, **square)
    far = Scenario("alltoall", **{**FAST, "delay_ns": 20_000}, **square)
    more = Scenario("alltoall", **FAST, leaves=4, spines=4, hosts_per_leaf=8)
    assert [each.ecn_threshold_packets for each in (slow, fast, far)] == [57, 76, 110]
    assert more.ecn_threshold_packets == min(76 + 4, 125 - 31)
    assert Scenario("alltoall", **FAST, **square, queue_bytes=1 << 18).ecn_threshold_packets == 47
    assert Scenario("alltoall", world="simulated", topology="single").ecn_threshold_packets == 9
    assert Scenario("alltoall", congestion="window").ecn_threshold_packets == 0
    assert of(fast).bdp_packets == pytest.approx(4 * (1 + 62 / 4174) + 8_000 / 334, rel=0.01)


def test_what_is_said_counts_and_is_the_same_in_both_worlds() -> None:
    assert from_options({"collective": "alltoall", "ecn-threshold": 16}).ecn_threshold_packets == 16
    with pytest.raises(InputError, match="ecn-threshold 0"):
        from_options({"collective": "alltoall", "ecn-threshold": 0})
    emulated = Scenario("alltoall")
    assert replace(emulated, world="simulated").ecn_threshold_packets == (
        emulated.ecn_threshold_packets
    )
    assert "ecn" not in command_line(emulated)
    assert "--ecn-threshold 16" in command_line(Scenario("alltoall", ecn_threshold_packets=16))


def test_results_say_what_was_chosen_and_why() -> None:
    options: dict[str, Any] = {"world": "simulated", "leaves": 2, "hosts_per_leaf": 1}
    results = run(Scenario("alltoall", **options, size_bytes=8192))
    (note,) = results.notes
    threshold = results.runs[0].scenario["ecn_threshold_packets"]
    assert note.startswith(f"switches mark from {threshold} packets on: a seventh of the bandwidth")
    assert "one for each of 1 hosts whose flows meet" in note
    given_threshold = run(Scenario("alltoall", **options, size_bytes=8192, ecn_threshold_packets=5))
    assert given_threshold.notes == []
