"""Models that are trained in a pipeline: sizes, parts, tensors between them, and times."""

from __future__ import annotations

from itertools import combinations, pairwise
from math import prod

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.base.errors import InputError
from weft.experiments.families.flows.load import share
from weft.experiments.families.flows.workload import REAL_RATE_BPS
from weft.experiments.families.pipeline.layers import Layer, gpt_layers
from weft.experiments.families.pipeline.models import (
    HOST_RATE_BPS,
    MODELS,
    Boundary,
    Model,
    Scale,
    compute_ns,
    device_flops,
    model_of,
    times_of,
)
from weft.experiments.families.pipeline.schedules import make
from weft.experiments.families.pipeline.timing import Times, timed

U_TRANSFORMER = MODELS["u-transformer-2b"]


def boundary(model: Model, source: int, destination: int, *inner: int) -> Boundary:
    """Return a boundary without its words."""
    shape = (model.microbatch, *inner)
    return Boundary(source, destination, shape, model.dtype, "")


def boundaries(model: Model, stages: int) -> list[Boundary]:
    return [
        Boundary(each.source, each.destination, each.shape, each.dtype, "")
        for each in model.boundaries(stages)
    ]


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("gpt-1.3b", 1.3e9),
        ("gpt-2.6b", 2.6e9),
        ("u-transformer-1b", 1e9),
        ("u-transformer-2b", 2e9),
    ],
)
def test_models_have_as_many_parameters_as_they_are_called_after(
    name: str, parameters: float
) -> None:
    model = model_of(name)
    assert model.parameters == pytest.approx(parameters, rel=0.1)
    for stages in (1, 2, 4):
        assert sum(each.parameters for each in model.work(stages)) == model.parameters


def test_a_gpts_parameters_and_flops_are_those_of_the_formulas() -> None:
    h, blocks, s, v = 2048, 24, 1024, 51200
    model = MODELS["gpt-1.3b"]
    # Narayanan et al., arXiv 2104.04473: parameters (section 5.1, without their smaller terms), and
    # FLOPs of a step that computes forward passes again (appendix; the head is not among those).
    assert model.parameters == pytest.approx(
        12 * blocks * h**2 * (1 + 13 / (12 * h) + (v + s) / (12 * blocks * h)), rel=1e-5
    )
    work = model.work(1)[0]
    found = (work.forward_flops + work.backward_flops + work.weight_flops) * model.microbatches
    expected = 96 * model.batch * s * blocks * h**2 * (1 + s / (6 * h) + v / (12 * blocks * h))
    assert found == pytest.approx(expected, rel=1e-9)


def test_between_the_stages_of_a_gpt_goes_one_activation() -> None:
    model = MODELS["gpt-1.3b"]
    assert boundaries(model, 1) == []
    assert boundaries(model, 4) == [
        boundary(model, stage, stage + 1, 1024, 2048) for stage in range(3)
    ]
    assert model.boundaries(4)[0].size_bytes == 32 * 1024 * 2048 * 2
    assert model.dtype == "float16"


def test_a_gpts_stages_have_as_many_blocks() -> None:
    assert [*map(len, MODELS["gpt-2.6b"].parts(4))] == [9, 8, 8, 9]
    with pytest.raises(InputError, match=r"24 blocks do not make 5 stages.*among 1, 2, 3, 4, 6, 8"):
        MODELS["gpt-1.3b"].work(5)


def test_skips_of_a_u_transformer_cross_the_stages_between() -> None:
    model, c = U_TRANSFORMER, 672
    assert boundaries(model, 2) == [
        boundary(model, 0, 1, 32, 32, c),
        boundary(model, 0, 1, 32, 32, c),
        boundary(model, 0, 1, 16, 16, 2 * c),
        boundary(model, 0, 1, 8, 8, 4 * c),
    ]
    each = boundaries(model, 13)  # a stage for each layer
    skips = {(0, 11): (32, c), (1, 10): (32, c), (2, 9): (16, 2 * c), (3, 8): (8, 4 * c),
             (4, 7): (4, 4 * c)}  # fmt: skip
    for (source, destination), (side, channels) in skips.items():
        assert boundary(model, source, destination, side, side, channels) in each
    neighbours = {(one.source, one.destination) for one in each} - {*skips}
    assert neighbours == {(stage, stage + 1) for stage in range(12)}
    assert len(each) == 12 + len(skips)


