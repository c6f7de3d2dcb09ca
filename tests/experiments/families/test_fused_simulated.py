"""Fused operators on simulated networks: their results, and their times against those of their
parts."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace as replace_fields
from tests.support.fused_support import SMALL, plainly, sizes

from weft import Scenario, run
from weft.agents.operators.operator import Floats, Operator, Sizes
from weft.agents.operators.registry import OPERATORS
from weft.experiments.families.fused.alone import Alone, communication_ns, compared, slowed
from weft.experiments.families.fused.names import (
    ADDING,
    COMMUNICATION,
    COMPUTATION,
    FUSED,
    GIVING,
    UNFUSED,
    algorithm_named,
)
from weft.experiments.families.fused.resolve import plan_of
from weft.experiments.report import render
from weft.experiments.results.results import Results, Run
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate

EACH = pytest.mark.parametrize("name", [*OPERATORS])
KINDS = (UNFUSED, FUSED, COMMUNICATION)


def ways_of(name: str) -> list[str]:
    return [
        "direct", *["multicast"] * (name in GIVING), *["switch"] * (name in ADDING)
    ]  # fmt: skip


def algorithms_of(name: str) -> tuple[str, ...]:
    """All that an operator can be carried out by."""
    return (*(algorithm_named(kind, way) for way in ways_of(name) for kind in KINDS), COMPUTATION)


def simulated(name: str, **asked: Any) -> Scenario:
    """A small operator on four hosts of two leaves."""
    given = {"leaves": 2, "spines": 2, "hosts_per_leaf": 2, "slice_bytes": 512, **SMALL[name]}
    return Scenario("fused", world="simulated", operator=name, **{**given, **asked})


def check_verified(results: Results, count: int) -> None:
    assert [each.error for each in results.runs] == [None] * count
    assert results.verified
    for each in results.runs:
        assert each.verified and all(rank.verified for rank in each.ranks)


@EACH
def test_every_algorithm_is_verified(name: str) -> None:
    algorithms = algorithms_of(name)
    results = run(simulated(name, algorithms=algorithms))
    check_verified(results, len(algorithms))
    assert [each.algorithm for each in results.runs] == [*algorithms]
    for each in results.runs:
        assert each.fused is not None
        assert each.fused.clock == "modelled"
        assert each.fidelity.verdict == "ok", each.fidelity.reasons


def test_an_operator_is_gone_once_two_others_have_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights may be gigabytes, of which the garbage collector knows nothing."""
    made: dict[str, weakref.ref[Operator]] = {}
    make = Operator.__init__

    def watched(self: Operator, *asked: Any) -> None:
        made[self.name] = weakref.ref(self)
        make(self, *asked)

    monkeypatch.setattr(Operator, "__init__", watched)
    gc.disable()
    try:
        for name in (*OPERATORS, *OPERATORS):
            scenario = simulated(name)
            for algorithm in scenario.algorithms:
                one = simulate(scenario, program_of(scenario), algorithm, 0, lambda fraction: None)
                assert one.verified, one.error
            del scenario
        left = {name for name, reference in made.items() if reference() is not None}
    finally:
        gc.enable()
    assert left == {*list(OPERATORS)[-2:]}


@EACH
@pytest.mark.parametrize("more", [{"loss": 0.01}, {"paths": "spray", "loss": 0.01}], ids=str)
def test_every_way_is_verified_with_loss_and_on_several_paths(
    name: str, more: dict[str, Any]
) -> None:
    algorithms = tuple(algorithm_named(kind, way) for way in ways_of(name) for kind in KINDS[:2])
    lost = 0
    for seed in (1, 2) if more.get("paths") or name not in ADDING else (1,):
        results = run(simulated(name, algorithms=algorithms, mtu=256, seed=seed, **more))
        check_verified(results, len(algorithms))
        lost += sum(each.dropped for each in results.runs)
    assert lost, "nothing was lost, so nothing was tested"


