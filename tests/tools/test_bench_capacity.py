"""``weft bench capacity``: its search, its counts, its words; the whole needs root and time."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from weft.base.errors import MachineError, RunError
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.tools.bench import capacity
from weft.tools.bench.capacity import NETWORKS, WORKLOADS

STATISTICS = {
    "acknowledgements_sent": 3, "naks_sent": 1, "received_packets": 24,
    "driver_cpu_ns": 300_000, "driver_kernel_ns": 200_000,
}  # fmt: skip


def ran(verdict: str = "ok", *, verified: bool = True) -> Any:
    links = [SimpleNamespace(tier=tier, tx_packets=10) for tier in ("host_up", "host_down")]
    return SimpleNamespace(
        verified=verified, error=None, completion_ns=1_050, bound_ns=1_000, links=links,
        ranks=[SimpleNamespace(statistics=STATISTICS)] * 2,
        fidelity=SimpleNamespace(
            verdict=verdict, reasons=["the reason"], cpu_busy=0.5, cpu_s={"switches": 30e-6}
        ),
    )  # fmt: skip


@pytest.mark.parametrize("highest", [0, 10, 40, 160, 1000])
def test_the_highest_rate_of_the_ladder_at_which_all_runs_are_ok(
    highest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def run(rate_bps: int) -> Any:
        asked.append(rate_bps)
        good = rate_bps <= highest * 10**6
        return SimpleNamespace(runs=[ran(), ran("ok" if good else "strained"), ran()])

    monkeypatch.setattr(capacity, "run", run)
    row = capacity._row(lambda rate_bps: rate_bps, capacity.LADDER_MBIT)  # type: ignore[arg-type, return-value]
    assert row["rate_mbit"] == highest
    assert row.get("next") == (None if highest == 1000 else "the reason")
    assert len(asked) <= 4
    if highest:
        assert (row["packets"], row["rank_ns"], row["kernel_ns"]) == (40, 5_000, 10_000)
        assert (row["switch_ns"], row["busy"], row["of_bound"]) == (3_000, 0.5, 1.05)


def test_data_that_did_not_verify_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "run", lambda asked: SimpleNamespace(runs=[ran(verified=False)]))
    with pytest.raises(RunError, match="did not verify"):
        capacity._row(lambda rate_bps: rate_bps, [10])  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("hosts", NETWORKS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_runs_take_a_second_at_their_bound(workload: str, hosts: int) -> None:
    asked = capacity._asked(WORKLOADS[workload], hosts, {"links": "patch"}, 3)
    for rate_mbit in (10, 1000):
        scenario = asked(rate_mbit * 10**6)
        assert isinstance(scenario, Scenario)
        assert (scenario.ranks, scenario.repeat, scenario.links) == (hosts, 3, "patch")
        bound_ns = completion_bound_ns(scenario, scenario.algorithms[0])
        assert bound_ns == pytest.approx(1e9, rel=0.05)


def test_lines_have_every_row_and_the_floor() -> None:
    costs = {
        "packets": 40, "rank_ns": 5_040.0, "kernel_ns": 9_960.0, "switch_ns": 3_000.0, "busy": 0.5,
        "of_bound": 1.05,
    }  # fmt: skip
    rows = [
        {"workload": "ring", "hosts": 8, "rate_mbit": 160, "links": "veth", **costs},
        {"workload": "multicast", "hosts": 8, "rate_mbit": 0, "next": "busy", "switch": "bmv2"},
    ]
    figures = {
        "runs": 3, "rows": rows, "floor_ns": {1: 6_600.0}, "hop_floor_ns": {4: 3_200.0}, "cores": 2,
        "load_before": 0.1,
    }  # fmt: skip
    text = "\n".join(capacity.lines(figures))
    for words in (
        "ring",
        "veth",
        "160",
        "1.05",
        "50%",
        "5.0",
        "10.0",
        "3.0",
        "bmv2",
        "6.6 us",
        "3.2 us",
    ):
        assert words in text


def test_without_root_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(MachineError, match="root: use sudo"):
        capacity.measure()