def test_what_two_layers_of_a_stage_take_goes_there_once() -> None:
    layers = (
        Layer("a", 10, (3,)),
        Layer("b", 10, (4,), skips=(0,)),
        Layer("c", 1, (5,), skips=(0, 1)),
    )
    model = Model("m", layers, "float32", 4, 2)
    assert [*map(len, model.parts(2))] == [1, 2]
    assert boundaries(model, 2) == [boundary(model, 0, 1, 3)]
    assert boundaries(model, 3) == [
        boundary(model, 0, 1, 3), boundary(model, 0, 2, 3), boundary(model, 1, 2, 4),
    ]  # fmt: skip


def test_a_layer_keeps_what_its_output_is_not() -> None:
    layers = (Layer("down", 1, (2,), kept=(4,)), Layer("up", 1, (4,), skips=(0,)))
    model = Model("m", layers, "float32", 4, 2)
    assert [each.shape for each in model.boundaries(2)] == [(2, 2), (2, 4)]
    assert model.boundaries(2)[1].what == "skip from down to up"


@given(st.lists(st.integers(0, 40), min_size=1, max_size=8), st.integers(1, 8))
def test_stages_are_cut_so_that_the_longest_one_takes_the_least(
    costs: list[int], stages: int
) -> None:
    layers = tuple(Layer(str(number), cost, (1,)) for number, cost in enumerate(costs))
    model = Model("m", layers, "float32", 1, 1)
    if stages > len(costs):
        with pytest.raises(InputError, match="choose fewer stages"):
            model.parts(stages)
        return
    parts = model.parts(stages)
    assert [layer for part in parts for layer in part] == [*range(len(costs))]
    assert all(parts)

    def longest(cuts: tuple[int, ...]) -> int:
        ends = pairwise((0, *cuts, len(costs)))
        return max(sum(costs[begin:end]) for begin, end in ends)

    found = longest(tuple(part.start for part in parts[1:]))
    assert found == min(map(longest, combinations(range(1, len(costs)), stages - 1)))


