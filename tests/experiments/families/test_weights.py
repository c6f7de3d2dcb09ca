"""Moves of weights: what each device has, the bytes that leave the trainer, and the time."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.collective_group import Group
from tests.support.memory_network import Faults
from tests.support.weights_support import expected_elements, meshes, models

from weft import Scenario, run
from weft.agents.collectives.dtypes import dtype_of
from weft.agents.collectives.names import FLOWS, GIVEN
from weft.agents.collectives.requests import Request
from weft.agents.collectives.tensors import Cast
from weft.agents.collectives.workload import Workload
from weft.base.errors import InputError
from weft.experiments.families.resharding.carrier import Carried, nowhere
from weft.experiments.families.resharding.names import STRATEGIES
from weft.experiments.families.resharding.strategy import Flows
from weft.experiments.families.weights.carry import carry
from weft.experiments.families.weights.models import CONFIGURATIONS, model_named
from weft.experiments.families.weights.names import MODELS
from weft.experiments.families.weights.plan import Move, WeightsPlan, plan_weights
from weft.experiments.families.weights.sides import read_side
from weft.experiments.families.weights.table import Model, Weight

PARAMETERS = {
    "llama-1b": 1_235_814_400,
    "llama-8b": 8_030_261_248,
    "llama-70b": 70_553_706_496,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v3": 671_026_419_200,
    "kimi-k2": 1_026_408_232_448,
}
"""As the models' pages on huggingface.co have them; of DeepSeek-V3 671B without its last layer."""
RATE_BPS = 1_000_000_000


def move_of(model: Model, source: str, destination: str, **more: Any) -> Move:
    sides = read_side("from", source), read_side("to", destination)
    return Move(model, *sides, devices=(1, 1), **more)


def carried_by(plan: WeightsPlan, hosts: int, strategy: str) -> Carried:
    return carry(plan, STRATEGIES[strategy], Flows(hosts, RATE_BPS, 50.0, 256), nowhere)


def request_of(carried: Carried) -> Request:
    return Request(
        0, FLOWS, GIVEN, 0, flows=carried.graph, tensors=carried.tensors,
        own={"block_bytes": carried.block_bytes},
    )  # fmt: skip


@pytest.mark.parametrize("name", [*CONFIGURATIONS])
def test_public_models_have_their_parameters(name: str) -> None:
    assert model_named(name).elements == PARAMETERS[name]
    assert tuple(CONFIGURATIONS) == MODELS


@given(models(), meshes(), meshes(), st.booleans())
def test_devices_have_what_their_meshes_say(
    model: Model, source: str, destination: str, devices: bool
) -> None:
    """By numpy, element by element; both sides together are one plan that covers all of it."""
    for text in (source, destination):
        side = read_side("from", text)
        for weight in model.weights:
            index = np.arange(prod(weight.shape)).reshape(weight.shape)
            for device in range(side.size):
                boxes = side.spans(weight, model.layers, device)
                found = [index[tuple(slice(*each) for each in box)] for box in boxes if box]
                elements = [element for each in found for element in each.reshape(-1).tolist()]
                assert len(elements) == len({*elements})
                assert {*elements} == expected_elements(weight, side, model.layers, device)


@given(
    models(), meshes(), meshes(), st.sampled_from([*STRATEGIES]),
    st.sampled_from(["none", "least-loaded", "greedy"]), st.sampled_from([64, 1024, 1 << 20]),
    st.sampled_from(["", "float32", "bfloat16"]), st.sampled_from(["", "float16", "float8_e4m3fn"]),
    st.sampled_from([0.0, 0.0, 0.05]), st.integers(0, 99),
)  # fmt: skip
def test_every_byte_comes_to_every_device(
    model: Model, source: str, destination: str, strategy: str, balance: str, bucket_bytes: int,
    one: str, other: str, loss: float, seed: int,
) -> None:  # fmt: skip
    """Random models, meshes, uneven shards and types, with and without loss."""
    move = move_of(
        model, source, destination, source_dtype=one, destination_dtype=other
    )  # fmt: skip
    hosts = sum(move.hosts)
    plan = plan_weights(move, balance, bucket_bytes, seed)
    carried = carried_by(plan, hosts, strategy)
    faults = Faults(loss=loss, duplication=loss / 5, lateness=loss / 5, seed=seed)
    group = Group(hosts, rate_bps=RATE_BPS, groups=len(carried.graph.groups), faults=faults)
    group.complete(request_of(carried))
    elements = sum(
        sum(prod(end - begin for begin, end in tile.box) for tile in carried.tensors.tiles[host])
        for host in range(hosts)
    )
    assert elements == sum(
        len(expected_elements(weight, move.destination, model.layers, device))
        for weight in model.weights
        for device in range(move.destination.size)
    )


