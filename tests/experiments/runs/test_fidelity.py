"""The verdict on whether a run measured the network or the machine."""

from __future__ import annotations

from typing import Any

import pytest

from weft.experiments.runs.fidelity import STILL, judge, lateness_of
from weft.experiments.runs.switch_statistics import SwitchProcessStatistics

QUIET: dict[str, Any] = {
    "completion_ns": 600_000_000, "cpu_busy": 0.5, "cpu_stolen": 0.0, "cpu_own": 0.4,
    "cpu_s": {"switch": 0.2},
    "lateness_ns": {"switch_p99": 100_000, "switch_max": 900_000}, "unplanned_losses": {"h0": 0},
    "burst_ns": 100_000, "frame_ns": 333_000,
}  # fmt: skip
PROMPT = {"switch_p99": 0}


def test_a_machine_with_time_to_spare_is_ok() -> None:
    assert judge(**QUIET).verdict == "ok"
    assert judge(**QUIET).reasons == []


@pytest.mark.parametrize(
    ("change", "verdict", "word"),
    [
        ({"unplanned_losses": {"h3's socket": 2}}, "invalid", "h3's socket"),
        ({"plain_packets": {"leaf1": 3}}, "invalid", "leaf1 took 3 packets in the plain form"),
        ({"cpu_busy": 0.99}, "invalid", "99%"),
        ({"cpu_busy": 0.93}, "strained", "93%"),
        ({"lateness_ns": {"switch_p99": 10_000_000}}, "strained", "10 ms"),
        ({"lateness_ns": {"switch_p99": 50_000_000}}, "invalid", "50 ms"),
        ({"lateness_ns": {"burst_p50": 300_000}}, "strained", "ahead of their links"),
        ({"predicted_ns": 530_000_000}, "strained", "simulated"),
        ({"predicted_ns": 400_000_000}, "invalid", "+50%"),
        ({"predicted_ns": 700_000_000}, "strained", "-14%"),
        ({"predicted_ns": 1_000_000_000}, "invalid", "-40%"),
        ({"completion_ns": None, "lateness_ns": {"rank_p99": 3_000_000}}, "strained", "rank"),
    ],
)
def test_each_sign_of_strain_is_named(change: dict[str, Any], verdict: str, word: str) -> None:
    fidelity = judge(**{**QUIET, **change})
    assert fidelity.verdict == verdict
    assert word in fidelity.reasons[0]


STOPPED: dict[str, Any] = {
    "switch_p50": 196_607, "switch_p99": 1_507_327, "switch_max": 1_012_390_144,
    "burst_p50": 0, "burst_p99": 939_524_095, "burst_max": 973_078_527,
    "rank_p50": 58_367, "rank_p99": 1_179_647, "rank_max": 9_503_112,
}  # fmt: skip
"""Of a run whose switches were stopped for a second; half a burst of frames came after it."""


@pytest.mark.parametrize(
    ("lateness_ns", "verdict", "reasons"),
    [
        (STOPPED | {"switch_stood": 1_000_114_000, "rank_stood": 0}, "invalid",
         ["a frame left a switch late by 1.012 s of 2.75 s",
          "frames came ahead of their links by 973.1 ms of 2.75 s"]),
        ({"switch_stood": 1_000_000_000, "rank_stood": 0}, "invalid",
         ["a switch stood still for 1 s of 2.75 s"]),
        ({"switch_p99": 100_000, "rank_max": 400_000_000, "rank_stood": 1_000_000_000}, "invalid",
         ["a rank stood still for 1 s of 2.75 s"]),
        ({"switch_p99": 100_000, "rank_max": 300_000_000}, "strained",
         ["a rank woke late by 300 ms of 2.75 s"]),
        # 30 times 10 ms are as long as 300 ms at a time.
        ({"switch_p99": 10_000_000, "switch_max": 11_000_000, "switch_stood": 300_000_000},
         "strained", ["a switch stood still for 300 ms of 2.75 s"]),
        # A machine of two cores is late by some ms now and then, and a run is no longer for that.
        ({"switch_p99": 480_000, "switch_max": 18_000_000, "switch_stood": 25_000_000,
          "rank_p99": 1_000_000, "rank_max": 16_900_000, "rank_stood": 16_900_000,
          "burst_p50": 0, "burst_p99": 2_000_000, "burst_max": 19_400_000}, "ok", []),
    ],
)  # fmt: skip
def test_a_run_of_which_something_stood_still_is_not_ok_though_nothing_is_predicted(
    lateness_ns: dict[str, Any], verdict: str, reasons: list[str]
) -> None:
    fidelity = judge(**{**QUIET, "completion_ns": 2_750_000_000, "lateness_ns": lateness_ns})
    assert (fidelity.verdict, fidelity.reasons) == (verdict, reasons)


