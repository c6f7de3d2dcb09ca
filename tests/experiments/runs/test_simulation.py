"""Scenarios in the simulated world: verified, repeatable, from Python in three lines."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from weft import Scenario, run
from weft.base.errors import InputError
from weft.base.progress import Progress
from weft.cli import command_line as cli
from weft.experiments.report import render
from weft.experiments.results.results import Run
from weft.experiments.results.summary import worst_fidelity
from weft.experiments.runs import predictions, simulation
from weft.experiments.runs.inputs import program_of
from weft.experiments.scenario.sweep import Point
from weft.topo.faults import LinkLoss


def test_a_scenario_runs_in_three_lines() -> None:
    results = run(Scenario(world="simulated", size_bytes=65536))
    assert results.verified
    assert [one.algorithm for one in results.runs] == ["multicast", "ring"]


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(world="simulated", topology="single", hosts_per_leaf=5, size_bytes=10_001),
        Scenario(world="simulated", topology="fat-tree", k=4, size_bytes=4096, chains=3),
        Scenario(world="simulated", size_bytes=50_000, loss=0.02, repeat=2, mtu=1024),
        Scenario(world="simulated", size_bytes=0),
    ],
    ids=["single", "fat tree", "loss", "nothing"],
)
def test_the_same_scenario_gives_the_same_trace(scenario: Scenario) -> None:
    first, second = run(scenario), run(scenario)
    assert first.verified
    for one, other in zip(first.runs, second.runs, strict=True):
        assert one.digest == other.digest
        assert one.to_dict() == other.to_dict()


def test_a_run_that_failed_is_not_ok(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario = Scenario(
        world="simulated", topology="single", hosts_per_leaf=2, size_bytes=65536, loss=1.0,
        algorithms=("ring",),
    )  # fmt: skip
    results = run(scenario)
    (failed,) = results.runs
    assert failed.error and not failed.verified
    assert failed.fidelity.verdict == "failed"
    assert "the run failed" in failed.fidelity.reasons[0]
    assert worst_fidelity(results) == "failed"
    page = render(results)
    assert "fidelity failed" in page and "fidelity ok" not in page
    with pytest.raises(SystemExit):
        cli.app(
            ["run", "allgather", "--world", "simulated", "--topology", "single",
             "--hosts-per-leaf", "2", "--size", "64KiB", "--loss", "100%", "--algorithm", "ring",
             "--out", str(tmp_path)],
        )  # fmt: skip
    (row,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ring ")]
    assert row.split()[-1] == "failed"


def test_another_seed_gives_another_trace() -> None:
    one, other = (
        run(Scenario(world="simulated", size_bytes=5000, algorithms=("ring",), seed=seed))
        for seed in (1, 2)
    )
    assert one.runs[0].digest != other.runs[0].digest


def test_fabric_links_carry_each_shard_once() -> None:
    size = 1 << 18
    results = run(Scenario(world="simulated", size_bytes=size, algorithms=("multicast",)))
    for link in results.runs[0].links:
        if link.tier.startswith("fabric"):
            assert link.tx_bytes <= 8 * size * (4166 / 4096) * 1.03


@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_below_one_switch_ring_moves_two_minus_two_over_p_times_the_bytes(ranks: int) -> None:
    scenario = Scenario(world="simulated", topology="single", hosts_per_leaf=ranks)
    totals = {one.algorithm: sum(one.tiers.values()) for one in run(scenario).runs}
    assert totals["ring"] / totals["multicast"] == pytest.approx(2 - 2 / ranks, rel=0.03)


@pytest.mark.parametrize(
    ("scenario", "limit"),
    [
        (Scenario(world="simulated", algorithms=("multicast",)), 1.10),
        (Scenario(world="simulated", algorithms=("multicast",), chains=1), 1.10),
        (Scenario(world="simulated", algorithms=("multicast",), chains=4), 1.10),
        (Scenario(world="simulated", algorithms=("ring",)), 1.15),
    ],
    ids=["all chains", "one chain", "four chains", "ring"],
)
def test_completion_is_near_the_bound_in_virtual_time(scenario: Scenario, limit: float) -> None:
    only = run(scenario).runs[0]
    assert only.completion_ns is not None
    assert only.bound_ns <= only.completion_ns <= limit * only.bound_ns


def test_a_dead_link_is_an_error_of_the_run() -> None:
    scenario = Scenario(
        world="simulated", size_bytes=4096, loss=0.0, timeout_s=5,
        faults=(LinkLoss("h1-leaf0", 1.0),),
    )  # fmt: skip
    for one in run(scenario).runs:
        assert not one.verified
        assert one.completion_ns is None
        assert one.error


@pytest.mark.parametrize("options", [{"switch": "bmv2"}, {"pcap": True}])
def test_what_the_simulated_world_has_not_got_is_refused(options: dict[str, object]) -> None:
    with pytest.raises(InputError, match="simulated"):
        Scenario(world="simulated", **options)


@pytest.mark.parametrize("sizes", [(), (4096, 0, 8)], ids=["equal", "unequal"])
@pytest.mark.parametrize("collective", ["allgather", "reduce-scatter"])
def test_goodput_is_of_what_one_rank_has_to_move_and_below_the_links_rate(
    collective: str, sizes: tuple[int, ...]
) -> None:
    """Reduce-Scatter is Allgather backwards: what a rank receives there, it gives away here."""
    scenario = Scenario(
        collective=collective, world="simulated", algorithms=("ring",), size_bytes=4096,
        sizes_bytes=sizes, operations=2,
    )  # fmt: skip
    (one,) = run(scenario).runs
    shards = scenario.shard_sizes
    moved_bytes = 2 * (sum(shards) - min(shards))
    assert one.completion_ns and one.goodput_bps
    assert one.goodput_bps == pytest.approx(moved_bytes * 8e9 / one.completion_ns)
    assert one.goodput_bps < scenario.rate_bps


def test_a_prediction_is_kept_and_simulated_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated: list[str] = []

    def counted(scenario: Scenario, *rest: Any) -> Run:
        simulated.append(rest[1])
        return simulation.simulate(scenario, *rest)

    kept = tmp_path / "predictions"
    monkeypatch.setattr(predictions, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(predictions, "simulate", counted)
    monkeypatch.setattr(predictions, "packages", list)
    point = Point(Scenario(topology="single", hosts_per_leaf=2, size_bytes=4096))
    program, quiet = program_of(point.scenario), Progress.silent()
    first = predictions.predict_point(point, program, quiet)
    assert simulated == [*point.scenario.algorithms]
    assert predictions.predict_point(point, program, quiet) == first
    assert len(simulated) == len(first)
    (file,) = kept.iterdir()
    file.write_text("[[")  # what cannot be read is simulated again
    assert predictions.predict_point(point, program, quiet) == first
    larger = Point(dataclasses.replace(point.scenario, size_bytes=8192))
    assert predictions.predict_point(larger, program, quiet) != first
    assert len(simulated) == 3 * len(first) and len([*kept.iterdir()]) == 2


def test_a_prediction_is_not_kept_where_other_packages_may_have_a_part_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predictions, "cache_dir", lambda: tmp_path)
    monkeypatch.setattr(predictions, "packages", lambda: ["another 1.0"])
    point = Point(Scenario(topology="single", hosts_per_leaf=2, size_bytes=4096))
    predictions.predict_point(point, program_of(point.scenario), Progress.silent())
    assert not [*tmp_path.iterdir()]