@given(models(), meshes(), meshes(), st.sampled_from([*STRATEGIES]))
def test_bytes_that_leave_the_trainer(
    model: Model, source: str, destination: str, strategy: str
) -> None:
    """One model by multicast and by a chain; by direct sends what all devices need."""
    move = move_of(model, source, destination)
    plan = plan_weights(move, "least-loaded", 1 << 20, 1)
    graph = carried_by(plan, sum(move.hosts), strategy).graph
    trainer = range(move.hosts[0])
    sent = sum(graph.size_bytes[flow] for flow in graph.sent_once if graph.source[flow] in trainer)
    if strategy in ("multicast", "broadcast"):
        assert sent == plan.model_bytes == model.size_bytes
    elif strategy in ("send-recv", "send-recv+allgather"):
        assert sent == sum(
            len(expected_elements(weight, move.destination, model.layers, device))
            * dtype_of(weight.dtype).itemsize
            for weight in model.weights
            for device in range(move.destination.size)
        )


def test_a_wrong_byte_is_found() -> None:
    weight = Weight("w", (8, 6), "float32", split=0)
    move = move_of(Model("one", (weight,), 0), "tp=2", "tp=3", destination_dtype="bfloat16")
    carried = carried_by(plan_weights(move, "none", 1 << 20, 1), 5, "multicast")
    assert carried.tensors.tensors[0].cast == Cast("float32", "bfloat16", "bfloat16")
    group = Group(5, rate_bps=RATE_BPS, groups=max(1, len(carried.graph.groups)))
    group.complete(request_of(carried))
    workload = Workload(request_of(carried), 5, 1)
    buffers = [workload.buffer(rank) for rank in range(5)]
    outputs = [workload.output(rank) for rank in range(5)]
    assert "of tensor 0 on device 0 of host 2 is wrong" in workload.check(2, buffers[2], outputs[2])
    assert not workload.check(0, buffers[0], outputs[0])


def test_heads_stay_together_and_are_shared_where_they_are_few() -> None:
    """Queries, keys and values in one tensor, 4 and 2 heads of 2 rows, on four devices."""
    weight = Weight("qkv", (16, 3), "bfloat16", 0, split=0, sections=(8, 4, 4), unit=2)
    side = read_side("to", "tp=4")
    rows = [[box[0] for box in side.spans(weight, 1, device) if box] for device in range(4)]
    assert rows == [
        [(0, 2), (8, 10), (12, 14)],
        [(2, 4), (8, 10), (12, 14)],
        [(4, 6), (10, 12), (14, 16)],
        [(6, 8), (10, 12), (14, 16)],
    ]


def test_experts_see_a_mesh_of_their_own() -> None:
    """As Megatron folds: 2 x 2 devices of tensor and data parallelism are 4 of expert
    parallelism."""
    side = read_side("from", "pp=2,tp=2,dp=2/ep=4")
    dense = Weight("w", (4, 4), "bfloat16", 0, split=0)
    experts = Weight("e", (8, 2, 4), "bfloat16", 1, split=1, experts=0)
    assert [side.spans(dense, 2, device)[0] for device in range(4)] == [
        ((0, 2), (0, 4)), ((2, 4), (0, 4)), ((0, 2), (0, 4)), ((2, 4), (0, 4)),
    ]  # fmt: skip
    assert [side.spans(experts, 2, device)[0] for device in range(4, 8)] == [
        ((2 * place, 2 * place + 2), (0, 2), (0, 4)) for place in range(4)
    ]
    assert side.spans(experts, 2, 0) == [None]


