"""Block floating point of sums in switches: exponents, integers and values back, against numpy."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from weft.agents.transport import aggregation_layout as job
from weft.agents.transport.kernels.quantize import (
    add_saturating,
    block_exponent,
    dequantize,
    item_bytes,
    load_swapped,
    quantize,
    store_swapped,
)
from weft.agents.wire.compiled import compiled

Array = npt.NDArray[Any]

KINDS = {
    job.FLOAT32: np.dtype(np.float32),
    job.FLOAT16: np.dtype(np.float16),
    job.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    job.INT32: np.dtype(np.int32),
}
FLOATS = [kind for kind in KINDS if kind != job.INT32]
SMALLEST = {job.FLOAT32: 2.0**-149, job.FLOAT16: 2.0**-24, job.BFLOAT16: 2.0**-133}
"""The least positive value of each kind."""
LARGEST = {job.FLOAT32: 2.0**128 - 2.0**104, job.FLOAT16: 65504.0, job.BFLOAT16: 255 * 2.0**120}
LEAST_NORMAL = {job.FLOAT32: 2.0**-126, job.FLOAT16: 2.0**-14, job.BFLOAT16: 2.0**-126}


@compiled
def exponent_at(kind: int, address: int, count: int) -> int:
    return block_exponent(kind, address, count)


@compiled
def quantize_at(kind: int, address: int, count: int, scale: float, to: Array) -> bool:
    return quantize(kind, address, count, scale, to)


@compiled
def dequantize_to(
    kind: int, sums: Array, count: int, factor: float, divisor: int, address: int
) -> None:
    dequantize(kind, sums, count, factor, divisor, address)


@compiled
def add_to(to: Array, other: Array, count: int) -> bool:
    return add_saturating(to, other, count)


@compiled
def swap_there_and_back(numbers: Array, count: int, address: int, back: Array) -> None:
    store_swapped(numbers, address, count)
    load_swapped(address, count, back)


@compiled
def bytes_of(kind: int) -> int:
    return item_bytes(kind)


def exponent(values: Array) -> int:
    return int(exponent_at(kind_of(values), values.ctypes.data, len(values)))


def kind_of(values: Array) -> int:
    return next(kind for kind, dtype in KINDS.items() if dtype == values.dtype)


def integers(values: Array, scale: float) -> list[int]:
    found = np.full(len(values), 77, np.int32)
    quantize_at(kind_of(values), values.ctypes.data, len(values), scale, found)
    return [int(each) for each in found]


def values_of(kind: int, sums: list[int], factor: float, divisor: int = 0) -> Array:
    found = np.full(len(sums), 1, KINDS[kind])
    numbers = np.array(sums, np.int32)
    dequantize_to(kind, numbers, len(sums), factor, divisor, found.ctypes.data)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_values_have_their_size(kind: int) -> None:
    assert bytes_of(kind) == KINDS[kind].itemsize


@pytest.mark.parametrize("kind", FLOATS)
def test_the_exponent_is_the_least_whose_power_of_two_is_above_all_values(kind: int) -> None:
    smallest, least_normal = SMALLEST[kind], LEAST_NORMAL[kind]
    largest = LARGEST[kind]
    for magnitude in (
        smallest, 2 * smallest, 3 * smallest, 4 * smallest, least_normal / 2,
        least_normal - smallest, least_normal, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 96.0, largest,
    ):  # fmt: skip
        for sign in (1, -1):
            values = np.array([0, sign * magnitude, magnitude / 4], KINDS[kind])
            assert exponent(values) == math.frexp(magnitude)[1]
            assert exponent(values[::-1].copy()) == math.frexp(magnitude)[1]


@pytest.mark.parametrize("kind", FLOATS)
def test_zeros_have_no_exponent_and_what_is_not_finite_is_told(kind: int) -> None:
    dtype = KINDS[kind]
    assert exponent(np.array([0.0, -0.0], dtype)) == job.NO_EXPONENT
    assert exponent(np.array([], dtype)) == job.NO_EXPONENT
    for value in (math.inf, -math.inf, math.nan):
        assert exponent(np.array([1.0, value, 2.0], dtype)) == job.NOT_FINITE


def test_integers_have_no_exponent_and_go_as_they_are() -> None:
    values = np.array([5, -7, 2**31 - 1, -(2**31)], np.int32)
    assert exponent(values) == job.NO_EXPONENT
    assert integers(values, 8.0) == values.tolist()


@pytest.mark.parametrize("kind", FLOATS)
def test_values_are_scaled_and_rounded_to_even(kind: int) -> None:
    dtype = KINDS[kind]
    smallest, least_normal = SMALLEST[kind], LEAST_NORMAL[kind]
    for values, scale in (
        ([0.0, 1.0, -1.0, 1.5, -1.5, 0.125, 3.0, -6.0], 1024.0),
        ([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.75, -0.75], 1.0),
        ([smallest, -smallest, 3 * smallest, least_normal, -least_normal], 4 / smallest),
        ([least_normal * 1.5, -least_normal * 1.25], 4 / least_normal),
    ):
        given = np.array(values, dtype)
        expected = np.rint(given.astype(np.float64) * scale)
        assert integers(given, scale) == expected.tolist()


@pytest.mark.parametrize("kind", FLOATS)
def test_a_block_loses_values_if_one_that_is_not_zero_becomes_zero(kind: int) -> None:
    def loses(*values: float, scale: float = 1.0) -> bool:
        given = np.array([*values, *[1 / scale if scale else 0.0] * 40], KINDS[kind])
        to = np.empty(len(given), np.int32)
        return bool(quantize_at(kind, given.ctypes.data, len(given), scale, to))

    smallest = SMALLEST[kind]
    for sign in (1, -1):
        assert loses(0.0, sign * 0.25)
        assert loses(sign * 0.5, 0.0)  # a tie, to the even one of both
        assert loses(sign * smallest)
        assert not loses(sign * 0.75, sign * 3.0, 0.0, -0.0)
        assert not loses(sign * 0.25, scale=4.0)
        assert not loses(sign * smallest, scale=1 / smallest)
    assert not loses(0.0, -0.0, scale=0.0)


def test_integers_lose_nothing() -> None:
    given, to = np.array([0, 1, -1, 7], np.int32), np.empty(4, np.int32)
    assert not quantize_at(job.INT32, given.ctypes.data, 4, 0.0, to)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("divisor", [0, 1, 2, 3])
def test_sums_come_back_as_the_nearest_value_of_their_kind(kind: int, divisor: int) -> None:
    sums = [0, 1, -1, 2, 3, 5, 7, 255, 256, 257, 259, -261, 2047, 2048, 2049, 2051, -2053, 65_535,
            (1 << 24) + 1, (1 << 24) + 3, -(1 << 29) - 1, (1 << 30) - 1]  # fmt: skip
    largest = LARGEST[kind]
    smallest = SMALLEST[kind]
    for factor in (1.0, 2.0**-10, 2.0**-20, 2.0**-30, smallest, smallest / 4, smallest * 2.0**10):
        exact = [total * factor / max(divisor, 1) for total in sums]
        inside = [number for number, value in enumerate(exact) if abs(value) < largest / 2]
        found = values_of(kind, [sums[number] for number in inside], factor, divisor)
        assert found.astype(np.float64).tolist() == [nearest(exact[n], kind) for n in inside]


def nearest(value: float, kind: int) -> float:
    """The value of a kind that is nearest to a double; of two, the one with an even last bit."""
    bits = {job.FLOAT32: 24, job.FLOAT16: 11, job.BFLOAT16: 8}[kind]
    quantum = max(2.0 ** (math.frexp(value)[1] - bits), SMALLEST[kind])
    return round(value / quantum) * quantum


def test_a_half_that_is_too_large_is_infinite() -> None:
    found = values_of(job.FLOAT16, [65_504, 65_519, 65_520, 65_536, -65_536, 1 << 30], 1.0)
    assert found.astype(float).tolist() == [65504, 65504, *([math.inf] * 2), -math.inf, math.inf]


def test_an_average_of_integers_is_cut_towards_zero() -> None:
    sums = [0, 1, 2, 3, 7, -1, -2, -3, -7]
    for divisor in (1, 2, 3):
        expected = [math.trunc(total / divisor) for total in sums]
        assert values_of(job.INT32, sums, 1.0, divisor).tolist() == expected
    assert values_of(job.INT32, sums, 1.0).tolist() == sums


def test_sums_of_integers_stay_at_the_ends_of_their_range() -> None:
    top, bottom = 2**31 - 1, -(2**31)
    to = np.array([1, top, top - 1, bottom, bottom + 1, 5], np.int32)
    for other, expected, saturated in (
        ([2, 0, 1, 0, -1, -7], [3, top, top, bottom, bottom, -2], False),
        ([2, 1, 2, -1, -2, 0], [3, top, top, bottom, bottom, 5], True),
    ):
        changed = to.copy()
        assert add_to(changed, np.array(other, np.int32), len(to)) == saturated
        assert changed.tolist() == expected


def test_integers_travel_most_significant_byte_first() -> None:
    numbers = np.array([1, -2, 0x01020304, -(2**31)], np.int32)
    wire, back = np.zeros(16, np.uint8), np.zeros(4, np.int32)
    swap_there_and_back(numbers, 4, wire.ctypes.data, back)
    assert wire.tobytes() == numbers.astype(">i4").tobytes()
    assert back.tolist() == numbers.tolist()
