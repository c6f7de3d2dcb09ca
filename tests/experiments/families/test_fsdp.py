"""FSDP interleaving in the simulated world: one layer is gathered while another's sums are made."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.collective_group import Group
from tests.support.emulated_support import needs_machine
from tests.support.fabric import program_names
from tests.support.results_samples import summarize
from tests.support.system_support import left_as_it_was

from weft.agents.collectives.series import Series
from weft.base.errors import InputError
from weft.experiments.families.fsdp.bounds import step_bound_bytes
from weft.experiments.families.fsdp.family import FAMILY
from weft.experiments.families.fsdp.models import MODELS, block_parameters, layer_bytes
from weft.experiments.plots.draw import svg_of
from weft.experiments.plots.timeline import OperationBar, gaps, timelines_of
from weft.experiments.results.results import Results, Run, scenario_of
from weft.experiments.results.table import summary_table
from weft.experiments.runner import run
from weft.experiments.runs.inputs import cast_of, operation_of, plan_of
from weft.experiments.scenario.family import with_own
from weft.experiments.scenario.options import from_options
from weft.experiments.scenario.plot_spec import PlotSpec
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.experiments.theory.traffic_model import tier_model_frame_bytes

FOUR: dict[str, Any] = {"leaves": 2, "spines": 2, "hosts_per_leaf": 2}
EIGHT: dict[str, Any] = {"leaves": 4, "spines": 2, "hosts_per_leaf": 2}


def interleaved(**options: Any) -> Scenario:
    return Scenario(collective="fsdp-interleave", world="simulated", **options)


@pytest.fixture(scope="module", params=[FOUR, EIGHT], ids=["4 ranks", "8 ranks"])
def results(request: pytest.FixtureRequest) -> Results:
    return run(interleaved(rate_bps=50_000_000, layers=4, **request.param))


def of(results: Results, algorithm: str) -> Run:
    return next(run for run in results.runs if run.algorithm == algorithm)


def test_both_ways_give_right_data_without_losses_or_fetches(results: Results) -> None:
    assert results.verified
    assert [run.algorithm for run in results.runs] == ["ring", "in-network"]
    for one in results.runs:
        assert one.dropped == 0
        assert sum(rank.statistics["chunks_fetched"] for rank in one.ranks) == 0
        assert sum(rank.statistics["blocks_saturated"] for rank in one.ranks) == 0


def test_the_speed_up_is_what_the_links_allow(results: Results) -> None:
    ring, in_network = of(results, "ring"), of(results, "in-network")
    assert ring.completion_ns is not None
    assert in_network.completion_ns is not None
    speed_up = ring.completion_ns / in_network.completion_ns
    ideal = 2 - 2 / len(ring.ranks)
    counted = ring.bound_ns / in_network.bound_ns
    assert counted == pytest.approx(ideal, rel=0.1)
    assert speed_up == pytest.approx(counted, rel=0.06)
    for one in results.runs:
        assert one.bound_ns <= (one.completion_ns or 0) < 1.05 * one.bound_ns


def test_links_carry_what_the_model_says(results: Results) -> None:
    for one in results.runs:
        scenario = scenario_of(one.scenario)
        model = tier_model_frame_bytes(scenario.network(), scenario, one.algorithm)
        for tier, size_bytes in one.tiers.items():
            assert model[tier] <= size_bytes < 1.04 * model[tier], (one.algorithm, tier)


def test_operations_begin_when_those_before_them_that_they_need_are_done(
    results: Results,
) -> None:
    for one in results.runs:
        for rank in one.ranks:
            spans = {
                FAMILY.operation_name("fsdp-interleave", place): span
                for place, span in enumerate(rank.spans_ns)
            }
            assert len(spans) == len(rank.spans_ns) == 2 * 4
            assert max(end for _, end in spans.values()) == rank.completion_ns
            for (collective, layer), (begin, end) in spans.items():
                assert 0 <= begin < end
                gathered = spans.get(("allgather", layer))
                if collective == "reduce-scatter" and gathered is not None:
                    assert begin >= gathered[1]
                step = layer if collective == "reduce-scatter" else layer - 1
                for before in (("allgather", step - 1), ("reduce-scatter", step - 2)):
                    if before in spans:
                        assert begin >= spans[before][1]


def test_an_allgather_and_a_reduce_scatter_are_under_way_nearly_all_the_time(
    results: Results,
) -> None:
    for one in results.runs:
        for rank in one.ranks:
            for which in (0, 1):
                bars = [OperationBar("", 0, *span) for span in rank.spans_ns[which::2]]
                idle = gaps(bars, one.completion_ns or 0)
                assert sum(end - begin for begin, end in idle) < 0.06 * (one.completion_ns or 0)


def test_the_table_says_speed_up_and_how_full_links_were(results: Results) -> None:
    caption = str(summary_table(results).caption)
    ranks = len(results.runs[0].ranks)
    assert f"2 - 2/P: {2 - 2 / ranks:.2f}" in caption
    for summary in summarize(results):
        assert summary.injection is not None
        assert all(0.9 < part <= 1 for part in summary.injection)
        assert f"{summary.algorithm}: hosts' links are" in caption


def test_timelines_show_every_operation_of_every_rank(results: Results, tmp_path: Path) -> None:
    spec = PlotSpec(kind="timeline")
    results.write(tmp_path)
    for read in (results, Results.read(tmp_path)):
        timelines = timelines_of(read, spec)
        assert [each.title.partition(",")[0] for each in timelines] == ["ring", "in-network"]
        for timeline, one in zip(timelines, results.runs, strict=True):
            assert timeline.end_ns == one.completion_ns
            for row, rank in zip(timeline.rows, one.ranks, strict=True):
                bars = [bar for lane in row.lanes for bar in lane]
                assert sorted(bar.end_ns for bar in bars) == sorted(end for _, end in rank.spans_ns)
                for lane in row.lanes:
                    for one_bar, other in itertools.pairwise(lane):
                        assert one_bar.end_ns <= other.begin_ns
    assert svg_of(results, spec).startswith(b"<?xml")


def test_a_damaged_span_is_found(results: Results, tmp_path: Path) -> None:
    document = results.to_dict()
    document["runs"][0]["ranks"][0]["spans_ns"] = [[1, 2, 3]]
    with pytest.raises(InputError, match="a span of rank 0 is not a begin and an end"):
        Results.from_dict(document)


def test_gaps_are_what_no_bar_covers() -> None:
    bars = [OperationBar("", 0, *span) for span in ((5, 9), (0, 3), (2, 4), (6, 7))]
    assert gaps(bars, 12) == ((4, 5), (9, 12))
    assert gaps(bars, 9) == ((4, 5),)
    assert gaps([], 3) == ((0, 3),)


@pytest.mark.parametrize(
    ("options", "algorithms"),
    [
        ({"loss": 0.01}, ("ring", "in-network")),
        ({"dtype": "bfloat16", "op": "average"}, ("ring", "in-network")),
        ({"dtype": "int32", "op": "max"}, ("ring",)),
        ({"topology": "single", "hosts_per_leaf": 3}, ("ring", "in-network")),
        ({"spines": 1, "jobs": 2}, ("ring", "in-network")),
        ({"workers": 2, "batch": 2, "chunk_bytes": 1024, "slots": 16},
         ("in-network",)),
        ({"size_bytes": 1}, ("ring", "in-network")),
    ],
    ids=str,
)  # fmt: skip
def test_it_is_right_whatever_is_asked(
    options: dict[str, Any], algorithms: tuple[str, ...]
) -> None:
    shape = {} if "topology" in options else {"leaves": 2, "hosts_per_leaf": 2, "spines": 2}
    asked = {"size_bytes": 100_001, "layers": 3, **shape, **options}
    results = run(interleaved(algorithms=algorithms, **asked))
    for one in results.runs:
        assert one.verified, one.error
    if "loss" in options:
        assert sum(one.dropped for one in results.runs) > 0


def test_a_rank_by_itself_has_its_data() -> None:
    alone = Scenario(
        "fsdp-interleave", world="simulated", topology="single", hosts_per_leaf=1, model="",
        size_bytes=1000, layers=2,
    )  # fmt: skip
    assert run(alone).verified


def test_multicast_has_other_roots_than_the_sums_where_there_are_any() -> None:
    for spines, groups in ((1, 1), (2, 1), (3, 2)):
        scenario = interleaved(leaves=2, hosts_per_leaf=3, spines=spines)
        network = scenario.network()
        plan = plan_of(program_names(), scenario, network)
        (team,) = cast_of(scenario, network, plan).teams
        assert len(team.groups) == groups


# Published figures: Radford et al. 2019 say 117M (later 124M), 345M, 762M and 1542M parameters,
# Brown et al. 2020 2.7B and 6.7B. Embeddings: 50,257 tokens and 1,024 (GPT-3: 2,048) positions.
PUBLISHED = {
    "gpt2-small": (12, 768, 1024, 124.4e6),
    "gpt2-medium": (24, 1024, 1024, 354.8e6),
    "gpt2-large": (36, 1280, 1024, 774.0e6),
    "gpt2-xl": (48, 1600, 1024, 1557.6e6),
    "gpt3-2.7b": (32, 2560, 2048, 2.7e9),
    "gpt3-6.7b": (32, 4096, 2048, 6.7e9),
}


@pytest.mark.parametrize("model", MODELS)
def test_layers_add_up_to_the_published_sizes_of_the_models(model: str) -> None:
    blocks, width, positions, published = PUBLISHED[model]
    embeddings = (50_257 + positions) * width + 2 * width
    total = blocks * block_parameters(model) + embeddings
    assert total == pytest.approx(published, rel=0.025 if model.startswith("gpt3") else 0.001)


def test_sizes_follow_the_rate_and_are_rounded_up_to_whole_elements() -> None:
    small = interleaved(rate_bps=25_000_000)
    assert small.own.model == "gpt2-small"
    assert small.size_bytes == layer_bytes("gpt2-small", 25_000_000, 300)
    assert small.size_bytes == round(2 * 7_087_872 * 300 / 16_000)
    assert replace(small, rate_bps=50_000_000).size_bytes == 2 * small.size_bytes
    assert with_own(small, replace(small.own, slowdown=600)).size_bytes == 2 * small.size_bytes
    odd = interleaved(size_bytes=101, **FOUR)
    assert odd.own.model == ""
    assert odd.shard_sizes == (28,) * 4


def test_a_size_is_taken_even_if_it_is_that_of_other_collectives_by_default() -> None:
    options = {"collective": "fsdp-interleave", "world": "simulated"}
    assert from_options({**options, "size": "1MiB"}).size_bytes == 1 << 20
    assert from_options({**options, "size": "1MiB"}).own.model == ""
    assert from_options(options).own.model == "gpt2-small"
    for scenario in (from_options({**options, "size": "1MiB"}), from_options(options)):
        assert scenario_of(scenario.to_dict()) == scenario


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "gpt4"}, ["model 'gpt4'", "gpt3-6.7b"]),
        ({"model": "gpt2-xl", "size": "1MiB"}, ["size", "model", "keep one"]),
        ({"layers": 0}, ["layers 0", "1 to 1000"]),
        ({"layers": "x"}, ["layers 'x'", "whole number"]),
        ({"slowdown": "slow"}, ["slowdown 'slow'", "not a number"]),
        ({"slowdown": 0}, ["slowdown 0", "out of range"]),
        ({"slowdown": "1e11"}, ["gpt2-small", "choose a slowdown"]),
        ({"slowdown": 2, "size": "1MiB"}, ["slowdown 2", "leave it out"]),
        ({"size": "0"}, ["size 0", "out of range"]),
        ({"sizes": "1KiB,2KiB"}, ["sizes", "use size"]),
        ({"operations": 2}, ["operations 2", "layers"]),
        ({"algorithm": "multicast"}, ["'multicast'", "in-network"]),
        ({"dtype": "float64"}, ["float64", "float32"]),
        ({"op": "min"}, ["'min'", "sum or average"]),
        ({"servers": 3}, ["servers 3", "optcast"]),
        ({"chains": 2}, ["chains 2", "allgather"]),
        ({"collective": "allgather", "model": "gpt2-xl"}, ["model", "fsdp-interleave"]),
        ({"collective": "allreduce", "layers": 3}, ["layers 3", "fsdp-interleave"]),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        from_options({"collective": "fsdp-interleave", "world": "simulated", **options})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bounds_are_what_the_paper_says_of_payload() -> None:
    for leaves, hosts in ((1, 5), (4, 2), (4, 4)):
        scenario = interleaved(
            topology="leaf-spine", leaves=leaves, hosts_per_leaf=hosts, spines=4, size_bytes=1 << 20
        )
        ranks, shard = scenario.ranks, scenario.shard_sizes[0]
        assert step_bound_bytes(scenario, "ring", frames=False) == 2 * (ranks - 1) * shard
        assert step_bound_bytes(scenario, "in-network", frames=False) == ranks * shard
        steps = scenario.own.layers or 0
        for algorithm in scenario.algorithms:
            fullest = step_bound_bytes(scenario, algorithm)
            expected_ns = steps * fullest * 8 * 10**9 // scenario.rate_bps
            assert completion_bound_ns(scenario, algorithm) == expected_ns


def test_multicast_leaves_room_for_the_sums() -> None:
    scenario = interleaved(**EIGHT)
    gather, scatter = operation_of(scenario, "in-network", 1).kinds
    assert (gather.algorithm, scatter.algorithm) == ("multicast", "switch")
    multicast = 7 * (scenario.shard_sizes[0] + -(-scenario.shard_sizes[0] // 4096) * 70)
    assert multicast + gather.beside_bytes == step_bound_bytes(scenario, "in-network")
    assert operation_of(scenario, "ring", 1).request.beside_bytes == 0


def test_a_series_refuses_to_wait_for_what_comes_later() -> None:
    with pytest.raises(InputError, match="a job can wait for those before it"):
        Series(Group(1).agents[0], [], 2, ((1,), (0,)))


@needs_machine
@pytest.mark.system
def test_it_is_right_in_the_emulated_world_and_every_rank_says_when_it_did_what() -> None:
    scenario = Scenario(
        collective="fsdp-interleave", rate_bps=20_000_000, layers=3, predict=False,
        size_bytes=100_000, **FOUR,
    )  # fmt: skip
    with left_as_it_was():
        results = run(scenario)
    for one in results.runs:
        assert one.verified, one.error
        for rank in one.ranks:
            spans = rank.spans_ns
            assert len(spans) == 6
            assert all(0 <= begin < end <= (one.completion_ns or 0) for begin, end in spans)
            assert spans[3][0] >= spans[0][1]  # gradients of layer 1 after its parameters
            assert spans[4][0] >= max(spans[0][1], spans[1][1])
