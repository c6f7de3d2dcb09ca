"""Sums of data as gradients are: their bits, their distance from exact sums, and its bound."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.aggregation_group import SwitchGroup
from tests.support.aggregation_switches import JobPlan
from tests.support.collective_group import Group
from tests.support.collective_names import COLLECTIVES
from tests.support.own_options import own_of
from tests.support.server_group import ServerGroup
from tests.support.theory_support import OFFLOADED

from weft.agents.collectives.dtypes import Array, dtype_of, largest_power
from weft.agents.collectives.gradients import LARGEST, MOST_HALVINGS, PAGE, gradients
from weft.agents.collectives.names import ALGORITHMS, DATA, REDUCING
from weft.agents.collectives.registry import algorithm_of
from weft.agents.collectives.requests import Request
from weft.agents.collectives.sum_errors import error_bound, errors_of, exact_sums
from weft.agents.collectives.sum_orders import rounded, sums_of
from weft.agents.collectives.workload import SLICE_BYTES, Workload, accuracy_of
from weft.base.errors import InputError

FLOATS = ("float32", "float16", "bfloat16", "float64")
GRADIENTS = DATA[1:]
UNICAST = [
    (collective, algorithm)
    for collective in REDUCING
    for algorithm in COLLECTIVES[collective]
    if algorithm not in OFFLOADED
]
EVERY = [(collective, name) for collective in REDUCING for name in COLLECTIVES[collective]]
V = 7
"""Values of a packet of the switches here."""


def dtypes_of(algorithm: str) -> list[str]:
    return [name for name in FLOATS if not ALGORITHMS[algorithm].why_not("sum", name)]


# The data


@pytest.mark.parametrize("data", GRADIENTS)
def test_any_part_of_a_rank_s_gradients_is_the_same_alone(data: str) -> None:
    whole = gradients(data, "float32", 3, 1, 2, 0, 3 * PAGE)
    for first, count in ((0, 1), (5, 0), (PAGE - 1, 2), (PAGE, PAGE), (7, 2 * PAGE), (12288, 0)):
        part = gradients(data, "float32", 3, 1, 2, first, count)
        assert np.array_equal(part, whole[first : first + count])
    for other in ((4, 1, 2), (3, 2, 2), (3, 1, 1)):
        assert not np.any(gradients(data, "float32", *other, 0, 100) == whole[:100])


def test_gradients_are_distributed_as_their_names_say() -> None:
    count = 1 << 18
    normal, heavy, mixed = (
        gradients(data, "float64", 1, 0, 0, 0, count).astype(np.float64) for data in GRADIENTS
    )
    assert abs(normal.mean()) < 5 / math.sqrt(count)
    assert abs(normal.std() - 1) < 0.01
    assert np.abs(normal).max() < 6
    for at in (1, 10, 100):  # Student's t with two degrees of freedom: P(|x| > t) in closed form
        expected = count * (1 - at / math.sqrt(2 + at * at))
        assert abs(np.sum(np.abs(heavy) > at) - expected) < 5 * math.sqrt(expected)
    assert np.abs(heavy).max() <= LARGEST["heavy-tailed"]
    # One parameter's gradients are of one magnitude on all ranks; magnitudes have six decades.
    halvings = np.rint(np.log2(np.abs(normal / mixed))).astype(int)
    assert set(halvings) == set(range(MOST_HALVINGS + 1))
    other = gradients("normal", "float64", 1, 0, 1, 0, count)
    theirs = gradients("mixed", "float64", 1, 0, 1, 0, count)
    assert np.array_equal(np.ldexp(other, -halvings), theirs)


# The reference and the bound


def some_terms(data: st.DataObject, name: str, size: int, count: int = 5) -> Array:
    """Any finite numbers whose sums are finite, too: [size, count]."""
    kind = dtype_of(name)
    width = 8 * kind.itemsize
    most = np.array([2.0 ** (largest_power(name) - 5)], kind).view(f"u{kind.itemsize}")[0]
    word = st.integers(0, int(most)).flatmap(
        lambda bits: st.sampled_from([bits, bits | 1 << (width - 1)])
    )
    rows = data.draw(
        st.lists(st.lists(word, min_size=count, max_size=count), min_size=size, max_size=size)
    )
    return np.array(rows, f"u{kind.itemsize}").view(kind)


def near_terms(data: st.DataObject, name: str, size: int, count: int = 5) -> Array:
    """Numbers of like magnitudes, of few bits: rounding to even, cancellation."""
    few = st.integers(-(1 << 12), 1 << 12)
    rows = data.draw(
        st.lists(st.lists(few, min_size=count, max_size=count), min_size=size, max_size=size)
    )
    return (np.array(rows, np.float64) / 64).astype(dtype_of(name))


def fractions(terms: Array) -> list[list[Fraction]]:
    return [[Fraction(float(value)) for value in column] for column in terms.T]


@given(data=st.data(), size=st.sampled_from([1, 2, 3, 8, 13]), near=st.booleans())
def test_exact_sums_are_exact_to_twice_the_precision(
    data: st.DataObject, size: int, near: bool
) -> None:
    terms = (near_terms if near else some_terms)(data, "float64", size)
    high, low = exact_sums(terms)
    for found, rest, column in zip(high, low, fractions(terms), strict=True):
        off = abs(Fraction(float(found)) + Fraction(float(rest)) - sum(column))
        assert off <= (size * Fraction(2) ** -53) ** 2 * sum(map(abs, column))


@pytest.mark.filterwarnings("ignore:overflow encountered in square")
@given(
    data=st.data(),
    size=st.sampled_from([1, 2, 3, 4, 7, 8, 12]),
    which=st.sampled_from(EVERY),
    op=st.sampled_from(["sum", "average"]),
    near=st.booleans(),
)
def test_no_algorithm_is_further_from_the_exact_sum_than_its_bound(
    data: st.DataObject, size: int, which: tuple[str, str], op: str, near: bool
) -> None:
    collective, algorithm = which
    name = data.draw(st.sampled_from(dtypes_of(algorithm)))
    terms = (near_terms if near else some_terms)(data, name, size)
    fan_in = data.draw(st.sampled_from([0, 2, 3])) if algorithm == "optcast" else 0
    request = Request(
        0, collective, algorithm, 5, dtype=name, op=op, own=own_of(algorithm, fan_in=fan_in)
    )
    first = 0 if algorithm == "switch" or collective == "allreduce" else 5 * (size - 1)
    result = sums_of(request, terms, first, V)
    bound = error_bound(request, terms, V)
    divisor = size if op == "average" else 1
    most = Fraction(0)
    for found, allowed, column in zip(result, bound, fractions(terms), strict=True):
        exact = sum(column, Fraction(0)) / divisor
        off = abs(Fraction(float(found)) - exact)
        assert off <= Fraction(float(allowed)), (float(found), float(exact))
        most = max(most, off / Fraction(float(allowed)) if off else Fraction(0))
    measured = errors_of(request, terms, result, V).max_of_bound
    assert measured <= 1
    if bound.min() > 2.0**-1000:  # below, float64 has no room for errors of float64
        assert measured == pytest.approx(float(most), rel=1e-9, abs=1e-12)


def test_errors_are_what_a_hand_computes() -> None:
    # 1 + 2**-24 is 1 in float32, and so is that plus 2**-24: off by 2**-23. With 1 and -1, too.
    terms = np.array([[1, 1], [2.0**-24, 2.0**-24], [2.0**-24, -1]], np.float32)
    request = Request(0, "allreduce", "direct", 2, dtype="float32")
    result = sums_of(request, terms, 0)
    assert result.tolist() == [1, 0]
    errors = errors_of(request, terms, result)
    assert errors.max_relative == 1  # of 2**-24 nothing is left
    assert errors.max_of_terms == 2.0**-23 / (1 + 2.0**-23)
    assert errors.figures()["error_rms_relative"] == pytest.approx(
        math.sqrt(2.0**-46 + 2.0**-48) / math.sqrt((1 + 2.0**-23) ** 2 + 2.0**-48)
    )
    # Two additions, each off by 2**-24 of what they have at most.
    assert error_bound(request, terms)[0] == pytest.approx(2 * 2.0**-24 * (1 + 2.0**-23), rel=1e-12)
    one, other = (
        errors_of(request, terms[:, place : place + 1], result[place : place + 1])
        for place in (0, 1)
    )
    assert one + other == errors


def test_a_switch_s_bound_is_the_quantization_of_the_block_s_largest_number() -> None:
    # Of 4 ranks L = 2; 3 is below 2**2, so the unit is 2**(2 + 2 - 30). Two blocks of two values.
    terms = np.zeros((4, 4), np.float32)
    terms[2] = [3, 2.0**-40, 2.0**-40, 0]
    request = Request(0, "allreduce", "switch", 4, dtype="float32")
    assert sums_of(request, terms, 0, 2).tolist() == [3, 0, 2.0**-40, 0]
    small = error_bound(request, terms, 2)
    assert small[1] == pytest.approx(4 * 2.0**-27, rel=1e-6)
    assert small[2] == pytest.approx(4 * 2.0**-68 + 2.0**-24 * 2.0**-40, rel=1e-6)
    assert small[3] <= 2.0**-149  # exact
    errors = errors_of(request, terms, sums_of(request, terms, 0, 2), 2)
    assert errors.max_relative == errors.max_of_terms == 1  # beside 3, 2**-40 is nothing
    assert errors.figures()["error_rms_relative"] < 2.0**-41


@pytest.mark.parametrize("name", FLOATS)
def test_rounding_once_is_what_numpy_s_conversion_does(name: str) -> None:
    random = np.random.default_rng(1)
    least = {"float16": -30, "bfloat16": -140}.get(name, -160)
    values = random.normal(size=5000) * 2.0 ** random.integers(least, 10, 5000)
    values = values.astype(np.float32).astype(np.float64)  # no float32 lies between: no tie is lost
    assert np.array_equal(rounded(values, name), values.astype(dtype_of(name)))
    if name == "bfloat16":  # by way of float32 this would be rounded twice, to 1
        assert rounded(np.array([1 + 2.0**-8 + 2.0**-40]), name).tolist() == [1 + 2.0**-7]


# What the algorithms do


def test_orders_are_those_of_the_papers() -> None:
    def order(algorithm: str, size: int, place: int = 0, fan_in: int = 0) -> object:
        request = Request(
            0, "allreduce", algorithm, 1, dtype="float32", own=own_of(algorithm, fan_in=fan_in)
        )
        return algorithm_of("allreduce", algorithm).sum_order(request, size, place)

    assert order("ring", 4, 1) == (2, 3, 0, 1)
    assert order("direct", 3) == (0, 1, 2)
    assert order("halving-doubling", 4) == ((0, 2), (1, 3))
    assert order("halving-doubling", 5) == (((1, 0), 3), (2, 4))
    assert order("optcast", 5) == (0, 1, 2, 3, 4)
    assert order("optcast", 5, fan_in=2) == (((0, 1), (2, 3)), ((4,),))
    assert order("double-binary-tree", 3) == (1, (0,), (2,))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9])
def test_ranks_have_the_very_bits_that_their_order_of_adding_makes(size: int) -> None:
    group = Group(size)
    group.data = "heavy-tailed" if size % 2 else "mixed"
    for collective, algorithm in UNICAST:
        group.complete(
            *(
                Request(0, collective, algorithm, 331, dtype=name, op=op, own={"block_bytes": 256})
                for name in FLOATS
                for op in ("sum", "average")
            )
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("collective", REDUCING)
def test_switches_sums_have_the_very_bits_of_their_fixed_point(collective: str, size: int) -> None:
    group = SwitchGroup(size, job=JobPlan(slots=8, values=V), levels=2 if size > 2 else 1, fan=2)
    for data in GRADIENTS:
        group.data = data
        requests = [
            Request(0, collective, "switch", 100, dtype=name, op=op)
            for name in dtypes_of("switch")
            for op in ("sum", "average")
        ]
        group.complete(*requests)


@pytest.mark.parametrize("fan_in", [0, 2, 3])
@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("collective", REDUCING)
def test_servers_sums_have_the_very_bits_of_the_order_of_ranks(
    collective: str, size: int, fan_in: int
) -> None:
    group = ServerGroup(size, servers=4)
    count = 0
    for name in FLOATS:
        for op in ("sum", "average"):
            request = Request(
                count, collective, "optcast", 200, dtype=name, op=op,
                own=own_of("optcast", fan_in=fan_in, block_bytes=256),
            )  # fmt: skip
            workload = Workload(request, size, 3, data="mixed")
            inputs = [workload.buffer(rank) for rank in range(size)]
            number = group.prepare(request, inputs=inputs)
            for rank in range(size):
                group.start_on(rank, number)
            group.finish()
            for rank in range(size):
                output = group.teams[0].outputs[number][rank]
                assert workload.check(rank, inputs[rank], output) == ""
            count += 1


# The check of a run's result


def whole_result(workload: Workload, switch_values: int = 0) -> Array:
    request = workload.request
    terms = np.stack([workload.buffer(rank) for rank in range(workload.size)])
    return sums_of(request, terms, 0, switch_values)


def of_bound(wrong: str) -> float:
    """How much of what is allowed an element's distance is, of which a message tells."""
    found = re.search(r"it is (\S+) from the exact value, of at most (\S+)$", wrong)
    assert found, wrong
    return float(found[1]) / float(found[2])


