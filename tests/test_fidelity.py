"""The verdict on whether a run measured the network or the machine."""

from __future__ import annotations

from typing import Any

import pytest

from weft.experiments.runs.fidelity import judge

QUIET: dict[str, Any] = {
    "completion_ns": 600_000_000, "cpu_busy": 0.5, "cpu_stolen": 0.0, "cpu_own": 0.4,
    "cpu_s": {"switch": 0.2},
    "lateness_ns": {"switch_p99": 100_000, "switch_max": 900_000}, "unplanned_losses": {"h0": 0},
    "burst_ns": 100_000, "frame_ns": 333_000,
}  # fmt: skip


def test_a_machine_with_time_to_spare_is_ok() -> None:
    assert judge(**QUIET).verdict == "ok"
    assert judge(**QUIET).reasons == []


@pytest.mark.parametrize(
    ("change", "verdict", "word"),
    [
        ({"unplanned_losses": {"h3's socket": 2}}, "invalid", "h3's socket"),
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
        ({"completion_ns": 10**7, "lateness_ns": {"rank_p99": 2_000_000}},
         {"completion_ns": 10**7, "lateness_ns": {"rank_p99": 2_000_001}}, "ok", "strained"),
        ({"completion_ns": 10**7, "lateness_ns": {"rank_p99": 20_000_000}},
         {"completion_ns": 10**7, "lateness_ns": {"rank_p99": 20_000_001}}, "strained", "invalid"),
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