@pytest.mark.parametrize("dispatch", ["unicast", "multicast"])
@pytest.mark.parametrize("loss", [0.0, 0.02])
def test_tokens_are_dispatched(dispatch: str, loss: float) -> None:
    more: dict[str, Any] = {"top_k": 5, "imbalance": 1.0, "loss": loss, "mtu": 256}
    algorithms = (UNFUSED, FUSED, "fused/switch", COMMUNICATION, COMPUTATION)
    results = run(simulated("gemm-all-to-all", dispatch=dispatch, algorithms=algorithms, **more))
    check_verified(results, len(algorithms))


def asked_sizes(wanted: Sizes) -> dict[str, Any]:
    """Sizes as options."""
    kept = {name: value for name, value in vars(wanted).items() if value}
    kept.pop("combines", None)
    return kept


@settings(max_examples=12)
@given(st.data())
def test_any_small_operator_is_verified_in_any_way(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from([*OPERATORS]), "operator")
    ranks = data.draw(st.integers(1, 4), "ranks")
    asked: dict[str, Any] = asked_sizes(data.draw(sizes(name, ranks), "sizes"))
    way = data.draw(st.sampled_from(ways_of(name)), "way")
    kind = data.draw(st.sampled_from(KINDS), "kind")
    workgroups = data.draw(st.integers(1, 5), "workgroups")
    scenario = Scenario(
        "fused", world="simulated", operator=name, topology="single", hosts_per_leaf=ranks,
        algorithms=(algorithm_named(kind, way),), workgroups=workgroups,
        senders=data.draw(st.integers(0, workgroups - 1), "senders"),
        task_order=data.draw(st.sampled_from([None, "remote-first", "local-first", "interleaved"])),
        slice_bytes=data.draw(st.sampled_from([4, 16, 64, 65536]), "slice"),
        loss=data.draw(st.sampled_from([0.0, 0.02]), "loss"), slowdown=10.0, mtu=256, **asked,
    )  # fmt: skip
    check_verified(run(scenario), 1)


@settings(max_examples=25)
@given(st.data())
def test_no_run_ends_before_its_bound_which_is_the_operators_fused_or_not(
    data: st.DataObject,
) -> None:
    name = data.draw(st.sampled_from([*OPERATORS]), "operator")
    hosts = data.draw(st.integers(1, 2), "hosts of a leaf")
    asked: dict[str, Any] = asked_sizes(data.draw(sizes(name, 2 * hosts), "sizes"))
    way = data.draw(st.sampled_from(ways_of(name)), "way")
    workgroups = data.draw(st.integers(1, 5), "workgroups")
    if name == "gemm-all-to-all":
        asked["dispatch"] = data.draw(st.sampled_from(["none", "unicast", "multicast"]), "dispatch")
    scenario = Scenario(
        "fused", world="simulated", operator=name, leaves=2, spines=1, hosts_per_leaf=hosts,
        algorithms=tuple(algorithm_named(kind, way) for kind in (UNFUSED, FUSED)),
        workgroups=workgroups,
        senders=data.draw(st.integers(0, workgroups - 1), "senders"),
        task_order=data.draw(st.sampled_from([None, "remote-first", "local-first", "interleaved"])),
        slice_bytes=data.draw(st.sampled_from([4, 64, 65536]), "slice"),
        ratio=data.draw(st.sampled_from([0.05, 1.0, 20.0, 500.0]), "ratio"),
        mtu=data.draw(st.sampled_from([256, 4096]), "mtu"),
        seed=data.draw(st.integers(1, 99), "seed"),
        **asked,
    )  # fmt: skip
    unfused, fused = run(scenario).runs
    for each in (unfused, fused):
        assert each.verified and each.completion_ns and each.fused
        assert each.bound_ns <= each.fused.bound_ns <= each.completion_ns
    assert unfused.fused and fused.fused and fused.completion_ns and unfused.completion_ns
    assert fused.bound_ns <= unfused.bound_ns
    assert unfused.completion_ns <= 1.1 * unfused.fused.serial_ns + 1_000_000


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ADDING)
def test_where_ranks_add_much_unfused_takes_no_longer_than_both_parts(name: str, seed: int) -> None:
    scenario = simulated(name, ratio=20.0, seed=seed)
    unfused, fused, computation = run(
        replace(scenario, algorithms=(UNFUSED, FUSED, COMPUTATION))
    ).runs
    assert unfused.fused and unfused.completion_ns and fused.completion_ns
    assert computation.completion_ns and unfused.fused.add_ns
    assert unfused.completion_ns <= 1.02 * unfused.fused.serial_ns
    assert 0 <= computation.completion_ns - unfused.fused.compute_ns < 100_000
    assert max(unfused.bound_ns, fused.bound_ns) <= min(unfused.completion_ns, fused.completion_ns)


