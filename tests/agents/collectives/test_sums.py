"""The servers' sums against numpy, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.server_group import reduced, values

from weft.agents.collectives.compiled_sums import BLOCK
from weft.agents.collectives.dtypes import HALF_TYPES, dtype_of, is_float
from weft.agents.collectives.names import OPS
from weft.agents.collectives.requests import Request
from weft.agents.collectives.sums import DTYPES, ReductionKind
from weft.base.errors import InputError

Array = npt.NDArray[np.generic]


def combined(dtype: str, op: str, vectors: Sequence[Array]) -> Array:
    """What the servers' code makes of vectors."""
    out = np.full(vectors[0].nbytes + 8, 0xEE, np.uint8)
    addresses = np.array([vector.ctypes.data for vector in vectors], np.int64)
    ReductionKind(dtype, op).combine(addresses, vectors[0].size, out, ranks=len(vectors))
    assert np.all(out[vectors[0].nbytes :] == 0xEE)
    return out[: vectors[0].nbytes].view(dtype_of(dtype))


def same(found: Array, expected: Array) -> bool:
    """Bit by bit; but any NaN is as good as another."""
    if expected.dtype.kind in "iu":
        return np.array_equal(found, expected)
    nans = np.isnan(expected.astype(np.float64))
    bits = (found.view(np.uint8).reshape(len(found), -1), expected.view(np.uint8))
    equal = (bits[0] == bits[1].reshape(len(found), -1)).all(axis=1)
    return bool(np.all(equal | nans)) and bool(np.all(np.isnan(found.astype(np.float64)) == nans))


@settings(derandomize=True)
@given(
    dtype=st.sampled_from(DTYPES),
    op=st.sampled_from(OPS),
    ranks=st.integers(1, 12),
    count=st.one_of(st.integers(1, 70), st.sampled_from([BLOCK, BLOCK + 1, 3 * BLOCK - 1])),
    seed=st.integers(0, 1000),
)
def test_sums_are_those_of_numpy_in_the_order_of_ranks(
    dtype: str, op: str, ranks: int, count: int, seed: int
) -> None:
    vectors = [values(dtype, count, 100 * seed + rank) for rank in range(ranks)]
    request = Request(0, "allreduce", "optcast", count, dtype=dtype, op=op)
    assert same(combined(dtype, op, vectors), reduced(request, vectors))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_every_half_number_is_widened_and_rounded_as_numpy_does(dtype: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype_of(dtype))
    with np.errstate(all="ignore"):
        assert same(combined(dtype, "sum", [every]), every)
        for other in (0.0, 1.0, 2.0**-25, -3.1, 60000.0, np.inf):
            second = np.full(1 << 16, other, np.float32).astype(dtype_of(dtype))
            whole = every.astype(np.float32) + second.astype(np.float32)
            assert same(combined(dtype, "sum", [every, second]), whole.astype(dtype_of(dtype)))


@settings(derandomize=True)
@given(
    numbers=st.lists(st.floats(width=32), min_size=1, max_size=40),
    dtype=st.sampled_from(HALF_TYPES),
)
def test_any_float32_is_rounded_to_a_half_as_numpy_does(numbers: list[float], dtype: str) -> None:
    """As the root of a tree does with partial results."""
    partial = np.array(numbers, np.float32)
    out = np.empty(2 * len(numbers), np.uint8)
    ReductionKind(dtype, "sum").combine(
        np.array([partial.ctypes.data], np.int64), len(numbers), out, partial=True, ranks=1
    )
    with np.errstate(all="ignore"):
        assert same(out.view(dtype_of(dtype)), partial.astype(dtype_of(dtype)))


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if is_float(dtype)])
@pytest.mark.parametrize("op", ["sum", "min", "max"])
def test_infinity_and_nan_stay_what_they_are(dtype: str, op: str) -> None:
    special = [1.0, np.inf, -np.inf, np.nan, -2.0, 0.0]
    pairs = np.array([(a, b) for a in special for b in special]).T
    vectors = [row.astype(dtype_of(dtype)) for row in pairs]
    request = Request(0, "allreduce", "optcast", len(pairs[0]), dtype=dtype, op=op)
    with np.errstate(all="ignore"):
        assert same(combined(dtype, op, vectors), reduced(request, vectors))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_nan_is_quiet_whatever_it_was(dtype: str) -> None:
    """IEEE 754, 6.2: the first bit of a quiet NaN's fraction is 1; an operation gives no other."""
    quiet, loud = (0x7FC0, 0x7F81) if dtype == "bfloat16" else (0x7E00, 0x7C01)
    given = np.array([loud, loud | 0x8000, quiet], np.uint16).view(dtype_of(dtype))
    found = combined(dtype, "sum", [given, np.ones(3, dtype_of(dtype))]).view(np.uint16)
    assert [int(each) & quiet for each in found] == [quiet] * 3


def test_halves_are_rounded_once() -> None:
    """One at a time 2048 + 1 + 1 would stay 2048 in float16."""
    vectors = [np.array([each], np.float16) for each in (2048, 1, 1)]
    assert combined("float16", "sum", vectors)[0] == 2050


def test_integers_wrap_and_averages_truncate_toward_zero() -> None:
    vectors = [np.array([2**31 - 1, -7], np.int32), np.array([1, 0], np.int32)]
    assert combined("int32", "sum", vectors).tolist() == [-(2**31), -7]
    assert combined("int32", "average", vectors).tolist() == [-(2**30), -3]


def test_types_that_cannot_be_summed_are_named() -> None:
    with pytest.raises(InputError, match="'complex64': reduction servers combine float32, float16"):
        ReductionKind("complex64", "sum")
    with pytest.raises(InputError, match="op 'product': choose from sum, min, max, average"):
        ReductionKind("float32", "product")