@pytest.mark.parametrize("name", MODELS)
def test_parts_add_up_to_the_whole(name: str) -> None:
    model = model_of(name)
    whole = model.work(1)[0]
    for stages in (2, 4):
        parts = model.work(stages)
        assert sum(each.forward_flops for each in parts) == whole.forward_flops
        assert sum(each.backward_flops for each in parts) == whole.backward_flops
        assert sum(each.weight_flops for each in parts) == whole.weight_flops
    smaller = model.in_microbatches(model.microbatches // 2)
    assert smaller.work(2)[0].forward_flops == 2 * model.work(2)[0].forward_flops


def test_a_backward_pass_computes_its_forward_pass_again_or_not() -> None:
    layers = (Layer("a", 10, (1,), other_flops=4),)
    again, kept = (Model("m", layers, "float32", 1, 1, recompute=each) for each in (True, False))
    assert (again.work(1)[0].backward_flops, kept.work(1)[0].backward_flops) == (32, 18)
    assert again.work(1)[0].weight_flops == kept.work(1)[0].weight_flops == 10


def test_what_does_not_fit_a_model_is_refused() -> None:
    with pytest.raises(InputError, match=r"'gpt-1\.3' is unknown.*did you mean gpt-1\.3b"):
        model_of("gpt-1.3")
    with pytest.raises(InputError, match="microbatches 3: give a divisor of the batch of 1024"):
        MODELS["gpt-1.3b"].in_microbatches(3)
    with pytest.raises(InputError, match="13 layers do not make 14 stages"):
        U_TRANSFORMER.boundaries(14)
    with pytest.raises(InputError, match="0 stages"):
        U_TRANSFORMER.parts(0)


# -- Times -----------------------------------------------------------------------------------------


def test_devices_share_a_computation_and_its_time_is_rounded_up() -> None:
    assert compute_ns(4_000, 4, 1e9) == 1_000
    assert compute_ns(4_001, 4, 1e9) == 1_001
    assert compute_ns(0, 4, 1e9) == 0
    for devices, flops in ((0, 1e9), (4, 0.0), (4, float("nan"))):
        with pytest.raises(InputError, match="FLOP/s: give"):
            compute_ns(1, devices, flops)


def test_a_v100_is_slower_in_single_precision() -> None:
    assert device_flops(MODELS["gpt-1.3b"]) == 50e12
    assert device_flops(U_TRANSFORMER, 1.0) == 15.7e12


@pytest.mark.parametrize("name", [name for name in MODELS if "tiny" not in name])
def test_eager_1f1b_takes_back_what_communication_costs(name: str) -> None:
    model = model_of(name)
    times = times_of(model, 2, device_flops(model))
    links = {(0, 1): sum(each.size_bytes for each in model.boundaries(2)) * 8 * 10**9}
    links = {pair: bits // HOST_RATE_BPS for pair, bits in links.items()}
    alone, plain, eager = (
        timed(make(schedule, 2, model.microbatches), times, transfer_ns).step_ns
        for schedule, transfer_ns in (("1f1b", 0), ("1f1b", links), ("eager-1f1b", links))
    )
    assert plain > 1.02 * alone
    assert eager < 1.03 * alone


# -- Scale -----------------------------------------------------------------------------------------


@given(
    rate_bps=st.integers(10**6, 10**11),
    slowdown=st.floats(0.1, 1000),
    size_bytes=st.integers(10**9, 10**12),
    time_ns=st.integers(10**9, 10**12),
)
def test_a_scaled_step_keeps_the_ratio_of_computation_to_communication(
    rate_bps: int, slowdown: float, size_bytes: int, time_ns: int
) -> None:
    scale = Scale(rate_bps, slowdown)
    before = size_bytes * 8e9 / HOST_RATE_BPS / time_ns
    after = scale.bytes(size_bytes) * 8e9 / rate_bps / scale.time_ns(time_ns)
    assert after == pytest.approx(before, rel=1e-3)
    assert scale.time_ns(time_ns) == pytest.approx(time_ns * slowdown, rel=1e-6)


def test_the_scale_is_that_of_other_workloads_at_their_rate() -> None:
    scale = Scale(10**9, 4.0, REAL_RATE_BPS)
    assert scale.share == share(10**9, 4.0)
    assert scale.bytes(1) == 1
    assert scale.times(Times((1,), (2,), (3,))) == Times((4,), (8,), (12,))


@example(shape=[144, 144], part=0.5078125)
@given(
    shape=st.lists(st.integers(1, 64).map(lambda size: 16 * size), min_size=1, max_size=4),
    part=st.floats(0.001, 1),
)
def test_a_scaled_shape_has_its_share_and_stays_a_multiple(shape: list[int], part: float) -> None:
    scale = Scale(HOST_RATE_BPS, part)
    found = scale.shape(tuple(shape), 4)
    assert len(found) == len(shape)
    assert all(size % 4 == 0 and 0 < size <= of for size, of in zip(found, shape, strict=True))
    wanted = prod(shape) * part
    # The last size is cut in steps of 4, to half of what was the largest one at least.
    finest = max(size // 4 for size in found)
    if prod(found) > 4 ** len(shape):
        assert abs(prod(found) - wanted) <= prod(found) / finest
    else:
        assert wanted < 2 * prod(found)


def test_a_shape_that_would_grow_is_refused() -> None:
    assert Scale(10**8, 4.0).shape((32, 1024, 2048), 4) == (32, 328, 256)
    with pytest.raises(InputError, match=r"grow 1\.5-fold: choose a slowdown of 100 or less"):
        Scale(10**8, 150.0).shape((32, 1024, 2048))
    with pytest.raises(InputError, match="slowdown 0: give more than 0"):
        Scale(10**8, 0)


def test_the_small_models_are_small() -> None:
    for name in ("tiny", "tiny-u"):
        model = MODELS[name]
        assert model.parameters < 1_000_000
        assert sum(each.size_bytes for each in model.boundaries(2)) < 100_000
        assert model.boundaries(4) and model.work(8)
    assert gpt_layers(16, 8, 8, 64) == MODELS["tiny"].layers
