"""SimAI's workloads: what they become, and what is said of bad ones."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.workloads_support import SIMAI

from weft import run
from weft.agents.collectives.flow_graph import FlowGraph
from weft.base.errors import InputError
from weft.experiments.families.flows.formats.simai import parse
from weft.experiments.scenario.scenario import Scenario

FAST_BPS = 8_000_000_000
"""A byte takes a nanosecond."""


def graph_of(text: str, algorithm: str = "ring") -> FlowGraph:
    return parse(text, "x.txt", algorithm).graph


def step(*layers: str, sizes: str = "model_parallel_NPU_group: 2 all_gpus: 4",
         kind: str = "HYBRID_TRANSFORMER") -> str:  # fmt: skip
    return "\n".join([f"{kind} {sizes}", str(len(layers)), *layers])


def test_passes_are_done_in_order_and_weights_gradients_are_not_waited_for() -> None:
    layers = (
        "a -1 10 NONE 0 200 NONE 0 3000 ALLREDUCE 400 7",
        "b -1 40000 NONE 0 500000 NONE 0 6000000 ALLREDUCE 800 7",
    )
    graph = graph_of(step(*layers))
    # Forward a, b; backward b, a; then a's Allreduce of two: two rounds of half of it. That of b
    # was done meanwhile.
    assert graph.span_ns(FAST_BPS) == 10 + 40_000 + 500_000 + 6_000_000 + 200 + 3000 + 400


def test_inputs_collectives_are_waited_for() -> None:
    graph = graph_of(step("a -1 10 ALLREDUCE 1000 20 ALLREDUCE 500 30 NONE 0 7"))
    assert graph.span_ns(FAST_BPS) == 10 + 1000 + 20 + 500 + 30


@pytest.mark.parametrize(
    ("collective", "flow_bytes"),
    [("ALLGATHER", 500), ("REDUCESCATTER", 500), ("ALLTOALL", 500), ("ALLREDUCE", 500)],
)
def test_sizes_are_whole(collective: str, flow_bytes: int) -> None:
    graph = graph_of(step(f"a -1 1 {collective} 1000 1 NONE 0 1 NONE 0 1"))
    assert {graph.size_bytes[flow] for flow in graph.flows.tolist()} == {flow_bytes}


@pytest.mark.parametrize(
    ("column", "ending", "groups"),
    [
        ("forward", "", {(0, 1), (2, 3), (4, 5), (6, 7)}),
        ("weights", "", {(0, 2, 4, 6), (1, 3, 5, 7)}),
        ("forward", "_EP", {(0, 2), (1, 3), (4, 6), (5, 7)}),
        ("weights", "_DP_EP", {(0, 4), (1, 5), (2, 6), (3, 7)}),
    ],
)
def test_collectives_are_of_their_groups(
    column: str, ending: str, groups: set[tuple[int, ...]]
) -> None:
    words = f"1 ALLTOALL{ending} 80"
    others = "1 NONE 0"
    thirds = (words, others, others) if column == "forward" else (others, others, words)
    layer = f"a -1 {' '.join(thirds)} 1"
    graph = graph_of(step(layer, sizes="model_parallel_NPU_group: 2 ep: 2 all_gpus: 8"), "direct")
    pairs = {(graph.source[flow], graph.destination[flow]) for flow in graph.flows.tolist()}
    assert pairs == {(one, other) for group in groups for one in group for other in group
                     if one != other}  # fmt: skip


def test_with_checkpoints_forward_passes_are_done_again() -> None:
    layers = [f"{n} -1 {10**n} NONE 0 0 NONE 0 0 ALLREDUCE 4 0" for n in range(4)]
    sizes = "model_parallel_NPU_group: 1 all_gpus: 2 checkpoints: 1 1 checkpoint_initiates: 1 3"
    once = graph_of(step(*layers, sizes=sizes)).span_ns(FAST_BPS)
    again = graph_of(
        step(*layers, sizes=sizes, kind="HYBRID_TRANSFORMER_FWD_IN_BCKWD")
    ).span_ns(FAST_BPS)  # fmt: skip
    assert again - once == 10 + 100


def test_micro_is_the_collectives_of_weights_alone() -> None:
    graph = graph_of(
        step("a -1 9 ALLREDUCE 8 9 ALLREDUCE 8 0 ALLTOALL 100 9", kind="MICRO",
             sizes="model_parallel_NPU_group: 1 all_gpus: 4"), "direct",
    )  # fmt: skip
    assert Counter(graph.size_bytes[flow] for flow in graph.flows.tolist()) == {25: 12}


def test_pipeline_stages_are_told() -> None:
    text = step("a -1 1 ALLREDUCE 80 1 NONE 0 1 NONE 0 1",
                sizes="model_parallel_NPU_group: 2 pp: 2 all_gpus: 8 pp_comm 77")  # fmt: skip
    (note,) = parse(text, "x.txt", "ring").notes
    assert "pp 2: what stages send each other has no line" in note


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has a first line, a number of layers"),
        ("DATA\n1\na", "x.txt:1: 'DATA' is none of HYBRID_TRANSFORMER"),
        (step("a", sizes="all_gpus: 4"), "model_parallel_NPU_group is missing"),
        (step("a", sizes="model_parallel_NPU_group: 3 all_gpus: 4"), "all_gpus 4 is no multiple"),
        (step("a", sizes="model_parallel_NPU_group: x"), "model_parallel_NPU_group is 'x'"),
        (step("a", sizes="tp: 3"), "'tp:' is none of model_parallel_NPU_group"),
        (step("a -1 1"), "x.txt:3: 3 words: a layer has"),
        (step("a -1 1 ALLSUM 8 1 NONE 0 1 NONE 0 1"), "'ALLSUM' is none of NONE, ALLREDUCE"),
        (step("a -1 1 NONE_EP 8 1 NONE 0 1 NONE 0 1"), "'NONE_EP' is none of"),
        (step("a -1 1 ALLREDUCE -8 1 NONE 0 1 NONE 0 1"), "bytes is '-8'"),
        (step("a -1 1 NONE 0 1 NONE 0 1 NONE 0 1"), "nothing is sent"),
        (SIMAI.replace("\n2\n", "\n3\n"), "it says 3 layers, and 2 follow"),
        (SIMAI.replace("checkpoints: 1 0", "checkpoints: 1 9"), "checkpoint 9: layers are 0 to 1"),
        (SIMAI.replace("checkpoints: 1 0", "checkpoints: 0"), "layer 1 has no checkpoint"),
        (step("a -1 1 ALLREDUCE 8 1 NONE 0 1 NONE 0 1",
              sizes="model_parallel_NPU_group: 2 all_gpus: 400000"), "at most 524288 in all"),
    ],
)  # fmt: skip
def test_bad_workloads_are_refused_with_the_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        graph_of(text)


@given(st.data())
def test_any_text_is_a_workload_or_an_input_error(data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(SIMAI)))
    length = data.draw(st.integers(0, 12))
    word = data.draw(st.sampled_from(["", "\n", "-1", "9" * 30, "ALLTOALL", "\0", " ", "1"]))
    try:
        assert isinstance(graph_of(SIMAI[:at] + word + SIMAI[at + length :]), FlowGraph)
    except InputError as error:
        assert str(error).startswith("x.txt")


def test_a_workload_runs_and_is_verified(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(SIMAI)
    options: dict[str, Any] = {"collective": "flows", "world": "simulated", "hosts_per_leaf": 4}
    scenario = Scenario(workload=str(tmp_path / "x.txt"), **options)
    assert scenario.algorithms == ("ring",)
    assert run(scenario).verified