@pytest.mark.parametrize("keep", [False, True], ids=["computed", "kept"])
@pytest.mark.parametrize("algorithm", COLLECTIVES["allreduce"])
def test_a_single_wrong_bit_is_found_wherever_it_is(algorithm: str, keep: bool) -> None:
    for name in dtypes_of(algorithm):
        request = Request(0, "allreduce", algorithm, 60, dtype=name)
        workload = Workload(request, 5, 2, data="normal", switch_values=V, keep=keep)
        right = whole_result(workload, V)
        bits = right.view(f"u{right.itemsize}")
        for bit in range(8 * right.itemsize):
            place = 59 - bit % 60
            assert workload.check(bit % 5, workload.buffer(0), right) == ""
            bits[place] ^= bits.dtype.type(1 << bit)
            wrong = workload.check(bit % 5, workload.buffer(0), right)
            bits[place] ^= bits.dtype.type(1 << bit)
            assert wrong.startswith(f"element {place} of the result is ")
            if bit == 8 * right.itemsize - 2:  # an exponent's: far beyond what rounding does
                assert of_bound(wrong) > 100


def test_sums_that_are_made_in_another_way_than_promised_are_found() -> None:
    ring = Workload(Request(0, "allreduce", "ring", 500, dtype="float32"), 5, 2, data="normal")
    direct = replace(ring.request, algorithm="direct")
    terms = np.stack([ring.buffer(rank) for rank in range(5)])
    other = sums_of(direct, terms, 0)
    assert of_bound(ring.check(0, ring.buffer(0), other)) < 1
    switch = Workload(
        replace(ring.request, algorithm="switch"), 5, 2, data="normal", switch_values=V
    )
    assert switch.check(1, switch.buffer(1), whole_result(switch, V)) == ""
    for values in (V - 1, V + 1, 500):  # other blocks have other exponents
        assert switch.check(1, switch.buffer(1), whole_result(switch, values)) != ""
    half = Workload(Request(0, "allreduce", "optcast", 500, dtype="float16"), 5, 2, data="normal")
    halves = terms.astype(np.float16)
    own_type = sums_of(replace(half.request, algorithm="direct"), halves, 0)
    # Rounded at every addition, these are further off than the servers' sums may be.
    assert errors_of(half.request, halves, own_type).max_of_bound > 1
    assert half.check(0, half.buffer(0), own_type) != ""


