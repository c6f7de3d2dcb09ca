"""Training steps in pipelines: against a simulation without contention that is written apart, and
what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from weft import Scenario, run
from weft.base.errors import InputError
from weft.experiments.families.pipeline.names import (
    COMMUNICATION,
    algorithm_named,
    parts_of_algorithm,
)
from weft.experiments.families.pipeline.resolve import training_of
from weft.experiments.families.pipeline.schedules import make, peak_activations
from weft.experiments.plots.gantt import charts_of, gantt_files
from weft.experiments.results.results import Results
from weft.tools.figures.kept import metrics_of


def simulated(**asked: Any) -> Scenario:
    given = {"model": "gpt-1.3b", "micro_batches": 8, "topology": "single", **asked}
    return Scenario("pipeline", world="simulated", **given)


def alone_ns(scenario: Scenario, algorithm: str) -> int:
    """How long a step takes if tensors take no time: stage by stage, again and again until no
    action moves. Written apart from `weft.experiments.families.pipeline.timing`."""
    step = training_of(scenario, algorithm)
    schedule, times = step.schedule, step.times
    last = schedule.stages * schedule.chunks - 1
    ends: dict[tuple[str, int, int], int] = {}
    while True:
        before = dict(ends)
        for stage, actions in enumerate(schedule.actions):
            now_ns = 0
            for kind, microbatch, chunk in actions:
                part = chunk * schedule.stages + stage
                needed = {
                    "F": [("F", microbatch, part - 1)] if part else [],
                    "B": [("F", microbatch, part)]
                    + ([("B", microbatch, part + 1)] if part < last else []),
                    "W": [("B", microbatch, part)],
                }[kind]
                takes_ns = {
                    "F": times.forward_ns[part],
                    "B": times.backward_ns[part]
                    + (0 if schedule.delayed else times.weight_ns[part]),
                    "W": times.weight_ns[part],
                }[kind]
                now_ns = max([now_ns, *(ends.get(each, 0) for each in needed)]) + takes_ns
                ends[kind, microbatch, part] = now_ns
        if ends == before:
            return max(ends.values())


@pytest.mark.parametrize(
    "asked",
    [
        {"schedules": ("gpipe", "1f1b", "eager-1f1b", "zb-h1")},
        {"schedules": ("interleaved-1f1b",), "stages": 2, "model_chunks": 2},
        {"schedules": ("1f1b", "eager-1f1b"), "stages": 4, "delayed_weights": True},
        {"schedules": ("1f1b", "zb-h1"), "model": "u-transformer-1b", "stages": 3},
    ],
)
def test_without_tensors_to_speak_of_only_the_schedule_counts(asked: dict[str, Any]) -> None:
    results = run(simulated(communications=("signal",), **asked))
    for each in results.runs:
        scenario = simulated(communications=("signal",), **asked)
        least_ns = alone_ns(scenario, each.algorithm)
        assert each.verified and each.step is not None
        assert each.step.alone_ns == least_ns
        assert least_ns <= each.step.step_ns <= 1.01 * least_ns, each.algorithm


def test_eager_gains_where_there_is_something_to_hide() -> None:
    """Without communication it equals 1F1B, and where communication takes all the time there is
    nothing to hide it behind; in between it is faster. Faster devices make more of a step
    communication."""
    gains = {}
    for efficiency in (0.01, 2, 100):
        results = run(simulated(efficiency=efficiency, slowdown=0.05, micro_batches=None))
        one, eager = (each.step.step_ns for each in results.runs if each.step)
        gains[efficiency] = one / eager
    assert gains[0.01] == pytest.approx(1, abs=0.01)
    assert gains[2] > 1.25
    assert gains[100] < 1.1


def test_blocking_is_never_faster() -> None:
    results = run(simulated(communications=("overlapped", "blocking"), model="u-transformer-1b"))
    steps = {each.algorithm: each.step.step_ns for each in results.runs if each.step}
    assert steps["1f1b"] < steps["1f1b/blocking"]
    assert steps["eager-1f1b"] < steps["eager-1f1b/blocking"]


@pytest.mark.parametrize("strategy", ["broadcast", "multicast", "send-recv", "auto"])
def test_stages_of_several_hosts_with_loss(strategy: str) -> None:
    """Every tensor of every micro-batch is verified on all devices, forward and backward."""
    results = run(
        simulated(
            stage_mesh="2x2", sharding="S1RRR", stages=3, strategies=(strategy,), loss=0.01,
            model="u-transformer-1b", slowdown=0.02, topology="leaf-spine",
        )
    )  # fmt: skip
    assert results.verified
    tensors = training_of(
        simulated(stage_mesh="2x2", sharding="S1RRR", stages=3, model="u-transformer-1b"), "1f1b"
    ).carried.tensors
    skips = len(tensors.tensors) / (2 * 8)  # forward and back, by micro-batch
    assert skips > 2, "a skip crosses stages, beside the two boundaries"


def test_peaks_bubbles_and_pictures(tmp_path: Path) -> None:
    results = run(simulated(schedules=("1f1b", "eager-1f1b"), stages=4))
    one, eager = (each.step for each in results.runs)
    assert one is not None and eager is not None
    assert one.peak_activations == [4, 3, 2, 1] == [*peak_activations(make("1f1b", 4, 8))]
    assert eager.peak_activations == [7, 5, 3, 1]
    assert 0 < one.bubble < 1 and one.exposed_ns >= 0
    assert {*one.rank} == {0, 1, 2, 3} == {*one.stage}
    figures = metrics_of(results.runs[1])
    assert figures["bubble-percent"] == 100 * eager.bubble
    assert figures["exposed-ms"] == eager.exposed_ns / 1e6
    assert figures["peak-activations"] == 7
    assert [each.algorithm for each, _ in charts_of(results)] == ["1f1b", "eager-1f1b"]
    files = dict(gantt_files(results))
    assert {*files} == {"gantt.svg", "gantt.png", "gantt.trace.json"}
    assert files["gantt.svg"][:5] == b"<?xml"
    events = json.loads(files["gantt.trace.json"])["traceEvents"]
    spans = [each for each in events if each["ph"] == "X" and each["cat"] != "flow"]
    assert len(spans) == 2 * 2 * 4 * 8
    assert {each["name"] for each in spans} == {f"{k}{m}" for k in "FB" for m in range(8)}
    assert len(results.rows("stages")) == len(spans)
    results.write(tmp_path)
    assert Results.read(tmp_path).runs[0].step == one


def test_a_schedule_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('stages = 2\nmicrobatches = 2\nactions = ["F0 F1 B0 B1", "F0 B0 F1 B1"]\n')
    results = run(simulated(schedules=(str(file),), micro_batches=2))
    assert results.verified and results.runs[0].algorithm == str(file)


@pytest.mark.parametrize(
    "text, message",
    [
        ('actions = ["F0 F1 B0 B1", "B0 F0 F1 B1"]', "stage 1 has B0 before F0"),
        ('actions = ["F0 F1 B0 B1", "F0 B0 F1"]', "stage 1 lacks B1"),
        ('actions = ["F0 B0 F1 B1", "F0 F1 B0 B1"]', "it never ends, since its stages wait for"),
        ('actions = ["F0 F1 B0 B1"]', "actions of 1 stages, and there are 2"),
        ('actions = ["F0 what B0 B1", "F0 B0 F1 B1"]', "what"),
    ],
)
def test_schedules_that_make_no_sense(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "own.toml"
    file.write_text(f"stages = 2\nmicrobatches = 2\n{text}\n")
    with pytest.raises(InputError, match=message):
        simulated(schedules=(str(file),), micro_batches=2)


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"model": "what"}, "model 'what' is unknown"),
        ({"schedules": ("what",)}, "schedule 'what' is unknown.*: choose gpipe, 1f1b"),
        ({"algorithms": ("1f1b/what",)}, "'what' is neither a strategy"),
        ({"communications": ("what",)}, "communication 'what' is unknown: choose from overlapped"),
        ({"stages": 9, "model": "gpt-1.3b"}, "do not make 9 stages|9 stages of 1 hosts are 9"),
        ({"stages": 8, "stage_mesh": "2x4"}, "8 stages of 2 hosts are 16: the network has 8"),
        ({"stage_mesh": "4"}, "stage-mesh '4' is no mesh: write hosts x devices"),
        ({"micro_batches": 7}, "microbatches 7: give a divisor of the batch"),
        ({"schedules": ("interleaved-1f1b",), "stages": 3}, "are no multiple of the 3 stages"),
        ({"sharding": "S0"}, "sharding 'S0' is for tensors of 1 dimensions"),
        ({"balances": ("greedy", "none")}, "a pipeline's reshardings have one"),
        ({"schedules": ("1f1b",), "algorithms": ("gpipe",)}, "name those, or algorithms"),
        ({"efficiency": 0.0}, "efficiency 0: from 0.0001"),
        ({"dtype": "int8"}, "dtype 'int8' means nothing for pipeline"),
        ({"micro_batches": 0}, "micro-batches 0 is out of range: 1 at least"),
        ({"model_chunks": 2}, "model-chunks 2 means nothing for 1f1b and eager-1f1b"),
        ({"slowdown": 1e9}, "would grow"),
        ({"size_bytes": 5}, "size 5 means nothing for pipeline"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        simulated(**asked)


@pytest.mark.parametrize("strategy", ["broadcast", "multicast"])
@pytest.mark.parametrize("way", [*COMMUNICATION])
def test_names_of_algorithms(strategy: str, way: str) -> None:
    for schedule in ("1f1b", "some/where/own.toml"):
        name = algorithm_named(schedule, strategy, way)
        assert parts_of_algorithm(name) == (schedule, strategy, way)


def test_the_report_shows_the_stages() -> None:
    from weft.experiments.report import render

    page = render(run(simulated(schedules=("1f1b",))))
    assert page.count("What each stage computed, and when") == 1