@pytest.mark.parametrize("name", list(STILL))
@pytest.mark.parametrize(
    ("completion_ns", "strained_ns", "invalid_ns"),
    [(2_000_000_000, 100_000_000, 400_000_000), (20_000_000, 10_000_000, 50_000_000),
     (None, 10_000_000, 50_000_000)],
)  # fmt: skip
def test_all_of_lateness_is_judged(
    name: str, completion_ns: int | None, strained_ns: int, invalid_ns: int
) -> None:
    for late_ns, verdict in (
        (strained_ns, "ok"), (strained_ns + 1, "strained"),
        (invalid_ns, "strained"), (invalid_ns + 1, "invalid"),
    ):  # fmt: skip
        change = {"completion_ns": completion_ns, "lateness_ns": PROMPT | {name: late_ns}}
        assert judge(**{**QUIET, **change}).verdict == verdict


def test_lateness_is_that_of_the_switches_and_of_the_worst_rank() -> None:
    quantiles = {"p50": 1, "p99": 2, "max": 3, "stood": 4, "count": 9}
    switches = SwitchProcessStatistics([], 0.0, lateness_ns=quantiles, burst_ns=quantiles)
    ranks = [{"p50": 5, "p99": 60, "max": 70, "stood": 8}, {"p50": 50, "p99": 6, "max": 7}]
    assert lateness_of(switches, ranks) == {
        "switch_p50": 1, "switch_p99": 2, "switch_max": 3, "switch_stood": 4,
        "burst_p50": 1, "burst_p99": 2, "burst_max": 3,
        "rank_p50": 50, "rank_p99": 60, "rank_max": 70, "rank_stood": 8,
    }  # fmt: skip
    bmv2 = lateness_of(SwitchProcessStatistics([], 0.0), ranks[1:])
    assert bmv2 == {"rank_p50": 50, "rank_p99": 6, "rank_max": 7, "rank_stood": 0}


def test_switches_of_which_nothing_is_known_are_not_taken_for_prompt() -> None:
    """BMv2 does not say how late it was; a prediction that it kept to says that it was not."""
    late = lateness_of(SwitchProcessStatistics([], 0.0), [{"p50": 5, "p99": 60, "max": 70}])
    bmv2 = QUIET | {"lateness_ns": late}
    assert judge(**bmv2).verdict == "strained"
    assert "nobody knows whether the switches kept up" in judge(**bmv2).reasons[0]
    assert judge(**bmv2, predicted_ns=590_000_000).verdict == "ok"
    stopped = judge(**bmv2 | {"completion_ns": 1_600_000_000}, predicted_ns=590_000_000)
    assert stopped.verdict == "invalid"
    # The built-in switch says it, and then needs no prediction.
    assert judge(**QUIET | {"lateness_ns": late | PROMPT}).verdict == "ok"
    assert not any("nobody" in each for each in judge(**bmv2 | {"completion_ns": None}).reasons)


@pytest.mark.parametrize("cpu_busy", [0.93, 1.0])
def test_it_is_told_how_much_of_a_busy_machine_the_run_itself_took(cpu_busy: float) -> None:
    (reason,) = judge(**{**QUIET, "cpu_busy": cpu_busy}).reasons
    assert reason == (f"the processors were {cpu_busy:.0%} busy, 40% with this run's own processes")


@pytest.mark.parametrize(
    ("most", "more", "before", "behind"),
    [
        ({"lateness_ns": {"switch_p99": 6_000_000}}, {"lateness_ns": {"switch_p99": 6_000_001}},
         "ok", "strained"),
        ({"lateness_ns": {"switch_p99": 30_000_000}}, {"lateness_ns": {"switch_p99": 30_000_001}},
         "strained", "invalid"),
        ({"completion_ns": 10**7, "lateness_ns": PROMPT | {"rank_p99": 2_000_000}},
         {"completion_ns": 10**7, "lateness_ns": PROMPT | {"rank_p99": 2_000_001}},
         "ok", "strained"),
        ({"completion_ns": 10**7, "lateness_ns": PROMPT | {"rank_p99": 20_000_000}},
         {"completion_ns": 10**7, "lateness_ns": PROMPT | {"rank_p99": 20_000_001}},
         "strained", "invalid"),
        ({"predicted_ns": 500_000_000, "completion_ns": 549_999_999},
         {"predicted_ns": 500_000_000, "completion_ns": 550_000_001}, "ok", "strained"),
        ({"predicted_ns": 500_000_000, "completion_ns": 649_999_999},
         {"predicted_ns": 500_000_000, "completion_ns": 650_000_001}, "strained", "invalid"),
    ],
)  # fmt: skip
def test_a_verdict_changes_just_above_its_limit(
    most: dict[str, Any], more: dict[str, Any], before: str, behind: str
) -> None:
    assert judge(**{**QUIET, **most}).verdict == before
    assert judge(**{**QUIET, **more}).verdict == behind


def test_lateness_is_judged_against_the_completion_time() -> None:
    slow = {**QUIET, "completion_ns": 10_000_000_000, "lateness_ns": {"switch_p99": 50_000_000}}
    assert judge(**slow).verdict == "ok"