@pytest.mark.parametrize("collective", REDUCING)
@pytest.mark.parametrize("algorithm", ["ring", "switch"])
def test_all_slices_of_a_large_result_are_checked_and_measured(
    collective: str, algorithm: str
) -> None:
    size, count = 3, SLICE_BYTES // 3 + 1000
    request = Request(0, collective, algorithm, count, dtype="float32")
    workload = Workload(request, size, 2, data="mixed", switch_values=256)
    terms = np.stack([workload.buffer(rank) for rank in range(size)])
    first = 0 if collective == "allreduce" else 2 * count
    own = terms[:, first : first + count]
    right = sums_of(request, own, first, 256)
    assert workload.check(2, workload.buffer(2), right) == ""
    measured = workload.errors
    whole = errors_of(request, own, right, 256)
    assert measured is not None
    assert measured.figures() == pytest.approx(whole.figures(), rel=1e-9)
    right.view(np.uint32)[-1] ^= 1
    assert f"element {count - 1} of the result" in workload.check(2, workload.buffer(2), right)


def test_the_accuracy_is_the_worst_of_all_operations_and_none_of_exact_data() -> None:
    def checked(algorithm: str, data: str) -> Workload:
        request = Request(0, "allreduce", algorithm, 600, dtype="float32")
        workload = Workload(request, 4, 2, data=data, switch_values=V)
        if data != "exact":
            assert workload.check(0, workload.buffer(0), whole_result(workload, V)) == ""
        return workload

    ring, switch = checked("ring", "normal"), checked("switch", "mixed")
    both = accuracy_of([ring, switch])
    alone = [accuracy_of([one]) for one in (ring, switch)]
    assert alone[0]["error_max_of_terms"] < alone[1]["error_max_of_terms"]
    assert both["error_max_of_terms"] == alone[1]["error_max_of_terms"]
    assert accuracy_of([checked("ring", "exact")]) == {}


def test_data_that_cannot_be_summed_up_so_are_refused() -> None:
    def workload(size: int = 4, dtype: str = "float32", op: str = "sum") -> Workload:
        request = Request(0, "allreduce", "ring", 8, dtype=dtype, op=op)
        return Workload(request, size, 1, data="heavy-tailed")

    with pytest.raises(InputError, match="of int32 by op sum: it is for sums and averages of"):
        workload(dtype="int32")
    with pytest.raises(InputError, match="of float32 by op max: it is for sums and averages"):
        workload(op="max")
    with pytest.raises(InputError, match="on 33 ranks may leave its range; choose at most 32"):
        workload(33, dtype="float16")
    workload(32, dtype="float16")
    with pytest.raises(InputError, match="data 'gaussian': choose from exact, normal"):
        Workload(Request(0, "allreduce", "ring", 8, dtype="float32"), 2, 1, data="gaussian")
    gather = Workload(Request(0, "allgather", "ring", 8), 2, 1, data="normal")
    assert gather.errors is None  # what is not reduced is any bytes