@pytest.mark.parametrize("name", ["llama-70b", "qwen3-235b-a22b", "deepseek-v3"])
def test_a_scaled_model_is_cut_as_the_whole_one(name: str) -> None:
    model = model_named(name)
    small = model.scaled((64 << 20) / model.size_bytes)
    assert len(small.weights) == len(model.weights)
    assert 0.7 < small.size_bytes / (64 << 20) < 1.4
    for whole, scaled in zip(model.weights, small.weights, strict=True):
        assert len(whole.sections) == len(scaled.sections)
        if whole.split is not None:
            heads = scaled.shape[scaled.split or 0] / scaled.unit
            assert whole.unit == 1 or heads == whole.shape[whole.split] / whole.unit


def simulated(**asked: Any) -> Scenario:
    given = {"topology": "single", "hosts_per_leaf": 8, "model": "qwen3-0.6b", "layers": 3}
    meshes = {"from_mesh": "pp=2,tp=2", "to_mesh": "tp=2,replicas=2", "devices": 2}
    asked = {**given, **meshes, "world": "simulated", "scale": 0.001, **asked}
    return Scenario("weights", **asked)


def test_multicast_carries_a_model_once() -> None:
    """In all of Weft: 2 replicas, 4 hosts; nothing is lost, so links carry what is planned, and
    headers."""
    results = run(simulated(strategies=("send-recv", "broadcast", "multicast")))
    assert [each.error for each in results.runs] == [None] * 3
    moved = {each.algorithm: each.weights for each in results.runs}
    assert moved["multicast"].trainer_bytes == moved["multicast"].model_bytes
    assert moved["broadcast"].trainer_bytes == moved["broadcast"].model_bytes
    assert moved["send-recv"].trainer_bytes > 2 * moved["send-recv"].model_bytes
    for each in results.runs:
        assert each.completion_ns is not None
        assert each.completion_ns >= each.bound_ns
        carried = sum(link.tx_bytes for link in each.links if link.from_node in ("h0", "h1"))
        assert 1 < carried / moved[each.algorithm].trainer_bytes < 1.3


def test_payload_none_and_loss() -> None:
    for more in ({"payload": "none"}, {"loss": 0.01}, {"to_dtype": "float8_e4m3fn"}):
        results = run(simulated(**more))
        assert [each.error for each in results.runs] == [None] * 2
        assert results.verified


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"from_mesh": ""}, "needs two meshes, and --from is not there"),
        ({"from_mesh": "tp"}, "'tp' is no mesh: write axes with their sizes"),
        ({"from_mesh": "replica=2"}, "axis 'replica' is unknown (did you mean replicas?)"),
        ({"from_mesh": "tp=2,tp=2"}, "axis tp is there twice"),
        ({"from_mesh": "tp=0"}, "axis tp has 0 devices"),
        ({"from_mesh": "tp=1,pp=1,dp=1,ep=1,cp=1"}, "has 5 axes: at most 4"),
        ({"from_mesh": "tp=3"}, "has 3 devices, which do not fill hosts of 2"),
        ({"from_mesh": "pp=2,dp=4/ep=3"}, "the axes for experts are 6 devices, and the others 8"),
        ({"to_mesh": "tp=128"}, "the network has 8 ranks"),
        ({"model": "lama-8b"}, "'lama-8b' is unknown (did you mean llama-8b?)"),
        ({"layers": 99}, "layers 99: model qwen3-0.6b has 28"),
        ({"scale": 2.0}, "scale 2: from 1e-09 to 1"),
        ({"dtype": "int32"}, "dtype 'int32' means nothing for weights"),
        ({"to_dtype": "int8"}, "to-dtype"),
        ({"strategies": ("auto",)}, "strategy 'auto' is unknown"),
        ({"size_bytes": 7}, "size 7 means nothing for weights"),
    ],
)
def test_what_makes_no_sense_is_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        simulated(**asked)
    assert message in str(error.value)
