"""Workloads of flows: connection matrices, training steps of models, and scenarios of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.collective_names import FLOW_ALGORITHMS
from tests.support.workloads_support import MATRIX

from weft.agents.collectives.flow_graph import FlowGraph
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.requests import Request
from weft.base.errors import InputError
from weft.experiments.families.flows.collectives import add_collective, algorithm_for
from weft.experiments.families.flows.file_format import FORMATS
from weft.experiments.families.flows.formats.matrix import (
    HEADERS,
    KINDS,
    NUMBERS,
    parse_matrix,
)
from weft.experiments.families.flows.gpt import MODELS, training_step
from weft.experiments.families.flows.load import graph_of
from weft.experiments.families.flows.workload import WorkloadOptions
from weft.experiments.runs.inputs import program_of
from weft.experiments.runs.simulation import simulate
from weft.experiments.scenario.scenario import Scenario
from weft.experiments.theory.bounds import completion_bound_ns
from weft.experiments.theory.flow_steps import steps_of, steps_of_graph
from weft.experiments.theory.traffic_model import tier_model_bytes


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "flows.cm"
    path.write_text(text)
    return str(path)


def test_a_matrix_says_who_sends_what_and_when() -> None:
    graph = parse_matrix(MATRIX, "m.cm")
    assert graph.source == (0, 2, 1, 3, 1, 3)  # the last two are the triggers, where they start
    assert graph.destination == (1, 1, 3, 0, 1, 3)
    assert graph.size_bytes == (1000, 3000, 500, 1, 0, 0)
    assert graph.delay_ns == (0, 2500, 0, 0, 0, 0)
    assert graph.needed == (0, 0, 1, 1, 2, 1)


def test_a_matrix_is_carried_out_by_ranks() -> None:
    graph = parse_matrix(MATRIX, "m.cm")
    request = Request(0, "flows", "given", 0, flows=graph)
    group = Group(4, requests=[request])
    times = {
        (moment.flow, moment.what): moment.at_ns - group.started_ns
        for event in group.complete(request)
        for moment in event.report.flows
    }
    assert times[1, "begun"] >= 2500
    assert times[2, "begun"] >= max(times[0, "received"], times[1, "received"])
    assert times[3, "begun"] >= times[1, "acknowledged"]


def test_a_barrier_that_counts_fewer_than_fire_it_does_not_wait_for_all() -> None:
    graph = parse_matrix(MATRIX.replace("count 2", "count 1"), "m.cm")
    assert graph.needed[4] == 1


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("0->1", "0->0", 5, "from one node to another"),
        ("0->1", "0->4", 5, "nodes are 0 to 3"),
        ("0->1", "0->x", 5, "'x' is no number"),
        ("0->1", "-1->1", 5, "no number|out of range"),
        ("size 1000", "size 0", 5, "a size of 1 byte or more"),
        ("size 1000", "", 5, "a size of 1 byte or more"),
        ("size 1000", "size 1e3", 5, "is no number"),
        ("size 1000", "size", 5, "'recv_done_trigger' is no number"),
        ("start 0 ", "", 5, "a start or by a trigger"),
        ("trigger 9 size", "start 1 trigger 9 size", 9, "a start or by a trigger"),
        ("start 0", "begin 0", 5, "'begin' is none of id, start"),
        ("id 1", "id 1 id 1", 5, "'id' is there twice"),
        ("trigger 9 size", "trigger 8 size", 9, "trigger 8 is not in the file"),
        ("count 2", "count 3", 10, "2 flows fire it, and it waits for 3"),
        ("count 2", "", 10, "a barrier has a count"),
        ("oneshot", "oneshot count 1", 11, "nothing else has one"),
        ("oneshot", "oneshot multishot", 11, "is one of oneshot"),
        ("oneshot", "", 11, "is one of oneshot"),
        ("id 9 oneshot", "id 7 oneshot", 11, "trigger 7 is there already"),
        ("Connections 4", "Connections 5", 3, "the file has 4"),
        ("Triggers 2", "Triggers 1", 4, "the file has 2"),
        ("Triggers 2", "Failures 1", 4, "use --fault"),
        ("Triggers 2", "failure switch_type TOR", 4, "use --fault"),
        ("Nodes 4", "Hosts 4", 2, "begin with Nodes"),
        ("Nodes 4", "Nodes four", 2, "no number"),
    ],
)
def test_a_line_that_makes_no_sense_is_named(old: str, new: str, line: int, words: str) -> None:
    assert old in MATRIX
    text = MATRIX.replace(old, new, 1)
    with pytest.raises(InputError, match=words) as caught:
        parse_matrix(text, "m.cm")
    assert str(caught.value).startswith(f"m.cm:{line}: '")
    said = text.splitlines()[line - 1].partition("  #")[0].strip()
    assert said[:40] in str(caught.value)


def test_flows_that_start_each_other_are_refused() -> None:
    text = (
        "0->1 id 1 trigger 1 size 5 send_done_trigger 2\n"
        "1->0 id 2 trigger 2 size 5 send_done_trigger 1\n"
        "trigger id 1 oneshot\ntrigger id 2 oneshot\n"
    )
    with pytest.raises(InputError, match=r"^m\.cm: 2 flows wait for each other"):
        parse_matrix(text, "m.cm")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "bytes.cm").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no text"):
        FORMATS[".cm"].text(tmp_path / "bytes.cm")
    with pytest.raises(InputError, match="No such file"):
        FORMATS[".cm"].text(tmp_path / "none.cm")
    with pytest.raises(InputError, match="0 connections"):
        parse_matrix("", "m.cm")


_WORDS = st.sampled_from(
    [*HEADERS, *NUMBERS, *KINDS, "count", "0->1", "1->2", "#", "trigger", "3", "0", "-1", "1e400",
     "nan", "9" * 30, "->", "2->", "\n", "\n", "\x00", "\N{SNOWMAN}"]
)  # fmt: skip


@given(st.one_of(st.lists(_WORDS, max_size=40).map(" ".join), st.text(max_size=60)))
def test_any_text_is_a_matrix_or_an_input_error(text: str) -> None:
    try:
        assert isinstance(parse_matrix(text, "m.cm"), FlowGraph)
    except InputError as error:
        assert "m.cm" in str(error)


# -- Collectives and models ------------------------------------------------------------------------


def between(graph: FlowGraph) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for flow in graph.flows.tolist():
        found[graph.source[flow], graph.destination[flow]] += graph.size_bytes[flow]
    return found


@pytest.mark.parametrize("algorithm", FLOW_ALGORITHMS[1:])
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 8])
def test_a_collective_in_a_workload_is_the_collective(algorithm: str, ranks: int) -> None:
    builder = GraphBuilder()
    add_collective(builder, "allreduce", algorithm, range(ranks), 4000, {})
    expected: Counter[tuple[int, int]] = Counter()
    for step in steps_of("allreduce", algorithm, ranks, 4000):
        columns = (step.source.tolist(), step.destination.tolist(), step.size_bytes.tolist())
        for source, destination, size_bytes in zip(*columns, strict=True):
            expected[source, destination] += size_bytes
    assert between(builder.build()) == expected


@pytest.mark.parametrize("algorithm", FLOW_ALGORITHMS[1:])
def test_the_steps_of_a_workload_of_one_collective_are_the_collectives(algorithm: str) -> None:
    builder = GraphBuilder()
    add_collective(builder, "allreduce", algorithm, range(8), 8000, {})
    found = steps_of_graph(builder.build())
    expected = steps_of("allreduce", algorithm, 8, 8000)
    if algorithm == "double-binary-tree":  # in which a leaf of one level waits for nothing
        assert sum(map(len, found)) == sum(map(len, expected))
        return
    for one, other in zip(found, expected, strict=True):
        assert sorted(zip(one.source, one.destination, one.size_bytes, strict=True)) == sorted(
            zip(other.source, other.destination, other.size_bytes, strict=True)
        )


def test_flows_that_start_each_other_again_have_steps() -> None:
    text = (
        "0->1 start 0 size 5 recv_done_trigger 1\n"
        "1->0 id 2 trigger 1 size 5 recv_done_trigger 1\ntrigger id 1 multishot\n"
    )
    found = steps_of_graph(parse_matrix(text, "m.cm"))
    assert [each.source.tolist() for each in found] == [[0], [1]]


def test_a_ring_in_a_workload_takes_its_steps_one_after_the_other() -> None:
    builder = GraphBuilder()
    add_collective(builder, "allreduce", "ring", [3, 1, 2, 0], 4_000_000, {})
    # Six steps of 1 MB at 8 Gbit/s.
    assert builder.build().span_ns(8_000_000_000) == 6_000_000


def test_other_collectives_take_an_algorithm_like_the_allreduces() -> None:
    assert algorithm_for("allreduce", "double-binary-tree") == "double-binary-tree"
    assert algorithm_for("allgather", "direct") == "linear"
    assert algorithm_for("reduce-scatter", "halving-doubling") == "recursive-halving"
    assert algorithm_for("alltoall", "ring") == "direct"
    assert algorithm_for("broadcast", "ring") == "k-nomial"


def test_the_large_models_have_the_sizes_of_the_paper() -> None:
    assert MODELS["gpt-7b"].activation_bytes == 33_554_432
    assert MODELS["gpt-13b"].activation_bytes == 41_943_040
    assert (MODELS["gpt-7b"].layers, MODELS["gpt-13b"].layers) == (36, 40)


@pytest.mark.parametrize("name", MODELS)
def test_a_step_sums_activations_in_tensor_groups_and_gradients_across_them(name: str) -> None:
    graph = training_step(name, 8, 4, "direct", share=0.01, layers=2, micro_batches=3)
    activations = round(MODELS[name].activation_bytes * 0.01)
    gradients = round(MODELS[name].gradient_bytes * 0.01 / 4)
    passes = 3 * 2 * 2  # of three micro-batches, two layers and two directions
    sums: Counter[int] = Counter()
    for (source, destination), size_bytes in between(graph).items():
        same = source // 4 == destination // 4
        assert same or source % 4 == destination % 4
        sums[same] += size_bytes
    # An Allreduce of V by P ranks sends 2 (P - 1) V in all; there are two tensor groups of 4, and
    # four data groups of 2.
    assert sums[True] == passes * 2 * (2 * 3 * activations)
    assert sums[False] == 2 * 4 * (2 * 1 * gradients)


def test_gradients_go_beside_what_follows() -> None:
    both = training_step("gpt-small", 8, 4, "ring", share=0.1, layers=6)
    alone = training_step("gpt-small", 4, 4, "ring", share=0.1, layers=6)
    gradients = training_step("gpt-small", 2, 1, "ring", share=0.1 / 4, layers=6)
    rate_bps = 1_000_000_000
    assert both.span_ns(rate_bps) < alone.span_ns(rate_bps) + gradients.span_ns(rate_bps)


def test_groups_that_do_not_fit_are_refused() -> None:
    for ranks, tensor in ((6, 4), (1, 1)):
        with pytest.raises(InputError, match="does not divide"):
            training_step("gpt-7b", ranks, tensor, "ring")


# -- Scenarios -------------------------------------------------------------------------------------

SMALL: dict[str, Any] = {
    "collective": "flows", "world": "simulated", "leaves": 2, "spines": 2, "hosts_per_leaf": 2,
    "mtu": 1024,
}  # fmt: skip


def test_a_file_is_run_in_the_simulated_world_and_its_flows_are_timed(tmp_path: Path) -> None:
    scenario = Scenario(workload=written(tmp_path, MATRIX), **SMALL)
    assert scenario.algorithms == ("given",)
    assert scenario.shard_sizes == (1000, 500, 3000, 1)
    one = simulate(scenario, program_of(scenario), "given", 0, lambda _: None)
    assert one.verified, one.error
    assert one.flows is not None
    assert one.flows.size_bytes == [1000, 3000, 500, 1]
    assert len(one.flows.completions_ns()) == 4
    assert one.completion_ns is not None
    assert one.bound_ns <= max(time or 0 for time in one.flows.received_ns) < one.completion_ns
    model = tier_model_bytes(scenario.network(), scenario, "given")
    assert model["host_up"] == 4501
    assert model["fabric_up"] == 3000 + 500 + 1  # from 0 to 1 there is none


def test_a_models_step_is_run_in_the_simulated_world_by_every_algorithm() -> None:
    scenario = Scenario(
        workload="gpt-small", layers=1, slowdown=1.0, algorithms=FLOW_ALGORITHMS[1:], **SMALL
    )
    assert (scenario.own.tensor, scenario.own.micro_batches) == (2, 1)
    for algorithm in scenario.algorithms:
        one = simulate(scenario, program_of(scenario), algorithm, 0, lambda _: None)
        assert one.verified, one.error
        assert one.completion_ns is not None and one.completion_ns > one.bound_ns
        assert completion_bound_ns(scenario, algorithm, frames=True) > completion_bound_ns(
            scenario, algorithm
        )


def test_a_scenario_of_flows_stays_as_it_is(tmp_path: Path) -> None:
    scenario = Scenario(workload=written(tmp_path, MATRIX), **SMALL)
    assert replace(scenario) == scenario
    assert replace(scenario, seed=3).size_bytes == scenario.size_bytes == 3000


def test_a_slowdown_scales_a_files_sizes_and_times(tmp_path: Path) -> None:
    path = written(tmp_path, MATRIX)
    scenario = Scenario(workload=path, slowdown=2.0, rate_bps=100_000_000_000, **SMALL)
    graph = scenario.flow_graph("given")
    assert graph.size_bytes == (500, 1500, 250, 1, 0, 0)
    assert graph.delay_ns == (0, 5000, 0, 0, 0, 0)


def test_a_file_that_has_changed_is_read_again(tmp_path: Path) -> None:
    options = WorkloadOptions(written(tmp_path, MATRIX), "given", 4, 10**9)
    assert graph_of(options).size_bytes[0] == 1000
    written(tmp_path, MATRIX.replace("size 1000", "size 12345"))
    assert graph_of(options).size_bytes[0] == 12345


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "--workload"),
        ({"workload": "gpt-9b"}, "gpt-9b.*gpt-7b"),
        ({"workload": "there.is.none.cm"}, "No such file"),
        ({"workload": "gpt-7b", "algorithms": ("given",)}, "given.*ring, direct"),
        ({"workload": "gpt-7b", "tensor": 3}, "tensor 3 does not divide 4"),
        ({"workload": "gpt-7b", "tensor": 5}, "tensor 5 is out of range: 1 to 4"),
        ({"workload": "gpt-7b", "layers": 0}, "layers 0 is out of range"),
        ({"workload": "gpt-7b", "micro_batches": 65}, "micro-batches 65"),
        ({"workload": "gpt-7b", "slowdown": -1.0}, "slowdown -1"),
        ({"workload": "gpt-7b", "dtype": "float32"}, "dtype 'float32'"),
        ({"workload": "gpt-7b", "size_bytes": 5}, "size 5"),
        ({"workload": "gpt-7b", "jobs": 2}, "jobs 2"),
        ({"workload": "gpt-7b", "operations": 2}, "operations 2"),
        ({"collective": "allgather", "workload": "gpt-7b"}, "workload 'gpt-7b' means nothing"),
        ({"collective": "allgather", "tensor": 2}, "tensor 2 means nothing"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Scenario(**{**SMALL, **options})


def test_a_file_of_more_nodes_than_ranks_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, MATRIX)
    with pytest.raises(InputError, match="flows of node 3: the network has 2 ranks"):
        Scenario(workload=path, **{**SMALL, "hosts_per_leaf": 1})