def test_one_host_computes_alone_and_has_a_report() -> None:
    results = run(
        Scenario(
            "fused",
            world="simulated",
            operator="gemv-allreduce",
            topology="single",
            hosts_per_leaf=1,
            **SMALL["gemv-allreduce"],
        )
    )
    check_verified(results, 2)
    page = render(results)
    assert "Bytes by tier" not in page and "Completion time" in page


# -- what is wrong is found


def corrupt(
    monkeypatch: pytest.MonkeyPatch, name: str, what: str, rank: int, most: int = 1 << 30
) -> list[int]:
    """Let a rank compute one number wrong, `most` times at most; the places of the numbers."""
    right = getattr(OPERATORS[name], what)
    done: list[int] = []

    def wrong(self: Operator, of: int, *more: Any) -> Floats:
        values: Floats = right(self, of, *more)
        if of == rank and len(done) < most:
            values = values.copy()
            values[len(values) // 2] += 1
            done.append(len(values) // 2)
        return values

    monkeypatch.setattr(OPERATORS[name], what, wrong)
    return done


@EACH
@pytest.mark.parametrize("kind", [UNFUSED, FUSED])
def test_a_number_that_is_computed_wrong_is_found(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = ways_of(name)
    algorithms = tuple(algorithm_named(kind, way) for way in ways)
    done = corrupt(monkeypatch, name, "compute", rank=2)
    results = run(simulated(name, algorithms=algorithms, slowdown=1.0))
    assert done
    assert not results.verified
    for each in results.runs:
        assert not each.verified
        assert "number " in (each.error or "") and " of the result is " in (each.error or "")


@pytest.mark.parametrize("name", ["gemv-allreduce", "matmul-reduce-scatter"])
def test_one_wrong_number_of_a_single_tile_is_found_where_it_lands(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the tiles of a rank only one is wrong, so only its owner, or all, must say so."""
    seen: list[int] = []
    right = OPERATORS[name].compute

    def wrong(self: Operator, rank: int, number: int, tile: int, *more: Any) -> Floats:
        values = right(self, rank, number, tile, *more)
        if rank == 2 and self.tiles(2)[tile].owner == 1 and not seen:
            seen.append(tile)
            values[0] += 1
        return values

    monkeypatch.setattr(OPERATORS[name], "compute", wrong)
    (one,) = run(simulated(name, algorithms=(FUSED,), slowdown=1.0)).runs
    assert seen
    found = {rank.rank for rank in one.ranks if not rank.verified}
    assert found == ({0, 1, 2, 3} if OPERATORS[name].gives else {1})


@pytest.mark.parametrize("way", ["direct", "switch"])
def test_a_result_that_is_finished_wrong_is_found(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "gemm-all-to-all"
    done = corrupt(monkeypatch, name, "finish", rank=1)
    algorithm = algorithm_named(FUSED, way)
    (one,) = run(simulated(name, algorithms=(algorithm,), slowdown=1.0)).runs
    assert done and [rank.verified for rank in one.ranks] == [True, False, True, True]
    error = one.ranks[1].error or ""
    assert f"number {done[0]} of the result is " in error, error


@EACH
def test_a_tile_that_is_computed_wrong_once_is_found_in_computation_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tile 0 is computed before the start, too, only so that its weights are there."""
    seen: list[int] = []
    right = OPERATORS[name].compute

    def wrong(self: Operator, rank: int, number: int, tile: int, *more: Any) -> Floats:
        values = right(self, rank, number, tile, *more)
        if rank == 3 and tile == 1 and not seen:
            seen.append(tile)
            values = values + 1
        return values

    monkeypatch.setattr(OPERATORS[name], "compute", wrong)
    (one,) = run(simulated(name, algorithms=(COMPUTATION,), slowdown=1.0)).runs
    assert seen and [rank.verified for rank in one.ranks] == [True, True, True, False]
    assert "tile 1 is not what it is computed to" in (one.ranks[3].error or "")


@EACH
def test_verification_compares_with_what_loops_compute(name: str) -> None:
    """So that a computation that is wrong in the same way twice would be found here."""
    operator = OPERATORS[name](Sizes(**SMALL[name]), 4, 1)
    for rank in range(4):
        assert operator.expected(rank, 0).tolist() == plainly(operator, rank, 0).tolist()


# -- times

LARGE: dict[str, dict[str, Any]] = {
    "embedding-all-to-all": {
        "batch_size": 128, "width": 64, "tables": 16, "table_rows": 1000, "pooling": 256,
    },
    "gemm-all-to-all": {"batch_size": 1024, "width": 64, "inner": 8192, "experts": 8, "top_k": 2},
    "all-gather-matmul": {"batch_size": 128, "width": 8192, "inner": 128, "tile_rows": 0},
}  # fmt: skip
"""Sizes at which the launch of a kernel is little of its time."""


def large(name: str, **asked: Any) -> Scenario:
    return simulated(name, **{**LARGE[name], "tile_rows": None, "slice_bytes": 4096, **asked})


@pytest.mark.parametrize("name", [*LARGE])
def test_a_fused_operator_is_between_its_longer_part_and_both(name: str) -> None:
    unfused, fused, computation, communication = run(
        large(name, algorithms=(UNFUSED, FUSED, COMPUTATION, COMMUNICATION))
    ).runs
    for each in (unfused, fused):
        assert each.verified and each.fused is not None and each.completion_ns is not None
        times = each.fused
        assert times.serial_ns == times.compute_ns + times.communication_ns
        tiles_ns = times.compute_ns - times.add_ns  # of ranks that all add as much
        assert tiles_ns == pytest.approx(times.communication_ns, rel=1e-3), "ratio 1"
        assert 0.9 * max(tiles_ns, times.communication_ns) < times.bound_ns
        assert times.bound_ns <= each.completion_ns <= 1.1 * times.serial_ns
        assert times.communication_ns == communication.completion_ns
        assert each.fidelity.verdict == "ok"
    assert unfused.completion_ns and fused.completion_ns and computation.completion_ns
    assert unfused.completion_ns > 1.2 * fused.completion_ns, "there is much to gain"
    assert unfused.fused and computation.fused
    # Ranks meet before they compute: that is in the time of a run, and not of a kernel.
    assert 0 <= computation.completion_ns - unfused.fused.compute_ns < 100_000


@pytest.mark.parametrize("name", ["embedding-all-to-all", "all-gather-matmul"])
def test_the_gain_goes_to_nothing_at_both_ends(name: str) -> None:
    gains = {}
    for ratio in (0.001, 1.0, 1000.0):
        unfused, fused = run(large(name, ratio=ratio)).runs
        assert unfused.completion_ns and fused.completion_ns and unfused.fused
        # Neither of both operators adds anything.
        assert unfused.fused.compute_ns / unfused.fused.communication_ns == pytest.approx(
            ratio, rel=0.01
        )
        gains[ratio] = unfused.completion_ns / fused.completion_ns
    assert gains[1.0] > 1.3
    assert gains[0.001] == pytest.approx(1, abs=0.01)
    # Of a slow device puts take long, too, and workgroups make them.
    assert gains[1000.0] == pytest.approx(1, abs=0.04)


def test_dispatch_and_combine_overlap_in_a_fused_operator_that_has_nothing_to_compute() -> None:
    """So its bound is the communication in the order of the operator itself."""
    scenario = large("gemm-all-to-all", dispatch="unicast", ratio=0.001, inner=512)
    unfused, fused = run(scenario).runs
    for each in (unfused, fused):
        assert each.fused and each.completion_ns and each.fidelity.verdict == "ok"
        assert each.completion_ns == pytest.approx(each.fused.communication_ns, rel=0.01)
    assert fused.fused and unfused.fused
    assert fused.fused.communication_ns < unfused.fused.communication_ns


def test_a_device_that_takes_no_time_leaves_the_communication() -> None:
    scenario = simulated("matmul-reduce-scatter", slowdown=0.0)
    unfused, fused = run(scenario).runs
    for each in (unfused, fused):
        assert each.fused and each.fused.compute_ns == 0
        assert each.completion_ns == each.fused.communication_ns >= each.fused.bound_ns


def test_slowdown_multiplies_what_is_computed() -> None:
    found = [
        run(simulated("gemv-allreduce", algorithms=(UNFUSED,), slowdown=slowdown)).runs[0].fused
        for slowdown in (1.0, 10.0)
    ]
    assert found[0] and found[1]
    assert found[1].compute_ns == pytest.approx(10 * found[0].compute_ns, rel=0.01)
    assert found[0].communication_ns == found[1].communication_ns


def test_the_device_is_the_one_that_is_declared() -> None:
    def compute_ns(**device: Any) -> int:
        scenario = simulated(
            "matmul-reduce-scatter", algorithms=(COMPUTATION,), slowdown=1.0, **device
        )
        return plan_of(scenario, COMPUTATION, scenario.ranks).kernel_ns

    slow = compute_ns(flops=1e6, launch_ns=0)
    # Each of 16 workgroups has a tile of 4 rows, and a sixteenth of the device.
    assert slow == 16 * 2 * 4 * 8 * 40 * 1000
    assert compute_ns(flops=1e6, launch_ns=77) == slow + 77
    assert compute_ns(flops=2e6, launch_ns=0) == slow // 2
    # Rows of the left matrix and of the result, and a sixteenth of the right matrix.
    numbers = 4 * 8 + 4 * 40 + 8 * 40 // 16
    assert compute_ns(memory_bandwidth=1e6, launch_ns=0) == 16 * 4 * numbers * 1000


def times_of(each: Run) -> tuple[int, int]:
    assert each.fused is not None and each.completion_ns is not None
    return each.fused.bound_ns, each.fused.serial_ns


@pytest.mark.parametrize(
    ("algorithm", "took", "words"),
    [
        (FUSED, lambda bound, serial: bound - 1, "are needed by its bound and by its parts"),
        (UNFUSED, lambda bound, serial: bound - 1, "are needed by its bound and by its parts"),
        (UNFUSED, lambda bound, serial: serial * 111 // 100, "it is no baseline"),
        (FUSED, lambda bound, serial: serial * 111 // 100, ""),
        (UNFUSED, lambda bound, serial: serial * 109 // 100, ""),
        (FUSED, lambda bound, serial: serial * 9 // 10, ""),
        (COMMUNICATION, lambda bound, serial: bound // 2, ""),
    ],
)
def test_times_that_contradict_each_other_are_invalid(
    algorithm: str, took: Any, words: str
) -> None:
    scenario = simulated("gemv-allreduce", algorithms=(algorithm,), slowdown=20.0)
    (one,) = run(scenario).runs
    changed = replace_fields(one, completion_ns=took(*times_of(one)))
    found = compared(changed, scenario)
    assert found.fidelity.verdict == ("invalid" if words else "ok")
    assert not words or f"{algorithm} took" in found.fidelity.reasons[0]
    assert words in found.fidelity.reasons[0]
    # What is lost, and so what the parts take, is another matter in each run.
    lossy = replace(scenario, loss=0.01)
    assert compared(changed, lossy, Alone(*alone(one))).fidelity.verdict == "ok"


def alone(each: Run) -> tuple[int, int]:
    assert each.fused is not None
    return each.fused.compute_ns, each.fused.communication_ns


def test_parts_that_were_measured_take_the_place_of_those_that_are_simulated() -> None:
    scenario = simulated("gemv-allreduce", algorithms=(FUSED,), slowdown=20.0)
    (one,) = run(scenario).runs
    found = compared(one, scenario, Alone(123, 456)).fused
    assert found and (found.compute_ns, found.communication_ns) == (123, 456)
    assert one.fused and found.bound_ns == one.fused.bound_ns


def test_a_ratio_makes_the_device_as_slow_as_it_needs_and_once() -> None:
    scenario = simulated("gemv-allreduce", ratio=4.0)
    made = slowed(scenario)
    assert made.own.slowdown is not None and made.own.ratio == 4.0
    wanted = 4 * communication_ns(scenario, UNFUSED)
    assert plan_of(made, UNFUSED, made.ranks).kernel_ns == pytest.approx(wanted, rel=0.001)
    assert (
        plan_of(made, FUSED, made.ranks).compute_ns == plan_of(made, UNFUSED, made.ranks).compute_ns
    )


def test_results_have_the_times_of_the_parts_and_of_workgroups(tmp_path: Path) -> None:
    results = run(simulated("embedding-all-to-all", senders=2, workgroups=6))
    results.write(tmp_path)
    again = Results.read(tmp_path)
    for each, document in zip(results.runs, results.to_dict()["runs"], strict=True):
        times = document["fused"]
        assert 0 < times["bound_ns"] <= document["completion_ns"]
        assert again.runs[results.runs.index(each)].fused == each.fused
    for each in results.runs:
        times = each.fused
        assert times is not None and each.completion_ns is not None
        columns = times.rank, times.workgroup, times.what, times.begin_ns, times.end_ns
        assert len({len(column) for column in columns}) == 1
        tiles = times.what.count("tile")
        operator = OPERATORS["embedding-all-to-all"](Sizes(**SMALL["embedding-all-to-all"]), 4, 1)
        assert tiles == sum(len(operator.tiles(rank)) for rank in range(4))
        assert ("put" in times.what) == (each.algorithm == FUSED)
        groups: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for rank, group, _, begin, end in zip(*columns, strict=True):
            assert 0 <= begin <= end <= each.completion_ns and 0 <= group < 6
            groups.setdefault((rank, group), []).append((begin, end))
        for spans in groups.values():
            spans.sort()
            assert all(one[1] <= other[0] for one, other in pairwise(spans)), (
                "a workgroup does two things at once"
            )
        if each.algorithm == FUSED:
            putting = {g for g, w in zip(times.workgroup, times.what, strict=True) if w == "put"}
            computing = {g for g, w in zip(times.workgroup, times.what, strict=True) if w == "tile"}
            assert not putting & computing and len(putting) <= 2 and len(computing) <= 4


def test_the_same_scenario_gives_the_same_run() -> None:
    scenario = simulated("gemm-all-to-all", dispatch="multicast", loss=0.01)
    one, other = (run(scenario).to_dict()["runs"] for _ in range(2))
    assert [each["completion_ns"] for each in one] == [each["completion_ns"] for each in other]
    assert [each["fused"] for each in one] == [each["fused"] for each in other]
