"""Allreduce and Reduce-Scatter by switches that add: every type and operation against numpy, the
error bound, sizes that divide by nothing; agents below a model of the switches, in virtual time."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregation_group import SwitchGroup
from tests.support.aggregation_switches import JobPlan
from tests.support.aggregation_workers import Array, Workers
from tests.support.memory_network import Faults

from weft.agents.collectives.agent import Done, HostAgent
from weft.agents.collectives.communicator import Communicator, SwitchJob
from weft.agents.collectives.dtypes import dtype_of, significand_bits
from weft.agents.collectives.fixed_point import FixedPoint
from weft.agents.collectives.flow_columns import Sum
from weft.agents.collectives.graph_builder import GraphBuilder
from weft.agents.collectives.operation import OperationReport
from weft.agents.collectives.requests import Request
from weft.agents.datagrams import ipv4
from weft.agents.transport import Endpoint
from weft.base.errors import InputError

DTYPES = ("float32", "float16", "bfloat16", "int32")
LARGEST = {"float32": 3.4e38, "float16": 65504.0, "bfloat16": 3.38e38}
TREES = [(1, 1, 0), (2, 1, 0), (3, 1, 0), (5, 2, 2), (8, 3, 2), (17, 2, 4)]
"""Ranks, levels of switches, children of a switch below the root."""


def exponent(values: np.ndarray) -> int | None:
    """The smallest e with all |x| < 2**e, by exact arithmetic; None for zeros."""
    largest = max((abs(Fraction(float(value))) for value in values.reshape(-1)), default=0)
    if not largest:
        return None
    found = math.floor(math.log2(largest)) - 1
    while largest >= Fraction(2) ** found:
        found += 1
    return found


def ulp(value: float, name: str) -> Fraction:
    """The unit in the last place of the number of a type that is next to `value`."""
    bits = significand_bits(name)
    least = {"float32": -149, "float16": -24, "bfloat16": -133}[name]
    power = math.frexp(value)[1] - bits if value else least
    return Fraction(2) ** max(power, least)


def check_bound(inputs: list[Array], result: Array, spans: list[slice], average: bool) -> None:
    """Compare a result with exact sums, block by block."""
    size, name = len(inputs), result.dtype.name
    for span in spans:
        blocks = np.array([each[span].astype(np.float64) for each in inputs])
        largest = exponent(blocks)
        quantum = Fraction(0)
        if largest is not None:
            quantum = size * Fraction(2) ** (largest + (size - 1).bit_length() - 31)
        divisor = size if average else 1
        for column, found in zip(blocks.T, result[span].astype(np.float64), strict=True):
            exact = sum((Fraction(float(value)) for value in column), Fraction(0)) / divisor
            allowed = quantum / divisor + ulp(float(found), name) / 2
            assert abs(Fraction(float(found)) - exact) <= allowed, (found, float(exact))


def spans_of(count: int, values: int) -> list[slice]:
    return [slice(first, min(first + values, count)) for first in range(0, count, values)]


def values_of(random: np.random.Generator, count: int, name: str) -> Array:
    """Values of very different magnitudes, zeros among them."""
    if name == "int32":
        return random.integers(-(1 << 26), 1 << 26, count).astype(np.int32)
    # A whole block is large, small or subnormal; within it magnitudes differ by some orders.
    range_ = {"float32": (-140, 100), "float16": (-20, 8), "bfloat16": (-125, 100)}[name]
    scale = 2.0 ** np.repeat(random.integers(*range_, -(-count // 16)), 16)[:count]
    values = random.normal(size=count) * scale * 10.0 ** -random.integers(0, 9, count)
    values[random.random(count) < 0.1] = 0
    result: Array = values.astype(dtype_of(name))
    return result


@pytest.mark.parametrize(("size", "levels", "fan"), TREES)
@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
def test_every_rank_ends_with_the_right_sums(
    collective: str, size: int, levels: int, fan: int
) -> None:
    group = SwitchGroup(size, job=JobPlan(slots=8, values=16), levels=levels, fan=fan)
    count = 311 if collective == "allreduce" else 600 // size
    requests = [
        Request(0, collective, "switch", count, dtype=name, op=op)
        for name, op in itertools.product(DTYPES, ("sum", "average"))
        if name != "bfloat16" or size < 17
    ]
    done = group.complete(*requests)
    assert all(event.report.blocks_saturated == 0 for event in done)
    assert sum(switch.duplicates for switch in group.network.switches) == 0


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 31, 32, 33, 127, 509])
@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
def test_any_size_will_do(collective: str, count: int) -> None:
    group = SwitchGroup(3, levels=2, fan=2)
    requests = [Request(0, collective, "switch", count, dtype=name) for name in DTYPES]
    group.complete(*requests)


@pytest.mark.parametrize(
    "counts", [(0, 0, 0, 0), (1, 0, 0, 0), (0, 0, 0, 9), (7, 1, 0, 90), (40, 3, 11, 4)]
)
@pytest.mark.parametrize("name", DTYPES)
def test_shards_may_differ_and_be_empty(name: str, counts: tuple[int, ...]) -> None:
    group = SwitchGroup(4, job=JobPlan(slots=4, values=3))
    group.complete(Request(0, "reduce-scatter", "switch", counts, dtype=name))
    group.complete(Request(0, "reduce-scatter", "switch", counts, dtype=name, op="average"))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 17])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_floats_are_within_the_bound_and_bit_equal_on_all_ranks(
    name: str, average: bool, size: int
) -> None:
    random = np.random.default_rng(size)
    workers = Workers(size, [JobPlan(slots=4, values=16)])
    inputs = [values_of(random, 16 * 12 + 5, name) for _ in range(size)]
    results = workers.reduce(inputs, average=average)
    for result in results[1:]:
        assert result.tobytes() == results[0].tobytes()
    check_bound(inputs, results[0], spans_of(len(inputs[0]), 16), average)


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_the_bound_holds_for_a_reduce_scatter_too(name: str) -> None:
    random = np.random.default_rng(5)
    workers = Workers(3, [JobPlan(slots=4, values=16)])
    shards = [100, 3, 61]
    inputs = [values_of(random, sum(shards), name) for _ in range(3)]
    results = workers.reduce(inputs, shards=shards)
    first = 0
    for count, result in zip(shards, results, strict=True):
        own = [each[first : first + count] for each in inputs]
        check_bound(own, result, spans_of(count, 16), False)
        first += count


@given(data=st.data())
def test_the_bound_holds_for_any_bits(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["float32", "float16", "bfloat16"]))
    size = data.draw(st.sampled_from([1, 2, 3]))
    kind = dtype_of(name)
    width = 8 * kind.itemsize
    limit = {"float32": 0x7F7FFFFF, "float16": 0x7BFF, "bfloat16": 0x7F7F}[name]
    word = st.integers(0, limit).flatmap(
        lambda bits: st.sampled_from([bits, bits | 1 << (width - 1)])
    )
    rows = data.draw(st.lists(st.lists(word, min_size=5, max_size=5), min_size=size, max_size=size))
    inputs = [np.array(row, f"uint{width}").view(kind) for row in rows]
    workers = Workers(size, [JobPlan(slots=2, values=3)])
    results = workers.reduce(inputs)
    exact = np.sum([each.astype(np.float64) for each in inputs], axis=0)
    for span in spans_of(5, 3):
        # What leaves the type's range is infinite, as numpy has it.
        if np.abs(exact[span]).max(initial=0) < LARGEST[name] / 2:
            check_bound(inputs, results[0], [span], False)
    assert all(result.tobytes() == results[0].tobytes() for result in results)


def test_sums_that_leave_a_floats_range_are_infinite() -> None:
    workers = Workers(2)
    for name, most in LARGEST.items():
        inputs = [np.array([most, -most, 1], dtype_of(name))] * 2
        result = workers.reduce(inputs)[0].astype(np.float64)
        assert result[0] == np.inf
        assert result[1] == -np.inf


@pytest.mark.parametrize("op", ["sum", "average"])
def test_integers_of_the_whole_range_are_exact(op: str) -> None:
    values = np.array([2**31 - 1, -(2**31), -7, 7, 0, -1], np.int32)
    others = np.array([-(2**31), 2**31 - 1, 2, -2, 0, 0], np.int32)
    group = SwitchGroup(2)
    outputs = group.begin(
        Request(0, "allreduce", "switch", 6, dtype="int32", op=op), [values, others]
    )
    events = group.finish(10**9)
    exact = values.astype(np.int64) + others
    expected = np.trunc(exact / 2) if op == "average" else exact
    assert all(np.array_equal(output, expected) for output in outputs)
    assert [event.report.blocks_saturated for event in events] == [0, 0]


def test_an_operation_with_saturated_blocks_ends_well_and_says_so() -> None:
    group = SwitchGroup(3)
    inputs = [np.full(10, 2**30, np.int32)] * 3
    outputs = group.begin(Request(0, "allreduce", "switch", 10, dtype="int32"), inputs)
    for event, output in zip(group.finish(10**9), outputs, strict=True):
        assert isinstance(event, Done)
        assert event.report.blocks_saturated == 3
        assert np.array_equal(output, [2**31 - 1] * 10)
    assert (
        OperationReport(blocks_saturated=2) + OperationReport(blocks_saturated=3)
    ).blocks_saturated == 5


def test_sums_of_flows_tell_what_they_lost_to_fixed_point() -> None:
    builder = GraphBuilder()
    builder.add(Sum((builder.wait(0), builder.wait(1)), 64, (0, 0), (0, 0)))
    request = Request(0, "flows", "given", 0, flows=builder.build([64, 64], [64, 64]))
    values = np.ones(16, np.float32)
    values[1], values[9] = 1e-12, np.inf
    group = SwitchGroup(2)
    for agent in group.agents:
        agent.start(request, values.view(np.uint8).copy(), 0, np.zeros(64, np.uint8))
    for event in group.finish(10**10):
        assert isinstance(event, Done)
        assert event.report.fixed_point == FixedPoint(4, 1, 1)


@pytest.mark.parametrize("collective", ["allreduce", "reduce-scatter"])
@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_blocks_that_lose_values_or_become_nan_are_counted_once_each(
    collective: str, lost: float
) -> None:
    scatters = collective == "reduce-scatter"
    faults = Faults(loss=lost, seed=2)
    group = SwitchGroup(3, job=JobPlan(slots=4, values=8), faults=faults)
    inputs = [np.ones(3 * 64, np.float32) for _ in range(3)]
    inputs[0][[3, 9, 12]] = 1e-4  # 3 is beside what is large on another rank; 9 and 12 are not
    inputs[0][70:72] = 1e-4, 1e6
    inputs[1][2] = 1e6
    inputs[2][130] = np.inf
    inputs[1][150] = np.nan
    count = 64 if scatters else 3 * 64
    request = Request(0, collective, "switch", count, dtype="float32")
    group.begin(request, inputs)
    events = group.finish(10**12)
    found = [event.report.fixed_point for event in events]
    assert found == [FixedPoint(24, lossy, 2) for lossy in (2, 0, 0)]
    assert FixedPoint.of(found[0].statistics()) == found[0]
    assert FixedPoint(24).statistics() == {}


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_a_block_with_a_number_that_is_not_finite_is_nan_on_every_rank(name: str) -> None:
    group = SwitchGroup(5, levels=2, fan=2)
    inputs = [np.ones(300, dtype_of(name)) for _ in range(5)]
    inputs[3][222] = np.nan
    outputs = group.begin(Request(0, "allreduce", "switch", 300, dtype=name), inputs)
    for event, output in zip(group.finish(10**9), outputs, strict=True):
        assert isinstance(event, Done)
        nan = np.isnan(output.astype(np.float32))
        assert nan[222] and np.all(output[~nan].astype(np.float32) == 5)
        first, last = np.flatnonzero(nan)[[0, -1]]
        assert nan[first : last + 1].all() and not nan.all()
    group.complete(Request(0, "allreduce", "switch", 300, dtype=name))


def test_operations_run_at_the_same_time_and_after_each_other() -> None:
    group = SwitchGroup(4, levels=2, fan=2)
    for _ in range(3):
        group.complete(
            *(
                Request(0, collective, "switch", count, dtype=name)
                for collective in ("allreduce", "reduce-scatter")
                for name, count in zip(DTYPES, (300, 41, 1, 77), strict=True)
            ),
            Request(0, "allreduce", "ring", 500, dtype="int32"),
        )


def test_half_of_a_rings_traffic_leaves_each_rank() -> None:
    group = SwitchGroup(8, job=JobPlan(slots=64, values=64))
    done = group.complete(Request(0, "allreduce", "switch", 64 * 500, dtype="float32"))
    frame = 42 + 12 + 8 + 4 + 16 + 4
    expected = 500 * (frame + 256) + 64 * frame
    for agent in group.agents:
        assert agent.endpoint.statistics.transmitted_bytes == expected
        assert agent.endpoint.statistics.received_bytes == expected
    assert done[0].report.received_bytes == 64 * 500 * 4


def test_every_ranks_link_is_busy_all_the_time_of_a_reduce_scatter() -> None:
    rate_bps = 100_000_000
    group = SwitchGroup(4, job=JobPlan(slots=64, values=64), rate_bps=rate_bps)
    group.complete(Request(0, "reduce-scatter", "switch", 64 * 100, dtype="int32"))
    header = 42 + 12 + 8 + 4 + 16 + 4
    least_ns = (300 * (header + 256) + 100 * header) * 8_000_000_000 // rate_bps
    assert least_ns < group.duration_ns < 1.05 * least_ns


def test_a_job_that_makes_no_sense_is_refused() -> None:
    addresses = [ipv4("10.0.0.1"), ipv4("10.0.0.2")]

    def communicator(job: SwitchJob | None) -> Communicator:
        return Communicator(Endpoint(addresses[0], 256), 0, addresses, aggregation=job)

    for job, words in (
        (SwitchJob("10.0.0.7", 1, values=64), "10.0.0.7 is no multicast address"),
        (SwitchJob("239.255.0.1", 0, values=64), "epoch 0: it is 1 to 4294967295"),
        (SwitchJob("239.255.0.1", 1, slots=100, values=64), "100 slots: a power of 2"),
        (SwitchJob("239.255.0.1", 1), "256 values a packet: 1 to 64, the path MTU is 256 bytes"),
    ):
        with pytest.raises(InputError, match=words):
            communicator(job)
    with pytest.raises(InputError, match="address 'here' is no IPv4 address"):
        SwitchJob("here", 1)
    with pytest.raises(InputError, match="epoch 'one' is no whole number"):
        SwitchJob("239.255.0.1", "one")  # type: ignore[arg-type]
    agent = HostAgent(*(lambda made: (made.endpoint, made))(communicator(None)))
    request = Request(0, "allreduce", "switch", 4, dtype="int32")
    with pytest.raises(InputError, match="the communicator has no aggregation job"):
        agent.start(request, np.zeros(4, np.int32), 0, np.zeros(4, np.int32))


def test_what_switches_cannot_do_is_refused_with_what_they_can() -> None:
    addresses = [ipv4("10.0.0.1"), ipv4("10.0.0.2")]
    endpoint = Endpoint(addresses[0], 256)
    agent = HostAgent(endpoint, Communicator(endpoint, 0, addresses))
    request = Request(0, "allreduce", "switch", 4, dtype="float64")
    with pytest.raises(InputError, match="switches add float32, float16, bfloat16, int32"):
        agent.start(request, np.zeros(4), 0, np.zeros(4))
    request = Request(0, "allreduce", "switch", 4, dtype="int32", op="max")
    with pytest.raises(InputError, match="choose sum or average"):
        agent.start(request, np.zeros(4, np.int32), 0, np.zeros(4, np.int32))
